"""Conversion of a point cloud into the 180-bin scan, by the rules of depth pixels: heights, body boxes, drop-offs.

A bin is seen where a point lies in it, at any height: the sender may leave out rays without a return. Drop-offs follow
`cliff.py`. A cloud has no pixels, so `STEP_TAN`, `SUPPORT` and the nearest floor that it holds stand for those rules.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.config.config import ScanSection
from onboard.perception.cliff import REACH_M, RING_M, RING_SIDE_DEG, SLOPE, TOUCHING_M
from onboard.perception.kernels import AHEAD, AXIS_M, EDGE_M, NEAR_M, inside, walk
from onboard.perception.laser_scan import advanced
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_RAD, BINS, Scan, Twist, bins_within

STEP_TAN = math.tan(math.radians(2.0))
"""The next ring of a lidar is at most this much steeper: there the floor was seen for sure."""
SUPPORT = 8
"""Points that must agree on a drop, in a bin and its two neighbours."""

Array = npt.NDArray[np.float64]
Ranges = npt.NDArray[np.float32]


def scan_of_points(points_m: Array, stamp_ns: int, base_from_lidar: Array, section: ScanSection) -> Scan:
    """Return the nearest obstacle in each bin.

    points_m:        (n, 3) in the lidar's frame; points that are not finite, or nearer than `NEAR_M`, are no return
    base_from_lidar: (4, 4); rays begin at its origin
    """
    ranges_m, floor_m, drops_m = (np.full(BINS, np.inf, np.float32) for _ in range(3))
    seen, support = np.zeros(BINS, np.bool_), np.zeros(BINS, np.int64)
    boxes_m = np.array(section.body_boxes_m, np.float64).reshape(-1, 6)
    limits = (section.far_m + EDGE_M, section.z_min_m - EDGE_M, section.z_max_m + EDGE_M, section.drop_m)
    pose = np.ascontiguousarray(base_from_lidar, np.float64)
    _lower(points_m, pose, limits, boxes_m, ranges_m, floor_m, drops_m, seen, support)
    beside = bins_within(RING_SIDE_DEG)
    nearest_floor_m = np.min([np.roll(floor_m, side) for side in range(-beside, beside + 1)], axis=0)
    drops_m[support + np.roll(support, 1) + np.roll(support, -1) < SUPPORT] = np.inf
    touching = np.isfinite(drops_m) & (drops_m <= nearest_floor_m + np.float32(RING_M))
    drops_m[touching] = np.minimum(drops_m[touching], np.float32(TOUCHING_M))
    return Scan(stamp_ns, np.minimum(ranges_m, drops_m), seen | np.isfinite(drops_m))


def points_at_last(points_m: Array, base_from_lidar: Array, twist: Twist, age_s: Array) -> Array:
    """Return points, in the lidar's frame, as seen from where the base is at the last of them.

    points_m: (n, 3); age_s: (n,) how long before the last point each was taken; twist: of the base meanwhile
    """
    rotation, position = base_from_lidar[:3, :3], base_from_lidar[:3, 3]
    in_base = points_m @ rotation.T + position
    with np.errstate(invalid="ignore"):
        in_base[:, 0], in_base[:, 1] = advanced(in_base[:, 0], in_base[:, 1], twist, age_s)
    moved: Array = np.ascontiguousarray((in_base - position) @ rotation)
    return moved


def warm_up(section: ScanSection) -> None:
    """Compile the kernel."""
    scan_of_points(np.zeros((1, 3)), 0, np.eye(4), section)


@kernel
def _lower(
    points_m: Array,
    pose: Array,
    limits: tuple[float, float, float, float],
    boxes_m: Array,
    ranges_m: Ranges,
    floor_m: Ranges,
    drops_m: Ranges,
    seen: npt.NDArray[np.bool_],
    support: npt.NDArray[np.int64],
) -> None:  # pragma: no cover - compiled
    """Lower the ranges of obstacles, of the floor and of drops in place. Its definition is in its test."""
    far_m, z_min_m, z_max_m, drop_m = limits
    near_m = NEAR_M - EDGE_M
    for i in range(len(points_m)):
        px, py, pz = points_m[i, 0], points_m[i, 1], points_m[i, 2]
        away_m2 = px * px + py * py + pz * pz
        if not near_m * near_m <= away_m2 < np.inf:
            continue
        x = pose[0, 0] * px + (pose[0, 1] * py + (pose[0, 2] * pz + pose[0, 3]))
        y = pose[1, 0] * px + (pose[1, 1] * py + (pose[1, 2] * pz + pose[1, 3]))
        z = pose[2, 0] * px + (pose[2, 1] * py + (pose[2, 2] * pz + pose[2, 3]))
        if inside(boxes_m, x, y, z):
            continue
        radius_m2 = x * x + y * y
        at = _bin(x, y)
        seen[at] = True
        if away_m2 > far_m * far_m:
            continue
        radius_m = np.float32(math.sqrt(radius_m2))
        if z_min_m <= z <= z_max_m:
            ranges_m[at] = min(ranges_m[at], radius_m)
        if drop_m <= 0.0:
            continue
        if -drop_m <= z <= drop_m:
            floor_m[at] = min(floor_m[at], radius_m)
        up_m, dx, dy = pose[2, 3], x - pose[0, 3], y - pose[1, 3]
        along_m, down_m = math.sqrt(dx * dx + dy * dy), up_m - z
        if up_m > 0.0 and -z > drop_m + SLOPE * along_m and up_m * along_m <= REACH_M * down_m:
            level = along_m - down_m * STEP_TAN
            way = up_m * level / (down_m + along_m * STEP_TAN) / along_m if level > 0.0 else 0.0
            fx, fy = pose[0, 3] + way * dx, pose[1, 3] + way * dy
            under = _bin(fx, fy)
            support[under] += 1
            drops_m[under] = min(drops_m[under], np.float32(math.sqrt(fx * fx + fy * fy)))


@kernel(cache=False, inline="always")
def _bin(x: float, y: float) -> int:  # pragma: no cover - compiled
    """Return the bin of a point as `kernels.bins_of`."""
    if x * x + y * y <= AXIS_M * AXIS_M:
        return AHEAD
    return walk(int((math.atan2(y, x) + math.pi) / BIN_RAD) % BINS, x, y)
