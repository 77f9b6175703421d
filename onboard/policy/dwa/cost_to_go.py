"""The cost to go on a grid: the eikonal equation |grad T| = price, solved by fast marching from the goal outward.

The price is the cost of a metre in a cell, by its distance to the nearest obstacle. `solve` directs the wave to the
robot, like A*, so that it visits few cells. `refine` solves a patch of smaller cells whose edge is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.values.kernel import kernel

# ---- A priority queue for cells of a grid: buckets of similar priority, each a doubly linked list

Indices = npt.NDArray[np.int32]

BUCKETS = 32_000
"""The last one has no order, and a wave in it is slow. So it begins beyond a path through many walls of a map."""
EMPTY = -1
"""No cell, or no bucket."""
NEXT, PREVIOUS = 0, 1


@kernel
def push(
    heads: Indices, links: Indices, bucket_of: npt.NDArray[np.int16], cell: int, bucket: int
) -> None:  # pragma: no cover - compiled
    """Put a cell into a bucket."""
    first = heads[bucket]
    if first != EMPTY:
        links[first, PREVIOUS] = cell
    links[cell, NEXT], links[cell, PREVIOUS], bucket_of[cell], heads[bucket] = first, EMPTY, bucket, cell


@kernel
def remove(
    heads: Indices, links: Indices, bucket_of: npt.NDArray[np.int16], cell: int
) -> None:  # pragma: no cover - compiled
    """Take a cell out of its bucket, if it is in one."""
    if bucket_of[cell] == EMPTY:
        return
    after, before = links[cell, NEXT], links[cell, PREVIOUS]
    if before != EMPTY:
        links[before, NEXT] = after
    else:
        heads[bucket_of[cell]] = after
    if after != EMPTY:
        links[after, PREVIOUS] = before
    bucket_of[cell] = EMPTY


Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Nearness = npt.NDArray[np.int16]

LETHAL_M = -0.02
TIGHT_M = 0.08
WIDE_M = 0.40
LETHAL_PRICE = 60.0
TIGHT_PRICE = 6.0
WIDE_PRICE = 1.5
"""Price by the distance to an obstacle beyond the footprint: LETHAL_PRICE below LETHAL_M, then from TIGHT_PRICE to
WIDE_PRICE at TIGHT_M, and to 1 at WIDE_M. Lethal is finite, so a path always exists and noise closes no door for good.
"""
WALL_PRICE = 300.0
"""The same where a map has no room for the robot: a detour of 200 m is cheaper than a wall."""
SOLID_PRICE, SOLID_M = 300.0, 0.11
"""Price of `reactive`, which has no map, this near to the middle of an obstacle: a path through a wall costs about
100 m. A cell of noise in a door does not close it, as there is room farther from its middle."""
STEEP = 1.5 * TIGHT_PRICE
"""Above this price of a metre the cost changes by a lethal cell beside the path, not along it."""

STEPS_AHEAD = 4
BORDER = 1
"""Width of a grid's border of cells with infinite price."""
SEED_CELLS = 2
"""Within this distance of the goal, the cost is the straight distance."""
UNREACHED_M = 1e5
"""Above the cost of any path."""
BEYOND_M = 1.5
"""The wave ends this far beyond the robot."""
BUCKET_CELLS = 0.5
"""Width of a bucket of cells by cost plus straight rest of the path; the last bucket takes all beyond."""
PATH_STEP_M, PATH_STEPS, PATH_WAIT = 0.1, 5000, 5
"""Of `descent`: a step, most steps, and steps without a lower cost after which it ends."""
CONVERGED_CELLS = 0.02
"""A smaller improvement of a cell's cost is dropped."""


@dataclass(frozen=True, slots=True)
class CostField:
    """Cost to go in metres of free space: `cost[i, j]` belongs to the point corner + (i + 0.5, j + 0.5) * cell.

    most_m: costs above this are only lower bounds
    """

    cost: Floats32
    corner_xy_m: tuple[float, float]
    cell_m: float
    most_m: float


@dataclass(frozen=True, slots=True)
class Prices:
    """The cost of a metre by a cell's nearness, the squared distance to the nearest obstacle in halves of `unit_m`.

    The nearness is at least 1. It is 0 where a map has no room for the robot.

    table: cost by nearness; the second last is the cost of all farther cells, the last is infinite
    """

    table: Floats
    unit_m: float

    @property
    def solid(self) -> int:
        """Return the largest nearness within SOLID_M."""
        return math.floor((2.0 * SOLID_M / self.unit_m) ** 2)

    @property
    def far(self) -> int:
        """Return the nearness beyond which obstacles do not matter."""
        return len(self.table) - 2

    @property
    def closed(self) -> int:
        """Return the nearness of closed cells, as in a grid's border."""
        return len(self.table) - 1


