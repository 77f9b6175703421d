"""The dynamic window by its plain definition: every path stepped by the motion model, every distance taken exactly.

What `onboard/policy/dwa/dynamic_window.py` and `onboard/policy/dwa/trajectories.py` compute in kernels, for tests
and for the benchmark.
"""

from __future__ import annotations

import math

import numpy as np

from onboard.config.plant_model import Plant
from onboard.policy.contract import ACTIONS, STOP_ACTION
from onboard.policy.dwa.cost_to_go import CostField, downhill, sample
from onboard.policy.dwa.dynamic_window import (
    COMFORT_FROM_M,
    COMFORT_M,
    COMFORT_S,
    KEEP_M,
    LINGER_S,
    NEAR_M,
    OVERSHOOT_S_PER_M,
    REMEMBERED_KEEP_M,
    SOON,
    SPEED_MPS,
    STEEP,
    STEER_S_PER_RADPS,
    TAIL_S,
    TURN_LEAD_S,
    TURN_S_PER_RAD,
    UNSAFE,
)
from onboard.policy.dwa.trajectories import ROUND_STRIDE as STRIDE
from onboard.policy.dwa.trajectories import SLACK_M, roll_out_definition

COMMANDS = np.array([[action.v_mps, action.w_radps] for action in ACTIONS])
COUNT = len(ACTIONS)
DT_S = 1.0 / 30.0
TICKS, DELAY, BRAKE = 10, 3, 15
"""Of the default rates, and the ticks in which the default plant comes to rest."""


def clearances(paths: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return (n,): the least distance from path i to any point, of every `STRIDE`-th state and the last."""
    if len(points) == 0:
        return np.full(len(paths), np.inf)
    looked_at = np.union1d(np.arange(STRIDE - 1, paths.shape[1], STRIDE), [paths.shape[1] - 1])
    offsets = paths[:, looked_at, None, :2] - points[None, None, :, :]
    return np.linalg.norm(offsets, axis=-1).min(axis=(1, 2))


def time_left(end: np.ndarray, field: CostField, goal: tuple[float, float], brake_s: float) -> float:
    """Return the seconds from an end state to the goal."""
    x, y, yaw, v, w = end[:5]
    i, j = ((a - corner) / field.cell_m - 0.5 for a, corner in zip((x, y), field.corner_xy_m, strict=True))
    way_m = sample.py_func(field.cost, i, j, field.most_m)[0]
    _, di, dj = downhill(field.cost, i, j, field.most_m, STEEP * field.cell_m)
    goal_m = math.hypot(goal[0] - x, goal[1] - y)
    if goal_m < NEAR_M:
        way_m, di, dj = goal_m, x - goal[0], y - goal[1]
    turn = abs(math.remainder(math.atan2(-dj, -di) - yaw - w * TURN_LEAD_S, 2.0 * math.pi))
    overshoot_m = max(0.0, v * brake_s - way_m)
    return way_m / SPEED_MPS + TURN_S_PER_RAD * turn * min(1.0, way_m / NEAR_M) ** 2 + OVERSHOOT_S_PER_M * overshoot_m


def scores(
    plant: Plant, present: np.ndarray, held: int, seen: np.ndarray, known: np.ndarray, field: CostField,
    goal: tuple[float, float], radius_m: float, brake_s: float,
) -> np.ndarray:  # fmt: skip
    """Return (28,): minus the time left after each action's best sequel; twice UNSAFE where it cannot stop clear."""
    start = roll_out_definition(present[None], COMMANDS[[held]], plant, DELAY, DT_S)[0, -1]
    first = roll_out_definition(np.tile(start, (COUNT, 1)), COMMANDS, plant, TICKS, DT_S)
    brake = roll_out_definition(first[:, -1], np.zeros_like(COMMANDS), plant, BRAKE, DT_S)
    path_m = [np.minimum(clearances(first, points), clearances(brake, points)) for points in (seen, known)]
    keep_m = min(radius_m + KEEP_M, path_m[0][STOP_ACTION] - SLACK_M)
    known_keep_m = min(radius_m + REMEMBERED_KEEP_M, path_m[1][STOP_ACTION] - SLACK_M)
    safe = (path_m[0] >= keep_m) & (path_m[1] >= known_keep_m)

    starts, commands = np.repeat(first[:, -1], COUNT, axis=0), np.tile(COMMANDS, (COUNT, 1))
    tails = roll_out_definition(starts, commands, plant, round(TAIL_S / DT_S), DT_S)
    tail_m = np.minimum(clearances(tails, seen), np.repeat(clearances(first, seen), COUNT))
    discomfort = np.clip((radius_m + COMFORT_M - tail_m) / COMFORT_M, 0.0, 1.0)
    weight_s = COMFORT_S * min(1.0, math.dist(start[:2], goal) / COMFORT_FROM_M)
    time_s = np.array([time_left(end, field, goal, brake_s) for end in tails[:, -1]]) + weight_s * discomfort**2
    time_s[(tail_m < keep_m) | (clearances(tails, known) < known_keep_m)] = -UNSAFE
    best_s = time_s.reshape(COUNT, COUNT).min(axis=1)
    best_s += SOON * np.array([time_left(end, field, goal, brake_s) for end in first[:, -1]])
    best_s += STEER_S_PER_RADPS * np.abs(COMMANDS[:, 1])
    best_s[STOP_ACTION] += LINGER_S
    return np.where(safe, -best_s, 2.0 * UNSAFE)
