"""Goals for drives of a wanted length: where a goal is, how far it is to it, and from where a drive to it may start."""

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
"""A field of distances is too long by less than this factor."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal and the way to it: field [m], float32, of the cells from `corner` (row, column) on; inf where none."""

    xy_m: tuple[float, float]
    field_m: npt.NDArray[np.float32]
    corner: tuple[int, int]


class Reachable(NamedTuple):
    """A goal, and (rows, columns) bool of its field, where drives of a wanted length may start."""

    goal: Goal
    near: npt.NDArray[np.bool_]


def drawn_goal(space: FreeSpace, lengths: Lengths, rng: np.random.Generator, tries: int) -> Reachable | None:
    """Return a goal indoors that has starts, None when none of those drawn from all places to stand on has any."""
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
    """Return the first goal indoors that has starts, in an order that is drawn; None where there is none at all."""
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
    """Leave out, in place, the cells that have no start either, now that a goal has none.

    From such a cell it is no further to any other than by way of the goal. Where there is more beyond the field, it
    ends within two cells of its limit, and nothing is left out.
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
    """Return a part of the free space as one of its own, in the same map frame."""
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
