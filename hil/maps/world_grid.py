"""The world: a building as a grid of vertical intervals.

Walls reach from the floor to `WALL_HEIGHT_M`. Unknown cells of a pgm are walls. Cells outside the building of a vector
map are open ground. Every grid has a border of wall, one cell thick.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.maps.cell_kernels import chessboard_distance
from onboard.perception.building.map_image import MAX_COORDINATE_M
from onboard.values.errors import InputError
from onboard.values.geometry import apply, inverse
from onboard.values.messages import Pose

CELL_M = 0.05
"""Cell size of vector maps, and upper limit for all worlds; the cells of a coarser pgm are subdivided."""
WALL_HEIGHT_M = 2.5
INTERVALS = 2
"""Vertical intervals per cell: objects on the floor, and objects above it."""


@dataclass(frozen=True, slots=True)
class World:
    """A building as a grid. Cell (row, column) covers [column, column + 1) x [row, row + 1) cells of the grid frame.

    map_from_grid: pose of the grid's corner (row 0, column 0) in the map frame
    low_m, high_m: (rows, columns, intervals) float32; solid from low to high; an unused interval is (inf, -inf) [m]
    gap:           (rows, columns) uint8; chessboard distance to the nearest cell that is not empty, at most 255
    material:      (rows, columns) uint8; material of the cell's contents, an index into `materials.MATERIALS`
    yard:          whether the grid contains open ground outside the building
    unseen:        (rows, columns) bool, free cells that may be unknown ground, for no start and goal; None means none
    floor_m:       (rows, columns) float32, height of the floor, at most 0 (`hil/sensors/raycast.py`) [m]; None means
                   0 everywhere
    read_as:       how the map's file was read, for the message that it has no room to drive; "" if there is only one
    """

    name: str
    cell_m: float
    map_from_grid: Pose
    low_m: npt.NDArray[np.float32]
    high_m: npt.NDArray[np.float32]
    gap: npt.NDArray[np.uint8]
    material: npt.NDArray[np.uint8]
    yard: bool = False
    floor_m: npt.NDArray[np.float32] | None = None
    unseen: npt.NDArray[np.bool_] | None = None
    read_as: str = ""

    @property
    def grid_from_map(self) -> Pose:
        """Pose of the map frame in the grid frame."""
        return inverse(self.map_from_grid)

    def overlapping(self, low_m: float, high_m: float) -> npt.NDArray[np.bool_]:
        """Return (rows, columns) bool: cells that are solid at some height in [low, high]."""
        return np.asarray(((self.low_m <= high_m) & (self.high_m >= low_m)).any(axis=2))

    def cell_of(self, xy_map_m: tuple[float, float]) -> tuple[int, int]:
        """Return (row, column) of the cell of a point in the map frame; the cell may lie outside the grid."""
        x, y = apply(self.grid_from_map, xy_map_m)
        return math.floor(y / self.cell_m), math.floor(x / self.cell_m)

    def cells_of(self, xy_map_m: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return (...) rows and (...) columns of the cells of (..., 2) points in the map frame."""
        grid, (x_m, y_m) = self.grid_from_map, np.moveaxis(xy_map_m, -1, 0)
        c, s = math.cos(grid.yaw_rad), math.sin(grid.yaw_rad)
        rows, columns = grid.y_m + s * x_m + c * y_m, grid.x_m + c * x_m - s * y_m
        return np.floor(rows / self.cell_m).astype(np.int64), np.floor(columns / self.cell_m).astype(np.int64)

    def centre_of(self, cell: tuple[int, int]) -> tuple[float, float]:
        """Return the centre of a cell (row, column) in the map frame [m]."""
        return apply(self.map_from_grid, ((cell[1] + 0.5) * self.cell_m, (cell[0] + 0.5) * self.cell_m))


def make_world(
    name: str,
    cell_m: float,
    map_from_grid: Pose,
    low_m: npt.NDArray[np.float32],
    high_m: npt.NDArray[np.float32],
    yard: bool = False,
    material: npt.NDArray[np.uint8] | None = None,
) -> World:
    """Return the world with its derived arrays. Without `material`, all cells have the wall material."""
    gap = chessboard_distance(np.asarray((high_m >= low_m).any(axis=2)))
    painted = np.zeros(gap.shape, np.uint8) if material is None else material
    return World(name, cell_m, map_from_grid, low_m, high_m, gap, painted, yard)


def world_of_walls(
    name: str, cell_m: float, map_from_grid: Pose, wall: npt.NDArray[np.bool_], yard: bool = False
) -> World:
    """Return the world whose True cells are walls, with a border of wall one cell thick."""
    closed = np.pad(wall, 1, constant_values=True)
    corner = apply(map_from_grid, (-cell_m, -cell_m))
    low = np.full((*closed.shape, INTERVALS), np.inf, np.float32)
    high = np.full((*closed.shape, INTERVALS), -np.inf, np.float32)
    low[closed, 0], high[closed, 0] = 0.0, WALL_HEIGHT_M
    return make_world(name, cell_m, Pose(*corner, map_from_grid.yaw_rad), low, high, yard)


def check_coordinates(where: str, coordinates_m: npt.NDArray[np.float64]) -> None:
    """Raise InputError, beginning with `where`, when a coordinate is not finite or beyond `MAX_COORDINATE_M`."""
    if not np.isfinite(coordinates_m).all():
        raise InputError(f"{where}: coordinates must be finite")
    furthest_m = np.abs(coordinates_m).max(initial=0.0)
    if furthest_m > MAX_COORDINATE_M:
        raise InputError(f"{where}: a coordinate of {furthest_m:.9g} m, the limit is {MAX_COORDINATE_M:.9g} m")
