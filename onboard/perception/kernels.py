"""Ranges from one depth image (paper 1, Appendix C): the plain numpy definition, and the rules at a bin's edge.

The robot runs `fusion_kernel.py`. Both do the same float64 operations in the same order, and neither trusts a library's
`atan2` at a bin's edge. So they agree bit for bit. Rules for points on an edge:

* A bin is a half-open wedge: a point belongs to bin i when it is on or left of direction `EDGES[i]` and right of
  `EDGES[i + 1]`. +180 deg is edge 0. A point on the base's vertical axis counts as straight ahead.
* The height band and the depth limits include their ends.
* A value within `EDGE_M` of an edge or limit lies on it: 0.05 has no exact binary form, 0.3 - 0.25 is slightly less,
  and the sine of 180 deg is not exactly 0.

The nearest of a surface's thousands of noisy pixels is nearer than the surface, by centimetres at 1.5 m. So the range
of a bin is the mean of sampled points that differ from its nearest point by no more than noise. The samples are a grid
of pixels (`sample_steps`). A bin with few such samples holds something small, and keeps the range of its nearest point.
No range is below the paper's minimum, or above it by more than `NOISE_WIDTH` standard deviations.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.values.kernel import compilable, kernel
from onboard.values.messages import BIN_DEG, BINS, Pose

AHEAD = BINS // 2
"""The bin that begins straight ahead."""
EDGE_M = 1e-9
"""Tolerance at edges and limits [m]: far above float64 rounding, far below a camera's depth unit."""
NEAR_M = 0.1
"""Nearer points of a camera, along its axis, are not used; `least_m` of its mount can state a farther limit."""
AXIS_M = 1e-6
"""A point nearer to the vertical axis has no bearing [m]; here a bin is still much wider than `EDGE_M`."""
NOISE_WIDTH = 6.0
"""Points differ by noise if their 1/range differ by at most so many standard deviations of 1/depth. The nearest pixel
of a wall is 2.5 to 4 of them too near."""
LEAST_SAMPLES = 5
"""A bin with fewer samples keeps its nearest point. A leg of 1.5 cm at 2 m has up to four."""
SAMPLE_ROWS, SAMPLE_COLUMNS = 16, 8
"""Every 16th row and 8th column of an image of 848x480 is a sample: about 30 for a wall in a bin."""

Array = npt.NDArray[np.float64]


def _edges() -> Array:
    """Return (BINS + 1, 2) unit vectors at -180 + 2i deg, mirrored exactly in both axes; the last equals the first."""
    eighth = [(math.cos(angle), math.sin(angle)) for angle in np.radians(np.arange(0.0, 45.0, BIN_DEG)).tolist()]
    middle = [(math.sqrt(0.5), math.sqrt(0.5))] if BINS % 8 == 0 else []
    quarter = eighth + middle + [(s, c) for c, s in reversed(eighth[1:])]
    left = quarter + [(-s, c) for c, s in quarter]
    right = [(-c, -s) for c, s in left]
    return np.array([*right, *left, right[0]])


EDGES = _edges()


def planar(target_from_source: Pose) -> Array:
    """Return the (2, 3) matrix [R | t] that `lower_ranges` and `fuse_plain` take for a planar transform."""
    c, s = math.cos(target_from_source.yaw_rad), math.sin(target_from_source.yaw_rad)
    return np.array([[c, -s, target_from_source.x_m], [s, c, target_from_source.y_m]])


