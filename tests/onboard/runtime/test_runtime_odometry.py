"""Odometry that lies, through the whole runtime: the drive ends with a reason, and goals mean the base's own frame."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from onboard.service.publisher import ERROR, WARNING, rows
from onboard.state import TickRecord
from onboard.values.geometry import IDENTITY, compose, distance, inverse
from onboard.values.messages import STOP, Inputs, OdometryMessage, Pose
from onboard.values.reasons import NO_ORIENTATION
from tests.rigs.runtime_bench import Bench


def altered(change: Callable[[OdometryMessage], OdometryMessage]) -> Callable[[Inputs], Inputs]:
    return lambda inputs: replace(inputs, odometry=tuple(change(message) for message in inputs.odometry))


def row(bench: Bench, record: TickRecord, name: str) -> tuple[int, str]:
    return next((one[1], one[2]) for one in rows(record, bench.runtime.counters, (), None) if one[0] == name)


def without_heading(pose: Pose | None) -> Pose:
    return replace(pose or IDENTITY, yaw_rad=math.nan)


def test_a_twist_that_is_always_zero_stops_the_robot_after_a_metre_and_refuses_goals() -> None:
    bench = Bench()
    bench.alter = altered(lambda message: replace(message, twist=STOP))
    ticks = bench.driving().seconds(4.0)
    reason = "/odom contradicts itself: in "
    assert ticks[-1].state.startswith(f"stopped: {reason}")
    assert 'set odometry.source = "pose"' in ticks[-1].state
    assert ticks[-1].command == STOP
    assert 1.0 <= bench.pose.x_m < 1.3
    assert row(bench, ticks[-1], "odometry")[0] == ERROR
    assert "contradicts itself" in row(bench, ticks[-1], "odometry")[1]
    bench.ask()
    assert bench.tick().state.startswith(f"stopped: goal refused: {reason}")
    assert bench.seconds(3.0)[-1].command == STOP
    assert bench.runtime.counters.faults["odometry_contradicts_itself"] == 1


def test_by_pose_the_same_base_drives_and_does_not_seem_blocked() -> None:
    bench = Bench(odometry={"source": "pose"})
    bench.alter = altered(lambda message: replace(message, twist=STOP))
    bench.driving(x_m=9.0)
    ticks = bench.seconds(8.0)
    assert not any(tick.recovery for tick in ticks)
    assert bench.pose.x_m > 4.5


@pytest.mark.parametrize("source", ["twist", "pose"])
def test_a_goal_in_odom_means_the_frame_of_a_base_that_was_reset(source: str) -> None:
    bench = Bench(odometry={"source": source})
    bench.fix(Pose(2.0, 1.0, 0.0))
    bench.driving(x_m=9.0)
    bench.seconds(1.0)
    bench.cancel()
    bench.seconds(1.0)
    there, map_from_base = bench.pose, bench.runtime.state.localization.map_from_base
    assert there.x_m > 0.5
    bench.alter = altered(lambda message: replace(message, pose=compose(inverse(there), message.pose or IDENTITY)))
    record = bench.tick()
    assert distance(record.odometry.pose, IDENTITY) < 1e-6, "what /tf and recordings have"
    assert record.map_from_odom is not None
    assert map_from_base is not None
    assert distance(compose(record.map_from_odom, record.odometry.pose), map_from_base) < 1e-6
    assert bench.runtime.counters.faults["odometry_jumped"] == 1
    bench.ask(1.0, 0.5, "odom")
    asked = bench.tick()
    assert asked.state == "navigating"
    assert asked.goal_distance_m == pytest.approx(math.hypot(1.0, 0.5), abs=0.01)


def test_a_reset_ends_a_drive_with_the_reason() -> None:
    bench = Bench().driving()
    bench.seconds(1.0)
    there = bench.pose
    bench.alter = altered(lambda message: replace(message, pose=compose(inverse(there), message.pose or IDENTITY)))
    tick = bench.tick()
    assert tick.state.startswith("stopped: /odom jumped: its pose moved ")
    assert tick.command == STOP
    bench.ask(1.0, 0.0, "odom")
    assert bench.tick().state == "navigating"


@pytest.mark.parametrize("source", ["twist", "pose"])
def test_odometry_with_an_orientation_that_is_none_stops_and_says_so(source: str) -> None:
    bench = Bench(odometry={"source": source}).driving()
    bench.alter = altered(lambda message: replace(message, pose=without_heading(message.pose)))
    tick = bench.tick()
    assert tick.state == f"stopped: odometry refused: {NO_ORIENTATION}"
    assert tick.command == STOP
    assert row(bench, tick, "odometry") == (ERROR, f"odometry refused: {NO_ORIENTATION}")


def test_a_fix_with_an_orientation_that_is_none_localises_nobody() -> None:
    bench = Bench()
    bench.tick()
    bench.fix(Pose(1.0, 2.0, math.nan))
    tick = bench.tick()
    assert tick.map_from_odom is None
    assert row(bench, tick, "pose") == (WARNING, f"localisation refused: {NO_ORIENTATION}")
    bench.fix(Pose(1.0, 2.0, 0.0))
    assert row(bench, bench.tick(), "pose")[1] == "localized"
