"""The part of a map around what a session went through."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.map_files import load_map
from hil.report.story import Floats
from onboard.config import ScanSection
from onboard.messages import Pose

MARGIN_M = 3.0
CELLS_AT_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Building:
    """Part of a map: walls (rows, columns) of cells, and the pose of the corner of row 0 and column 0 in the map."""

    name: str
    cell_m: float
    corner: Pose
    walls: npt.NDArray[np.bool_]


def building_around(map_name: str, shown_m: Floats, section: ScanSection) -> Building:
    """Return what of a map's walls stands at the heights of a scan, around points (n, 2) of the map frame [m].

    Cells become twice as large until they are few enough. Raises InputError for a map that cannot be read.
    """
    world = load_map(map_name)
    walls = world.overlapping(section.z_min_m, section.z_max_m)
    whole = Building(world.name, world.cell_m, world.map_from_grid, walls)
    return _coarse(_cut(whole, shown_m))


def share_within(building: Building, points_m: Floats) -> float:
    """Return which part of some points (n, 2) of the map frame lies on the map; all of none."""
    if not len(points_m):
        return 1.0
    cells = _in_grid(building, points_m)
    return float(((cells >= 0) & (cells <= building.walls.shape[::-1])).all(axis=1).mean())


def _in_grid(building: Building, points_m: Floats) -> Floats:
    """Return points of the map frame as column and row."""
    corner = building.corner
    c, s = math.cos(corner.yaw_rad), math.sin(corner.yaw_rad)
    return np.asarray((points_m - [corner.x_m, corner.y_m]) @ np.array([[c, -s], [s, c]]) / building.cell_m)


def _cut(building: Building, shown_m: Floats) -> Building:
    """Return the part around some points; all of it where none of them is near."""
    if not len(shown_m):
        return building
    cells, margin = _in_grid(building, shown_m), MARGIN_M / building.cell_m
    size = np.array(building.walls.shape[::-1])
    left, bottom = np.clip(np.floor(cells.min(axis=0) - margin), 0, size).astype(int).tolist()
    right, top = np.clip(np.ceil(cells.max(axis=0) + margin), 0, size).astype(int).tolist()
    if right <= left or top <= bottom:
        return building
    corner, x, y = building.corner, left * building.cell_m, bottom * building.cell_m
    c, s = math.cos(corner.yaw_rad), math.sin(corner.yaw_rad)
    moved = Pose(corner.x_m + c * x - s * y, corner.y_m + s * x + c * y, corner.yaw_rad)
    return Building(building.name, building.cell_m, moved, building.walls[bottom:top, left:right])


def _coarse(building: Building) -> Building:
    walls, cell_m = building.walls, building.cell_m
    while walls.size > CELLS_AT_MOST:
        even = np.pad(walls, [(0, size % 2) for size in walls.shape])
        walls = even[::2, ::2] | even[1::2, ::2] | even[::2, 1::2] | even[1::2, 1::2]
        cell_m *= 2.0
    return Building(building.name, cell_m, building.corner, walls)
