"""Whether cells near the robot may bind a command, before any scan is cast: a compiled test for `ticks.run_ticks`.

It errs to one side only: where it says no, the scan cast from that place would not make the limits change the command
(tests/test_cell_watch.py). A scan's point lies at the range of the nearest point that is solid in a sector, in the
middle of that sector: so within half a cell's diagonal, and half a sector's width, of some solid cell's centre.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard.messages import BINS
from onboard.zones import SMALLEST_M, STRAIGHT_PER_M

TURN = 2.0 * math.pi
HALF_SECTOR = 2.0 * math.sin(0.5 * math.pi / BINS)
"""Chord of half a sector at a range of 1."""
MARGIN_M = 1e-5


class Ways(NamedTuple):
    """A command that moves, and what must be free for it not to be bound: for each zone, circle and way [m].

    A radius of 0 is a zone that does not matter. reach_m: what is farther away does not matter either
    """

    v: float
    w: float
    reach_m: float
    swept_m: float
    swept_way_m: float
    slow_m: float
    slow_way_m: float
    contact_m: float
    contact_way_m: float


REACH, ZONES = 2, 3
"""Where in `Ways` the reach is, and where its zones begin: a radius and a way each."""
NONE = np.empty(0)
"""In place of `Ways`: no command that anything could bind."""


@njit(cache=True, nogil=True)
def cells_may_bind(
    x_m: float, y_m: float, yaw: float, ways: npt.NDArray[np.float64], cell_m: float,
    solid: npt.NDArray[np.bool_], gap: npt.NDArray[np.uint8],
) -> bool:  # fmt: skip
    """Return whether a solid cell may make the limits change the command of `ways` at a place in the grid frame.

    solid: (rows, columns) True where the scan sees something
    gap:   chessboard distance to the nearest cell that may be solid
    """
    rows, columns = solid.shape
    column, row = math.floor(x_m / cell_m), math.floor(y_m / cell_m)
    if not (0 <= row < rows and 0 <= column < columns):
        return True
    half_m = math.sqrt(0.5) * cell_m + MARGIN_M
    far_m = (ways[REACH] + half_m) * (1.0 + HALF_SECTOR) + half_m
    if (int(gap[row, column]) - 1) * cell_m > far_m:
        return False
    reach = math.ceil(far_m / cell_m)
    c, s = math.cos(yaw), math.sin(yaw)
    for r in range(max(row - reach, 0), min(row + reach + 1, rows)):
        k, last = max(column - reach, 0), min(column + reach + 1, columns)
        while k < last:
            free = int(gap[r, k])
            if free > 0:
                k += free  # so far there is nothing
                continue
            if solid[r, k]:
                dx, dy = (k + 0.5) * cell_m - x_m, (r + 0.5) * cell_m - y_m
                distance_m = math.sqrt(dx * dx + dy * dy)
                if distance_m <= far_m and _may_bind(c * dx + s * dy, c * dy - s * dx, distance_m, half_m, ways):
                    return True
            k += 1
    return False


@njit(cache=True, nogil=True)
def _may_bind(ahead: float, aside: float, distance_m: float, half_m: float, ways: npt.NDArray[np.float64]) -> bool:
    """Return whether the cell with this centre, in the base frame, may bind."""
    off_m = half_m + (distance_m + half_m) * HALF_SECTOR
    for zone in range(ZONES, len(ways), 2):
        if ways[zone] > 0.0:
            meets_m = soonest_m(ahead, aside, ways[0], ways[1], ways[zone] + off_m, off_m)
            if meets_m <= ways[zone + 1] + MARGIN_M:
                return True
    return False


@njit(cache=True, nogil=True)
def soonest_m(ahead: float, aside: float, v: float, w: float, radius_m: float, off_m: float) -> float:
    """Return a way after which, at the earliest, a circle of `radius_m` - `off_m` meets a point within `off_m` of this.

    That is `zones.travel_m` of the wider circle, but what is less than `off_m` behind may be ahead.
    """
    if v < 0.0:
        ahead = -ahead
    curvature = w / v
    if abs(curvature) < STRAIGHT_PER_M:
        inside = radius_m * radius_m - aside * aside
        return max(0.0, ahead - math.sqrt(inside)) if inside > 0.0 and ahead > -off_m else math.inf
    if curvature < 0.0:
        aside = -aside
    turn_m = 1.0 / abs(curvature)
    from_center = max(math.hypot(ahead, aside - turn_m), SMALLEST_M)
    square = (radius_m * radius_m - (from_center - turn_m) ** 2) / (4.0 * from_center * turn_m)
    if not square > 0.0:
        return math.inf
    if square >= 1.0:
        return 0.0
    half = 2.0 * math.asin(math.sqrt(square))
    phi = math.atan2(ahead, turn_m - aside)
    if abs(phi) < half and ahead > -off_m:
        return 0.0
    return turn_m * ((phi - half) % TURN)
