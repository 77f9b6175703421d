"""The costmap of a building's map, on the cells of the path search, and its obstacles that a scan has seen through."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from onboard.perception.building.map_image import FREE
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.building.reach import barred, distances, fits
from onboard.policy.dwa.cost_to_go import BORDER, Nearness, Prices
from onboard.policy.dwa.costmap import CELL_M, COARSE, HIDDEN_M, coarse, empty_grid, enter
from onboard.values.kernel import kernel
from onboard.values.messages import BINS, Pose, Scan

Floats32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

ABOUT = round(2.0 / CELL_M)
"""Cells around the robot with fine nearness. The robot drives less than this in a decision and its sequel."""
GAP_M = 0.15
"""The map closes a gap that is wider than the footprint by at most this: the dynamic window does not enter it."""
OPENS_CELLS = round(0.4 / CELL_M)
"""The map does not close ground this near to an obstacle that is gone."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Obstacles of a floor in the frame of its map's grid.

    occupied:   (n, m) bool on cells of CELL_M
    fine:       nearness on the same cells, as of `cost_to_go.Prices`
    coarse:     nearness on cells of COARSE * CELL_M
    first:      first cell (a, b), multiples of COARSE; cell (a, b) covers [a, a + 1) x [b, b + 1) times CELL_M
    first_fine: first cell of `fine`, which may cover only a part of the floor
    """

    occupied: Flags
    fine: Nearness
    coarse: Nearness
    first: tuple[int, int]
    first_fine: tuple[int, int]

    @property
    def corner_xy_m(self) -> tuple[float, float]:
        """Return the corner of the first cell [m]."""
        return self.first[0] * CELL_M, self.first[1] * CELL_M

    @property
    def fine_corner_xy_m(self) -> tuple[float, float]:
        """Return the corner of the first fine cell [m]."""
        return self.first_fine[0] * CELL_M, self.first_fine[1] * CELL_M

    def changed(self, gone: Floats32, new: Floats32, about_xy_m: tuple[float, float], prices: Prices) -> Floor:
        """Return the floor without the obstacles in `gone` and with obstacles in `new`, both cells (k, 2 or more).

        The fine nearness of the result covers only the surroundings of `about_xy_m` and of the changed cells.
        """
        a, b = (math.floor(place / CELL_M) - first for place, first in zip(about_xy_m, self.first, strict=True))
        fine, coarse_, first_a, first_b = _changed(
            self.occupied, self.fine, self.coarse, gone, new, self.first, (a, b), prices.far
        )
        return Floor(self.occupied, fine, coarse_, self.first, (first_a + self.first[0], first_b + self.first[1]))

    def unknown(self, cells: Floats32, gone: Floats32, beyond: int) -> Floats32:
        """Return the obstacle cells of `cells` (k, 2 or more) that the floor does not explain.

        The floor does not explain a cell if its nearest obstacle has a nearness above `beyond`, or if a cell this near
        is in `gone`. The result omits cells outside the floor.
        """
        new: Floats32 = _unknown(self.fine, self.first, cells, gone, beyond)
        return new


@kernel
def _unknown(fine: Nearness, first: tuple[int, int], cells: Floats32, gone: Floats32, beyond: int) -> Floats32:
    reach, (rows, columns) = math.ceil(0.5 * math.sqrt(beyond)), fine.shape
    doubtful = np.zeros(fine.shape, np.bool_)
    for k in range(len(gone)):
        a, b = int(gone[k, 0]) - first[0], int(gone[k, 1]) - first[1]
        doubtful[max(a - reach, 0) : a + reach + 1, max(b - reach, 0) : b + reach + 1] = True
    new, count = np.empty(cells.shape, np.float32), 0
    for k in range(len(cells)):
        a, b = int(cells[k, 0]) - first[0], int(cells[k, 1]) - first[1]
        if 0 <= a < rows and 0 <= b < columns and (fine[a, b] > beyond or doubtful[a, b]):
            new[count] = cells[k]
            count += 1
    return new[:count]


@kernel
def _box_of(
    cells: Floats32, first: tuple[int, int], reach: int, box: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """Return the box (low a, high a, low b, high b), grown to hold the cells and `reach` cells around them."""
    low_a, high_a, low_b, high_b = box
    for k in range(len(cells)):
        a, b = int(cells[k, 0]) - first[0], int(cells[k, 1]) - first[1]
        low_a, high_a = min(low_a, a - reach), max(high_a, a + reach)
        low_b, high_b = min(low_b, b - reach), max(high_b, b + reach)
    return low_a, high_a, low_b, high_b


@kernel
def _changed(
    occupied: Flags, fine: Nearness, coarse_: Nearness, gone: Floats32, new: Floats32, first: tuple[int, int],
    about: tuple[int, int], far: int,
) -> tuple[Nearness, Nearness, int, int]:  # fmt: skip
    """Return the changed floor: nearness on fine cells, nearness on all coarse cells, a and b of the first fine cell.

    The fine cells cover the surroundings of the cell `about` and of the changed cells.
    """
    reach = math.ceil(0.5 * math.sqrt(far))
    box = about[0] - ABOUT, about[0] + ABOUT, about[1] - ABOUT, about[1] + ABOUT
    low_a, high_a, low_b, high_b = _box_of(new, first, reach, _box_of(gone, first, reach, box))
    low_a, low_b = max(low_a, 0) // COARSE * COARSE, max(low_b, 0) // COARSE * COARSE
    high_a = min(high_a // COARSE * COARSE + COARSE, fine.shape[0])
    high_b = min(high_b // COARSE * COARSE + COARSE, fine.shape[1])
    part = fine[low_a:high_a, low_b:high_b].copy()
    if len(gone):
        free, opens = np.zeros(part.shape, np.bool_), OPENS_CELLS
        for k in range(len(gone)):
            a, b = int(gone[k, 0]) - first[0] - low_a, int(gone[k, 1]) - first[1] - low_b
            free[max(a - opens, 0) : a + opens + 1, max(b - opens, 0) : b + opens + 1] = True
        for i in range(part.shape[0]):
            for j in range(part.shape[1]):
                if free[i, j] or part[i, j] > 0:
                    part[i, j] = far
        still = occupied.copy()
        for k in range(len(gone)):
            still[int(gone[k, 0]) - first[0], int(gone[k, 1]) - first[1]] = False
        begin_a, begin_b = max(low_a - reach, 0), max(low_b - reach, 0)
        around = still[begin_a : high_a + reach, begin_b : high_b + reach]
        cells, count = np.empty((around.size, 2), np.float32), 0
        for i in range(around.shape[0]):
            for j in range(around.shape[1]):
                if around[i, j]:
                    cells[count, 0], cells[count, 1] = begin_a + i, begin_b + j
                    count += 1
        enter(part, cells[:count], low_a, low_b, far)
    enter(part, new, low_a + first[0], low_b + first[1], far)
    changed = coarse_.copy()
    for i in range(max(low_a // COARSE, BORDER), min(high_a // COARSE, coarse_.shape[0] - BORDER)):
        for j in range(max(low_b // COARSE, BORDER), min(high_b // COARSE, coarse_.shape[1] - BORDER)):
            most = 0
            for a in range(COARSE * i - low_a, COARSE * i - low_a + COARSE):
                for b in range(COARSE * j - low_b, COARSE * j - low_b + COARSE):
                    most = max(most, part[a, b])
            changed[i, j] = most
    return part, changed, low_a, low_b


def floor_in(grid: OccupancyGrid, prices: Prices, half_width_m: float) -> Floor:
    """Return the floor of a map, in the frame of its grid. Unknown ground is an obstacle, until seen through.

    Its nearness is 0 where the robot has no room by the cells of the map, which are finer, and across narrow gaps.

    half_width_m: of the passage that the footprint needs
    """
    floor = floor_of((grid.percent != FREE).T, (0, 0), grid.cell_m, prices)
    gaps = barred(grid.occupied, grid.cell_m, 2.0 * half_width_m + GAP_M)
    away_m = distances(grid.occupied | gaps, grid.cell_m)
    best_m = np.zeros(floor.fine.shape, np.float32)
    for offset_a, offset_b in ((0.25, 0.25), (0.25, 0.75), (0.75, 0.25), (0.75, 0.75)):
        columns, rows = (
            np.floor((first + np.arange(count) + offset) * CELL_M / grid.cell_m).astype(int).clip(0, most - 1)
            for first, count, offset, most in zip(
                floor.first, floor.fine.shape, (offset_a, offset_b), grid.percent.T.shape, strict=True
            )
        )
        np.maximum(best_m, away_m.T[np.ix_(columns, rows)], out=best_m)
    fine = np.where(fits(best_m, grid.cell_m, half_width_m), floor.fine, np.int16(0))
    return replace(floor, fine=fine, coarse=coarse(fine, prices.closed))


def floor_of(solid: Flags, first: tuple[int, int], cell_m: float, prices: Prices) -> Floor:
    """Return the floor from solid cells (columns, rows) of width cell_m. A solid cell fills the cell at its centre.

    first: first solid cell (column, row) in the map's grid
    """
    span = COARSE * CELL_M
    corner = [COARSE * math.floor(start * cell_m / span) for start in first]
    ends = [(start + count) * cell_m for start, count in zip(first, solid.shape, strict=True)]
    shape = [COARSE * math.ceil(end / span) - start for end, start in zip(ends, corner, strict=True)]
    columns, rows = (
        np.floor((start + np.arange(count) + 0.5) * cell_m / CELL_M).astype(int) - begin
        for start, count, begin in zip(first, solid.shape, corner, strict=True)
    )
    occupied = np.zeros(shape, np.bool_)
    at = np.nonzero(solid)
    occupied[columns[at[0]], rows[at[1]]] = True
    fine = empty_grid((shape[0], shape[1]), prices)
    fine[occupied] = 1
    enter(fine, (np.argwhere(_edge(occupied)) + corner).astype(np.float32), corner[0], corner[1], prices.far)
    first_cell = corner[0], corner[1]
    return Floor(occupied, fine, coarse(fine, prices.closed), first_cell, first_cell)


def _edge(occupied: Flags) -> Flags:
    """Return the occupied cells next to a free cell. Only these can be the nearest obstacle of another cell."""
    padded = np.pad(occupied, 1, constant_values=True)
    inner = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.asarray(occupied & ~inner)


# ---- Map obstacles that are gone, since the scan sees through them

SURE_M = 4.0
"""Largest distance of a refuted obstacle. Farther away, a heading error moves a ray by more than its width."""
BEFORE_M, BESIDE = 0.35, 2
"""The scan sees through a cell if the ranges of its bin and of `BESIDE` bins on each side exceed the cell's distance
by more than `BEFORE_M`.
"""
CAPACITY = 4000
"""Largest number of gone cells."""


def refuted(floor: Floor, gone: Floats32, pose: Pose, scan: Scan) -> Floats32:
    """Return (k, 2) the floor's obstacle cells that this scan or an earlier scan has seen through.

    A gone cell in which a ray ends is an obstacle again. Cells nearer than `HIDDEN_M` are not refuted, since a low
    camera looks under near obstacles.

    gone: (k, 2) cells that earlier scans have seen through
    pose: pose of the robot in the floor's frame
    """
    place = pose.x_m / CELL_M - floor.first[0], pose.y_m / CELL_M - floor.first[1], pose.yaw_rad
    at = (gone - np.array(floor.first, np.float32)).astype(np.int32)
    cells = _seen_through(floor.occupied, at, place, scan.ranges_m, scan.seen)
    return np.asarray(cells + np.array(floor.first), np.float32)


@kernel
def _seen_through(
    occupied: Flags, gone: npt.NDArray[np.int32], place: tuple[float, float, float], ranges_m: Floats32, looked: Flags
) -> npt.NDArray[np.int32]:  # pragma: no cover - compiled
    """Return (k, 2) indices of the gone cells, see `refuted`.

    place: x and y of the robot, in cells from the corner of the first cell, and yaw [rad]
    """
    x, y, yaw_rad = place
    rows, columns = occupied.shape
    ranges = np.where(looked, ranges_m, np.float32(0.0))  # a blind bin sees through nothing
    reach, bin_rad = math.ceil(SURE_M / CELL_M), 2.0 * math.pi / BINS
    free, count = np.zeros((rows, columns), np.bool_), len(gone)
    cells = np.empty((len(gone) + (2 * reach + 1) ** 2, 2), np.int32)
    for k in range(len(gone)):
        free[gone[k, 0], gone[k, 1]] = True
        cells[k] = gone[k]
    for i in range(max(0, int(x) - reach), min(rows, int(x) + reach + 1)):
        for j in range(max(0, int(y) - reach), min(columns, int(y) + reach + 1)):
            if not occupied[i, j] or free[i, j]:
                continue
            dx, dy = i + 0.5 - x, j + 0.5 - y
            away_m = CELL_M * math.sqrt(dx * dx + dy * dy)
            k = math.floor((math.atan2(dy, dx) - yaw_rad + math.pi) / bin_rad) % BINS
            seen_m = ranges[k] - BEFORE_M
            for beside in range(1, BESIDE + 1):
                seen_m = min(seen_m, ranges[k - beside] - BEFORE_M, ranges[(k + beside) % BINS] - BEFORE_M)
            if HIDDEN_M < away_m < min(seen_m, SURE_M):
                free[i, j], cells[count, 0], cells[count, 1] = True, i, j
                count += 1
    for k in range(BINS):
        azimuth = yaw_rad - math.pi + (k + 0.5) * bin_rad
        i, j = x + ranges[k] / CELL_M * math.cos(azimuth), y + ranges[k] / CELL_M * math.sin(azimuth)
        if 0.0 < ranges[k] < SURE_M and 0 <= i < rows and 0 <= j < columns:
            free[int(i), int(j)] = False
    kept = 0
    for k in range(count):
        if free[cells[k, 0], cells[k, 1]]:
            cells[kept] = cells[k]
            kept += 1
    return cells[: min(kept, CAPACITY)]
