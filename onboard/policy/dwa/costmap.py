"""A local costmap: a window of remembered obstacles around the robot, and the cost to go through it to the goal.

The window moves with the robot over a fixed grid in the start frame. A cell keeps an obstacle until it is seen free, or
for `LIFE_DECISIONS` decisions. Unknown cells count as free: the path goes through them and is planned again when they
prove closed. This is neither a localisation nor a map: cells outside the window are lost.

Obstacles are inflated into grids of nearness, the input of `onboard/policy/dwa/cost_to_go.py`. The path is planned on
coarse cells, and near the robot on fine cells. A coarse cell has the price of its best fine cell: it closes no open
passage, and opens none in a wall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.perception.collision import BIN_CENTERS_RAD, UNIT
from onboard.policy.dwa.cost_to_go import (
    BORDER,
    LETHAL_M,
    SOLID_M,
    CostField,
    Nearness,
    Prices,
    make_prices,
    refine,
    solve,
)
from onboard.policy.dwa.failed_gaps import NONE_FAILED, Failures
from onboard.values.kernel import kernel
from onboard.values.messages import BINS, Pose, Scan, bins_within

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

# ---- Obstacle points of a scan: visible obstacles, and possible obstacles where no camera looks

HIDDEN_M = 1.6
"""Nearer than this, a low camera does not see an obstacle that hangs at the robot's height."""
SAME_M = 0.1
"""A remembered cell this near to a visible return is the same obstacle: its centre closes gaps by up to half a cell."""
MOST_BESIDE = 30
BLIND_M = 0.10
"""In blind bins an obstacle is assumed at this distance beyond the footprint."""
AHEAD_BINS: npt.NDArray[np.bool_] = np.abs(BIN_CENTERS_RAD) < 0.35
"""The robot is blind ahead if all these bins are blind."""


def seen_or_known(scan: Scan, radius_m: float) -> npt.NDArray[np.bool_]:
    """Return (180,) bool, bins that a camera sees, or saw free a moment ago beyond the footprint.

    radius_m: of the circle that holds the footprint
    """
    known = np.isfinite(scan.ranges_m) & (scan.ranges_m > radius_m + BLIND_M)
    return np.asarray(scan.seen | known)


def blind_ahead(scan: Scan) -> bool:
    """Return whether no camera looks ahead, and the scan does not tell how far known ground reaches there."""
    return not (scan.seen | np.isfinite(scan.ranges_m))[AHEAD_BINS].any()


def obstacle_points(
    scan: Scan, pose: Pose, remembered: Floats, look_m: float, radius_m: float
) -> tuple[Floats, Floats]:
    """Return visible and possible obstacles as points (k, 2) in the frame of the pose, all nearer than `look_m`.

    Possible obstacles are a point in every blind bin, and remembered places (n, 2) in a blind bin or nearer than
    `HIDDEN_M`. The point is where the ground ends that was seen free a moment ago
    (`free_ground.with_unknown_ground`), at least `BLIND_M` beyond the radius.

    radius_m: of the circle that holds the footprint
    """
    place = pose.x_m, pose.y_m, pose.yaw_rad
    seen, unseen = _points(scan.ranges_m, scan.seen, remembered, place, look_m, radius_m + BLIND_M)
    return seen, unseen


@kernel
def _points(
    ranges_m: npt.NDArray[np.float32], looked: npt.NDArray[np.bool_], remembered: Floats,
    place: tuple[float, float, float], look_m: float, guard_m: float,
) -> tuple[Floats, Floats]:  # fmt: skip  # pragma: no cover - compiled
    x_m, y_m, yaw_rad = place
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    seen, unseen = np.empty((BINS, 2)), np.empty((BINS + len(remembered), 2))
    n, m = 0, 0
    for k in range(BINS):
        dx, dy = UNIT[k, 0], UNIT[k, 1]
        dx, dy = c * dx - s * dy, s * dx + c * dy
        if not looked[k]:
            far_m = max(guard_m, ranges_m[k]) if math.isfinite(ranges_m[k]) else guard_m
            if far_m < look_m:
                unseen[m, 0], unseen[m, 1] = x_m + far_m * dx, y_m + far_m * dy
                m += 1
        elif ranges_m[k] < look_m:
            seen[n, 0], seen[n, 1] = x_m + ranges_m[k] * dx, y_m + ranges_m[k] * dy
            n += 1
    for k in range(len(remembered)):
        dx, dy = remembered[k, 0] - x_m, remembered[k, 1] - y_m
        squared_m2 = dx * dx + dy * dy
        if squared_m2 < look_m * look_m:
            azimuth = math.atan2(dy, dx) - yaw_rad + math.pi
            at = math.floor(azimuth / (2.0 * math.pi / BINS)) % BINS
            hidden = squared_m2 < HIDDEN_M * HIDDEN_M and not _is_seen(ranges_m, looked, at, azimuth, squared_m2)
            if hidden or not looked[at]:
                unseen[m] = remembered[k]
                m += 1
    return seen[:n], unseen[:m]


