"""The serial base over a pseudo-terminal: the real pyserial on one side, the protocol's bytes on the other."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import tty
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from onboard.drivers import kobuki_base, kobuki_protocol
from onboard.drivers.kobuki_base import KobukiBase
from onboard.values.errors import DriverError, InputError, MissingExtraError
from onboard.values.messages import STOP, Twist
from tests.rigs.machine.waiting import until

pytest.importorskip("serial")

TICK_NS = 33_333_333


@dataclass
class Wire:
    """The base's end of the cable, and the robot's to look at."""

    end: int
    robot_end: int
    port: str

    def say(self, **fields: int) -> None:
        self.put(frame(**fields))

    def put(self, data: bytes) -> None:
        """Write, and wait until all of it has come out at the other end: the kernel passes it on in its own time."""
        there = waiting(self.robot_end)
        os.write(self.end, data)
        until(lambda: waiting(self.robot_end) == there + len(data))

    def heard(self, commands: int = 1) -> bytes:
        """Return what came to the base, at least so many commands."""
        until(lambda: waiting(self.end) >= commands * len(kobuki_protocol.encode_velocity(STOP)))
        return os.read(self.end, 4096)


def waiting(end: int) -> int:
    """Return how many bytes can be read at one end."""
    (count,) = struct.unpack("i", fcntl.ioctl(end, termios.FIONREAD, bytes(4)))
    return int(count)


def frame(
    ms: int = 0, left: int = 0, right: int = 0, bumper: int = 0, drop: int = 0, cliff: int = 0, button: int = 0
) -> bytes:
    fields = (ms % kobuki_protocol.WRAP, bumper, drop, cliff, left % kobuki_protocol.WRAP, right % kobuki_protocol.WRAP)
    return kobuki_protocol.packet(struct.pack("<BBHBBBHHbbBBBB", 1, 15, *fields, 0, 0, button, 0, 160, 0))


@pytest.fixture
def wire() -> Iterator[Wire]:
    base_end, robot_end = os.openpty()
    tty.setraw(base_end)
    yield Wire(base_end, robot_end, os.ttyname(robot_end))
    os.close(robot_end)
    if base_end_open(base_end):
        os.close(base_end)


def base_end_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@pytest.fixture
def base(wire: Wire) -> Iterator[KobukiBase]:
    base = KobukiBase(wire.port)
    yield base
    base.close()


def test_a_command_arrives_as_the_protocol_writes_it(wire: Wire, base: KobukiBase) -> None:
    base.send(Twist(0.6, 1.0))
    assert wire.heard() == kobuki_protocol.encode_velocity(Twist(0.6, 1.0))


def test_closing_sends_a_stop_first_and_once(wire: Wire, base: KobukiBase) -> None:
    base.send(Twist(0.6, 0.0))
    base.close()
    base.close()
    assert wire.heard(2) == kobuki_protocol.encode_velocity(Twist(0.6, 0.0)) + kobuki_protocol.encode_velocity(STOP)


def test_before_the_first_packet_nothing_is_known(base: KobukiBase) -> None:
    report = base.take(0)
    assert (report.odometry, report.obstacle, report.stop) == ((), None, None)


def test_packets_become_motion_with_the_bases_own_clock(wire: Wire, base: KobukiBase) -> None:
    wire.say(ms=65530, left=65530, right=100)
    assert base.take(TICK_NS).odometry == ()
    wire.say(ms=65550, left=65550, right=120)
    wire.say(ms=65570, left=65590, right=140)
    first, second = base.take(2 * TICK_NS).odometry
    assert second.stamp_ns - first.stamp_ns == 20_000_000
    assert first.arrival_ns == second.arrival_ns == 2 * TICK_NS
    assert first.pose is None
    assert first.twist.v_mps == pytest.approx(20 * kobuki_protocol.M_PER_TICK / 0.020)
    assert first.twist.w_radps == 0.0
    assert second.twist.w_radps == pytest.approx(-20 * kobuki_protocol.M_PER_TICK / kobuki_protocol.WHEELBASE_M / 0.020)


def test_a_packet_in_two_pieces_counts_once(wire: Wire, base: KobukiBase) -> None:
    whole = frame(ms=20, left=8, right=8)
    wire.say()
    base.take(0)
    wire.put(whole[:9])
    assert base.take(TICK_NS).odometry == ()
    wire.put(whole[9:])
    assert len(base.take(2 * TICK_NS).odometry) == 1


def test_a_repeated_packet_is_no_motion(wire: Wire, base: KobukiBase) -> None:
    wire.say(ms=20)
    wire.say(ms=20)
    wire.say(ms=40, left=8, right=8)
    (moved,) = base.take(0).odometry
    assert moved.stamp_ns == 20_000_000


def test_after_a_silence_motion_starts_afresh(wire: Wire, base: KobukiBase) -> None:
    wire.say(ms=0)
    base.take(0)
    wire.say(ms=40, left=30, right=30)  # one turn of the time stamp and 40 ms later
    assert base.take(65_576_000_000).odometry == ()
    wire.say(ms=60, left=40, right=40)
    (moved,) = base.take(65_600_000_000).odometry
    assert moved.stamp_ns == 65_576_000_000 + 20_000_000


#   what            flags                          obstacle  stop
FLAGS = [
    ("nothing", {}, False, False),
    ("bumper", {"bumper": 2}, True, False),
    ("cliff", {"cliff": 1}, True, True),
    ("lifted", {"drop": 2}, True, True),
    ("button B0", {"button": 1}, False, True),
    ("button B1", {"button": 2}, False, False),
]


@pytest.mark.parametrize(("what", "flags", "obstacle", "stop"), FLAGS, ids=[row[0] for row in FLAGS])
def test_flags(wire: Wire, base: KobukiBase, what: str, flags: dict[str, int], obstacle: bool, stop: bool) -> None:
    wire.say(**flags)
    report = base.take(0)
    assert (report.obstacle, report.stop) == (obstacle, stop)


def test_the_newest_packet_states_the_battery(wire: Wire, base: KobukiBase) -> None:
    assert base.take(0).battery is None
    wire.say()
    assert base.take(0).battery == pytest.approx(0.05 + 0.95 * 2.8 / 3.3)


def test_a_short_touch_between_two_ticks_is_not_missed(wire: Wire, base: KobukiBase) -> None:
    wire.say(ms=0, bumper=1)
    wire.say(ms=20)
    assert base.take(0).obstacle is True
    assert base.take(TICK_NS).obstacle is False


def test_the_stop_button_holds_until_the_other_releases_it(wire: Wire, base: KobukiBase) -> None:
    stops = []
    for number, button in enumerate((0, 1, 0, 3, 0, 2, 0)):
        wire.say(ms=20 * number, button=button)
        stops.append(base.take(number * TICK_NS).stop)
    assert stops == [False, True, True, True, True, False, False]


def test_a_lost_link_is_a_driver_error_that_names_the_port(wire: Wire, base: KobukiBase) -> None:
    os.close(wire.end)
    with pytest.raises(DriverError, match=wire.port):
        base.send(STOP)
    with pytest.raises(DriverError, match=wire.port):
        base.take(0)
    base.close()


def test_a_base_that_takes_no_commands_is_a_driver_error_and_never_waits(base: KobukiBase) -> None:
    def flood() -> None:
        for _ in range(100_000):
            base.send(STOP)

    with pytest.raises(DriverError, match="takes no commands"):
        flood()


def test_a_command_that_is_not_finite_never_reaches_the_wire(wire: Wire, base: KobukiBase) -> None:
    with pytest.raises(InputError):
        base.send(Twist(float("nan"), 0.0))
    base.send(STOP)
    assert wire.heard() == kobuki_protocol.encode_velocity(STOP)


def test_the_port_is_held_by_one_process_alone(wire: Wire, base: KobukiBase) -> None:
    with pytest.raises(DriverError, match=wire.port):
        KobukiBase(wire.port)


def test_a_missing_port_is_named() -> None:
    with pytest.raises(DriverError, match="/dev/no-such-base"):
        KobukiBase("/dev/no-such-base")


def test_without_pyserial_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kobuki_base, "serial", None)
    with pytest.raises(MissingExtraError, match=r"onboard\[serial\]"):
        KobukiBase("/dev/base")
