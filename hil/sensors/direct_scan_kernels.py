"""Kernels of the direct scan. Lengths are in cells unless a name has a unit.

The walk of a sector crosses the grid strip by strip, along the axis that is closer to the sector. In each strip a
sector covers a run of cells, tested as a window of bits. Where the nearest solid cell is farther than the sector is
wide, the walk skips many strips in one stride. Neighbouring sectors share their first strides.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hil.maps.cell_kernels import floored
from onboard.perception.kernels import EDGES
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_DEG, BINS

WORD_SHIFT = 6
WORD_BITS = 1 << WORD_SHIFT
EMPTY, ONE = np.uint64(0), np.uint64(1)
FAN = 6
"""Number of sectors that share their first strides; a divisor of `BINS`."""
WITHIN_ROUNDING = 1.0 - 1e-12

Ranges = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]


@kernel
def bits_of(
    low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32], z_min: float, z_max: float
) -> tuple[Words, Words]:
    """Return ((columns, words), (rows, words)): bit masks of the solid cells in the band, per column and per row."""
    rows, columns, intervals = low_m.shape
    by_column = np.zeros((columns, rows // WORD_BITS + 2), np.uint64)
    by_row = np.zeros((rows, columns // WORD_BITS + 2), np.uint64)
    for row in range(rows):
        for column in range(columns):
            for k in range(intervals):
                if low_m[row, column, k] <= z_max and high_m[row, column, k] >= z_min:
                    by_column[column, row // WORD_BITS] |= np.uint64(1) << np.uint64(row % WORD_BITS)
                    by_row[row, column // WORD_BITS] |= np.uint64(1) << np.uint64(column % WORD_BITS)
                    break
    return by_column, by_row


@kernel
def cast_sectors(
    x: float, y: float, c: float, s: float, radius: float, cell_m: float,
    gap: npt.NDArray[np.uint8], by_column: Words, by_row: Words, ranges: Ranges,
) -> None:  # fmt: skip
    """Set the ranges [m] of sectors about (x, y) [cells], rotated by the angle with cosine c and sine s.

    A common empty distance is computed for each fan of sectors.
    """
    rows, columns = gap.shape
    if not (0.0 <= x < columns and 0.0 <= y < rows):
        ranges[:] = np.inf
        return
    edges = np.empty((BINS + 1, 2))
    for i in range(BINS + 1):
        edges[i, 0], edges[i, 1] = c * EDGES[i, 0] - s * EDGES[i, 1], s * EDGES[i, 0] + c * EDGES[i, 1]
    across = gap.T
    for first in range(0, BINS, FAN):
        a, b = edges[first], edges[first + FAN]
        if abs(a[0] + b[0]) >= abs(a[1] + b[1]):
            empty = empty_length(x, y, a[0], a[1], b[0], b[1], radius, across)
        else:
            empty = empty_length(y, x, a[1], a[0], b[1], b[0], radius, gap)
        for i in range(first, first + FAN):
            ax, ay, bx, by = edges[i, 0], edges[i, 1], edges[i + 1, 0], edges[i + 1, 1]
            if abs(ax + bx) >= abs(ay + by):
                ranges[i] = cell_m * sector_length(x, y, ax, ay, bx, by, empty, radius, by_column, across)
            else:
                ranges[i] = cell_m * sector_length(y, x, ay, ax, by, bx, empty, radius, by_row, gap)


@kernel
def _stride(
    strip: int, near: float, v: float, low_slope: float, high_slope: float, strips_a_cell: float,
    gap: npt.NDArray[np.uint8],
) -> tuple[int, int, int]:  # fmt: skip
    """Return (number of empty strips from here, lowest and highest cell of this strip in the sector).

    Both results are conservative: fewer strips, or up to one cell more. low > high means that the sector left the grid.
    """
    cells = gap.shape[1]
    low = max(floored(v + low_slope * near + min(low_slope, 0.0)), 0)
    high = min(floored(v + high_slope * near + max(high_slope, 0.0)), cells - 1)
    if low > high:
        return 0, low, high
    middle = (low + high) >> 1
    reach = np.int64(gap[strip, middle])
    room = reach - 1 - (high - middle)
    if room < 0:
        return 0, low, high
    return 1 + min(reach - 1, np.int64(room * strips_a_cell)), low, high


@kernel
def empty_length(
    u: float, v: float, au: float, av: float, bu: float, bv: float, radius: float, gap: npt.NDArray[np.uint8]
) -> float:
    """Return a lower bound on the distance to the first solid cell in the sector [cells]."""
    strips = gap.shape[0]
    step = 1 if au + bu > 0.0 else -1
    slope_a, slope_b = av / abs(au), bv / abs(bu)
    low_slope, high_slope = min(slope_a, slope_b), max(slope_a, slope_b)
    strips_a_cell = WITHIN_ROUNDING / max(-low_slope, high_slope)
    strip, near = floored(u), 0.0
    while 0 <= strip < strips and near < radius:
        free, _, _ = _stride(strip, near, v, low_slope, high_slope, strips_a_cell, gap)
        if free == 0:
            return near
        strip += step * free
        near = strip - u if step > 0 else u - strip - 1.0
    return near


@kernel
def sector_length(
    u: float, v: float, au: float, av: float, bu: float, bv: float, empty: float, radius: float,
    lines: Words, gap: npt.NDArray[np.uint8],
) -> float:  # fmt: skip
    """Return the range [cells] of the sector at (u, v) between the unit vectors a and b, closer to the u axis.

    empty: distance up to which the sector is known to be empty
    lines: bits along v, one line of words for each strip of u
    gap:   (strips, cells along v)
    """
    strips = gap.shape[0]
    step = 1 if au + bu > 0.0 else -1
    length_a, length_b = 1.0 / abs(au), 1.0 / abs(bu)
    slope_a, slope_b = av * length_a, bv * length_b
    low_slope, high_slope = min(slope_a, slope_b), max(slope_a, slope_b)
    least_length = 1.0 if low_slope <= 0.0 <= high_slope else min(length_a, length_b)
    strips_a_cell = WITHIN_ROUNDING / max(-low_slope, high_slope)
    best, strip = math.inf, floored(u + step * empty / max(length_a, length_b))
    while 0 <= strip < strips:
        near = max(strip - u if step > 0 else u - strip - 1.0, 0.0)
        if near * least_length > min(best, radius):
            break
        free, low, high = _stride(strip, near, v, low_slope, high_slope, strips_a_cell, gap)
        if low > high:
            break
        if free > 0:
            strip += step * free
            continue
        for first in range(low, high + 1, WORD_BITS):
            window, cell = _window(lines, strip, first, min(high - first + 1, WORD_BITS)), first
            while window != EMPTY:
                while window & ONE == EMPTY:
                    window, cell = window >> ONE, cell + 1
                run = cell
                while window & ONE != EMPTY:
                    window, cell = window >> ONE, cell + 1
                far = strip + 1.0 - u if step > 0 else u - strip
                best = min(best, _nearest((near, far, run - v, cell - v), slope_a, slope_b, length_a, length_b))
        strip += step
    return best if best <= radius else math.inf


@kernel
def _window(lines: Words, strip: int, first: int, count: int) -> np.uint64:
    """Return `count` bits (at most 64) of a line from bit `first`; bit `first` is lowest, unused bits are 0."""
    word, shift = first >> WORD_SHIFT, np.uint64(first & (WORD_BITS - 1))
    # Two shifts, since a shift by 64 is undefined. A line has a spare word at its end.
    above = (lines[strip, word + 1] << ONE) << (np.uint64(WORD_BITS - 1) - shift)
    unused = np.uint64(WORD_BITS - count)
    window: np.uint64 = (((lines[strip, word] >> shift) | above) << unused) >> unused
    return window


@kernel
def _nearest(
    box: tuple[float, float, float, float], slope_a: float, slope_b: float, length_a: float, length_b: float
) -> float:
    """Return the distance from the origin to the part of a box (u from, to, v from, to) in a sector, u >= 0.

    The nearest point is that of the whole box, or the point where an edge of the sector enters the box.
    """
    near, _, v_from, v_to = box
    v_nearest = min(max(0.0, v_from), v_to)
    if min(slope_a, slope_b) * near <= v_nearest <= max(slope_a, slope_b) * near:
        return math.sqrt(near * near + v_nearest * v_nearest)
    return min(_entry(box, slope_a) * length_a, _entry(box, slope_b) * length_b)


@kernel
def _entry(box: tuple[float, float, float, float], slope: float) -> float:
    """Return the least u at which the line v = slope u is in a box, inf if it misses the box."""
    near, far, v_from, v_to = box
    if slope == 0.0:
        return near if v_from <= 0.0 <= v_to else math.inf
    first, last = v_from / slope, v_to / slope
    if slope < 0.0:
        first, last = last, first
    entry = max(near, first)
    return entry if entry <= min(far, last) else math.inf


@kernel
def lower_to_bodies(
    x: float, y: float, yaw: float, radius: float, z_min: float, z_max: float, bodies: Floats, ranges: Ranges
) -> None:
    """Lower ranges [m] from (x, y, yaw) to the nearest points of discs, in place; all in the map frame."""
    bins = len(ranges)
    c, s = math.cos(yaw), math.sin(yaw)
    for j in range(len(bodies)):
        r = bodies[j, 2]
        ahead, left = c * (bodies[j, 0] - x) + s * (bodies[j, 1] - y), c * (bodies[j, 1] - y) - s * (bodies[j, 0] - x)
        away = math.sqrt(ahead * ahead + left * left)
        if bodies[j, 3] > z_max or bodies[j, 4] < z_min or away - r > radius:
            continue
        if away <= r:
            ranges[:] = 0.0
            return
        centre = (math.degrees(math.atan2(left, ahead)) + 180.0) / BIN_DEG
        half = math.degrees(math.asin(r / away)) / BIN_DEG
        own = math.floor(centre)
        for unwrapped in range(math.floor(centre - half), math.floor(centre + half) + 1):
            i = unwrapped % bins
            if unwrapped == own:
                nearest = away - r
            else:
                edge = EDGES[i + 1] if unwrapped < own else EDGES[i]
                beside = edge[0] * left - edge[1] * ahead
                if beside * beside > r * r:
                    continue
                nearest = edge[0] * ahead + edge[1] * left - math.sqrt(r * r - beside * beside)
            if nearest <= radius:
                ranges[i] = min(ranges[i], np.float32(nearest))
