"""The ray caster: the first hit of a ray in a world of vertical intervals with moving bodies.

The walk of a ray goes from cell to cell and crosses empty squares in one stride. In every non-empty cell the ray's
height is tested against the intervals. The floor is z = 0. The ceiling has a colour but no depth. Bodies are sorted by
bearing, so a ray is tested only against bodies in its direction.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hil.maps.world_grid import WALL_HEIGHT_M, World
from onboard.values.kernel import kernel

NOTHING, SIDE_X, SIDE_Y, LEVEL, FLOOR, CEILING, BODY_SIDE, BODY_LEVEL = range(8)
"""Kind of hit: nothing, a face across x or y, a top or bottom, floor, ceiling, a body's side, its top or bottom."""
BEARINGS = 64
"""Number of sectors of the full circle for sorting bodies."""

NEVER = 1e30
"""Ray parameter for an axis that the ray never crosses."""

Floats = npt.NDArray[np.float64]
Heights = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


class Grid(NamedTuple):
    """The arrays of a `World` for the kernels."""

    cell_m: float
    gap: npt.NDArray[np.uint8]
    low_m: npt.NDArray[np.float32]
    high_m: npt.NDArray[np.float32]
    material: npt.NDArray[np.uint8]


def grid_of(world: World) -> Grid:
    """Return the grid of a world, without a copy."""
    return Grid(world.cell_m, world.gap, world.low_m, world.high_m, world.material)


@kernel
def bearing(dx: float, dy: float) -> int:
    """Return the bearing sector of a direction, in [0, BEARINGS), counter-clockwise; without trigonometry.

    0 for a zero, infinite or nan direction.
    """
    length = abs(dx) + abs(dy)
    if not 0.0 < length < math.inf:
        return 0
    quarter = dy / length
    if dx < 0.0:
        quarter = 2.0 - quarter
    elif dy < 0.0:
        quarter = 4.0 + quarter
    return min(int(quarter * (BEARINGS / 4)), BEARINGS - 1)


@kernel
def bodies_by_bearing(x: float, y: float, bodies: Floats) -> tuple[Indices, Indices]:
    """Return (first, members): members[first[k]:first[k + 1]] are the bodies in bearing sector k of (x, y)."""
    span = np.empty((len(bodies), 2), np.int64)
    first = np.zeros(BEARINGS + 1, np.int64)
    for j in range(len(bodies)):
        cx, cy, r = bodies[j, 0] - x, bodies[j, 1] - y, bodies[j, 2]
        away2 = cx * cx + cy * cy
        if away2 <= r * r:
            span[j, 0], span[j, 1] = 0, BEARINGS
        else:
            s = r / math.sqrt(away2)
            c = math.sqrt(1.0 - s * s)
            span[j, 0] = bearing(cx * c + cy * s, cy * c - cx * s)
            span[j, 1] = (bearing(cx * c - cy * s, cy * c + cx * s) - span[j, 0]) % BEARINGS + 1
        for k in range(span[j, 1]):
            first[(span[j, 0] + k) % BEARINGS + 1] += 1
    for k in range(BEARINGS):
        first[k + 1] += first[k]
    members, filled = np.empty(first[BEARINGS], np.int64), first.copy()
    for j in range(len(bodies)):
        for k in range(span[j, 1]):
            part = (span[j, 0] + k) % BEARINGS
            members[filled[part]] = j
            filled[part] += 1
    return first, members


@kernel
def trace(
    x: float, y: float, z: float, dx: float, dy: float, dz: float, t_max: float, cell_m: float,
    gap: npt.NDArray[np.uint8], low_m: Heights, high_m: Heights, bodies: Floats, first: Indices, members: Indices,
) -> tuple[float, int, int]:  # fmt: skip
    """Return (t, what, which) of the first hit along (x, y, z) + t (dx, dy, dz), t up to `t_max`.

    bodies: in the grid frame; first, members: result of `bodies_by_bearing` for (x, y)
    which: cell as row * columns + column, or index of the body, else 0. Without a hit: (inf, NOTHING, 0)
    """
    end, at_end, which = t_max, NOTHING, 0
    if dz < 0.0 and -z / dz <= end:
        end, at_end = -z / dz, FLOOR
    elif dz > 0.0 and (WALL_HEIGHT_M - z) / dz <= end:
        end, at_end = (WALL_HEIGHT_M - z) / dz, CEILING
    if len(members):
        part = bearing(dx, dy)
        for index in range(first[part], first[part + 1]):
            hit, side = _hit_body(x, y, z, dx, dy, dz, end, bodies, members[index])
            if hit <= end:
                end, at_end, which = hit, BODY_SIDE if side else BODY_LEVEL, members[index]
    rows, columns = gap.shape
    # From here on lengths are in cells; t keeps its scale.
    x, y, dx, dy = x / cell_m, y / cell_m, dx / cell_m, dy / cell_m
    slow_x = 1.0 / dx if dx != 0.0 else NEVER
    slow_y = 1.0 / dy if dy != 0.0 else NEVER
    column, row = math.floor(x), math.floor(y)
    t, across_x = 0.0, True
    while t < end and 0 <= column < columns and 0 <= row < rows:
        reach = np.int64(gap[row, column])
        t_out, next_column, next_row, next_across = stride(x, y, dx, dy, slow_x, slow_y, column, row, max(reach, 1))
        if reach == 0:
            hit, side = _hit_interval(z + dz * t, dz, t, min(t_out, end), low_m, high_m, row, column)
            if hit <= end:
                return hit, (SIDE_X if across_x else SIDE_Y) if side else LEVEL, row * columns + column
        t, column, row, across_x = t_out, next_column, next_row, next_across
    if at_end == NOTHING or t < end:
        return math.inf, NOTHING, 0
    return end, at_end, which


