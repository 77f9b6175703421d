"""The pattern stays in its rectangle, drives all patterns, and its log identifies the base."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from calib.__main__ import app
from calib.commands.drive_pattern import PATTERNS, PatternDrive, Rectangle, steps
from calib.dynamics.identification import identify
from calib.dynamics.motion_log import MotionLog
from hil.physics.simulated_base import NS, STEP_NS, base_at, send_command, step_base
from onboard.config.plant_model import Plant
from onboard.values.messages import Pose
from tests.rigs.recordings.motion_logs import plant

BASE = plant((6.0, 0.7, 8.0, 0.9, 1.0, 2.5), (8.0, 0.6, 5.0, 1.0, 2.5, 12.0), 0.199)
SLOW = plant((2.0, 0.5, 2.0, 0.5, 1.0, 0.8), (2.0, 0.5, 2.0, 0.5, 2.5, 2.0), 0.4)


def driven(base: Plant, rectangle: Rectangle, drive: PatternDrive) -> MotionLog:
    state, rows, now_ns = base_at(Pose(0.0, 0.0, 0.0)), [], 0
    while (command := drive.command(now_ns / NS, state.motion.pose, state.motion.twist)) is not None:
        at, twist = state.motion.pose, state.motion.twist
        rows.append(
            (now_ns / NS, command.v_mps, command.w_radps, twist.v_mps, twist.w_radps, at.x_m, at.y_m, at.yaw_rad)
        )
        state = step_base(send_command(state, command, now_ns, base), now_ns, base)
        now_ns += STEP_NS
        assert now_ns < 600 * NS
    table = np.array(rows)
    return MotionLog("pattern", *table[:, :5].T, table[:, 5:])


@pytest.mark.parametrize("base", [BASE, SLOW])
@pytest.mark.parametrize("sides", [(1.0, 3.0, 1.5, 1.5), (0.5, 1.0, 0.4, 0.4), (0.2, 0.5, 5.0, 0.2)])
def test_the_robot_stays_in_the_rectangle(base, sides):
    rectangle = Rectangle(*sides)
    log = driven(base, rectangle, PatternDrive(steps(0.6, 0.3, 1.5), rectangle))
    assert all(rectangle.holds(x, y) for x, y, _ in log.pose)


def test_all_eight_patterns_are_driven_on_enough_floor_and_identify_the_base():
    rectangle = Rectangle(2.0, 3.0, 2.0, 2.0)
    drive = PatternDrive(steps(0.6, 0.3, 1.5), rectangle)
    log = driven(BASE, rectangle, drive)
    assert drive.pattern == len(PATTERNS) == 8
    assert drive.skipped <= 3
    found = identify([log])
    assert found.plant.linear.f_up == pytest.approx(6.0, rel=0.1)
    assert found.plant.angular.f_up == pytest.approx(8.0, rel=0.1)
    assert found.plant.base.command_delay_s == pytest.approx(0.2, abs=0.02)


def test_the_dry_run_says_what_does_not_fit_the_rectangle():
    sides = ["--behind", "0.5", "--left", "0.4", "--right", "0.4", "--dry-run"]
    small, large = (CliRunner().invoke(app, ["drive-pattern", "--ahead", a, *sides]).output for a in ("0.5", "9"))
    assert "of 43 steps omitted or shortened" in small
    count = {text: int(text.splitlines()[-1].split()[0]) for text in (small, large)}
    assert count[small] > count[large] > 0


def test_without_a_terminal_nothing_moves():
    done = CliRunner().invoke(app, ["drive-pattern", "--ahead", "3", "--behind", "1", "--left", "1", "--right", "1"])
    assert done.exit_code != 0
    assert "terminal" in str(done.exception)
