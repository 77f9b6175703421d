"""Inflation of obstacle cells into grids of nearness, the input of `onboard/policy/dwa/cost_to_go.py`.

The path is planned on coarse cells, and near the robot on fine cells. A coarse cell has the price of its best fine
cell: it closes no open passage, and opens none in a wall.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.policy.dwa.cost_to_go import BORDER, CostField, Nearness, Prices, refine
from onboard.values.kernel import kernel

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

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

    Nearness is from centre to centre; it never grows. An obstacle does not spread past a neighbouring obstacle, as that
    is nearer to the cells there.
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
                near[i, j] = min(near[i, j], np.int16(across + 4 * (j - b) * (j - b)))


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
