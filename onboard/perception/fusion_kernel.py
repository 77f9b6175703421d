"""The fusion of one depth image as the robot runs it: a kernel that computes few bearings, and yet is exact.

`fuse_plain` in `kernels.py` is the definition; both give the same bits. Most pixels cannot change the scan: they are
floor, ceiling or holes, or their bin holds something nearer. The kernel proves this for 64 pixels of a row at a time:

    SEEDS   the definition's samples are computed first, so that most bins are near their result before the first row
    LIVE    a block is skipped if no pixel has a depth at which it can be in the height band, computed once for a mount
    REACH   or if all are so deep that all bins that they can be in hold something nearer, computed every `GROUP` rows
    FILTER  in float32, a pixel is dropped if its bin is known and holds something nearer. The bin is known if it is the
            bin of the last exact pixel of its column, or beside that bin
    EXACT   what is left is computed in float64, by the operations of the definition in the same order

The filter drops a pixel only if the decision holds by `_SLACK`, more than all its roundings. So it errs in time, never
in a range. It needs no property of the mount. It is fast where neighbours in a column are often in one bin, although
the columns of a pitched or rolled camera are no vertical planes. In an image on its side the rows have this property:
there one exact pixel aims each block of a row anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import types
from numba.cpython.unsafe.numbers import trailing_zeros

from onboard.perception.kernels import AHEAD, AXIS_M, EDGE_M, LEAST_SAMPLES, farthest, inside, sample_steps, walk
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_DEG, BINS

Array = npt.NDArray[np.float64]
Depth = npt.NDArray[np.uint16]

BLOCK = 64
"""Pixels that are judged together."""
_LINE = 64
_WORD = 8
"""Bytes of a word of the mask."""
GROUP = 32
"""Rows for which a block's reach is computed together."""
_FIRST_M = 0.25
"""A reach is at least this [m]: nearer by, a block looks into too many bins."""
_ANGLE_RAD = 1e-6
"""A reach counts a bin that begins so near to a block's edge, far above `EDGE_M` at `_FIRST_M`."""
AIM_ROWS = 4
"""In an image on its side, a block is aimed once in so many rows."""
_SLACK = 64 * 2.0**-24
"""Bound of the filter's error, relative to the largest coordinate: about 20 roundings, with room."""
_HALF = np.float32(math.tan(math.radians(0.5 * BIN_DEG)))
_THREE_HALVES = np.float32(math.tan(math.radians(1.5 * BIN_DEG)))
_CENTERS = np.array(
    [[math.cos(a), math.sin(a)] for a in np.radians((np.arange(BINS) + 0.5) * BIN_DEG - 180.0)], np.float32
)
_TERMS = 7
"""Numbers of a column: x, y, z a unit of depth; direction of its bin; squared range of that bin and beside it."""


@dataclass(frozen=True, slots=True)
class Projection:
    """One camera as the kernel needs it: what depends on mount and limits only, and scratch memory.

    A projection serves one thread at a time. Columns are in slots: whole blocks, of which the last overlaps the one
    before. An image narrower than a block has a slot for each column and no blocks.

    rows, columns: (height, 3), (slots, 3), the ray of a pixel is their sum [base frame, at 1 m of depth]
    position_m:    (3,) of the camera in the base
    corners:       (groups, blocks, 4, 3), x, y and bearing [rad] of the corner rays of a block in a group of rows
    limits:        (height, blocks, 2) uint16, least and greatest depth at which a pixel of the block may be an obstacle
    bounds:        depth unit [m], near, far, lowest and highest height [m], largest coordinate [m]
    upright:       the image's rows are about level
    steps:         of `sample_steps`
    noise_per_m:   as for `fuse_plain`
    """

    rows: Array
    columns: Array
    position_m: Array
    corners: Array
    limits: Depth
    bounds: tuple[float, float, float, float, float, float]
    body_boxes_m: Array
    upright: bool
    steps: tuple[int, int]
    noise_per_m: float
    scratch: tuple[np.ndarray, ...]


