"""Missing floor where floor was expected: stairs down, a kerb, a dock's edge, seen by what lies below the floor.

The height band of the paper takes what is lower than 5 cm as free, so the deep is free too. Here a ray that should have
ended on the floor and ended clearly below it says that there is none where it passed the floor's height. That place is
an obstacle in the scan, like one that stands there: policy, limits and recovery keep away from it alike.

    DEPTH   a return counts as below when it is `drop_m` and SLOPE of its distance below the base's own floor: a base
            that nods, a camera that is mounted a degree or two off and a ramp of 1:12 are no drop
    REACH   a ray that passes the floor's height farther than this from the camera says nothing: too much would hang on
            a degree
    SUPPORT so much of an image must see it, in a bin and its two neighbours: a few returns that are wrong are no drop
    EARLY   the place is where the next steeper pixel passes the floor, which may be the last that is sure to stand
    RING    what is missing from the nearest floor on that the cameras see may begin nearer, down to the wheels: it
            counts as touching, so that nothing leads on towards it while away from it the robot is free

A ray without a return says nothing: real cameras have such on good floors too (dark, glossy, lit by the sun). So what
swallows light, or is deeper than the cameras' range, is not seen here; SAFETY.md says what that asks of whoever builds
the robot. What depends on the mount alone is computed once. An image then takes a comparison a pixel, and more only for
pixels that are deep.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from onboard.config.mounts import Mount
from onboard.perception.collision import UNIT
from onboard.perception.kernels import BIN_DEG, bins_of, planar
from onboard.values.geometry import IDENTITY
from onboard.values.messages import BINS, Pose

SLOPE = 0.06
"""Rise over run, 3.4 degrees."""
REACH_M = 1.5
SUPPORT_SR = 0.005
"""Solid angle: eight pixels of the default robot's cameras, 738 of a camera with 640x480 and 80 deg."""
RING_M = 0.03
"""Floor that is so little farther than the nearest that is seen thereabouts belongs to the ring."""
THEREABOUTS_DEG = 10.0
"""To each side: between two cameras, the nearest floor that is seen is far, and beside it near."""
TOUCHING_M = 0.05
"""Nearer than any footprint reaches."""
NEVER = np.iinfo(np.uint16).max
"""More units of depth than any that counts as deep: no floor is expected in such a pixel."""


@dataclass(frozen=True, slots=True)
class FloorView:
    """Where one camera expects the floor. Arrays are (height, width), of its pixels.

    deepest:  uint16, the largest depth that may still be the floor; `NEVER` where none is expected
    farthest: the largest depth that is believed [units]
    bins:     uint8, the bin of the place where the floor is to be; away_m: float32, how far that is from the base
    support:  pixels that must agree in three bins side by side
    """

    deepest: npt.NDArray[np.uint16]
    farthest: float
    bins: npt.NDArray[np.uint8]
    away_m: npt.NDArray[np.float32]
    support: int

    @property
    def expected(self) -> npt.NDArray[np.bool_]:
        """Return (height, width) where a floor is expected."""
        return np.asarray(self.deepest != NEVER)


def floor_views(mounts: Mapping[str, Mount], drop_m: float, far_m: float) -> dict[str, FloorView]:
    """Return where the cameras of a scan expect the floor; nowhere where drop-offs are not looked for (`drop_m` 0)."""
    if drop_m == 0.0:
        return {}
    views = {name: floor_view(mount, drop_m, far_m) for name, mount in mounts.items()}
    ring_m = _ring_m(views.values())
    return {name: replace(view, away_m=_touching(view, ring_m)) for name, view in views.items()}


def _ring_m(views: Iterable[FloorView]) -> npt.NDArray[np.float32]:
    """Return (180,) how far the ring reaches in each bin [m]."""
    nearest_m = np.full(BINS, np.inf, np.float32)
    for view in views:
        np.minimum.at(nearest_m, view.bins[view.expected], view.away_m[view.expected])
    beside = round(THEREABOUTS_DEG / BIN_DEG)
    around_m = np.min([np.roll(nearest_m, step) for step in range(-beside, beside + 1)], axis=0)
    return np.asarray(around_m + RING_M, np.float32)


def _touching(view: FloorView, ring_m: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return how far a camera's places are with those within the ring brought in to the robot."""
    brought_in = np.minimum(view.away_m, np.float32(TOUCHING_M))
    return np.where(view.away_m <= ring_m[view.bins], brought_in, view.away_m)


def floor_view(mount: Mount, drop_m: float, far_m: float) -> FloorView:
    """Return where one camera alone expects the floor, without the ring."""
    rotation, position = mount.base_from_camera[:3, :3], mount.base_from_camera[:3, 3]
    v, u = np.indices((mount.height, mount.width))
    optical = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)])
    rays = np.tensordot(rotation, optical, axes=1)
    along, down, up_m = np.hypot(rays[0], rays[1]), -rays[2], float(position[2])
    steeper = np.arctan2(down, along) + 1.0 / min(mount.fx, mount.fy)
    with np.errstate(divide="ignore", invalid="ignore"):
        deepest = np.floor((up_m + drop_m) / (down - SLOPE * along) / mount.depth_scale_m)
        expected = (down > SLOPE * along) & (up_m * along <= REACH_M * down) & (deepest < NEVER) & (up_m > 0.0)
        way_m = np.where(steeper < 0.5 * math.pi, up_m / np.tan(steeper), 0.0)
        unit = np.where(along > 0.0, rays[:2] / along, 0.0)
    x_m, y_m = np.where(expected, position[:2, None, None] + way_m * unit, 0.0).reshape(2, -1)
    return FloorView(
        np.where(expected, deepest, NEVER).astype(np.uint16),
        far_m / mount.depth_scale_m,
        bins_of(x_m, y_m).astype(np.uint8).reshape(u.shape),
        np.hypot(x_m, y_m).astype(np.float32).reshape(u.shape),
        max(1, math.ceil(SUPPORT_SR * mount.fx * mount.fy)),
    )


def lower_to_drops(
    ranges_m: npt.NDArray[np.float32], depth: npt.NDArray[np.uint16], floor: FloorView, now_from_then: Pose
) -> None:
    """Lower `ranges_m` (180,) in place to the nearest place in each bin where the floor is missing in one image.

    depth:         (height, width) uint16 in the mount's units; 0 is no return
    now_from_then: from the base at capture to the base in which the ranges are; places move as the middle of their bin
    """
    missing = (depth > floor.deepest) & (depth <= floor.farthest)
    if np.count_nonzero(missing) < floor.support:
        return
    bins = floor.bins[missing]
    count = np.bincount(bins, minlength=BINS)
    nearest_m = np.full(BINS, np.inf, np.float32)
    np.minimum.at(nearest_m, bins, floor.away_m[missing])
    nearest_m[np.roll(count, 1) + count + np.roll(count, -1) < floor.support] = np.inf
    if now_from_then == IDENTITY:
        np.minimum(ranges_m, nearest_m, out=ranges_m)
        return
    found, to = np.isfinite(nearest_m), planar(now_from_then)
    x_m, y_m = to[:, :2] @ (UNIT[found] * nearest_m[found, np.newaxis]).T + to[:, 2:]
    np.minimum.at(ranges_m, bins_of(x_m, y_m), np.hypot(x_m, y_m).astype(np.float32))
