"""A local costmap: a window of remembered obstacles around the robot, and the cost to go through it to the goal.

The window moves with the robot over a fixed grid in the start frame. A cell keeps an obstacle until it is seen free, or
for `LIFE_DECISIONS` decisions. Unknown cells count as free: the path goes through them and is planned again when they
prove closed. This is neither a localisation nor a map: cells outside the window are lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.policy.dwa.cost_to_go import BORDER, CostField, make_prices, solve
from onboard.policy.dwa.inflation import COARSE, coarse, empty_grid, enter, near_robot
from onboard.policy.dwa.obstacle_points import HIDDEN_M
from onboard.values.kernel import kernel
from onboard.values.messages import BINS, Pose, Scan, bins_within

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

CELL_M = 0.1
SIDE = 240
"""Cells along one side of the window: 24 m."""
CAPACITY = 6000
"""Capacity in cells; the oldest are dropped first."""
LIFE_DECISIONS = 360
"""Two minutes at 3 Hz."""

SEE_M = 6.0
"""Farther returns are not entered: there a bin is wider than two cells."""
CLEAR_BEFORE_M = 0.15
NEIGHBOURS = bins_within(2.0)
"""A cell is seen free when it lies this far before the nearest return of its bin and of its neighbours."""
FREE_FAR = 1.0
FREE_NEAR = 1.0 / 20.0
"""Evidence that a cell loses when seen free: all, or a twentieth near by, where cameras see little."""
STAND_FRACTION = 0.6
"""Cells within this fraction of the footprint's radius are free, as the robot stands there."""


@dataclass(frozen=True, slots=True)
class LocalMap:
    """The remembered obstacles, the oldest first.

    cells: (k, 3) float32 a, b, evidence in (0, 1]; cell (a, b) covers [a, a + 1) x [b, b + 1) times CELL_M of the start
           frame
    """

    cells: Floats32

    def centres(self) -> Floats:
        """Return (k, 2): the cells' centres in the start frame [m]."""
        return np.asarray((self.cells[:, :2] + 0.5) * CELL_M, np.float64)


EMPTY = LocalMap(np.empty((0, 3), np.float32))


def observed(known: LocalMap, pose: Pose, scan: Scan, radius_m: float) -> LocalMap:
    """Return the map after one scan from a pose: cells aged, freed or marked, and the window moved to the pose.

    radius_m: of the circle about the origin inside the footprint
    """
    place = pose.x_m / CELL_M, pose.y_m / CELL_M, pose.yaw_rad
    return LocalMap(_entered(known.cells, place, scan.ranges_m, scan.seen, radius_m / CELL_M))


class WayFinder:
    """Plans through a local map for one footprint, by the radius of the circle inside it."""

    def __init__(self, radius_m: float) -> None:
        self._prices = make_prices(radius_m, CELL_M)

    def cost_to_go(self, known: LocalMap, pose: Pose, goal_xy_m: tuple[float, float], places_xy_m: Floats) -> CostField:
        """Return the cost to go to the goal around the places (k, 2), in metres of free space.

        Outside the window, the path to the goal is a straight line from the window's edge.
        """
        wide_m, half = COARSE * CELL_M, SIDE // COARSE // 2 + BORDER
        i, j = math.floor(pose.x_m / wide_m) - half, math.floor(pose.y_m / wide_m) - half
        near = empty_grid((2 * half * COARSE, 2 * half * COARSE), self._prices)
        enter(near, known.cells, i * COARSE, j * COARSE, self._prices.far)
        corner_xy_m, robot = (i * wide_m, j * wide_m), (pose.x_m, pose.y_m)
        window = solve(coarse(near, self._prices.closed), self._prices, corner_xy_m, wide_m, goal_xy_m, robot)
        return near_robot(near, self._prices, corner_xy_m, goal_xy_m, window, places_xy_m)


@kernel
def _entered(
    cells: Floats32, place: tuple[float, float, float], ranges_m: Floats32, looked: Flags, radius: float
) -> Floats32:  # pragma: no cover - compiled
    """Return the cells after a scan from a place; place and radius are in cells."""
    x, y, yaw_rad = place
    ranges = np.where(looked, ranges_m, np.float32(0.0))  # blind bins are unknown
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


@kernel
def _lost(dx: float, dy: float, yaw_rad: float, ranges: Floats32, radius: float) -> float:  # pragma: no cover
    """Return the evidence that a cell at (dx, dy) [cells] from the robot loses by a scan."""
    distance = math.sqrt(dx * dx + dy * dy)
    if distance < STAND_FRACTION * radius:
        return 1.0
    if distance * CELL_M >= SEE_M:
        return 0.0
    k = math.floor((math.atan2(dy, dx) - yaw_rad + math.pi) / (2.0 * math.pi / BINS)) % BINS
    nearest_m = ranges[k]
    for side in range(-NEIGHBOURS, NEIGHBOURS + 1):
        nearest_m = min(nearest_m, ranges[(k + side) % BINS])
    free_m = nearest_m - CLEAR_BEFORE_M
    if distance * CELL_M >= free_m:
        return 0.0
    return FREE_NEAR if distance * CELL_M < HIDDEN_M else FREE_FAR