def projection_of(
    shape: tuple[int, int],
    fx: float,
    fy: float,
    cx: float,
    cy: float,
    depth_scale_m: float,
    base_from_camera: Array,
    near_m: float,
    far_m: float,
    z_min_m: float,
    z_max_m: float,
    body_boxes_m: Array,
    noise_per_m: float = 0.0,
) -> Projection:
    """Return the projection of a camera with images of (height, width); other arguments as for `fuse_plain`."""
    height, width = shape
    rotation, position = base_from_camera[:3, :3], base_from_camera[:3, 3]
    blocks = math.ceil(width / BLOCK) if width >= BLOCK else 0
    starts = np.minimum(np.arange(blocks) * BLOCK, width - BLOCK)
    u = (starts[:, np.newaxis] + np.arange(BLOCK)).ravel() if blocks else np.arange(width)
    a, b = (u - cx) / fx, (np.arange(height) - cy) / fy
    columns = a[:, np.newaxis] * rotation[:, 0]
    rows = b[:, np.newaxis] * rotation[:, 1] + rotation[:, 2]
    near_m, far_m, z_min_m, z_max_m = near_m - EDGE_M, far_m + EDGE_M, z_min_m - EDGE_M, z_max_m + EDGE_M
    low, high = _depths_in_band(rows[:, 2:] + columns[:, 2], position[2], (near_m, far_m), (z_min_m, z_max_m))
    least = np.clip(np.floor(low / depth_scale_m) - 1.0, 1.0, 65535.0).reshape(height, -1, BLOCK if blocks else width)
    greatest = np.clip(np.ceil(high / depth_scale_m) + 1.0, 0.0, 65535.0).reshape(least.shape)
    limits = np.stack([least.min(axis=2), greatest.max(axis=2)], axis=2).astype(np.uint16)
    largest_m = (
        far_m * (np.abs(columns).sum(axis=1).max() + np.abs(rows).sum(axis=1).max()) + np.abs(position).sum() + 1.0
    )
    steps = sample_steps(shape, base_from_camera)
    samples = math.ceil(height / steps[0]) * math.ceil(width / steps[1])
    scratch = (
        _aligned((blocks, _TERMS, BLOCK), np.float32),
        np.zeros(blocks, np.uint8),
        _aligned((blocks, BLOCK), np.uint8),
        np.zeros(u.size, np.int64),
        np.zeros(u.size, np.int64),
        np.zeros((u.size, 7)),
        np.zeros(blocks, np.int64),
        np.zeros(blocks, np.uint16),
        np.zeros(BINS),
        np.zeros(BINS, np.float32),
        np.zeros(samples),
        np.zeros(samples, np.int64),
        np.zeros((BINS, 3)),
    )
    bounds = (depth_scale_m, near_m, far_m, z_min_m, z_max_m, float(largest_m))
    corners = _corners(rows, columns, blocks)
    upright = bool(abs(rotation[2, 0]) <= abs(rotation[2, 1]))
    return Projection(
        rows, columns, position.copy(), corners, limits, bounds, np.ascontiguousarray(body_boxes_m), upright, steps,
        noise_per_m, scratch,
    )  # fmt: skip


def _corners(rows: Array, columns: Array, blocks: int) -> Array:
    """Return the corners of `Projection`."""
    starts = np.arange(0, len(rows), GROUP)
    ends = np.stack([starts, np.minimum(starts + GROUP, len(rows)) - 1], axis=1)
    sides = columns.reshape(blocks, BLOCK, 3)[:, [0, -1], :2] if blocks else np.zeros((0, 2, 2))
    rays = rows[ends, :2][:, np.newaxis, :, np.newaxis] + sides[np.newaxis, :, np.newaxis]
    rays = rays.reshape(len(starts), blocks, 4, 2)
    bearing = np.unwrap(np.arctan2(rays[..., 1:], rays[..., :1]), axis=2)
    return np.ascontiguousarray(np.concatenate([rays, bearing], axis=3))


def _aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    """Return zeros that begin at a cache line: a load of 64 bytes across two lines costs twice as much."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def _depths_in_band(
    rising: Array, height_m: float, depths_m: tuple[float, float], band_m: tuple[float, float]
) -> tuple[Array, Array]:
    """Return the first and the last depth [m] at which each ray is in the height band; (inf, 0) for none.

    rising: change of height per metre of depth; height_m: of the camera
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        to_floor, to_ceiling = (band_m[0] - height_m) / rising, (band_m[1] - height_m) / rising
    level = np.abs(rising) * depths_m[1] < EDGE_M
    low = np.where(level, depths_m[0], np.fmax(np.fmin(to_floor, to_ceiling), depths_m[0]))
    high = np.where(level, depths_m[1], np.fmin(np.fmax(to_floor, to_ceiling), depths_m[1]))
    never = low > high + EDGE_M + 1e-6 * depths_m[1]
    return np.where(never, np.inf, low), np.where(never, 0.0, high)


