"""Floors that are missing: stairs down, for depth cameras to see and robots to stay away from.

What stands on the floor and what bodies do know nothing of them: a robot drives over the edge as if there were a floor,
and whoever drives it there asks `to_drop_m` how near it came. Scans that are cast without images do not show them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from numba import njit

from hil.maps import World
from hil.tracing import stride
from onboard.geometry import apply, inverse
from onboard.messages import Pose

RISE_M, RUN_M = 0.17, 0.29
"""Of an ordinary step."""
AT_M = 1e-6
"""A ray this little above a floor is on it."""

Heights = npt.NDArray[np.float32]


def stairs_down(
    world: World, edge: Pose, width_m: float = 1.2, steps: int = 10, rise_m: float = RISE_M, run_m: float = RUN_M
) -> World:
    """Return the world with stairs that lead down; every cell whose centre they cover is a whole step of them.

    edge: the middle of the upper edge in the map frame; its yaw is the way down. What stood there stands on.
    """
    rows, columns = world.gap.shape
    row, column = np.indices((rows, columns))
    x_m, y_m = apply_all(world.map_from_grid, (column + 0.5) * world.cell_m, (row + 0.5) * world.cell_m)
    down_m, aside_m = apply_all(inverse(edge), x_m, y_m)
    covered = (down_m >= 0.0) & (down_m < steps * run_m) & (np.abs(aside_m) < 0.5 * width_m)
    floor_m = np.zeros((rows, columns), np.float32) if world.floor_m is None else world.floor_m.copy()
    floor_m[covered] = -rise_m * (np.floor(down_m[covered] / run_m) + 1.0)
    return replace(world, floor_m=floor_m)


def to_drop_m(world: World, pose: Pose) -> float:
    """Return how far a point of the map frame is from the nearest missing floor [m]: 0 over it, inf without any."""
    if world.floor_m is None or not (world.floor_m < 0.0).any():
        return math.inf
    x_m, y_m = apply(world.grid_from_map, (pose.x_m, pose.y_m))
    row, column = np.nonzero(world.floor_m < 0.0)
    beside_m = np.maximum(np.abs(x_m - (column + 0.5) * world.cell_m) - 0.5 * world.cell_m, 0.0)
    before_m = np.maximum(np.abs(y_m - (row + 0.5) * world.cell_m) - 0.5 * world.cell_m, 0.0)
    return float(np.hypot(beside_m, before_m).min())


def apply_all(
    target_from_source: Pose, x_m: npt.NDArray[np.float64], y_m: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the points of two arrays in another frame, as `geometry.apply` does with one."""
    c, s = math.cos(target_from_source.yaw_rad), math.sin(target_from_source.yaw_rad)
    return target_from_source.x_m + c * x_m - s * y_m, target_from_source.y_m + s * x_m + c * y_m


def floor_of(world: World) -> Heights:
    """Return the heights of a world's floor for the kernels, (0, 0) where it is 0 everywhere."""
    return np.empty((0, 0), np.float32) if world.floor_m is None else world.floor_m


@njit(cache=True, nogil=True)
def descend(
    x: float, y: float, z: float, dx: float, dy: float, dz: float, t: float, t_max: float, cell_m: float,
    floor_m: Heights,
) -> float:  # fmt: skip
    """Return where a ray that is at the height 0 at `t` ends: on the floor there, or deeper; inf beyond `t_max`.

    A floor higher than the ray where it comes in is met from the side.
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
