"""Kernels on grids: distance transform, line and circle tests, voxel intervals. Lengths are in cells."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.values.kernel import kernel

FARTHEST = 255
"""Upper limit of the result of `chessboard_distance`."""


@kernel
def floored(x: float) -> int:
    """Return the floor of a number as an integer. The ceiling of x is -floored(-x)."""
    return int(math.floor(x))  # noqa: RUF046  # numba-cuda's floor returns a float


@kernel
def chessboard_distance(occupied: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Return the chessboard distance to the nearest occupied cell: 0 in an occupied cell, at most `FARTHEST`."""
    rows, columns = occupied.shape
    distance = np.empty((rows, columns), np.uint8)
    for row in range(rows):
        for column in range(columns):
            best = 0 if occupied[row, column] else FARTHEST
            if best and row > 0:
                for side in range(max(column - 1, 0), min(column + 2, columns)):
                    best = min(best, distance[row - 1, side] + 1)
            if best and column > 0:
                best = min(best, distance[row, column - 1] + 1)
            distance[row, column] = best
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            best = int(distance[row, column])
            if row < rows - 1:
                for side in range(max(column - 1, 0), min(column + 2, columns)):
                    best = min(best, distance[row + 1, side] + 1)
            if column < columns - 1:
                best = min(best, distance[row, column + 1] + 1)
            distance[row, column] = best
    return distance


@kernel
def mark_segments(wall: npt.NDArray[np.bool_], segments: npt.NDArray[np.float64]) -> None:
    """Set every cell that a segment (x0, y0, x1, y1) crosses. The cells of each segment are 4-connected."""
    for index in range(len(segments)):
        x0, y0, x1, y1 = segments[index]
        column, row = math.floor(x0), math.floor(y0)
        last_column, last_row = math.floor(x1), math.floor(y1)
        wall[row, column] = True
        while column != last_column or row != last_row:
            column, row = _next_cell(x0, y0, x1, y1, column, row, last_column, last_row)
            wall[row, column] = True


@kernel
def line_is_free(free: npt.NDArray[np.bool_], a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Return whether all cells on the line between two cell centres (row, column) are True. Exact integer arithmetic.

    Where the line passes through a corner, both adjacent cells must be True.
    """
    down, right = (1 if b[0] > a[0] else -1), (1 if b[1] > a[1] else -1)
    rows, columns = abs(b[0] - a[0]), abs(b[1] - a[1])
    row, column, row_steps, column_steps = a[0], a[1], 0, 0
    while free[row, column]:
        if row_steps == rows and column_steps == columns:
            return True
        # The next edges are crossed at (2 steps + 1) / (2 cells) of the line; compared without division.
        later = (2 * column_steps + 1) * rows - (2 * row_steps + 1) * columns
        if later == 0 and not (free[row + down, column] and free[row, column + right]):
            return False
        if later >= 0:
            row, row_steps = row + down, row_steps + 1
        if later <= 0:
            column, column_steps = column + right, column_steps + 1
    return False


@kernel
def _next_cell(
    x0: float, y0: float, x1: float, y1: float, column: int, row: int, last_column: int, last_row: int
) -> tuple[int, int]:
    """Return (column, row) of the next 4-connected cell on a line. At a corner the column changes first."""
    right, up = (1 if x1 > x0 else -1), (1 if y1 > y0 else -1)
    if column == last_column:
        return column, row + up
    if row == last_row:
        return column + right, row
    to_column = (column + (right > 0) - x0) / (x1 - x0)
    to_row = (row + (up > 0) - y0) / (y1 - y0)
    if to_column <= to_row:
        return column + right, row
    return column, row + up


@kernel
def circle_overlaps(
    x: float, y: float, radius: float, blocked: npt.NDArray[np.bool_], gap: npt.NDArray[np.uint8]
) -> bool:
    """Return whether a circle overlaps a blocked cell. Exact; touching is no overlap; outside the grid is blocked.

    gap: chessboard distance to the nearest cell that may be blocked, for an early exit in open space
    """
    rows, columns = blocked.shape
    column, row = floored(x), floored(y)
    reach = -floored(-radius)
    if column - reach < 0 or row - reach < 0 or column + reach >= columns or row + reach >= rows:
        return True
    if gap[row, column] > reach:
        return False
    for r in range(row - reach, row + reach + 1):
        for c in range(column - reach, column + reach + 1):
            if blocked[r, c]:
                dx = x - min(max(x, float(c)), c + 1.0)
                dy = y - min(max(y, float(r)), r + 1.0)
                if dx * dx + dy * dy < radius * radius:
                    return True
    return False


@kernel
def room_for_circle(radius: float, blocked: npt.NDArray[np.bool_], gap: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return (rows, columns) bool: cells where a circle at the cell centre overlaps no blocked cell."""
    rows, columns = blocked.shape
    free = np.zeros((rows, columns), np.bool_)
    for row in range(rows):
        for column in range(columns):
            free[row, column] = not circle_overlaps(column + 0.5, row + 0.5, radius, blocked, gap)
    return free


# ---- Kernels that write solid boxes into the vertical intervals of a grid. Heights in metres, positions in cells

SEAM_M = 0.01
"""Intervals of a cell with a smaller gap between them are merged."""
EDGE = 1e-6
"""Offset against rounding [cells]: a centre on the lower edge of a box is inside, on the upper edge outside."""


@kernel
def add_interval(low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32], low: float, high: float) -> None:
    """Add a solid interval to one cell, in place; low_m and high_m are (intervals,) and stay sorted.

    If all intervals are in use, the new interval is merged with the nearest.
    """
    count = 0
    for j in range(len(low_m)):
        if low_m[j] <= high_m[j]:
            if low_m[j] <= high + SEAM_M and high_m[j] >= low - SEAM_M:
                low, high = min(low, float(low_m[j])), max(high, float(high_m[j]))
            else:
                low_m[count], high_m[count] = low_m[j], high_m[j]
                count += 1
    for j in range(count, len(low_m)):
        low_m[j], high_m[j] = np.inf, -np.inf
    if count == len(low_m):
        nearest, room = 0, math.inf
        for j in range(count):
            apart = max(float(low_m[j]) - high, low - float(high_m[j]))
            if apart < room:
                nearest, room = j, apart
        low_m[nearest], high_m[nearest] = min(low, float(low_m[nearest])), max(high, float(high_m[nearest]))
        return
    at = count
    while at > 0 and low_m[at - 1] > low:
        low_m[at], high_m[at] = low_m[at - 1], high_m[at - 1]
        at -= 1
    low_m[at], high_m[at] = low, high