def lower_ranges(ranges_m: npt.NDArray[np.float32], depth: Depth, projection: Projection, now_from_then: Array) -> None:
    """Lower `ranges_m` in place to the nearest obstacle of one depth image in each bearing bin. See `fuse_plain`.

    depth: C-contiguous, of the projection's size; now_from_then: (2, 3) of `planar`
    Allocates nothing and releases the GIL.
    """
    _lower(
        ranges_m,
        depth,
        projection.rows,
        projection.columns,
        projection.position_m,
        projection.corners,
        projection.limits,
        *projection.bounds,
        projection.body_boxes_m,
        projection.upright,
        *projection.steps,
        projection.noise_per_m,
        now_from_then,
        *projection.scratch,
    )


def _of(dtype: types.Type, axes: int, readonly: bool = False) -> types.Array:
    """Return a kernel's type of a C-contiguous array; writable arrays convert to a read-only one."""
    return types.Array(dtype, axes, "C", readonly=readonly)


_IMAGE = _of(types.uint16, 2, readonly=True)
_TABLE, _BYTES, _MASK = _of(types.float32, 3), _of(types.uint8, 1), _of(types.uint8, 2)
_LIMITS = _of(types.uint16, 3, readonly=True)
_MATRIX, _VECTOR = _of(types.float64, 2, readonly=True), _of(types.float64, 1, readonly=True)


