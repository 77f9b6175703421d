"""Other ways to fuse a depth image, with the arguments of `fuse_plain`: what the robot's kernel must equal or beat."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import types

from onboard.perception.fusion_kernel import lower_ranges, projection_of
from onboard.perception.kernels import AHEAD, AXIS_M, EDGE_M, Array, farthest, inside, walk
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_DEG, BINS

_IMAGE = types.Array(types.uint16, 2, "C", readonly=True)
_MATRIX = types.Array(types.float64, 2, "C", readonly=True)
_LENS = (types.float64,) * 5
_LIMITS = (types.float64,) * 4


def by_kernel(ranges_m, depth, fx, fy, cx, cy, depth_scale_m, base_from_camera, now_from_then, *limits) -> None:
    """Fuse by the robot's kernel, with a projection made for this image."""
    projection = projection_of(depth.shape, fx, fy, cx, cy, depth_scale_m, base_from_camera, *limits)
    lower_ranges(ranges_m, depth, projection, now_from_then)


@kernel(
    signature=types.void(types.float32[::1], _IMAGE, *_LENS, _MATRIX, _MATRIX, *_LIMITS, _MATRIX, types.float64),
)
def pixel_by_pixel(
    ranges_m: npt.NDArray[np.float32],
    depth: npt.NDArray[np.uint16],
    fx: float,
    fy: float,
    cx: float,
    cy: float,
    depth_scale_m: float,
    base_from_camera: Array,
    now_from_then: Array,
    near_m: float,
    far_m: float,
    z_min_m: float,
    z_max_m: float,
    body_boxes_m: Array,
    noise_per_m: float,
) -> None:  # pragma: no cover - compiled
    """Lower `ranges_m` in place to the nearest obstacle of one depth image in each bearing bin. See `fuse_plain`.

    A pixel is dropped at the first failed test, and the search for a point's bin starts at its neighbour's bin.
    """
    height, width = depth.shape
    on_its_side = abs(base_from_camera[2, 0]) > abs(base_from_camera[2, 1])
    tall, wide = (height / 480.0, width / 848.0) if not on_its_side else (width / 480.0, height / 848.0)
    along, across = max(1, int(16 * tall)), max(1, int(8 * wide))
    every_v, every_u = (across, along) if on_its_side else (along, across)
    sums_m, counts, sample_bins, samples_m = np.zeros(BINS), np.zeros(BINS), [AHEAD], [0.0]
    r, t = base_from_camera[:3, :3], base_from_camera[:3, 3]
    near_m, far_m = near_m - EDGE_M, far_m + EDGE_M
    z_min_m, z_max_m = z_min_m - EDGE_M, z_max_m + EDGE_M
    columns = np.empty((width, 3))
    for u in range(width):
        a = (u - cx) / fx
        for k in range(3):
            columns[u, k] = r[k, 0] * a
    nearest_m2 = np.full(BINS, np.inf)
    last = AHEAD
    for v in range(height):
        b = (v - cy) / fy
        row_x, row_y, row_z = r[0, 1] * b + r[0, 2], r[1, 1] * b + r[1, 2], r[2, 1] * b + r[2, 2]
        for u in range(width):
            forward = depth[v, u] * depth_scale_m
            z = forward * (columns[u, 2] + row_z) + t[2]
            if z < z_min_m or z > z_max_m or depth[v, u] == 0 or forward < near_m or forward > far_m:
                continue
            x = forward * (columns[u, 0] + row_x) + t[0]
            y = forward * (columns[u, 1] + row_y) + t[1]
            now_x = now_from_then[0, 0] * x + now_from_then[0, 1] * y + now_from_then[0, 2]
            now_y = now_from_then[1, 0] * x + now_from_then[1, 1] * y + now_from_then[1, 2]
            radius_m2 = now_x * now_x + now_y * now_y
            last = walk(last, now_x, now_y) if radius_m2 > AXIS_M * AXIS_M else AHEAD
            if inside(body_boxes_m, x, y, z):
                continue
            nearest_m2[last] = min(nearest_m2[last], radius_m2)
            if noise_per_m > 0.0 and v % every_v == every_v // 2 and u % every_u == every_u // 2:
                sample_bins.append(last)
                samples_m.append(math.sqrt(radius_m2))
    for bin_, sample_m in zip(sample_bins[1:], samples_m[1:]):  # noqa: B905 - numba has no strict
        if sample_m <= farthest(math.sqrt(nearest_m2[bin_]), noise_per_m):
            sums_m[bin_] += sample_m
            counts[bin_] += 1.0
    for i in range(BINS):
        range_m = sums_m[i] / counts[i] if counts[i] >= 5 else math.sqrt(nearest_m2[i])
        ranges_m[i] = min(ranges_m[i], np.float32(range_m))


@kernel(
    signature=types.void(types.float32[::1], _IMAGE, *_LENS, _MATRIX, _MATRIX, *_LIMITS, _MATRIX, types.float64),
)
def by_angle(
    ranges_m: npt.NDArray[np.float32],
    depth: npt.NDArray[np.uint16],
    fx: float,
    fy: float,
    cx: float,
    cy: float,
    depth_scale_m: float,
    base_from_camera: Array,
    now_from_then: Array,
    near_m: float,
    far_m: float,
    z_min_m: float,
    z_max_m: float,
    body_boxes_m: Array,
    noise_per_m: float,
) -> None:  # pragma: no cover - compiled
    """Take the nearest point with an arctan2 for each obstacle point, without the rules for points on an edge."""
    height, width = depth.shape
    r, t = base_from_camera[:3, :3], base_from_camera[:3, 3]
    for v in range(height):
        b = (v - cy) / fy
        for u in range(width):
            forward = depth[v, u] * depth_scale_m
            if depth[v, u] == 0 or forward < near_m or forward > far_m:
                continue
            a = (u - cx) / fx
            z = forward * (r[2, 0] * a + r[2, 1] * b + r[2, 2]) + t[2]
            if z < z_min_m or z > z_max_m:
                continue
            x = forward * (r[0, 0] * a + r[0, 1] * b + r[0, 2]) + t[0]
            y = forward * (r[1, 0] * a + r[1, 1] * b + r[1, 2]) + t[1]
            bin_ = int((math.degrees(math.atan2(y, x)) + 180.0) / BIN_DEG) % BINS
            ranges_m[bin_] = min(ranges_m[bin_], math.sqrt(x * x + y * y))