def make_prices(radius_m: float, unit_m: float, solid_m: float = 0.0) -> Prices:
    """Return the prices for a footprint. solid_m: distance within which a cell has SOLID_PRICE"""
    far = math.ceil((2.0 * (radius_m + WIDE_M) / unit_m) ** 2)
    away_m = [0.5 * unit_m * math.sqrt(nearness) for nearness in range(1, far)]
    table = [SOLID_PRICE if one_m <= solid_m else price_of(one_m - radius_m) for one_m in away_m]
    return Prices(np.array([WALL_PRICE, *table, 1.0, math.inf]), unit_m)


def price_of(clear_m: float) -> float:
    """Return the cost of a metre at a distance between footprint and nearest obstacle."""
    if clear_m < LETHAL_M:
        return LETHAL_PRICE
    if clear_m < TIGHT_M:
        return TIGHT_PRICE + (WIDE_PRICE - TIGHT_PRICE) * (clear_m - LETHAL_M) / (TIGHT_M - LETHAL_M)
    if clear_m < WIDE_M:
        return WIDE_PRICE + (1.0 - WIDE_PRICE) * (clear_m - TIGHT_M) / (WIDE_M - TIGHT_M)
    return 1.0


def solve(
    nearness: Nearness,
    prices: Prices,
    corner_xy_m: tuple[float, float],
    cell_m: float,
    goal_xy_m: tuple[float, float],
    robot_xy_m: tuple[float, float] | None = None,
) -> CostField:
    """Return the cost to go on a grid of cells, closed by its border.

    Outside the border, the path to the goal is a straight line from the outermost cells.

    nearness:   (n, m) as in `Prices`
    robot_xy_m: the robot's position; None for costs everywhere. Costs are valid at the robot, at cheaper cells, and up
                to BEYOND_M more. Far from the path they are meaningless
    """
    goal = _in_cells(goal_xy_m, corner_xy_m, cell_m)
    home = (math.nan, math.nan) if robot_xy_m is None else _in_cells(robot_xy_m, corner_xy_m, cell_m)
    cost, most_m = _solve(nearness, prices.table, cell_m, goal, home)
    return CostField(cost, corner_xy_m, cell_m, most_m)


def refine(
    nearness: Nearness,
    prices: Prices,
    corner_xy_m: tuple[float, float],
    cell_m: float,
    goal_xy_m: tuple[float, float],
    around: CostField,
) -> CostField:
    """Return the cost to go on a finer grid whose edge takes its costs from the field `around`."""
    goal = _in_cells(goal_xy_m, corner_xy_m, cell_m)
    corner = _in_cells(corner_xy_m, around.corner_xy_m, around.cell_m)
    cost = _refine(nearness, prices.table, cell_m, goal, around.cost, corner, cell_m / around.cell_m, around.most_m)
    return CostField(cost, corner_xy_m, cell_m, UNREACHED_M)


def descent(field: CostField, start_xy_m: tuple[float, float], goal_xy_m: tuple[float, float], steep: float) -> Floats:
    """Return (n, 2) places down the cost to go, a PATH_STEP_M apart, the goal at the end [m].

    They end before the goal where the cost no longer falls. Outside the grid, and near the goal, the path is straight.

    steep: price of a metre above which a place counts as beside a lethal cell, as in `downhill`
    """
    corner, cell_m = field.corner_xy_m, field.cell_m
    return np.asarray(_descent(field.cost, corner, cell_m, field.most_m, start_xy_m, goal_xy_m, steep * cell_m))


def _in_cells(xy_m: tuple[float, float], corner_xy_m: tuple[float, float], cell_m: float) -> tuple[float, float]:
    """Return a position in cells, relative to the first cell's centre."""
    return (xy_m[0] - corner_xy_m[0]) / cell_m - 0.5, (xy_m[1] - corner_xy_m[1]) / cell_m - 0.5


@kernel
def sample(cost: Floats32, i: float, j: float, most: float) -> tuple[float, float, float]:  # pragma: no cover
    """Return the cost and its two derivatives per cell at (i, j), in cells from the first cell's centre; bilinear."""
    i, j = min(max(i, 0.0), cost.shape[0] - 1.001), min(max(j, 0.0), cost.shape[1] - 1.001)
    a, b = int(i), int(j)
    p, q = i - a, j - b
    c00, c10 = min(cost[a, b], most), min(cost[a + 1, b], most)
    c01, c11 = min(cost[a, b + 1], most), min(cost[a + 1, b + 1], most)
    di = (1 - q) * (c10 - c00) + q * (c11 - c01)
    dj = (1 - p) * (c01 - c00) + p * (c11 - c10)
    return (1 - p) * ((1 - q) * c00 + q * c01) + p * ((1 - q) * c10 + q * c11), di, dj


