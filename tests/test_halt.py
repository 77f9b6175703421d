"""The stop after the end of a run: whom it reaches, and what is said of it (`test_service.py` has the rest)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from loopback import PATIENCE_S, free_domain, hear

from onboard import halt
from onboard.config import Config, DdsSection, OdometrySection
from onboard.drivers.ros_messages import twist_from_ros
from onboard.drivers.wire import Reader, Wire
from onboard.halt import Driven
from onboard.messages import STOP
from onboard.service import note_driven

SECTION = DdsSection(domain=free_domain())
LATE_S = halt.SENDING_S / 2


@pytest.fixture
def wires() -> Iterator[list[Wire]]:
    """Others on the domain, each a participant of its own."""
    found: list[Wire] = []
    yield found
    for wire in found:
        wire.close()


def listener(wires: list[Wire]) -> Reader:
    wires.append(Wire(SECTION))
    return wires[-1].reader("cmd_vel")


def test_a_base_that_is_found_after_a_bystander_hears_zero_too(wires: list[Wire]) -> None:
    """A viewer or a recorder that listens to the commands answers at once, the base behind it later."""
    bystander, late = listener(wires), []
    coming = threading.Timer(LATE_S, lambda: late.append(listener(wires)))
    coming.start()
    readers = halt.halt(Driven(SECTION, OdometrySection(), 30.0))
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
    note = tmp_path / halt.DRIVEN_FILE
    note.write_text(json.dumps({**json.loads(note.read_text()), "control_hz": control_hz}))
    config = tmp_path / "onboard.toml"
    config.write_text(f"[dds]\ndomain = {SECTION.domain}\n")
    with closing(Wire(SECTION)) as wire:
        commands = wire.reader("cmd_vel")
        assert halt.stop(config, environment) == 1
        assert hear(commands)
