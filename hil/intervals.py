"""Kernels that write solid things into the vertical intervals of a grid. Heights are metres, places are cells."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

SEAM_M = 0.01
"""Intervals of a cell that come this close become one."""
EDGE = 1e-6
"""In cells: one whose centre lies on an edge is inside at the lower edge, outside at the upper, however it rounds."""


@njit(cache=True, nogil=True)
def add_interval(low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32], low: float, high: float) -> None:
    """Make one cell, of (intervals,) and (intervals,), solid from low to high as well; intervals stay sorted.

    Where none is left for it, it is joined with the one that is nearest, so that nothing solid is lost.
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


@njit(cache=True, nogil=True)
def put_parts(
    low_m: npt.NDArray[np.float32],
    high_m: npt.NDArray[np.float32],
    material: npt.NDArray[np.uint8],
    parts: npt.NDArray[np.float64],
    centre: tuple[float, float],
    turn: tuple[float, float],
) -> None:
    """Write the boxes of one thing into the cells whose centre they cover.

    parts:  (n, 7) u0, v0, u1, v1 about the thing's centre [cells], low, high [m], material
    centre: x, y of that centre in the grid [cells]
    turn:   cosine and sine of the angle from the grid's axes to the thing's

    A box thinner than a cell is made as thick as keeps its cells joined; one without any size is a single cell.
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