def sample_steps(shape: tuple[int, int], base_from_camera: Array) -> tuple[int, int]:
    """Return the steps in rows and columns of the samples of a (height, width) image, each at least 1.

    The first sample is half a step from the corner. In an image on its side, columns are along the vertical.
    """
    height, width = shape
    if abs(base_from_camera[2, 0]) <= abs(base_from_camera[2, 1]):
        return max(1, SAMPLE_ROWS * height // 480), max(1, SAMPLE_COLUMNS * width // 848)
    return max(1, SAMPLE_COLUMNS * height // 848), max(1, SAMPLE_ROWS * width // 480)


@compilable
def farthest(nearest_m: float, noise_per_m: float) -> float:
    """Return the greatest range [m] that differs from a bin's nearest point by no more than noise."""
    per_m = 1.0 / max(nearest_m, EDGE_M) - NOISE_WIDTH * noise_per_m
    return 1.0 / per_m if per_m > 0.0 else math.inf


@kernel(cache=False, inline="always")
def walk(start: int, x: float, y: float) -> int:  # pragma: no cover - compiled
    """Return the bin of a point off the axis, searching from bin `start`."""
    i = start
    while EDGES[i, 0] * y - EDGES[i, 1] * x < -EDGE_M:
        i = i - 1 if i > 0 else BINS - 1
    while EDGES[i + 1, 0] * y - EDGES[i + 1, 1] * x >= -EDGE_M:
        i = i + 1 if i < BINS - 1 else 0
    return i


@kernel(cache=False, inline="always")
def inside(boxes_m: Array, x: float, y: float, z: float) -> bool:  # pragma: no cover - compiled
    """Return whether a point lies in one of the (n, 6) boxes, sides included."""
    for box in boxes_m:  # noqa: SIM110 - numba compiles no generator expression
        if box[0] <= x <= box[3] and box[1] <= y <= box[4] and box[2] <= z <= box[5]:
            return True
    return False


def fuse_plain(
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
    noise_per_m: float = 0.0,
) -> None:
    """Lower `ranges_m` in place to the nearest obstacle of one depth image in each bearing bin (paper 1, Appendix C).

    ranges_m:         (180,) float32 [m]
    depth:            (height, width) uint16, camera z in units of `depth_scale_m`; 0 is no return
    fx, fy, cx, cy:   pinhole intrinsics [px]; integer pixel coordinates are pixel centres
    base_from_camera: (4, 4), from the optical frame (z forward, x right, y down) to the base at capture
    now_from_then:    (2, 3) of `planar`, from the base at capture to the base in which the ranges are; heights stay
    near_m, far_m:    limits of camera z, inclusive
    z_min_m, z_max_m: height band of obstacles above the base frame's ground, inclusive
    body_boxes_m:     (n, 6) boxes in the base at capture; points in them are dropped
    noise_per_m:      standard deviation of 1/depth [1/m]; 0 takes the nearest pixel, as the paper does
    """
    rotation, position = base_from_camera[:3, :3], base_from_camera[:3, 3]
    v, u = np.nonzero(depth)
    forward = depth[v, u] * depth_scale_m
    kept = (forward >= near_m - EDGE_M) & (forward <= far_m + EDGE_M)
    u, v, forward = u[kept], v[kept], forward[kept]

    a, b = (u - cx) / fx, (v - cy) / fy
    x, y, z = (forward * (rotation[k, 0] * a + (rotation[k, 1] * b + rotation[k, 2])) + position[k] for k in range(3))
    obstacle = (z >= z_min_m - EDGE_M) & (z <= z_max_m + EDGE_M)
    for x0, y0, z0, x1, y1, z1 in body_boxes_m:
        obstacle &= ~((x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1) & (z0 <= z) & (z <= z1))
    x, y, u, v = x[obstacle], y[obstacle], u[obstacle], v[obstacle]

    now_x, now_y = (row[0] * x + row[1] * y + row[2] for row in now_from_then)
    radius_m, bins = np.sqrt(now_x * now_x + now_y * now_y), bins_of(now_x, now_y)
    nearest_m = np.full(BINS, np.inf)
    np.minimum.at(nearest_m, bins, radius_m)
    if noise_per_m > 0.0:
        rows, columns = sample_steps(depth.shape, base_from_camera)
        limit_m = np.array([farthest(least_m, noise_per_m) for least_m in nearest_m])
        used = (v % rows == rows // 2) & (u % columns == columns // 2) & (radius_m <= limit_m[bins])
        counts, sums_m = np.bincount(bins[used], minlength=BINS), np.zeros(BINS)
        np.add.at(sums_m, bins[used], radius_m[used])
        enough = counts >= LEAST_SAMPLES
        nearest_m[enough] = sums_m[enough] / counts[enough]
    np.minimum(ranges_m, nearest_m.astype(np.float32), out=ranges_m)


def bins_of(x_m: Array, y_m: Array) -> npt.NDArray[np.int64]:
    """Return the bin of each point: floor((azimuth + 180 deg) / 2 deg), corrected by `EDGES` for points on an edge."""
    azimuth_deg = np.degrees(np.arctan2(y_m, x_m))
    bins = np.floor((azimuth_deg + 180.0) / BIN_DEG).astype(np.int64) % BINS
    bins = (bins - (_left_of(EDGES[bins], x_m, y_m) < -EDGE_M)) % BINS
    bins = (bins + (_left_of(EDGES[bins + 1], x_m, y_m) >= -EDGE_M)) % BINS
    return np.where(x_m * x_m + y_m * y_m > AXIS_M * AXIS_M, bins, AHEAD)


def _left_of(edges: Array, x_m: Array, y_m: Array) -> Array:
    """Return the cross product of each edge with its point: the distance to the left of the edge [m]."""
    return np.asarray(edges[:, 0] * y_m - edges[:, 1] * x_m)
