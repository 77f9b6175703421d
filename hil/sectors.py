"""The direct scan: the nearest solid thing in each 2 deg sector about the base, without the detour through images.

A sector is an area, not a ray, so nothing in it is missed, however thin. It crosses the grid strip by strip along the
axis that it is closer to. What it covers of a strip is a run of cells, tested with one look at a word of bits; where
the nearest thing is farther than the sector is wide, it takes many strips in one stride. `scan_plain` is the
definition; the kernel agrees with it to rounding.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from hil.bodies import NO_BODIES, Bodies
from hil.maps import World
from onboard.geometry import apply, compose
from onboard.kernels import BIN_DEG, EDGES
from onboard.messages import BINS, Pose

SCAN_RADIUS_M = 10.0
SCAN_Z_MIN_M = 0.05
SCAN_Z_MAX_M = 1.2
WORD_BITS = 64
FAN = 6
"""Sectors that are first walked together; a divisor of `BINS`."""
MOST_CASTERS = 8
"""Worlds and height bands that `caster_of` remembers."""
WITHIN_ROUNDING = 1.0 - 1e-12

Ranges = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]


class ScanCaster:
    """What casting needs of one world and one height band: a quarter of a byte for each cell beside the world's gap."""

    def __init__(self, world: World, z_min_m: float = SCAN_Z_MIN_M, z_max_m: float = SCAN_Z_MAX_M) -> None:
        self._cell_m = world.cell_m
        self._grid_from_map = world.grid_from_map
        self._band_m = (z_min_m, z_max_m)
        self._gap = world.gap
        self._by_column, self._by_row = _bits(world.low_m, world.high_m, z_min_m, z_max_m)

    def cast(self, pose: Pose, radius_m: float = SCAN_RADIUS_M, bodies: Bodies = NO_BODIES) -> Ranges:
        """Return (180,) ranges [m] about the base at a pose of the map frame, inf where nothing is within the radius.

        From outside the grid nothing but bodies is in sight.
        """
        placed = compose(self._grid_from_map, pose)
        cell, c, s = self._cell_m, math.cos(placed.yaw_rad), math.sin(placed.yaw_rad)
        ranges = np.empty(BINS, np.float32)
        _cast(
            placed.x_m / cell, placed.y_m / cell, c, s, radius_m / cell, cell,
            self._gap, self._by_column, self._by_row, ranges,
        )  # fmt: skip
        if len(bodies):
            _lower_to_bodies(pose.x_m, pose.y_m, pose.yaw_rad, radius_m, *self._band_m, bodies, ranges)
        return ranges

    @property
    def nbytes(self) -> int:
        """Memory beside the world's own."""
        return self._by_column.nbytes + self._by_row.nbytes


def cast_scan(
    world: World,
    pose: Pose,
    radius_m: float = SCAN_RADIUS_M,
    z_min_m: float = SCAN_Z_MIN_M,
    z_max_m: float = SCAN_Z_MAX_M,
    bodies: Bodies = NO_BODIES,
) -> Ranges:
    """Return (180,) ranges [m]: the nearest point of each 2 deg sector that is solid in the height band.

    inf beyond `radius_m`. It looks all around and from the base's centre: what only cameras elsewhere would see, or
    would miss behind something low, differs. Against the scan fused from the default robot's rendered cameras see
    tests/test_scans_agree.py.
    """
    return caster_of(world, z_min_m, z_max_m).cast(pose, radius_m, bodies)


_casters: dict[tuple[int, int, float, float], tuple[weakref.ref[Any], ScanCaster]] = {}
"""By the identity of a world's heights and gap, for as long as the heights live."""


def caster_of(world: World, z_min_m: float = SCAN_Z_MIN_M, z_max_m: float = SCAN_Z_MAX_M) -> ScanCaster:
    """Return the caster of a world and a height band, made at the first call; it does not keep the world alive."""
    key = (id(world.low_m), id(world.gap), z_min_m, z_max_m)
    known = _casters.get(key)
    if known is not None and known[0]() is world.low_m:
        return known[1]
    caster = ScanCaster(world, z_min_m, z_max_m)
    while len(_casters) >= MOST_CASTERS:
        _casters.pop(next(iter(_casters)), None)
    _casters[key] = (weakref.ref(world.low_m, lambda _: _casters.pop(key, None)), caster)
    return caster


@njit(cache=True, nogil=True)
def _bits(
    low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32], z_min: float, z_max: float
) -> tuple[Words, Words]:
    """Return ((columns, words), (rows, words)): bit r of a column, and bit c of a row, of cells solid in the band."""
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


