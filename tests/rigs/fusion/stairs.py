"""Stairs down: floors that are missing in a world, for depth cameras to detect."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hil.maps.world_grid import World
from onboard.values.geometry import apply, inverse
from onboard.values.messages import Pose

RISE_M, RUN_M = 0.17, 0.29
"""Height and depth of an ordinary step."""


def stairs_down(
    world: World, edge: Pose, width_m: float = 1.2, steps: int = 10, rise_m: float = RISE_M, run_m: float = RUN_M
) -> World:
    """Return the world with stairs down. A cell has the floor height of the step at its centre.

    edge: middle of the upper edge in the map frame; its yaw points down the stairs. Solid cells there stay solid.
    """
    rows, columns = world.gap.shape
    row, column = np.indices((rows, columns), np.float64)
    x_m, y_m = apply_all(world.map_from_grid, (column + 0.5) * world.cell_m, (row + 0.5) * world.cell_m)
    down_m, aside_m = apply_all(inverse(edge), x_m, y_m)
    covered = (down_m >= 0.0) & (down_m < steps * run_m) & (np.abs(aside_m) < 0.5 * width_m)
    floor_m = np.zeros((rows, columns), np.float32) if world.floor_m is None else world.floor_m.copy()
    floor_m[covered] = -rise_m * (np.floor(down_m[covered] / run_m) + 1.0)
    return replace(world, floor_m=floor_m)


def to_drop_m(world: World, pose: Pose) -> float:
    """Return the distance of a point in the map frame to the nearest missing floor [m]: 0 over it, inf without any."""
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
    """Return points, given as two arrays, in another frame: `geometry.apply` for arrays."""
    c, s = math.cos(target_from_source.yaw_rad), math.sin(target_from_source.yaw_rad)
    return target_from_source.x_m + c * x_m - s * y_m, target_from_source.y_m + s * x_m + c * y_m
