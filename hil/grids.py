"""Kernels on grids of cells: distances, segments and circles against cells. Units are cells."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

FARTHEST = 255
"""Largest distance that `chessboard_distance` states."""


@njit(cache=True, nogil=True)
def chessboard_distance(occupied: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Return the number of king's moves to the nearest occupied cell, 0 in it, at most `FARTHEST`."""
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


@njit(cache=True, nogil=True)
def mark_segments(wall: npt.NDArray[np.bool_], segments: npt.NDArray[np.float64]) -> None:
    """Set every cell that a segment (x0, y0, x1, y1) passes through; the cells of one are joined by their edges."""
    for index in range(len(segments)):
        x0, y0, x1, y1 = segments[index]
        column, row = math.floor(x0), math.floor(y0)
        last_column, last_row = math.floor(x1), math.floor(y1)
        wall[row, column] = True
        while column != last_column or row != last_row:
            column, row = _next_cell(x0, y0, x1, y1, column, row, last_column, last_row)
            wall[row, column] = True


@njit(cache=True, nogil=True)
def line_is_free(free: npt.NDArray[np.bool_], a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Return whether all cells on the line between two cells' centres (row, column) are True; exact, in integers.

    Where the line passes through a corner, both cells beside it must be True.
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


@njit(cache=True, nogil=True)
def _next_cell(
    x0: float, y0: float, x1: float, y1: float, column: int, row: int, last_column: int, last_row: int
) -> tuple[int, int]:
    """Return (column, row) of the next cell on a line, across an edge; a corner is passed by way of the next column."""
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


@njit(cache=True, nogil=True)
def circle_overlaps(
    x: float, y: float, radius: float, blocked: npt.NDArray[np.bool_], gap: npt.NDArray[np.uint8]
) -> bool:
    """Return whether a circle reaches into a blocked cell (exact); touching is free, outside the grid is blocked.

    gap: chessboard distance to the nearest cell that may be blocked, for a quick answer where there is room.
    """
    rows, columns = blocked.shape
    column, row = math.floor(x), math.floor(y)
    reach = math.ceil(radius)
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


@njit(cache=True, nogil=True)
def room_for_circle(radius: float, blocked: npt.NDArray[np.bool_], gap: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return the cells at whose centre a circle overlaps no blocked cell."""
    rows, columns = blocked.shape
    free = np.zeros((rows, columns), np.bool_)
    for row in range(rows):
        for column in range(columns):
            free[row, column] = not circle_overlaps(column + 0.5, row + 0.5, radius, blocked, gap)
    return free