@kernel
def stride(
    x: float, y: float, dx: float, dy: float, slow_x: float, slow_y: float, column: int, row: int, reach: int
) -> tuple[float, int, int, bool]:
    """Return (t, column, row, across x) where a ray leaves the square of `reach` cells around (row, column).

    slow_x, slow_y: 1 / dx and 1 / dy. Rounding never moves a cell index against the ray, so every walk ends.
    """
    t_x = ((column + reach if dx > 0.0 else column - reach + 1) - x) * slow_x if dx != 0.0 else NEVER
    t_y = ((row + reach if dy > 0.0 else row - reach + 1) - y) * slow_y if dy != 0.0 else NEVER
    if t_x <= t_y:
        beside = math.floor(y + dy * t_x)
        beside = min(max(beside, row), row + reach - 1) if dy > 0.0 else max(min(beside, row), row - reach + 1)
        return t_x, column + (reach if dx > 0.0 else -reach), beside, True
    beside = math.floor(x + dx * t_y)
    beside = min(max(beside, column), column + reach - 1) if dx > 0.0 else max(min(beside, column), column - reach + 1)
    return t_y, beside, row + (reach if dy > 0.0 else -reach), False


@kernel
def _hit_interval(
    z_in: float, dz: float, t_in: float, t_out: float, low_m: Heights, high_m: Heights, row: int, column: int
) -> tuple[float, bool]:
    """Return (t, hit on the side) of the first interval that a ray hits in a cell; t is inf without a hit."""
    best, side = math.inf, False
    z_out = z_in + dz * (t_out - t_in)
    for k in range(low_m.shape[2]):
        low, high = low_m[row, column, k], high_m[row, column, k]
        if low <= z_in <= high:
            return t_in, True
        if z_in < low <= z_out:
            best = min(best, t_in + (low - z_in) / dz)
        elif z_in > high >= z_out:
            best = min(best, t_in + (high - z_in) / dz)
    return best, side


@kernel
def _hit_body(
    x: float, y: float, z: float, dx: float, dy: float, dz: float, t_max: float, bodies: Floats, j: int
) -> tuple[float, bool]:
    """Return (t, hit on the side) of a ray and an upright cylinder; t is inf without a hit up to `t_max`."""
    a = dx * dx + dy * dy
    cx, cy, r = bodies[j, 0] - x, bodies[j, 1] - y, bodies[j, 2]
    b = dx * cx + dy * cy
    within = b * b - a * (cx * cx + cy * cy - r * r)
    if within < 0.0 or a == 0.0:
        return math.inf, False
    root = math.sqrt(within)
    t_in, t_out = max((b - root) / a, 0.0), min((b + root) / a, t_max)
    if t_in > t_out:
        return math.inf, False
    z_in, z_out, low, high = z + dz * t_in, z + dz * t_out, bodies[j, 3], bodies[j, 4]
    if low <= z_in <= high:
        return t_in, True
    if z_in < low <= z_out:
        return t_in + (low - z_in) / dz, False
    if z_in > high >= z_out:
        return t_in + (high - z_in) / dz, False
    return math.inf, False


# ---- Missing floors

AT_M = 1e-6
"""Tolerance on the height of a ray above a floor."""


def floor_of(world: World) -> Heights:
    """Return the floor heights of a world for the kernels; an array of shape (0, 0) if all are 0."""
    return np.empty((0, 0), np.float32) if world.floor_m is None else world.floor_m


@kernel
def descend(
    x: float, y: float, z: float, dx: float, dy: float, dz: float, t: float, t_max: float, cell_m: float,
    floor_m: Heights,
) -> float:  # fmt: skip
    """Return t of the floor hit of a ray with height 0 at `t`: at `t` or deeper; inf beyond `t_max`.

    A floor higher than the ray at the cell's edge is hit from the side.
    """
    rows, columns = floor_m.shape
    x, y, dx, dy = x / cell_m, y / cell_m, dx / cell_m, dy / cell_m
    slow_x = 1.0 / dx if dx != 0.0 else math.inf
    slow_y = 1.0 / dy if dy != 0.0 else math.inf
    column, row = math.floor(x + t * dx), math.floor(y + t * dy)
    while 0 <= row < rows and 0 <= column < columns and t <= t_max:
        floor = floor_m[row, column]
        if z + t * dz <= floor + AT_M:
            return t
        t_out, column, row, _ = stride(x, y, dx, dy, slow_x, slow_y, column, row, 1)
        t_floor = (floor - z) / dz
        if t_floor <= t_out:
            return t_floor if t_floor <= t_max else math.inf
        t = t_out
    return math.inf
