"""QoS of the writer of `/cmd_vel`: compatible bases, and how a base detects the end of the writer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cyclonedds.sub import DataReader

from hil.live.simulator import Link
from onboard.config.config import DEFAULT_ROBOT, DdsSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.participant import Reader, Wire, wait_until
from onboard.drivers.dds.robot_link import DdsDrive
from onboard.drivers.dds.ros_convert import ros_twist
from onboard.drivers.dds.topics import COMMAND, Topic, promised_commands, topic
from onboard.values.messages import STOP, Twist
from tests.rigs.network.loopback import DOMAIN, PATIENCE_S, hear
from tests.rigs.network.ros2_peer import ROS_PYTHON, Peer

AHEAD = Twist(0.5, 0.0)
UNMATCHED_S = 0.3
TICK_S = 1.0 / 30.0
SILENCE_S = 0.3
MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")


def commands(deadline_s: float | None = None, lease_s: float | None = None) -> Topic:
    """Return the topic of commands with an offered or requested deadline and lease."""
    return replace(topic("cmd_vel"), quality=replace(COMMAND, deadline_s=deadline_s, lease_s=lease_s))


#   base                            requested (deadline, lease) [s]   matches the runtime, matches a plain publisher
BASES = [
    ("any command", (None, None), True, True),
    ("its time-out as deadline", (0.5, None), True, False),
    ("exactly what is promised", (0.1, 0.2), True, False),
    ("a time-out and a lease", (0.5, 0.5), True, False),
    ("sooner than promised", (0.09, None), False, False),
    ("a shorter lease", (None, 0.19), False, False),
]


@pytest.mark.parametrize(("name", "lease", "fits_runtime", "fits_plain"), BASES, ids=[row[0] for row in BASES])
def test_which_bases_the_promise_fits(wires, name, lease, fits_runtime, fits_plain):
    ours, theirs = wires
    base = theirs.reader(commands(*lease))
    for writer, fits in ((promised_commands(30.0), fits_runtime), (commands(), fits_plain)):
        wire = Wire(ours.section)
        wire.writer(writer)
        assert wait_until(lambda: bool(base.writers()), PATIENCE_S if fits else UNMATCHED_S) == fits
        wire.close()
        assert wait_until(lambda: not base.writers(), PATIENCE_S)


#   control rate [Hz]  deadline [s]  lease [s]
RATES = [(30.0, 0.1, 0.2), (10.0, 0.3, 0.6), (60.0, 0.05, 0.1)]


@pytest.mark.parametrize(("control_hz", "deadline_s", "lease_s"), RATES)
def test_the_promise_follows_the_control_rate(control_hz, deadline_s, lease_s):
    quality = promised_commands(control_hz).quality
    assert (quality.deadline_s, quality.lease_s) == (pytest.approx(deadline_s), pytest.approx(lease_s))
    assert replace(quality, deadline_s=None, lease_s=None) == COMMAND


def alive_while_sending(drive: DdsDrive, reader: Reader) -> bool:
    """Send until the reader reports its writer as alive."""

    def alive() -> bool:
        drive.send(AHEAD)
        return reader.alive() == 1

    return wait_until(alive, PATIENCE_S)


def test_a_writer_that_falls_silent_is_not_alive_though_its_process_is(wires):
    ours, theirs = wires
    base, drive = theirs.reader("cmd_vel"), DdsDrive(ours)
    for _ in range(2):  # it comes back with its next command
        assert alive_while_sending(drive, base)
        assert wait_until(lambda: base.alive() == 0, PATIENCE_S)
        assert len(base.writers()) == 1
    base.take()
    assert alive_while_sending(drive, base)
    assert hear(base)[-1].sample.linear.x == AHEAD.v_mps


def test_a_plain_publisher_is_alive_for_as_long_as_it_is_there(wires):
    ours, theirs = wires
    base, writer = theirs.reader("cmd_vel"), ours.writer("cmd_vel")
    writer.write(ros_twist(AHEAD))
    assert wait_until(lambda: base.alive() == 1, PATIENCE_S)
    assert not wait_until(lambda: base.alive() == 0, SILENCE_S)
    ours.close()
    assert wait_until(lambda: base.alive() == 0, PATIENCE_S)


@pytest.mark.skipif(
    not hasattr(DataReader, "get_requested_deadline_missed_status"), reason="binding 0.10 of Cyclone DDS lacks it"
)
def test_a_deadline_that_is_missed_is_told_once_commands_end(wires):
    ours, theirs = wires
    base, drive = theirs.reader(commands(deadline_s=0.1)), DdsDrive(ours)
    assert alive_while_sending(drive, base)
    status = base._entities[0].get_requested_deadline_missed_status
    assert wait_until(lambda: status().total_count > 0, PATIENCE_S)


class Wheels:
    """What a base is told."""

    def __init__(self) -> None:
        self.twists: list[Twist] = []

    def command(self, twist: Twist) -> None:
        self.twists.append(twist)


@pytest.mark.parametrize("heeds", [True, False])
def test_a_base_told_of_lost_liveliness_stops_when_its_commander_is_silent(wires, heeds):
    ours, theirs = wires
    link, drive, wheels = Link(theirs, MOUNTS, heeds), DdsDrive(ours), Wheels()

    def driven() -> bool:
        drive.send(AHEAD)
        link.hear(wheels)
        return wheels.twists[-1:] == [AHEAD]

    def stopped() -> bool:
        link.hear(wheels)
        return wheels.twists[-1] == STOP

    assert wait_until(driven, PATIENCE_S)
    assert wait_until(stopped, PATIENCE_S if heeds else 2 * SILENCE_S) == heeds
    assert wait_until(driven, PATIENCE_S)


needs_ros = pytest.mark.skipif(
    ROS_PYTHON is None, reason="no ROS 2 here: `make test` prepares .venv-ros; or set ONBOARD_ROS_PYTHON"
)


@needs_ros
def test_a_ros_base_that_insists_on_deadline_and_liveliness_hears_us_and_is_told_of_our_end():
    node, ours = Peer(DOMAIN), Wire(DdsSection(domain=DOMAIN, namespace="insists"))
    drive = DdsDrive(ours)
    node.subscribe("/insists/cmd_vel", "geometry_msgs/msg/Twist", "base")

    def heard() -> bool:
        drive.send(AHEAD)
        return node.hear("/insists/cmd_vel", "base", TICK_S) is not None

    def twists() -> bool:
        while node.hear("/insists/cmd_vel", "base", TICK_S):
            pass
        events = [line for line in node.heard if "event" in line]
        dead = [event for event in events if event.get("alive") == 0]
        return bool(dead) and {"event": "deadline"} in events

    assert wait_until(heard, PATIENCE_S)
    assert wait_until(twists, PATIENCE_S)
    drive.close()
    ours.close()
    node.close()