@kernel
def downhill(cost: Floats32, i: float, j: float, most: float, steep: float) -> tuple[float, float, float]:
    """Return the cost at (i, j) and a vector against the way to go, as `sample`.

    Beside a lethal cell the derivatives point away from it, across a narrow gap. Where the four cells about the place
    differ by more than `steep`, the vector is from a place `STEPS_AHEAD` cells down the path instead.
    """  # pragma: no cover - compiled
    way, di, dj = sample(cost, i, j, most)
    a, b = int(min(max(i, 0.0), cost.shape[0] - 1.001)), int(min(max(j, 0.0), cost.shape[1] - 1.001))
    low, high, row, column = cost[a, b], cost[a, b], a, b
    for k in range(1, 4):
        one = cost[a + k // 2, b + k % 2]
        if one < low:
            low, row, column = one, a + k // 2, b + k % 2
        high = max(high, one)
    if min(high, most) - low <= steep:
        return way, di, dj
    for _ in range(STEPS_AHEAD):
        to_row, to_column = row, column
        for down in range(max(row - 1, 0), min(row + 2, cost.shape[0])):
            for right in range(max(column - 1, 0), min(column + 2, cost.shape[1])):
                if cost[down, right] < cost[to_row, to_column]:
                    to_row, to_column = down, right
        row, column = to_row, to_column
    return way, i - row, j - column


@kernel
def _solve(
    nearness: Nearness, table: Floats, cell_m: float, goal: tuple[float, float], home: tuple[float, float]
) -> tuple[Floats32, float]:  # pragma: no cover - compiled
    """Return the cost [m] and its upper bound `most_m`; positions in cells from the first cell's centre."""
    rows, columns = nearness.shape
    cost = np.full(rows * columns, np.float32(UNREACHED_M))
    seeds = _seed_goal(cost, nearness, table, goal, cell_m)
    end_m = _march(cost, seeds, nearness, table, cell_m, goal, home)
    return cost.reshape(rows, columns), end_m


@kernel
def _refine(
    nearness: Nearness, table: Floats, cell_m: float, goal: tuple[float, float],
    around: Floats32, corner: tuple[float, float], scale: float, most_m: float,
) -> Floats32:  # fmt: skip  # pragma: no cover - compiled
    """Return the cost [m]. corner: of the grid, in cells of `around`; scale: ratio of the cell sizes."""
    rows, columns = nearness.shape
    cost = np.full(rows * columns, np.float32(UNREACHED_M))
    near = -SEED_CELLS < goal[0] < rows + SEED_CELLS and -SEED_CELLS < goal[1] < columns + SEED_CELLS
    seeds = [EMPTY][:0]
    for i in range(BORDER, rows - BORDER):
        for j in range(BORDER, columns - BORDER):
            cell, away = i * columns + j, math.hypot(i - goal[0], j - goal[1])
            edge = i in (BORDER, rows - 1 - BORDER) or j in (BORDER, columns - 1 - BORDER)
            if near and _is_seed(away, table[nearness[i, j]]):
                cost[cell] = cell_m * away
                seeds.append(cell)
            elif edge:
                there_i, there_j = corner[0] + (i + 0.5) * scale, corner[1] + (j + 0.5) * scale
                cost[cell] = sample(around, there_i, there_j, most_m)[0]
                seeds.append(cell)
    _march(cost, np.array(seeds, np.int32), nearness, table, cell_m, goal, (math.nan, math.nan))
    return cost.reshape(rows, columns)


@kernel
def _march(
    cost: Floats32, seeds: Indices, nearness: Nearness, table: Floats, cell_m: float,
    goal: tuple[float, float], home: tuple[float, float],
) -> float:  # fmt: skip  # pragma: no cover - compiled
    """Spread the costs of the seeds in place: fast marching with buckets, with later corrections of cells.

    Cells are numbered row by row. Without a home (the robot) the whole grid is solved. Returns the cost limit [m].
    """
    (rows, columns), near = nearness.shape, nearness.ravel()
    home_cell, led = EMPTY, not math.isnan(home[0])
    least = min([cost[cell] for cell in seeds]) / cell_m
    if led:
        home_cell = min(max(0, round(home[0])), rows - 1) * columns + min(max(0, round(home[1])), columns - 1)
        least = max(0.0, math.hypot(goal[0] - home[0], goal[1] - home[1]) - 2.0 * SEED_CELLS)
    per_m = 1.0 / (BUCKET_CELLS * cell_m)
    heads, links = np.full(BUCKETS, EMPTY, np.int32), np.empty((len(cost), 2), np.int32)
    bucket_of = np.full(len(cost), np.int16(EMPTY))
    for cell in seeds:
        rest = math.hypot(cell // columns - home[0], cell % columns - home[1]) if led else 0.0
        due = (cost[cell] + (rest - least) * cell_m) * per_m
        push(heads, links, bucket_of, cell, min(BUCKETS - 1, max(0, int(due))))
    bucket, last = 0, BUCKETS - 1
    while bucket <= last:
        cell = heads[bucket]
        if cell == EMPTY:
            bucket += 1
            continue
        remove(heads, links, bucket_of, cell)
        if cell == home_cell:
            last = min(last, bucket + int(BEYOND_M * per_m))
        i = cell // columns
        j = cell - i * columns
        for di, dj in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            beside = cell + di * columns + dj
            width = table[near[beside]] * cell_m
            if cost[beside] <= cost[cell] or width == math.inf:  # the border's neighbours may lie outside the arrays
                continue
            a, b = min(cost[beside - columns], cost[beside + columns]), min(cost[beside - 1], cost[beside + 1])
            new = _eikonal(a, b, width)
            if new < cost[beside] - CONVERGED_CELLS * cell_m:
                cost[beside] = new
                rest = math.sqrt((i + di - home[0]) ** 2 + (j + dj - home[1]) ** 2) if led else 0.0
                due = max(bucket, min(BUCKETS - 1, int((new + (rest - least) * cell_m) * per_m)))
                if bucket_of[beside] != due:
                    remove(heads, links, bucket_of, beside)
                    push(heads, links, bucket_of, beside, due)
    return cost[home_cell] + BEYOND_M if led else UNREACHED_M


@kernel
def _eikonal(a: float, b: float, width: float) -> float:  # pragma: no cover - compiled
    """Return a cell's cost from the cheaper neighbours along both axes and its own crossing cost."""
    if abs(a - b) >= width:
        return min(a, b) + width
    return 0.5 * (a + b + math.sqrt(2.0 * width * width - (a - b) * (a - b)))


@kernel
def _is_seed(away: float, price: float) -> bool:  # pragma: no cover - compiled
    """Return whether a cell is a seed: the goal's cell, or a near cell outside walls, which may separate it."""
    return away < 1.0 or (away <= SEED_CELLS and price < LETHAL_PRICE)


@kernel
def _seed_goal(
    cost: Floats32, nearness: Nearness, table: Floats, goal: tuple[float, float], cell_m: float
) -> Indices:  # pragma: no cover - compiled
    """Set the seeds' costs: near the goal, or along the whole edge for a goal outside. Return the seed cells."""
    rows, columns = nearness.shape
    seeds = np.empty(2 * (rows + columns) + (2 * SEED_CELLS + 2) ** 2, np.int32)
    first_i, last_i, first_j, last_j = BORDER, rows - 1 - BORDER, BORDER, columns - 1 - BORDER
    inside = first_i <= goal[0] <= last_i and first_j <= goal[1] <= last_j
    if inside:
        first_i, last_i = max(first_i, int(goal[0]) - SEED_CELLS), min(last_i, int(goal[0]) + 1 + SEED_CELLS)
        first_j, last_j = max(first_j, int(goal[1]) - SEED_CELLS), min(last_j, int(goal[1]) + 1 + SEED_CELLS)
    count = 0
    for i in range(first_i, last_i + 1):
        whole = inside or i in (first_i, last_i)
        for j in range(first_j, last_j + 1, 1 if whole else max(1, last_j - first_j)):
            away = math.hypot(i - goal[0], j - goal[1])
            if not inside or _is_seed(away, table[nearness[i, j]]):
                cost[i * columns + j] = cell_m * away
                seeds[count] = i * columns + j
                count += 1
    return seeds[:count]


@kernel
def _descent(
    cost: Floats32, corner: tuple[float, float], cell_m: float, most_m: float,
    start: tuple[float, float], goal: tuple[float, float], steep: float,
) -> Floats:  # fmt: skip  # pragma: no cover - compiled
    """Return (n, 2) places of `descent`."""
    places, count = np.empty((PATH_STEPS + 1, 2)), 0
    (x, y), (rows, columns) = start, cost.shape
    least, waited = math.inf, 0
    while count < PATH_STEPS:
        places[count, 0], places[count, 1] = x, y
        count += 1
        i, j = (x - corner[0]) / cell_m - 0.5, (y - corner[1]) / cell_m - 0.5
        inside = BORDER <= i <= rows - 1 - BORDER and BORDER <= j <= columns - 1 - BORDER
        if not inside or math.hypot(goal[0] - x, goal[1] - y) < SEED_CELLS * cell_m:
            break
        left, di, dj = downhill(cost, i, j, most_m, steep)
        long = math.hypot(di, dj)
        waited = 0 if left < least else waited + 1
        least = min(least, left)
        if long == 0.0 or waited > PATH_WAIT:
            return places[:count]
        x, y = x - PATH_STEP_M * di / long, y - PATH_STEP_M * dj / long
    places[count, 0], places[count, 1] = goal
    return places[: count + 1]