@njit(cache=True, nogil=True)
def _cast(
    x: float, y: float, c: float, s: float, radius: float, cell_m: float,
    gap: npt.NDArray[np.uint8], by_column: Words, by_row: Words, ranges: Ranges,
) -> None:  # fmt: skip
    """Set the ranges [m] of sectors about (x, y) [cells], turned by the angle of cosine c and sine s.

    What is surely empty is found for a fan of sectors at once.
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
            empty = _empty(x, y, a[0], a[1], b[0], b[1], radius, across)
        else:
            empty = _empty(y, x, a[1], a[0], b[1], b[0], radius, gap)
        for i in range(first, first + FAN):
            a, b = edges[i], edges[i + 1]
            if abs(a[0] + b[0]) >= abs(a[1] + b[1]):
                ranges[i] = cell_m * _sector(x, y, a[0], a[1], b[0], b[1], empty, radius, by_column, across)
            else:
                ranges[i] = cell_m * _sector(y, x, a[1], a[0], b[1], b[0], empty, radius, by_row, gap)


@njit(cache=True, nogil=True)
def _stride(
    strip: int, near: float, v: float, low_slope: float, high_slope: float, strips_a_cell: float,
    gap: npt.NDArray[np.uint8],
) -> tuple[int, int, int]:  # fmt: skip
    """Return (strips from here that are surely empty, least and largest cell that a sector covers of this one).

    The cells end one too far where the sector runs askew to the strip; there are none once the sector left the grid.
    """
    cells = gap.shape[1]
    low = max(math.floor(v + low_slope * near + min(low_slope, 0.0)), 0)
    high = min(math.floor(v + high_slope * near + max(high_slope, 0.0)), cells - 1)
    if low > high:
        return 0, low, high
    middle = (low + high) >> 1
    reach = np.int64(gap[strip, middle])
    room = reach - 1 - (high - middle)
    if room < 0:
        return 0, low, high
    return 1 + min(reach - 1, np.int64(room * strips_a_cell)), low, high


@njit(cache=True, nogil=True)
def _empty(
    u: float, v: float, au: float, av: float, bu: float, bv: float, radius: float, gap: npt.NDArray[np.uint8]
) -> float:
    """Return a distance within which the sector is surely empty [cells]; a stride falls short near anything."""
    strips = gap.shape[0]
    step = 1 if au + bu > 0.0 else -1
    slope_a, slope_b = av / abs(au), bv / abs(bu)
    low_slope, high_slope = min(slope_a, slope_b), max(slope_a, slope_b)
    strips_a_cell = WITHIN_ROUNDING / max(-low_slope, high_slope)
    strip, near = math.floor(u), 0.0
    while 0 <= strip < strips and near < radius:
        free, _, _ = _stride(strip, near, v, low_slope, high_slope, strips_a_cell, gap)
        if free == 0:
            return near
        strip += step * free
        near = strip - u if step > 0 else u - strip - 1.0
    return near


@njit(cache=True, nogil=True)
def _sector(
    u: float, v: float, au: float, av: float, bu: float, bv: float, empty: float, radius: float,
    lines: Words, gap: npt.NDArray[np.uint8],
) -> float:  # fmt: skip
    """Return the range of the sector at (u, v) between the unit vectors a and b, which is closer to the u axis [cells].

    empty: distance within which it is known to be empty
    lines: bits along v, one line of words for each strip of u; gap: (strips, cells along v)
    """
    strips, cells = gap.shape
    step = 1 if au + bu > 0.0 else -1
    length_a, length_b = 1.0 / abs(au), 1.0 / abs(bu)
    slope_a, slope_b = av * length_a, bv * length_b
    low_slope, high_slope = min(slope_a, slope_b), max(slope_a, slope_b)
    least_length = 1.0 if low_slope <= 0.0 <= high_slope else min(length_a, length_b)
    strips_a_cell = WITHIN_ROUNDING / max(-low_slope, high_slope)
    best, strip = math.inf, math.floor(u + step * empty / max(length_a, length_b))
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
        if _any_set(lines, strip, low, high):
            far = strip + 1.0 - u if step > 0 else u - strip
            first = cells
            for cell in range(low, high + 2):
                if cell <= high and _is_set(lines, strip, cell):
                    first = min(first, cell)
                elif first < cell:
                    box = (near, far, first - v, cell - v)
                    best = min(best, _nearest(box, slope_a, slope_b, length_a, length_b))
                    first = cells
        strip += step
    return best if best <= radius else math.inf


@njit(cache=True, nogil=True)
def _is_set(lines: Words, strip: int, cell: int) -> bool:
    return (lines[strip, cell // WORD_BITS] >> np.uint64(cell % WORD_BITS)) & np.uint64(1) != 0


@njit(cache=True, nogil=True)
def _any_set(lines: Words, strip: int, low: int, high: int) -> bool:
    """Return whether any bit from low to high is set. A line has a spare word at its end."""
    for first in range(low, high + 1, WORD_BITS):
        word, shift = first // WORD_BITS, np.uint64(first % WORD_BITS)
        # Two shifts, since one by 64 is not defined.
        window = (lines[strip, word] >> shift) | (
            (lines[strip, word + 1] << np.uint64(1)) << (np.uint64(WORD_BITS - 1) - shift)
        )
        count = min(high - first + 1, WORD_BITS)
        if window << np.uint64(WORD_BITS - count):
            return True
    return False


@njit(cache=True, nogil=True)
def _nearest(
    box: tuple[float, float, float, float], slope_a: float, slope_b: float, length_a: float, length_b: float
) -> float:
    """Return the distance from the origin to what a sector cuts of a box (u from, to, v from, to), u >= 0.

    It is the box's nearest point, or else where an edge of the sector enters the box.
    """
    near, _, v_from, v_to = box
    v_nearest = min(max(0.0, v_from), v_to)
    if min(slope_a, slope_b) * near <= v_nearest <= max(slope_a, slope_b) * near:
        return math.sqrt(near * near + v_nearest * v_nearest)
    return min(_entry(box, slope_a) * length_a, _entry(box, slope_b) * length_b)


@njit(cache=True, nogil=True)
def _entry(box: tuple[float, float, float, float], slope: float) -> float:
    """Return the least u at which the line v = slope u is in a box, inf where it passes by."""
    near, far, v_from, v_to = box
    if slope == 0.0:
        return near if v_from <= 0.0 <= v_to else math.inf
    first, last = v_from / slope, v_to / slope
    if slope < 0.0:
        first, last = last, first
    entry = max(near, first)
    return entry if entry <= min(far, last) else math.inf


@njit(cache=True, nogil=True)
def _lower_to_bodies(
    x: float, y: float, yaw: float, radius: float, z_min: float, z_max: float, bodies: Floats, ranges: Ranges
) -> None:
    """Lower the ranges [m] to the nearest points of discs about (x, y, yaw), all in the map frame."""
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


def scan_plain(
    world: World,
    pose: Pose,
    radius_m: float = SCAN_RADIUS_M,
    z_min_m: float = SCAN_Z_MIN_M,
    z_max_m: float = SCAN_Z_MAX_M,
    bodies: Bodies = NO_BODIES,
) -> Ranges:
    """Return what `cast_scan` returns, from every solid cell and every body in turn: the definition, slow.

    A range is the least distance to a cell's square, or a body's disc, cut by the sector with its edges.
    """
    x, y = apply(world.grid_from_map, (pose.x_m, pose.y_m))
    yaw_rad = pose.yaw_rad + world.grid_from_map.yaw_rad
    cells = np.argwhere(world.overlapping(z_min_m, z_max_m))[:, ::-1] * world.cell_m - (x, y)
    turn = np.array([[math.cos(yaw_rad), math.sin(yaw_rad)], [-math.sin(yaw_rad), math.cos(yaw_rad)]])
    solid = bodies[(bodies[:, 3] <= z_max_m) & (bodies[:, 4] >= z_min_m)]
    in_grid = np.array([apply(world.grid_from_map, (row[0], row[1])) for row in solid]).reshape(-1, 2) - (x, y)
    ranges = np.full(BINS, np.inf)
    for i in range(BINS):
        right, left = EDGES[i] @ turn, EDGES[i + 1] @ turn
        to_cells = _to_squares(cells, world.cell_m, right, left).min(initial=math.inf)
        to_bodies = _to_discs(in_grid, solid[:, 2], right, left).min(initial=math.inf)
        ranges[i] = min(to_cells, to_bodies)
    return np.where(ranges <= radius_m, ranges, np.inf).astype(np.float32)


def _to_squares(corners: Floats, side: float, right: Floats, left: Floats) -> Floats:
    """Return (n,) distance from the origin to squares (by their least corner), each cut by a sector."""
    nearest = np.clip(0.0, corners, corners + side)
    distance = np.where(_between(nearest, right, left), np.hypot(nearest[:, 0], nearest[:, 1]), np.inf)
    for edge in (right, left):
        with np.errstate(divide="ignore", invalid="ignore"):
            crossings = np.sort(np.stack([corners / edge, (corners + side) / edge]), axis=0)
        enters, leaves = np.maximum(crossings[0].max(axis=1), 0.0), crossings[1].min(axis=1)
        distance = np.minimum(distance, np.where(enters <= leaves, enters, np.inf))
    return np.asarray(distance)


def _to_discs(centres: Floats, radius: Floats, right: Floats, left: Floats) -> Floats:
    """Return (n,) distance from the origin to discs, each cut by a sector."""
    away = np.hypot(centres[:, 0], centres[:, 1])
    distance = np.where(_between(centres, right, left) | (away <= radius), np.maximum(away - radius, 0.0), np.inf)
    for edge in (right, left):
        along, beside = centres @ edge, centres @ np.array([-edge[1], edge[0]])
        half = np.sqrt(np.maximum(radius**2 - beside**2, 0.0))
        distance = np.minimum(distance, np.where((abs(beside) <= radius) & (along > 0), along - half, np.inf))
    return np.asarray(np.maximum(distance, 0.0))


def _between(points: Floats, right: Floats, left: Floats) -> npt.NDArray[np.bool_]:
    """Return (n,) bool: points in the sector from right to left, its edges and the origin included."""
    return np.asarray(
        (right[0] * points[:, 1] - right[1] * points[:, 0] >= 0.0)
        & (left[0] * points[:, 1] - left[1] * points[:, 0] <= 0.0)
    )
