"""Drives at walls and through doors, with the limits applied in each tick."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from onboard.config.plant_model import MotionState, step
from onboard.policy.contract import ACTIONS
from onboard.safety.limits import LimitedCommand, LimitsState, Situation, limit
from onboard.values.messages import BIN_DEG, BINS, Pose, Scan, Twist
from tests.onboard.safety.limits_bench import AHEAD, BOUNDS, NOW_NS, PLANT, RADIUS_M, TICK_NS

RAYS_A_BIN = 5
RAYS_RAD = np.deg2rad(-180.0 + (np.arange(BINS * RAYS_A_BIN) + 0.5) * BIN_DEG / RAYS_A_BIN)
Segment = tuple[float, float, float, float]
ROOM: list[Segment] = [(-2, -1.5, 2, -1.5), (2, -1.5, 2, 1.5), (2, 1.5, -2, 1.5), (-2, 1.5, -2, -1.5)]
DOOR_M = 0.8
DOORWAY: list[Segment] = [
    (1, DOOR_M / 2, 1, 3),
    (1, -3, 1, -DOOR_M / 2),
    (1.1, DOOR_M / 2, 1.1, 3),
    (1.1, -3, 1.1, -DOOR_M / 2),
]


def cast(state: MotionState, segments: list[Segment], stamp_ns: int) -> Scan:
    """Return the scan of walls from the base's pose."""
    angles = RAYS_RAD + state.pose.yaw_rad
    ray = np.stack([np.cos(angles), np.sin(angles)])
    best = np.full(len(angles), np.inf)
    for x0, y0, x1, y1 in segments:
        ex, ey, dx, dy = x1 - x0, y1 - y0, x0 - state.pose.x_m, y0 - state.pose.y_m
        cross = ray[0] * ey - ray[1] * ex
        with np.errstate(divide="ignore", invalid="ignore"):
            along, on = (dx * ey - dy * ex) / cross, (dx * ray[1] - dy * ray[0]) / cross
        hit = (along > 0.0) & (on >= 0.0) & (on <= 1.0)
        best[hit] = np.minimum(best[hit], along[hit])
    ranges = best.reshape(BINS, RAYS_A_BIN).min(axis=1).astype(np.float32)
    return Scan(stamp_ns, ranges, np.ones(BINS, dtype=np.bool_))


def clearance_m(state: MotionState, segments: list[Segment]) -> float:
    """Return the distance from the footprint to the nearest wall."""
    best = inf
    for x0, y0, x1, y1 in segments:
        ex, ey, dx, dy = x1 - x0, y1 - y0, state.pose.x_m - x0, state.pose.y_m - y0
        t = min(max((dx * ex + dy * ey) / (ex * ex + ey * ey), 0.0), 1.0)
        best = min(best, float(np.hypot(dx - t * ex, dy - t * ey)))
    return best - RADIUS_M


def drive(
    state: MotionState, wanted: list[Twist], segments: list[Segment]
) -> tuple[list[MotionState], list[LimitedCommand]]:
    """Return the states and commands of a drive, with the limits applied in each tick."""
    limits, path, commands = LimitsState(), [state], []
    for tick, twist in enumerate(wanted):
        now_ns = NOW_NS + tick * TICK_NS
        situation = Situation(now_ns, None, False, None, now_ns, cast(state, segments, now_ns))
        limits, got = limit(limits, twist, situation, BOUNDS)
        state = step(state, got.twist, PLANT, 1 / 30)
        path.append(state)
        commands.append(got)
    return path, commands


@pytest.mark.parametrize("action", ACTIONS[7:], ids=lambda action: f"{action.v_mps},{action.w_radps}")
def test_an_action_held_for_ever_never_ends_in_a_wall(action: Twist) -> None:
    for yaw in (0.0, 2.0):
        start = MotionState(Pose(-1.0, 0.3, yaw))
        path, _ = drive(start, [action] * 120, ROOM)
        assert min(clearance_m(state, ROOM) for state in path) > 0.0


def test_whims_never_end_in_a_wall() -> None:
    generator = np.random.default_rng(3)
    for _ in range(4):
        wanted = [twist for index in generator.integers(7, len(ACTIONS), 30) for twist in [ACTIONS[index]] * 10]
        path, _ = drive(MotionState(Pose(0.0, 0.0, 1.0)), wanted, ROOM)
        assert min(clearance_m(state, ROOM) for state in path) > 0.0


@pytest.mark.parametrize("aside_m", [-0.07, 0.0, 0.07])
def test_a_door_is_passed_slowly_and_without_a_stop(aside_m: float) -> None:
    path, commands = drive(MotionState(Pose(-1.0, aside_m, 0.0)), [AHEAD] * 300, DOORWAY)
    assert path[-1].pose.x_m > 2.0
    assert min(clearance_m(state, DOORWAY) for state in path) > 0.05
    in_door = [got.twist.v_mps for state, got in zip(path, commands, strict=False) if 0.7 < state.pose.x_m < 1.0]
    assert max(in_door) <= 0.3 + 1e-9
    assert min(got.twist.v_mps for got in commands) > 0.1


def test_something_that_steps_in_front_at_full_speed() -> None:
    """A wall that appears just outside footprint, margin and braking distance: it stops short of it."""
    path, _ = drive(MotionState(Pose(0.0, 0.0, 0.0)), [AHEAD] * 60, [])
    at = path[-1].pose.x_m + RADIUS_M + 0.05 + 0.35
    wall: list[Segment] = [(at, -1, at, 1)]
    after, commands = drive(path[-1], [AHEAD] * 90, wall)
    assert min(clearance_m(state, wall) for state in after) > 0.0
    assert commands[0].twist.v_mps < 0.5
