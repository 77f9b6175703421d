"""Goals for drives of a wanted length: the goal, its distance field, and possible starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hil.physics.free_space import FreeSpace, distance_field, indoor_cells, is_indoors
from onboard.values.geometry import compose
from onboard.values.messages import Pose

Lengths = tuple[float, float]
"""Least and most geodesic length of a drive [m]."""
TOO_LONG = 1.05
"""Upper bound of a distance field's overestimate, as a factor."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal with its distance field [m], float32, whose first cell is `corner` (row, column); inf without a path."""

    xy_m: tuple[float, float]
    field_m: npt.NDArray[np.float32]
    corner: tuple[int, int]


class Reachable(NamedTuple):
    """A goal, and a mask (rows, columns) of its field: starts of drives of the wanted length."""

    goal: Goal
    near: npt.NDArray[np.bool_]


def drawn_goal(space: FreeSpace, lengths: Lengths, rng: np.random.Generator, tries: int) -> Reachable | None:
    """Return a goal indoors that has starts, drawn at most `tries` times; None if no drawn goal has any."""
    candidates = np.argwhere(space.standing)
    for _ in range(tries):
        row, column = (int(index) for index in candidates[rng.integers(len(candidates))])
        if not is_indoors(space.world, (row, column)):
            continue
        found = _goal_at(space, lengths, (row, column))
        if found.near.any():
            return found
    return None


def any_goal(space: FreeSpace, lengths: Lengths, rng: np.random.Generator) -> Reachable | None:
    """Return a goal indoors that has starts, after a search of all cells in random order; None if there is none."""
    left = space.standing & indoor_cells(space.world)
    for row, column in rng.permutation(np.argwhere(left)):
        if not left[row, column]:
            continue
        found = _goal_at(space, lengths, (int(row), int(column)))
        if found.near.any():
            return found
        _leave_out(left, found.goal, lengths[0], space.world.cell_m)
    return None


def _leave_out(left: npt.NDArray[np.bool_], goal: Goal, least_m: float, cell_m: float) -> None:
    """Remove from `left`, in place, cells that cannot have a start because `goal` has none.

    By the triangle inequality, no path from such a cell exceeds its path over the goal. A field that was cut off
    reaches within two cells of its limit, and removes no cell.
    """
    reached, (row, column), (rows, columns) = np.isfinite(goal.field_m), goal.corner, goal.field_m.shape
    furthest_m = float(goal.field_m[reached].max()) + 2.0 * cell_m
    near = reached & (TOO_LONG * (goal.field_m + furthest_m) < least_m)
    left[row : row + rows, column : column + columns][near] = False


def _goal_at(space: FreeSpace, lengths: Lengths, cell: tuple[int, int]) -> Reachable:
    (least_m, most_m), xy_m = lengths, space.world.centre_of(cell)
    reach = math.ceil(most_m / space.world.cell_m)
    low = [max(0, index - reach) for index in cell]
    part = np.s_[low[0] : cell[0] + reach + 1, low[1] : cell[1] + reach + 1]
    window = _window(space, part, low)
    field = distance_field(window, xy_m, most_m).astype(np.float32)
    near = window.standing & (field >= least_m) & (field <= most_m)
    return Reachable(Goal(xy_m, field, (low[0], low[1])), near)


def _window(space: FreeSpace, part: tuple[slice, slice], low: Sequence[int]) -> FreeSpace:
    """Return a part of the free space as a free space in the same map frame."""
    world = space.world
    corner = Pose(low[1] * world.cell_m, low[0] * world.cell_m, 0.0)
    small = replace(
        world,
        low_m=world.low_m[part],
        high_m=world.high_m[part],
        gap=world.gap[part],
        material=world.material[part],
        map_from_grid=compose(world.map_from_grid, corner),
    )
    return FreeSpace(small, space.passable[part], space.standing[part])