@kernel(signature=types.void(_BYTES, _IMAGE, types.int64, _LIMITS, _of(types.uint16, 1)), error_model="numpy")
def _find_live(
    live: np.ndarray, depth: Depth, v: int, limits: Depth, reach: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Set `live` of each block of a row that has a pixel within its limits and its reach."""
    width = depth.shape[1]
    for block in range(live.size):
        start = np.uint64(min(block * BLOCK, width - BLOCK))
        least, greatest = limits[v, block, 0], min(limits[v, block, 1], reach[block])
        found = np.uint16(0)
        for j in range(BLOCK):
            units = depth[np.uint64(v), start + np.uint64(j)]
            found |= np.uint16((units >= least) & (units <= greatest))
        live[block] = found != 0


@kernel(
    signature=types.void(_MASK, _BYTES, _IMAGE, types.int64, _TABLE, *(types.float32,) * 11),
    error_model="numpy",
)
def _filter(
    mask: np.ndarray,
    live: np.ndarray,
    depth: Depth,
    v: int,
    table: np.ndarray,
    row_x: float,
    row_y: float,
    row_z: float,
    x_m: float,
    y_m: float,
    z_m: float,
    least: float,
    greatest: float,
    z_min_m: float,
    z_max_m: float,
    slack_m: float,
) -> None:  # pragma: no cover - compiled
    """Set `mask` of each pixel in live blocks of a row that may lower a range, and keep the blocks that have one live.

    One SIMD loop without a branch.
    """
    width = depth.shape[1]
    for block in range(live.size):
        if live[block] == 0:
            continue
        start = np.uint64(min(block * BLOCK, width - BLOCK))
        found = False
        for j in range(BLOCK):
            units = np.float32(depth[np.uint64(v), start + np.uint64(j)])
            x = units * (table[block, 0, j] + row_x) + x_m
            y = units * (table[block, 1, j] + row_y) + y_m
            z = units * (table[block, 2, j] + row_z) + z_m
            to_x, to_y, own_m2, all_m2 = table[block, 3, j], table[block, 4, j], table[block, 5, j], table[block, 6, j]
            radius_m2 = x * x + y * y
            along = to_x * x + to_y * y
            aside = abs(to_x * y - to_y * x) + slack_m
            nearer = (
                (aside > along * _THREE_HALVES)
                | (radius_m2 < own_m2)
                | ((aside > along * _HALF) & (radius_m2 < all_m2))
            )
            kept = (units >= least) & (units <= greatest) & (z >= z_min_m) & (z <= z_max_m) & nearer
            mask[block, j] = kept
            found |= kept
        live[block] = found


@kernel(cache=False, inline="always")
def _aim(
    table: np.ndarray, block: int, first: int, last: int, bin_: int, limit_m2: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Let the filter compare columns `first` to `last` - 1 of a block with bin `bin_` and its neighbours."""
    left, right = limit_m2[bin_ + 1 if bin_ < BINS - 1 else 0], limit_m2[bin_ - 1 if bin_ > 0 else BINS - 1]
    beside, own = max(left, right), limit_m2[bin_]
    to_x, to_y = _CENTERS[bin_, 0], _CENTERS[bin_, 1]
    for j in range(first, last):
        table[block, 3, j] = to_x
        table[block, 4, j] = to_y
        table[block, 5, j] = own
        table[block, 6, j] = beside


@kernel(
    signature=types.void(
        _of(types.uint16, 1),
        _of(types.float64, 3, readonly=True),
        types.float64,
        _MATRIX,
        _VECTOR,
        _of(types.float32, 1),
    ),
    error_model="numpy",
)
def _find_reach(
    reach: np.ndarray,
    corners: Array,
    depth_scale_m: float,
    to: Array,
    position_m: Array,
    limit_m2: np.ndarray,
) -> None:  # pragma: no cover - compiled
    """Set the depth [units] from which on no pixel of each block can lower a range, in one group of rows.

    The points of a block from a depth on lie in the convex hull of its corner rays from there. So their bearings lie
    between those of the corners: at that depth, and far away. Their distance from the base is at least the hull's
    extent along a direction in the middle. From a greater depth on there are fewer bins and more distance.
    """
    turn_rad = math.atan2(to[1, 0], to[0, 0])
    x_m = to[0, 0] * position_m[0] + to[0, 1] * position_m[1] + to[0, 2]
    y_m = to[1, 0] * position_m[0] + to[1, 1] * position_m[1] + to[1, 2]
    for block in range(reach.size):
        reach[block] = 65535
        middle_x, middle_y = 0.0, 0.0
        for i in range(4):
            middle_x += to[0, 0] * corners[block, i, 0] + to[0, 1] * corners[block, i, 1]
            middle_y += to[1, 0] * corners[block, i, 0] + to[1, 1] * corners[block, i, 1]
        length = math.sqrt(middle_x * middle_x + middle_y * middle_y)
        if length == 0.0:
            continue
        middle_x, middle_y = middle_x / length, middle_y / length
        growth, first_rad, last_rad, ahead = np.inf, np.inf, -np.inf, True
        for i in range(4):
            x = to[0, 0] * corners[block, i, 0] + to[0, 1] * corners[block, i, 1]
            y = to[1, 0] * corners[block, i, 0] + to[1, 1] * corners[block, i, 1]
            growth = min(growth, middle_x * x + middle_y * y)
            along = x * x_m + y * y_m + _FIRST_M * (x * x + y * y)
            ahead = ahead and along > 0.0
            turned_rad = (x * y_m - y * x_m) / along
            first_rad = min(first_rad, corners[block, i, 2] + min(turned_rad, 0.0))
            last_rad = max(last_rad, corners[block, i, 2] + max(turned_rad, 0.0))
        start_m = middle_x * x_m + middle_y * y_m
        if not ahead or growth <= 0.0 or start_m + _FIRST_M * growth <= 0.0 or last_rad - first_rad > 1.0:
            continue
        degree = 180.0 / math.pi
        first = math.floor(((first_rad + turn_rad - _ANGLE_RAD) * degree + 180.0) / BIN_DEG)
        last = math.floor(((last_rad + turn_rad + _ANGLE_RAD) * degree + 180.0) / BIN_DEG)
        most_m2 = 0.0
        for bin_ in range(first, last + 1):
            most_m2 = max(most_m2, limit_m2[bin_ % BINS])
        from_m = max(_FIRST_M, (math.sqrt(most_m2) - start_m) / growth)
        if from_m < 65534.0 * depth_scale_m:
            reach[block] = math.ceil(from_m / depth_scale_m) + 1


@kernel(
    signature=types.void(
        _of(types.float32, 1),
        _IMAGE,
        _MATRIX,
        _MATRIX,
        _VECTOR,
        _of(types.float64, 4, readonly=True),
        _LIMITS,
        *(types.float64,) * 6,
        _MATRIX,
        types.boolean,
        types.int64,
        types.int64,
        types.float64,
        _MATRIX,
        _TABLE,
        _BYTES,
        _MASK,
        _of(types.int64, 1),
        _of(types.int64, 1),
        _of(types.float64, 2),
        _of(types.int64, 1),
        _of(types.uint16, 1),
        _of(types.float64, 1),
        _of(types.float32, 1),
        _of(types.float64, 1),
        _of(types.int64, 1),
        _of(types.float64, 2),
    ),
    error_model="numpy",
)
def _lower(
    ranges_m: npt.NDArray[np.float32],
    depth: Depth,
    rows: Array,
    columns: Array,
    position_m: Array,
    corners: Array,
    limits: Depth,
    depth_scale_m: float,
    near_m: float,
    far_m: float,
    z_min_m: float,
    z_max_m: float,
    largest_m: float,
    body_boxes_m: Array,
    upright: bool,
    every: int,
    beside: int,
    noise_per_m: float,
    now_from_then: Array,
    table: np.ndarray,
    live: np.ndarray,
    mask: np.ndarray,
    bins: np.ndarray,
    slots: np.ndarray,
    points: Array,
    aimed: np.ndarray,
    reach: np.ndarray,
    nearest_m2: Array,
    limit_m2: np.ndarray,
    samples_m: Array,
    sample_bins: np.ndarray,
    means: Array,
) -> None:  # pragma: no cover - compiled
    """Do what `lower_ranges` says.

    bins: last bin of each slot; slots, points: pixels of a row to compute exactly
    means: limit, sum and count of the samples of each bin
    """
    height, width = depth.shape
    samples, overlap = 0, bins.size - width
    blocks, to, words = live.size, now_from_then, mask.view(np.uint64)
    slack_m = _SLACK * (largest_m + abs(to[0, 2]) + abs(to[1, 2]))
    for block in range(blocks):
        aimed[block] = -AIM_ROWS
        for j in range(BLOCK):
            ray = columns[block * BLOCK + j]
            table[block, 0, j] = (to[0, 0] * ray[0] + to[0, 1] * ray[1]) * depth_scale_m
            table[block, 1, j] = (to[1, 0] * ray[0] + to[1, 1] * ray[1]) * depth_scale_m
            table[block, 2, j] = ray[2] * depth_scale_m
    x_m = np.float32(to[0, 0] * position_m[0] + to[0, 1] * position_m[1] + to[0, 2])
    y_m = np.float32(to[1, 0] * position_m[0] + to[1, 1] * position_m[1] + to[1, 2])
    least, greatest = np.float32(max(1.0, near_m / depth_scale_m - 1.0)), np.float32(far_m / depth_scale_m + 1.0)
    low_m, high_m = np.float32(z_min_m - slack_m), np.float32(z_max_m + slack_m)
    nearest_m2[:] = np.inf
    limit_m2[:] = np.inf
    bins[:] = AHEAD
    for seeding in (True, False):
        for v in range(every // 2 if seeding else 0, height, every if seeding else 1):
            ray_x, ray_y, ray_z = rows[v, 0], rows[v, 1], rows[v, 2]
            count = 0
            if seeding:
                for u in range(beside // 2, width, beside):
                    slots[count] = u if u < (blocks - 1) * BLOCK else u + overlap
                    count += 1
            elif blocks == 0:
                for slot in range(width):
                    slots[count] = slot
                    count += 1
            else:
                if v % GROUP == 0:
                    _find_reach(reach, corners[v // GROUP], depth_scale_m, to, position_m, limit_m2)
                _find_live(live, depth, v, limits, reach)
                if not upright:
                    for block in range(blocks):
                        if live[block] == 0 or v - aimed[block] < AIM_ROWS:
                            continue
                        start = min(block * BLOCK, width - BLOCK)
                        for step in range(_WORD):
                            j = (BLOCK // 2 + step * 3 * _WORD) % BLOCK
                            forward = depth[v, start + j] * depth_scale_m
                            ray = columns[block * BLOCK + j]
                            z = forward * (ray[2] + ray_z) + position_m[2]
                            if z < z_min_m or z > z_max_m or forward < near_m or forward > far_m or forward == 0.0:
                                continue
                            x = forward * (ray[0] + ray_x) + position_m[0]
                            y = forward * (ray[1] + ray_y) + position_m[1]
                            now_x, now_y = (
                                to[0, 0] * x + to[0, 1] * y + to[0, 2],
                                to[1, 0] * x + to[1, 1] * y + to[1, 2],
                            )
                            if now_x * now_x + now_y * now_y > AXIS_M * AXIS_M:
                                bin_ = walk(bins[block * BLOCK], now_x, now_y)
                                _aim(table, block, 0, BLOCK, bin_, limit_m2)
                                bins[block * BLOCK : block * BLOCK + BLOCK] = bin_
                                aimed[block] = v
                            break
                scaled_x = np.float32((to[0, 0] * ray_x + to[0, 1] * ray_y) * depth_scale_m)
                scaled_y = np.float32((to[1, 0] * ray_x + to[1, 1] * ray_y) * depth_scale_m)
                _filter(
                    mask,
                    live,
                    depth,
                    v,
                    table,
                    scaled_x,
                    scaled_y,
                    np.float32(ray_z * depth_scale_m),
                    x_m,
                    y_m,
                    np.float32(position_m[2]),
                    least,
                    greatest,
                    low_m,
                    high_m,
                    np.float32(slack_m),
                )
                for block in range(blocks):
                    if live[block] == 0:
                        continue
                    for w in range(BLOCK // _WORD):
                        word = words[block, w]
                        while word != 0:
                            slots[count] = block * BLOCK + w * _WORD + (trailing_zeros(word) >> 3)  # type: ignore[call-arg]
                            count += 1
                            word &= word - np.uint64(1)
            for i in range(count):
                slot = slots[i]
                block = slot // BLOCK
                u = slot if blocks == 0 else min(block * BLOCK, width - BLOCK) + slot - block * BLOCK
                forward = depth[v, u] * depth_scale_m
                x = forward * (columns[slot, 0] + ray_x) + position_m[0]
                y = forward * (columns[slot, 1] + ray_y) + position_m[1]
                z = forward * (columns[slot, 2] + ray_z) + position_m[2]
                now_x, now_y = to[0, 0] * x + to[0, 1] * y + to[0, 2], to[1, 0] * x + to[1, 1] * y + to[1, 2]
                valid = (z >= z_min_m) & (z <= z_max_m) & (depth[v, u] != 0) & (forward >= near_m) & (forward <= far_m)
                points[i, 0], points[i, 1], points[i, 2], points[i, 3], points[i, 4] = x, y, z, now_x, now_y
                points[i, 5] = now_x * now_x + now_y * now_y
                points[i, 6] = valid
            for i in range(count):
                if points[i, 6] == 0.0:
                    continue
                slot, now_x, now_y, radius_m2 = slots[i], points[i, 3], points[i, 4], points[i, 5]
                bin_ = walk(bins[slot], now_x, now_y) if radius_m2 > AXIS_M * AXIS_M else AHEAD
                bins[slot] = bin_
                nearer = radius_m2 < nearest_m2[bin_]
                if (nearer or seeding) and not inside(body_boxes_m, points[i, 0], points[i, 1], points[i, 2]):
                    if nearer:
                        nearest_m2[bin_] = radius_m2
                        limit_m2[bin_] = radius_m2 + slack_m * (radius_m2 + 1.0 + slack_m)
                    if seeding:
                        samples_m[samples], sample_bins[samples] = math.sqrt(radius_m2), bin_
                        samples += 1
                if upright and blocks > 0 and not seeding:
                    block = slot // BLOCK
                    _aim(table, block, slot - block * BLOCK, slot - block * BLOCK + 1, bin_, limit_m2)
                if seeding:
                    for near in range(slot - beside // 2, min(slot - beside // 2 + beside, bins.size)):
                        bins[near] = bin_
        if seeding:
            for j in range(overlap):
                bins[(blocks - 1) * BLOCK + j] = bins[width - BLOCK + j]
            for block in range(blocks):
                for j in range(BLOCK):
                    _aim(table, block, j, j + 1, bins[block * BLOCK + j], limit_m2)
    for i in range(BINS):
        means[i, 0], means[i, 1], means[i, 2] = farthest(math.sqrt(nearest_m2[i]), noise_per_m), 0.0, 0.0
    for i in range(samples if noise_per_m > 0.0 else 0):
        bin_ = sample_bins[i]
        if samples_m[i] <= means[bin_, 0]:
            means[bin_, 1] += samples_m[i]
            means[bin_, 2] += 1.0
    for i in range(BINS):
        range_m = means[i, 1] / means[i, 2] if means[i, 2] >= LEAST_SAMPLES else math.sqrt(nearest_m2[i])
        ranges_m[i] = min(ranges_m[i], np.float32(range_m))