@kernel
def put_parts(
    low_m: npt.NDArray[np.float32],
    high_m: npt.NDArray[np.float32],
    material: npt.NDArray[np.uint8],
    parts: npt.NDArray[np.float64],
    centre: tuple[float, float],
    turn: tuple[float, float],
) -> None:
    """Write the boxes of one item into the cells whose centres they cover.

    parts:  (n, 7) u0, v0, u1, v1 relative to the item's centre [cells], low, high [m], material
    centre: x, y of the item's centre in the grid [cells]
    turn:   cosine and sine of the item's rotation relative to the grid axes

    A thin box is widened until its cells are connected. A box of zero width and depth fills a single cell.
    """
    cos, sin = turn
    thinnest = 0.5 * (abs(cos) + abs(sin))
    for u0, v0, u1, v1, low, high, what in parts:
        u, v = 0.5 * (u0 + u1), 0.5 * (v0 + v1)
        x, y = centre[0] + u * cos - v * sin, centre[1] + u * sin + v * cos
        if u0 == u1 and v0 == v1:
            row, column = math.floor(y - EDGE), math.floor(x - EDGE)
            add_interval(low_m[row, column], high_m[row, column], low, high)
            material[row, column] = int(what)
            continue
        half_u, half_v = max(0.5 * (u1 - u0), thinnest), max(0.5 * (v1 - v0), thinnest)
        reach_x, reach_y = abs(half_u * cos) + abs(half_v * sin), abs(half_u * sin) + abs(half_v * cos)
        for row in range(math.floor(y - reach_y), math.floor(y + reach_y) + 1):
            for column in range(math.floor(x - reach_x), math.floor(x + reach_x) + 1):
                dx, dy = column + 0.5 - x + EDGE, row + 0.5 - y + EDGE
                if -half_u <= dx * cos + dy * sin < half_u and -half_v <= dy * cos - dx * sin < half_v:
                    add_interval(low_m[row, column], high_m[row, column], low, high)
                    material[row, column] = int(what)
