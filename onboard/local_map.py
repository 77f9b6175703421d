"""A small window of remembered obstacles about the robot, and the cost of going through it to the goal.

The window moves with the robot over a fixed grid in the start frame. A cell remembers that something stood in it until
it is seen free, or for `LIFE_DECISIONS` decisions. What was never seen counts as free: the way is planned through it,
and planned again when it proves shut. This is no localisation and no building's map: what leaves the window is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard.cost_field import BORDER, CostField, Nearness, make_prices, refine, solve
from onboard.messages import BINS, Pose, Scan
from onboard.scan_points import HIDDEN_M

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

CELL_M = 0.1
SIDE = 240
"""Cells along one side of the window: 24 m."""
CAPACITY = 6000
"""Cells that are remembered at most; beyond them the longest known are forgotten first."""
COARSE = 2
"""The way is sought on cells so many times as wide."""
EDGE_CELLS = 4
"""The map's own cells are looked at so far around the places asked for."""
LIFE_DECISIONS = 360
"""Two minutes at 3 Hz."""

SEE_M = 6.0
"""Returns from farther away are not entered: one bin is then wider than two cells."""
CLEAR_BEFORE_M = 0.15
"""A cell is seen free when it lies this much before the nearest return of its bin and of both neighbours."""
FREE_FAR = 1.0
FREE_NEAR = 1.0 / 20.0
"""Evidence lost by a cell that is seen free: all of it, or near, where a look says little, a twentieth."""
STAND_FRACTION = 0.6
"""Cells within this part of the footprint's radius are free: the robot stands there."""


@dataclass(frozen=True, slots=True)
class LocalMap:
    """The remembered obstacles, the longest known first.

    cells: (k, 3) float32 a, b, evidence in (0, 1]; cell (a, b) covers [a, a + 1) x [b, b + 1) times CELL_M of the start
           frame
    """

    cells: Floats32

    def centres(self) -> Floats:
        """Return (k, 2): the cells' centres in the start frame [m]."""
        return np.asarray((self.cells[:, :2] + 0.5) * CELL_M, np.float64)


EMPTY = LocalMap(np.empty((0, 3), np.float32))


def observed(known: LocalMap, pose: Pose, scan: Scan, radius_m: float) -> LocalMap:
    """Return the map after one scan from a pose: a decision older, cells freed or marked, the window about the pose.

    radius_m: of the robot's footprint
    """
    place = pose.x_m / CELL_M, pose.y_m / CELL_M, pose.yaw_rad
    return LocalMap(_entered(known.cells, place, scan.ranges_m, scan.seen, radius_m / CELL_M))


class WayFinder:
    """Finds the way through a local map for one footprint."""

    def __init__(self, radius_m: float) -> None:
        self._prices = make_prices(radius_m, CELL_M)

    def cost_to_go(self, known: LocalMap, pose: Pose, goal_xy_m: tuple[float, float], places_xy_m: Floats) -> CostField:
        """Return the length of the cheapest way to the goal from where it is asked for, in metres of free space.

        The way is sought on coarse cells of the window about the pose, from a goal outside of it straight to its edge;
        then the last of it, to the places (k, 2), on the map's own cells. A coarse cell costs what the best of its
        cells does: so it shuts no passage that these leave open, and opens none in a wall.
        """
        wide_m, half = COARSE * CELL_M, SIDE // COARSE // 2 + BORDER
        i, j = math.floor(pose.x_m / wide_m) - half, math.floor(pose.y_m / wide_m) - half
        a, b, rows, columns = _cells_about(places_xy_m)
        far, closed = self._prices.far, self._prices.closed
        fine = _nearness(known.cells, (i * COARSE, j * COARSE), 2 * half * COARSE, far)
        robot = pose.x_m, pose.y_m
        window = solve(_best_of(fine, closed), self._prices, (i * wide_m, j * wide_m), wide_m, goal_xy_m, robot)
        patch = _cut(fine, a - i * COARSE, b - j * COARSE, rows, columns, far, closed)
        return refine(patch, self._prices, (a * CELL_M, b * CELL_M), CELL_M, goal_xy_m, window)


@njit(cache=True, nogil=True)
def _cells_about(places_m: Floats) -> tuple[int, int, int, int]:  # pragma: no cover - compiled
    """Return the first cell (a, b) and the rows and columns of a patch about places."""
    low_x, high_x, low_y, high_y = math.inf, -math.inf, math.inf, -math.inf
    for k in range(len(places_m)):
        low_x, high_x = min(low_x, places_m[k, 0]), max(high_x, places_m[k, 0])
        low_y, high_y = min(low_y, places_m[k, 1]), max(high_y, places_m[k, 1])
    a, b = math.floor(low_x / CELL_M) - EDGE_CELLS, math.floor(low_y / CELL_M) - EDGE_CELLS
    return a, b, math.ceil(high_x / CELL_M) + EDGE_CELLS - a, math.ceil(high_y / CELL_M) + EDGE_CELLS - b


