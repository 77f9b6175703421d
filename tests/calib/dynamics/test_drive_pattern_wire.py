"""The pattern as an operator drives it: base, runtime and `drive-pattern` as processes, and a key on a terminal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.config.config import DdsSection
from onboard.drivers.dds.participant import Wire
from tests.rigs.machine.processes import Command, next_message, running
from tests.rigs.network.loopback import free_domain

RECTANGLE = ("--ahead", "1.5", "--behind", "0.5", "--left", "1", "--right", "1")

pytestmark = pytest.mark.timeout(900)  # processes that may compile every kernel first, beside other tests


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """Yield the operator's end of a terminal, and the program's."""
    ends = os.openpty()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


@contextlib.contextmanager
def driving(folder: Path, keys: int) -> Iterator[tuple[Command, Wire]]:
    """Yield the pattern while it drives the simulated base through the runtime, and the wire."""
    domain = free_domain()
    with (
        running("hil", "sim", folder=folder, domain=domain) as world,
        running("onboard", "run", folder=folder, domain=domain) as robot,
    ):
        world.wait_for("simulated ")
        robot.wait_for("ready")
        with (
            running("calib", "drive-pattern", *RECTANGLE, folder=folder, domain=domain, stdin=keys) as pattern,
            contextlib.closing(Wire(DdsSection(domain=domain))) as wire,
        ):
            pattern.wait_for("pattern 1 of 8")
            yield pattern, wire


def test_the_base_moves_and_any_key_stops_it(tmp_path: Path) -> None:
    with terminal() as (operator, program), driving(tmp_path, program) as (pattern, wire):
        odometry = wire.reader("odom")
        next_message(odometry, lambda sample: abs(sample.twist.twist.linear.x) > 0.1)
        os.write(operator, b"x")
        assert pattern.wait() == 1
        assert "stopped by the operator" in pattern.err
        next_message(odometry, lambda sample: abs(sample.twist.twist.linear.x) < 0.01)


def test_a_second_publisher_of_the_odometry_stops_it(tmp_path: Path) -> None:
    with terminal() as (_, program), driving(tmp_path, program) as (pattern, wire):
        with contextlib.closing(Wire(wire.section)) as rival:
            writer, odometry = rival.writer("odom"), wire.reader("odom")
            while pattern.process.poll() is None:
                writer.write(next_message(odometry).sample)
            assert pattern.wait() == 1
        assert "second publisher" in pattern.err