@kernel
def _is_seen(
    ranges_m: npt.NDArray[np.float32], looked: npt.NDArray[np.bool_], at: int, azimuth: float, squared_m2: float
) -> bool:  # pragma: no cover - compiled
    """Return whether a scan has a return within `SAME_M` of a place in bin `at`: it measures the obstacle there better
    than the cell's centre."""
    step, away_m = 2.0 * math.pi / BINS, math.sqrt(squared_m2)
    wide = min(MOST_BESIDE, int(SAME_M / (max(away_m, SAME_M) * step)) + 1)
    for side in range(-wide, wide + 1):
        k = (at + side) % BINS
        if looked[k] and abs(ranges_m[k] - away_m) < SAME_M:
            off = (math.floor(azimuth / step) + side + 0.5) * step - azimuth
            square = ranges_m[k] * ranges_m[k] + squared_m2 - 2.0 * ranges_m[k] * away_m * math.cos(off)
            if square < SAME_M * SAME_M:
                return True
    return False


# ---- Inflation of obstacle cells into grids of nearness

COARSE = 2
"""Width of a coarse cell in fine cells."""
EDGE_CELLS = 4
"""Margin of the fine patch around the requested places."""


def empty_grid(shape: tuple[int, int], prices: Prices) -> Nearness:
    """Return a grid without obstacles."""
    return np.full(shape, prices.far, np.int16)


def near_robot(
    near: Nearness,
    prices: Prices,
    corner_xy_m: tuple[float, float],
    goal_xy_m: tuple[float, float],
    around: CostField,
    places_xy_m: Floats,
) -> CostField:
    """Return the cost to go around places (k, 2) on fine cells. around: the cost to go on coarse cells."""
    x, y = corner_xy_m
    a, b, rows, columns = _cells_about(places_xy_m, x, y, prices.unit_m)
    patch = _cut(near, a, b, rows, columns, prices.far, prices.closed)
    return refine(patch, prices, (x + a * prices.unit_m, y + b * prices.unit_m), prices.unit_m, goal_xy_m, around)


@kernel
def enter(near: Nearness, cells: Floats32, first_a: int, first_b: int, far: int) -> None:  # pragma: no cover - compiled
    """Enter obstacle cells (k, 2 or more) a, b in place into a grid whose first cell is (first_a, first_b).

    Nearness is from centre to centre, at least 1; it never grows. An obstacle does not spread past a neighbouring
    obstacle, as that is nearer to the cells there.
    """
    rows, columns = near.shape
    reach = math.ceil(0.5 * math.sqrt(far))
    halves = np.empty(2 * reach + 1, np.int64)
    for n in range(2 * reach + 1):
        halves[n] = int(math.sqrt(max(0.0, 0.25 * far - (n - reach) ** 2)))
    occupied = np.zeros((rows + 2, columns + 2), np.bool_)
    for k in range(len(cells)):
        a, b = int(cells[k, 0]) - first_a, int(cells[k, 1]) - first_b
        if 0 <= a < rows and 0 <= b < columns:
            occupied[a + 1, b + 1] = True
    for k in range(len(cells)):
        a, b = int(cells[k, 0]) - first_a, int(cells[k, 1]) - first_b
        up, down, left, right = reach, reach, reach, reach
        if 0 <= a < rows and 0 <= b < columns:
            up, down = (0 if occupied[a, b + 1] else reach), (0 if occupied[a + 2, b + 1] else reach)
            left, right = (0 if occupied[a + 1, b] else reach), (0 if occupied[a + 1, b + 2] else reach)
        for i in range(max(0, a - up), min(rows, a + down + 1)):
            across, half = 4 * (i - a) * (i - a), halves[i - a + reach]
            for j in range(max(0, b - min(half, left)), min(columns, b + min(half, right) + 1)):
                near[i, j] = min(near[i, j], np.int16(max(1, across + 4 * (j - b) * (j - b))))


@kernel
def coarse(near: Nearness, closed: int) -> Nearness:  # pragma: no cover - compiled
    """Return the nearness of coarse cells (of their best fine cell), within a closed border."""
    rows, columns = near.shape[0] // COARSE, near.shape[1] // COARSE
    best = np.full((rows, columns), np.int16(closed))
    for i in range(BORDER, rows - BORDER):
        for j in range(BORDER, columns - BORDER):
            most = near[COARSE * i, COARSE * j]
            for a in range(COARSE):
                for b in range(COARSE):
                    most = max(most, near[COARSE * i + a, COARSE * j + b])
            best[i, j] = most
    return best


