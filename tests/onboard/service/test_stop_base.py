"""The stop after the end of a run: its receivers and its log (`test_systemd.py` has the rest)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from onboard.config.config import Config, DdsSection, OdometrySection
from onboard.drivers import kobuki_protocol
from onboard.drivers.dds.participant import Reader, Wire
from onboard.drivers.dds.ros_convert import twist_from_ros
from onboard.service import stop_base
from onboard.service.stop_base import BaseLink
from onboard.service.systemd import note_driven
from onboard.values.errors import DriverError
from onboard.values.messages import STOP
from tests.rigs.network.loopback import PATIENCE_S, free_domain, hear

SECTION = DdsSection(domain=free_domain())
LATE_S = stop_base.SENDING_S / 2
ZERO = kobuki_protocol.encode_velocity(STOP)
FULL_LOOKS, FULL_LOOK_S = 10, 0.02
"""A port without room this many times in a row, at this interval, is full."""


@pytest.fixture
def wires() -> Iterator[list[Wire]]:
    """Further participants on the domain."""
    found: list[Wire] = []
    yield found
    for wire in found:
        wire.close()


def listener(wires: list[Wire]) -> Reader:
    wires.append(Wire(SECTION))
    return wires[-1].reader("cmd_vel")


def test_a_base_that_is_found_after_a_bystander_hears_zero_too(wires: list[Wire]) -> None:
    """A viewer or a recorder reads the commands at once; discovery finds the base later."""
    bystander, late = listener(wires), []
    coming = threading.Timer(LATE_S, lambda: late.append(listener(wires)))
    coming.start()
    readers = stop_base.halt(BaseLink(SECTION, OdometrySection(), 30.0))
    coming.join(PATIENCE_S)
    assert {twist_from_ros(message.sample) for message in hear(bystander)} == {STOP}
    assert {twist_from_ros(message.sample) for message in hear(late[0])} == {STOP}
    assert readers == 2


@pytest.mark.parametrize("somebody", [True, False])
def test_what_is_said_is_how_many_were_there(wires: list[Wire], tmp_path: Path, somebody: bool) -> None:
    environment = {**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)}
    note_driven(Config(dds=SECTION), environment)
    if somebody:
        listener(wires)
    done = subprocess.run([sys.executable, "-m", "onboard.halt"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0
    assert ("zero_sent" in done.stderr, "zero_unheard" in done.stderr) == (somebody, not somebody)
    assert ("readers=1" in done.stderr) == somebody


@pytest.mark.parametrize("control_hz", [0, float("nan")])
def test_a_note_with_no_rate_is_no_note(control_hz: float, tmp_path: Path) -> None:
    environment = {"RUNTIME_DIRECTORY": str(tmp_path)}
    note_driven(Config(dds=SECTION), environment)
    note = tmp_path / stop_base.DRIVEN_FILE
    note.write_text(json.dumps({**json.loads(note.read_text()), "control_hz": control_hz}))
    config = tmp_path / "onboard.toml"
    config.write_text(f"[dds]\ndomain = {SECTION.domain}\n")
    with closing(Wire(SECTION)) as wire:
        commands = wire.reader("cmd_vel")
        assert stop_base.stop(config, environment) == 1
        assert hear(commands)


@pytest.fixture
def cable() -> Iterator[tuple[int, int]]:
    """The base's end of a serial cable, and the robot's."""
    pytest.importorskip("serial")
    base_end, robot_end = os.openpty()
    tty.setraw(robot_end)
    os.set_blocking(base_end, False)
    yield base_end, robot_end
    os.close(base_end)
    os.close(robot_end)


def over(robot_end: int) -> Config:
    """Return the configuration of a robot with the base at this port."""
    return Config(dds=SECTION, odometry=OdometrySection(input="serial", serial_port=os.ttyname(robot_end)))


def driven_over(robot_end: int) -> BaseLink:
    config = over(robot_end)
    return BaseLink(config.dds, config.odometry, config.rates.control_hz)


def fill(robot_end: int) -> None:
    """Fill the port's output queue, like a base that reads nothing. The kernel may free some space meanwhile."""
    os.set_blocking(robot_end, False)
    refused = 0
    while refused < FULL_LOOKS:
        try:
            os.write(robot_end, bytes(4096))
            refused = 0
        except BlockingIOError:
            refused += 1
            time.sleep(FULL_LOOK_S)


def taken(base_end: int) -> bytes:
    """Return all bytes that arrived at the base."""
    got = b""
    with suppress(BlockingIOError):
        while True:
            got += os.read(base_end, 65536)
    return got


def test_a_serial_base_hears_zero_again_and_again(cable: tuple[int, int]) -> None:
    base_end, robot_end = cable
    assert stop_base.halt(driven_over(robot_end)) == 1
    received = taken(base_end)
    assert received.count(ZERO) > 2
    assert received == ZERO * received.count(ZERO)


def test_of_a_serial_base_that_takes_nothing_zero_is_not_said_to_be_sent(
    cable: tuple[int, int], tmp_path: Path
) -> None:
    base_end, robot_end = cable
    fill(robot_end)
    environment = {**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)}
    note_driven(over(robot_end), environment)
    done = subprocess.run([sys.executable, "-m", "onboard.halt"], env=environment, capture_output=True, text=True)
    assert ZERO not in taken(base_end)
    assert (done.returncode, "zero_sent" in done.stderr) == (stop_base.EXIT_NOT_SENT, False)
    assert "zero_not_sent" in done.stderr
    assert "the base takes no commands: its output queue is full" in done.stderr


def test_a_serial_base_that_begins_to_take_commands_meanwhile_hears_zero(cable: tuple[int, int]) -> None:
    base_end, robot_end = cable
    fill(robot_end)
    received: list[bytes] = []
    beginning = threading.Timer(LATE_S, lambda: received.append(taken(base_end)))
    beginning.start()
    assert stop_base.halt(driven_over(robot_end)) == 1
    beginning.join(PATIENCE_S)
    assert ZERO in received[0] + taken(base_end)


#   the note     exit code
NOTES = [("{}", stop_base.EXIT_NOT_SENT), (None, 0)]


@pytest.mark.parametrize(("note", "code"), NOTES, ids=["driven", "never driven"])
def test_a_base_that_is_not_there_is_a_failure_only_where_it_was_driven(
    note: str | None, code: int, tmp_path: Path
) -> None:
    config = tmp_path / "onboard.toml"
    config.write_text(f'[odometry]\ninput = "serial"\nserial_port = "{tmp_path / "base"}"\n')
    if note is not None:
        (tmp_path / stop_base.DRIVEN_FILE).write_text(note)
    command = [sys.executable, "-m", "onboard.halt", "--config", str(config)]
    environment = {**os.environ, stop_base.RUNTIME_DIRECTORY: str(tmp_path)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert "zero_not_sent" in ended.stderr


def test_zero_that_stays_in_the_port_is_not_sent(cable: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging USB adapter accepts bytes and forwards none. A pseudo-terminal has no such queue."""
    monkeypatch.setattr("serial.Serial.out_waiting", len(ZERO))
    with pytest.raises(DriverError, match="zero is still in the port's output queue"):
        stop_base.halt(driven_over(cable[1]))
