"""The teacher of the position actions: greedily along the field of distances to the goal, told the truth.

It knows the whole map, whatever `driving.knows` says, and stops where it truly is at the goal: unlike
`engines.train.rollout.expert` it never waits for a fix, whatever `driving.news_s` says.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from engines.ablations.position_actions.drive import AHEAD, HALT, LEFT, RIGHT, STEP_M, TURN_RAD
from engines.train.rollout.goals import Goal
from engines.train.rollout.places import Building
from hil.maps.cell_kernels import circle_overlaps, line_is_free
from onboard.policy.contract import ACTIONS
from onboard.policy.dwa.dynamic_window import UNSAFE
from onboard.values.geometry import compose
from onboard.values.kernel import kernel
from onboard.values.messages import Pose

Floats = npt.NDArray[np.float64]

HEADINGS = round(2.0 * math.pi / TURN_RAD)
TURNS = np.arange(HEADINGS) - HEADINGS // 2 + 1
LOOKS_M = np.array([0.5, 0.75, 1.0, 1.5])
"""So far ahead it looks in every heading, beside the end of the step itself."""
TURN_M = 3e-3
"""What one turn is worth beside the length of the way: it decides between headings that are else as good."""
ROOM_M = 0.02
"""Room beside the footprint that a step must leave."""
SAMPLES = 10
"""Places along a step where that is looked at."""
AT_GOAL_M = 0.15
"""So near to the goal it stops: a step ahead would not bring it nearer."""
WORSE_S = 1.0
"""By so many seconds every other action is said to be worse (`soft_targets`)."""


def position_scores(building: Building, goal: Goal, pose: Pose) -> npt.NDArray[np.float32]:
    """Return (28,) scores as `Expert.scores` gives them: 0 for the greedy action, the others of the four worse.

    Where no heading leads anywhere all are as bad as can be.
    """
    scores = np.full(len(ACTIONS), 2.0 * UNSAFE, np.float32)
    best = _greedy(building, goal, pose)
    if best is not None:
        scores[[AHEAD, LEFT, RIGHT, HALT]] = -WORSE_S
        scores[best] = 0.0
    return scores


def _greedy(building: Building, goal: Goal, pose: Pose) -> int | None:
    away_m = math.hypot(pose.x_m - goal.xy_m[0], pose.y_m - goal.xy_m[1])
    if away_m <= AT_GOAL_M:
        return HALT
    world, course = building.space.world, building.course
    cell_m, placed = world.cell_m, compose(world.grid_from_map, pose)
    radius = (building.setting.body.radius_m + ROOM_M) / cell_m
    looks = np.asarray(np.minimum(LOOKS_M, max(away_m, STEP_M)) / cell_m, np.float64)
    yaws = np.asarray(placed.yaw_rad + TURNS * TURN_RAD, np.float64)
    left_m = cell_m * ways_left(
        placed.x_m / cell_m, placed.y_m / cell_m, yaws, STEP_M / cell_m, looks, radius,
        course.blocked, course.gap, building.space.passable, goal.field_m, goal.corner[0], goal.corner[1], cell_m,
    )  # fmt: skip
    if not np.isfinite(left_m).any():
        return None
    turn = int(TURNS[np.argmin(left_m + TURN_M * np.abs(TURNS))])
    return AHEAD if turn == 0 else LEFT if turn > 0 else RIGHT


@kernel
def ways_left(
    x: float, y: float, yaws: Floats, step: float, looks: Floats, radius: float, blocked: npt.NDArray[np.bool_],
    gap: npt.NDArray[np.uint8], passable: npt.NDArray[np.bool_], field_m: npt.NDArray[np.float32], first_row: int,
    first_column: int, cell_m: float,
) -> Floats:  # fmt: skip
    """Return (headings,) length of the way to the goal that begins with a step in each heading [cells].

    A step must be free for a circle about the body; from its end on, the way goes straight as far as the cells are
    passable, and then by the field. inf where a heading leads nowhere.
    """
    left = np.full(len(yaws), np.inf)
    for i in range(len(yaws)):
        cos, sin = math.cos(yaws[i]), math.sin(yaws[i])
        free = True
        for k in range(1, SAMPLES + 1):
            part = step * k / SAMPLES
            if circle_overlaps(x + part * cos, y + part * sin, radius, blocked, gap):
                free = False
                break
        if not free:
            continue
        end_x, end_y = x + step * cos, y + step * sin
        left[i] = step + field_between(end_x, end_y, field_m, first_row, first_column) / cell_m
        row, column = math.floor(end_y), math.floor(end_x)
        for look in looks:
            far_x, far_y = x + look * cos, y + look * sin
            far_row, far_column = math.floor(far_y), math.floor(far_x)
            if not (0 <= far_row < passable.shape[0] and 0 <= far_column < passable.shape[1]):
                break
            if not line_is_free(passable, (row, column), (far_row, far_column)):
                break
            left[i] = min(left[i], look + field_between(far_x, far_y, field_m, first_row, first_column) / cell_m)
    return left


@kernel
def field_between(x: float, y: float, field_m: npt.NDArray[np.float32], first_row: int, first_column: int) -> float:
    """Return the field [m] at a place in cells of the grid, between the centres of the cells about it that have one."""
    row, column = y - 0.5 - first_row, x - 0.5 - first_column
    i, j = math.floor(row), math.floor(column)
    total, weight = 0.0, 0.0
    for r in range(i, i + 2):
        for c in range(j, j + 2):
            if 0 <= r < field_m.shape[0] and 0 <= c < field_m.shape[1] and field_m[r, c] < np.inf:
                part = (1.0 - abs(row - r)) * (1.0 - abs(column - c))
                total, weight = total + part * field_m[r, c], weight + part
    return total / weight if weight > 0.0 else np.inf