@njit(cache=True, nogil=True)
def _nearness(cells: Floats32, corner: tuple[int, int], side: int, far: int) -> Nearness:  # pragma: no cover - compiled
    """Return (side, side) the nearness of the cells from a corner on, from centre to centre (`cost_field.Prices`)."""
    near = np.full((side, side), np.int16(far))
    reach = math.ceil(0.5 * math.sqrt(far))
    halves = np.empty(2 * reach + 1, np.int64)
    for n in range(2 * reach + 1):
        halves[n] = int(math.sqrt(max(0.0, 0.25 * far - (n - reach) ** 2)))
    for k in range(len(cells)):
        a, b = int(cells[k, 0]) - corner[0], int(cells[k, 1]) - corner[1]
        for i in range(max(0, a - reach), min(side, a + reach + 1)):
            across, half = 4 * (i - a) * (i - a), halves[i - a + reach]
            for j in range(max(0, b - half), min(side, b + half + 1)):
                near[i, j] = min(near[i, j], np.int16(across + 4 * (j - b) * (j - b)))
    return near


@njit(cache=True, nogil=True)
def _best_of(near: Nearness, closed: int) -> Nearness:  # pragma: no cover - compiled
    """Return the nearness of coarse cells, that of their best cell, within a closed border."""
    side = near.shape[0] // COARSE
    best = np.full((side, side), np.int16(closed))
    for i in range(BORDER, side - BORDER):
        for j in range(BORDER, side - BORDER):
            most = near[COARSE * i, COARSE * j]
            for a in range(COARSE):
                for b in range(COARSE):
                    most = max(most, near[COARSE * i + a, COARSE * j + b])
            best[i, j] = most
    return best


@njit(cache=True, nogil=True)
def _cut(
    near: Nearness, first_a: int, first_b: int, rows: int, columns: int, far: int, closed: int
) -> Nearness:  # pragma: no cover - compiled
    """Return a patch of a grid within a closed border; what lies outside of the grid is far from everything."""
    patch = np.full((rows, columns), np.int16(closed))
    for i in range(BORDER, rows - BORDER):
        for j in range(BORDER, columns - BORDER):
            a, b = i + first_a, j + first_b
            inside = 0 <= a < near.shape[0] and 0 <= b < near.shape[1]
            patch[i, j] = near[a, b] if inside else far
    return patch


@njit(cache=True, nogil=True)
def _entered(
    cells: Floats32, place: tuple[float, float, float], ranges_m: Floats32, looked: Flags, radius: float
) -> Floats32:  # pragma: no cover - compiled
    """Return the cells after a scan from a place; that and the radius are in cells."""
    x, y, yaw_rad = place
    ranges = np.where(looked, ranges_m, np.float32(0.0))  # of blind bins nothing is known
    corner_a, corner_b = math.floor(x) - SIDE // 2, math.floor(y) - SIDE // 2
    kept, count = np.empty((len(cells) + BINS, 3), np.float32), 0
    where = np.full((SIDE, SIDE), np.int16(-1))
    for k in range(max(0, len(cells) + BINS - CAPACITY), len(cells)):
        a, b, left = int(cells[k, 0]), int(cells[k, 1]), cells[k, 2] - 1.0 / LIFE_DECISIONS
        i, j = a - corner_a, b - corner_b
        if 0 <= i < SIDE and 0 <= j < SIDE and left > 0.0:
            left -= _lost(a + 0.5 - x, b + 0.5 - y, yaw_rad, ranges, radius)
            if left > 0.0:
                kept[count, 0], kept[count, 1], kept[count, 2], where[i, j] = a, b, left, count
                count += 1
    for k in range(BINS):
        if 0.0 < ranges[k] < SEE_M:
            azimuth = yaw_rad - math.pi + (k + 0.5) * 2.0 * math.pi / BINS
            a = math.floor(x + ranges[k] / CELL_M * math.cos(azimuth))
            b = math.floor(y + ranges[k] / CELL_M * math.sin(azimuth))
            i, j = a - corner_a, b - corner_b
            if where[i, j] < 0:
                kept[count, 0], kept[count, 1], where[i, j] = a, b, count
                count += 1
            kept[where[i, j], 2] = 1.0
    return kept[:count]


@njit(cache=True, nogil=True)
def _lost(dx: float, dy: float, yaw_rad: float, ranges: Floats32, radius: float) -> float:  # pragma: no cover
    """Return the evidence that a scan takes from a cell at (dx, dy) from the robot, in cells."""
    distance = math.sqrt(dx * dx + dy * dy)
    if distance < STAND_FRACTION * radius:
        return 1.0
    if distance * CELL_M >= SEE_M:
        return 0.0
    k = math.floor((math.atan2(dy, dx) - yaw_rad + math.pi) / (2.0 * math.pi / BINS)) % BINS
    free_m = min(ranges[k - 1], ranges[k], ranges[(k + 1) % BINS]) - CLEAR_BEFORE_M
    if distance * CELL_M >= free_m:
        return 0.0
    return FREE_NEAR if distance * CELL_M < HIDDEN_M else FREE_FAR
