"""Cliff detection: stairs down, a kerb or a dock's edge becomes an obstacle in the scan.

The paper's height band takes everything below 5 cm as free, so a hole is free too. Here, a ray that ends clearly below
the floor marks an obstacle where it passed the floor's height. Policy, limits and recovery treat it like any other.

    DEPTH   a return is below the floor by at least `drop_m` plus SLOPE times its distance. A pitching base, a small
            mount error or a ramp of 1:12 is no drop
    REACH   a ray that passes the floor's height farther from the camera is ignored: a degree of error matters too much
    SUPPORT so many pixels in a bin and its two neighbours must agree: a few false returns are no drop
    EARLY   the obstacle stands where the next steeper pixel passes the floor, the last place with floor for sure
    RING    a drop that begins at the nearest visible floor may begin nearer, even at the wheels. It counts as touching:
            the robot may not go towards it, but is free to go away

A ray without a return is ignored: dark, glossy or sunlit floors give none either. So a drop that absorbs light or is
deeper than the cameras' range is not detected; SAFETY.md states the consequence. All that depends only on the mount is
computed once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from onboard.config.mounts import Mount
from onboard.perception.collision import UNIT
from onboard.perception.kernels import bins_of, planar
from onboard.values.geometry import IDENTITY
from onboard.values.messages import BINS, Pose, bins_within

SLOPE = 0.06
"""Rise over run, 3.4 degrees."""
REACH_M = 1.5
SUPPORT_SR = 0.005
"""Solid angle: eight pixels of the default robot's cameras, 738 of a camera with 640x480 and 80 deg."""
RING_M = 0.03
"""Width of the ring, outward from the nearest visible floor."""
RING_SIDE_DEG = 10.0
"""The nearest floor is searched this far to each side, as it is far away between two cameras."""
NEIGHBOUR_DEG = 2.0
NEIGHBOURS = bins_within(NEIGHBOUR_DEG)
TOUCHING_M = 0.05
"""Inside every footprint."""
NO_FLOOR = np.iinfo(np.uint16).max
"""Threshold of a pixel in which no floor is expected."""


@dataclass(frozen=True, slots=True)
class FloorView:
    """Where one camera expects the floor. Arrays are (height, width), of its pixels.

    deepest:  uint16, the largest depth that may still be the floor; `NO_FLOOR` where none is expected
    farthest: the largest valid depth [units]
    bins:     uint16, the bin of the expected floor
    away_m:   float32, distance of the expected floor from the base
    support:  pixels that must agree in a bin and its neighbours within `NEIGHBOUR_DEG`
    """

    deepest: npt.NDArray[np.uint16]
    farthest: float
    bins: npt.NDArray[np.uint16]
    away_m: npt.NDArray[np.float32]
    support: int

    @property
    def expected(self) -> npt.NDArray[np.bool_]:
        """Return (height, width) where a floor is expected."""
        return np.asarray(self.deepest != NO_FLOOR)


def floor_views(mounts: Mapping[str, Mount], drop_m: float, far_m: float) -> dict[str, FloorView]:
    """Return where each camera expects the floor; empty when cliff detection is off (`drop_m` is 0)."""
    if drop_m == 0.0:
        return {}
    views = {name: floor_view(mount, drop_m, far_m) for name, mount in mounts.items()}
    ring_m = _ring_m(views.values())
    return {name: replace(view, away_m=_touching(view, ring_m)) for name, view in views.items()}


def _ring_m(views: Iterable[FloorView]) -> npt.NDArray[np.float32]:
    """Return (180,) outer radius of the ring in each bin [m]."""
    nearest_m = np.full(BINS, np.inf, np.float32)
    for view in views:
        np.minimum.at(nearest_m, view.bins[view.expected], view.away_m[view.expected])
    beside = bins_within(RING_SIDE_DEG)
    surroundings_m = np.min([np.roll(nearest_m, step) for step in range(-beside, beside + 1)], axis=0)
    return np.asarray(surroundings_m + RING_M, np.float32)


def _touching(view: FloorView, ring_m: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return `away_m` with places in the ring moved to `TOUCHING_M`."""
    brought_in = np.minimum(view.away_m, np.float32(TOUCHING_M))
    return np.where(view.away_m <= ring_m[view.bins], brought_in, view.away_m)


def floor_view(mount: Mount, drop_m: float, far_m: float) -> FloorView:
    """Return where one camera expects the floor, without the ring."""
    rotation, position = mount.base_from_camera[:3, :3], mount.base_from_camera[:3, 3]
    v, u = np.indices((mount.height, mount.width))
    optical = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)])
    rays = np.tensordot(rotation, optical, axes=1)
    along, down, up_m = np.hypot(rays[0], rays[1]), -rays[2], float(position[2])
    steeper = np.arctan2(down, along) + 1.0 / min(mount.fx, mount.fy)
    with np.errstate(divide="ignore", invalid="ignore"):
        deepest = np.floor((up_m + drop_m) / (down - SLOPE * along) / mount.depth_scale_m)
        expected = (down > SLOPE * along) & (up_m * along <= REACH_M * down) & (deepest < NO_FLOOR) & (up_m > 0.0)
        way_m = np.where(steeper < 0.5 * math.pi, up_m / np.tan(steeper), 0.0)
        unit = np.where(along > 0.0, rays[:2] / along, 0.0)
    x_m, y_m = np.where(expected, position[:2, None, None] + way_m * unit, 0.0).reshape(2, -1)
    return FloorView(
        np.where(expected, deepest, NO_FLOOR).astype(np.uint16),
        far_m / mount.depth_scale_m,
        bins_of(x_m, y_m).astype(np.uint16).reshape(u.shape),
        np.hypot(x_m, y_m).astype(np.float32).reshape(u.shape),
        max(1, math.ceil(SUPPORT_SR * mount.fx * mount.fy)),
    )


def lower_to_drops(
    ranges_m: npt.NDArray[np.float32], depth: npt.NDArray[np.uint16], floor: FloorView, now_from_then: Pose
) -> None:
    """Lower `ranges_m` (180,) in place to the nearest place in each bin where the floor is missing in one image.

    depth:         (height, width) uint16 in the mount's units; 0 is no return
    now_from_then: transform from the base at capture to the base of the ranges; places move from their bin's centre
    """
    missing = (depth > floor.deepest) & (depth <= floor.farthest)
    if np.count_nonzero(missing) < floor.support:
        return
    bins = floor.bins[missing]
    count = np.bincount(bins, minlength=BINS)
    nearest_m = np.full(BINS, np.inf, np.float32)
    np.minimum.at(nearest_m, bins, floor.away_m[missing])
    together = np.sum([np.roll(count, step) for step in range(-NEIGHBOURS, NEIGHBOURS + 1)], axis=0)
    nearest_m[together < floor.support] = np.inf
    if now_from_then == IDENTITY:
        np.minimum(ranges_m, nearest_m, out=ranges_m)
        return
    found, to = np.isfinite(nearest_m), planar(now_from_then)
    x_m, y_m = to[:, :2] @ (UNIT[found] * nearest_m[found, np.newaxis]).T + to[:, 2:]
    np.minimum.at(ranges_m, bins_of(x_m, y_m), np.hypot(x_m, y_m).astype(np.float32))