@kernel
def _cells_about(
    places_m: Floats, corner_x_m: float, corner_y_m: float, cell_m: float
) -> tuple[int, int, int, int]:  # pragma: no cover - compiled
    """Return first cell (a, b), relative to a corner, and rows and columns of a patch around places."""
    low_x, high_x, low_y, high_y = math.inf, -math.inf, math.inf, -math.inf
    for k in range(len(places_m)):
        low_x, high_x = min(low_x, places_m[k, 0]), max(high_x, places_m[k, 0])
        low_y, high_y = min(low_y, places_m[k, 1]), max(high_y, places_m[k, 1])
    a = math.floor((low_x - corner_x_m) / cell_m) - EDGE_CELLS
    b = math.floor((low_y - corner_y_m) / cell_m) - EDGE_CELLS
    rows = math.ceil((high_x - corner_x_m) / cell_m) + EDGE_CELLS - a
    return a, b, rows, math.ceil((high_y - corner_y_m) / cell_m) + EDGE_CELLS - b


@kernel
def _cut(
    near: Nearness, first_a: int, first_b: int, rows: int, columns: int, far: int, closed: int
) -> Nearness:  # pragma: no cover - compiled
    """Return a patch of a grid within a closed border; cells outside the grid are free."""
    patch = np.full((rows, columns), np.int16(closed))
    for i in range(BORDER, rows - BORDER):
        for j in range(BORDER, columns - BORDER):
            a, b = i + first_a, j + first_b
            inside = 0 <= a < near.shape[0] and 0 <= b < near.shape[1]
            patch[i, j] = near[a, b] if inside else far
    return patch


# ---- The window of remembered obstacles

CELL_M = 0.1
SIDE = 400
"""Cells along one side of the window: 40 m."""
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
    failures: places that the robot failed to pass
    """

    cells: Floats32
    failures: Failures = NONE_FAILED

    def centres(self) -> Floats:
        """Return (k, 2): the cells' centres in the start frame [m]."""
        return np.asarray((self.cells[:, :2] + 0.5) * CELL_M, np.float64)


EMPTY = LocalMap(np.empty((0, 3), np.float32))


def observed(known: LocalMap, pose: Pose, scan: Scan, radius_m: float) -> LocalMap:
    """Return the map after one scan from a pose: cells aged, freed or marked, and the window moved to the pose.

    radius_m: of the circle about the origin inside the footprint
    """
    place = pose.x_m / CELL_M, pose.y_m / CELL_M, pose.yaw_rad
    cells = _entered(known.cells, place, scan.ranges_m, scan.seen, radius_m / CELL_M)
    return LocalMap(cells, known.failures)


CLOSES_M = 1.01 * math.sqrt(2.0) * CELL_M - LETHAL_M
"""Passages are planned for at least this half width: a coarse cell on a diagonal wall of single cells has a fine cell
that is one diagonal away, which a smaller robot would take for a passage through the wall."""


def passage_prices(half_width_m: float, solid_m: float = 0.0) -> Prices:
    """Return the prices on fine cells for half the width of the passage that a footprint needs.

    solid_m: as of `make_prices`
    """
    return make_prices(max(half_width_m, CLOSES_M), CELL_M, solid_m)


class WayFinder:
    """Plans through a local map for one footprint, by half the width of the passage that it needs."""

    def __init__(self, half_width_m: float) -> None:
        self._prices = passage_prices(half_width_m, SOLID_M)

    def cost_to_go(self, known: LocalMap, pose: Pose, goal_xy_m: tuple[float, float], places_xy_m: Floats) -> CostField:
        """Return the cost to go to the goal around the places (k, 2), in metres of free space."""
        near, corner_xy_m, window = self.window(known, pose, goal_xy_m)
        return near_robot(near, self._prices, corner_xy_m, goal_xy_m, window, places_xy_m)

    def window(
        self, known: LocalMap, pose: Pose, goal_xy_m: tuple[float, float]
    ) -> tuple[Nearness, tuple[float, float], CostField]:
        """Return the window's nearness, its corner, and the cost to go on its coarse cells.

        Outside the window, the path to the goal is a straight line from the window's edge.
        """
        wide_m, half = COARSE * CELL_M, SIDE // COARSE // 2 + BORDER
        i, j = math.floor(pose.x_m / wide_m) - half, math.floor(pose.y_m / wide_m) - half
        near = empty_grid((2 * half * COARSE, 2 * half * COARSE), self._prices)
        enter(near, known.cells, i * COARSE, j * COARSE, self._prices.far)
        corner_xy_m, robot = (i * wide_m, j * wide_m), (pose.x_m, pose.y_m)
        known.failures.close_in(near, corner_xy_m, CELL_M, self._prices)
        field = solve(coarse(near, self._prices.closed), self._prices, corner_xy_m, wide_m, goal_xy_m, robot)
        return near, corner_xy_m, field


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
