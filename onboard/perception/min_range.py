"""The minimum range from which cameras see an obstacle in each bin. Nearer, an empty bin does not mean free.

    LEAST   a depth camera returns nothing below its minimum distance, `least_m` of its mount. For a stereo camera it is
            fx * baseline / 126 (D435 at 848x480: 0.17 m, at 1280x720: 0.28 m). The camera may also see past a low
            obstacle, so a farther return does not mean that nothing stands nearer
    BESIDE  the views of two cameras meet only at some distance: nearer, neither camera sees the bin between them
    MARGIN  an obstacle that approaches between two images must not count as gone in the second

It depends only on the mounts and is computed once.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from onboard.config.config import CamerasSection, ScanSection
from onboard.config.mounts import Mount, Mounts
from onboard.perception.kernels import EDGE_M, NEAR_M, bins_of
from onboard.values.messages import BIN_DEG, BIN_RAD, BINS, bins_within

WIDEST_BASELINE_M, DISPARITIES = 0.095, 126
"""Widest baseline of the RealSense D400 family (D455), assumed for a camera of unknown type. Formula: librealsense and
realsense-ros #2367."""
MARGIN_M = 0.05
REACH_M = 2.0
"""Depth up to which rays are followed: farther obstacles are not remembered."""
STEP_M = 0.02
MOST_RAYS = round(160.0 / BIN_DEG)
"""Rays along each side of an image: at least two in a bin."""
NEIGHBOURS = bins_within(2.0)
"""Bins to each side that are judged together with a bin."""

Floats = npt.NDArray[np.float64]


def with_min_distance(mounts: Mounts, section: CamerasSection) -> Mounts:
    """Return the mounts with a minimum distance for each RealSense that states none or 0.

    Images over DDS may come from any camera: `onboard doctor` asks for their minimum distance.
    """
    depth = {
        name: replace(mount, least_m=mount.fx * WIDEST_BASELINE_M / DISPARITIES)
        if not mount.least_m and section.source_of(name) == "realsense"
        else mount
        for name, mount in mounts.depth.items()
    }
    return replace(mounts, depth=depth)


def sees_from(mount: Mount, section: ScanSection) -> npt.NDArray[np.float32]:
    """Return (180,) the minimum range [m] from which one camera sees an obstacle in each bin; inf where it never does.

    It lies beyond all places in the bin that are too near, and beyond the first place that rays reach. The neighbouring
    bins count too: at the edge of the view a camera sees only part of a bin.
    """
    rays, position = _rays(mount), mount.base_from_camera[:3, 3]
    too_near_m, covered_m = np.zeros(BINS), np.full(BINS, np.inf)
    least_m = max(mount.least_m or 0.0, NEAR_M) + MARGIN_M
    for depth_m in np.arange(STEP_M, max(REACH_M, 2.0 * least_m), STEP_M):
        x, y, z = depth_m * rays + position[:, np.newaxis]
        inside = (z >= section.z_min_m - EDGE_M) & (z <= section.z_max_m + EDGE_M)
        bins, ranges_m = bins_of(x[inside], y[inside]), np.hypot(x[inside], y[inside])
        if depth_m < least_m:
            np.maximum.at(too_near_m, bins, ranges_m)
        else:
            np.minimum.at(covered_m, bins, ranges_m)
    covered_m = np.max([np.roll(covered_m, side) for side in range(-NEIGHBOURS, NEIGHBOURS + 1)], axis=0)
    return np.asarray(np.maximum(too_near_m, covered_m), np.float32)


def _rays(mount: Mount) -> Floats:
    """Return (3, n) rays through a grid of pixels, corners included, in the base's axes."""
    sides = (np.unique(np.linspace(0, side - 1, min(side, MOST_RAYS)).round()) for side in (mount.width, mount.height))
    u, v = (grid.ravel() for grid in np.meshgrid(*sides))
    rays: Floats = mount.base_from_camera[:3, :3] @ np.stack(
        [(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.size)]
    )
    return rays


# ---- The heights that cameras see at a place near the robot. A camera at 0.3 m sees a table's top from afar and the
# floor below it from near by; a level one sees over a low box. An obstacle out of these heights is there, and not seen:
# a camera must see the heights at which it was seen before (`obstacle_memory.py`).

HEIGHT_STEP_M = 0.05
HEIGHT_STEPS = 61
"""Distances of the table, `HEIGHT_STEP_M` apart from 0 on: as far as the longest memory
(`height_coverage.FAR_M`)."""
ABOUT_DEG = 4.0
ABOUT_BINS = bins_within(ABOUT_DEG)
"""A return of a bin may be beside its centre, where a camera sees other heights."""

Heights = npt.NDArray[np.float32]


def seen_heights(mount: Mount, section: ScanSection) -> Heights:
    """Return (180, HEIGHT_STEPS, 2) the lowest and highest visible point of the obstacle band [m]; (inf, -inf): none.

    Entry [i, k] is of the upright line at the centre of bin i, k * `HEIGHT_STEP_M` from the base. A point z of it is at
    `start + z * rise` in the camera's frame, and in view where five linear functions of z are not negative.
    """
    bearings = (np.arange(BINS) + 0.5) * BIN_RAD - math.pi
    away_m = np.arange(HEIGHT_STEPS) * HEIGHT_STEP_M
    line = np.stack([np.outer(np.cos(bearings), away_m), np.outer(np.sin(bearings), away_m)], axis=-1)
    rotation, position = mount.base_from_camera[:3, :3], mount.base_from_camera[:3, 3]
    start: Floats = (line - position[:2]) @ rotation[:2] - position[2] * rotation[2]
    rise: Floats = rotation[2]
    low, high = np.full((BINS, HEIGHT_STEPS), section.z_min_m), np.full((BINS, HEIGHT_STEPS), section.z_max_m)
    for axis, focal, center, size in ((0, mount.fx, mount.cx, mount.width), (1, mount.fy, mount.cy, mount.height)):
        first, last = -center / focal, (size - 1.0 - center) / focal
        _narrow(low, high, start[..., axis] - first * start[..., 2], rise[axis] - first * rise[2])
        _narrow(low, high, last * start[..., 2] - start[..., axis], last * rise[2] - rise[axis])
    _narrow(low, high, start[..., 2] - max(mount.least_m or 0.0, NEAR_M), rise[2])
    none = low > high
    return np.stack([np.where(none, np.inf, low), np.where(none, -np.inf, high)], axis=-1).astype(np.float32)


def _narrow(low: Floats, high: Floats, start: Floats, slope: float) -> None:
    """Narrow the heights in place to those z at which `start + slope * z` is not negative."""
    if slope == 0.0:
        high[start < 0.0] = -np.inf
    elif slope > 0.0:
        np.maximum(low, -start / slope, out=low)
    else:
        np.minimum(high, -start / slope, out=high)


def joined(views: list[Heights]) -> Heights | None:
    """Return (180, HEIGHT_STEPS, 4): the heights that several cameras see at a place, and those that they see about it.

    Of two views with a gap between them the larger counts. About a place, where no camera looks, it is the whole band.
    None without any view.
    """
    if not views:
        return None
    at = views[0]
    for view in views[1:]:
        touching = (view[..., 0] <= at[..., 1]) & (at[..., 0] <= view[..., 1])
        larger = view[..., 1] - view[..., 0] > at[..., 1] - at[..., 0]
        at = np.where(touching[..., np.newaxis], _hull([view, at]), np.where(larger[..., np.newaxis], view, at))
    about = _hull([np.roll(at, side, axis=0) for side in range(-ABOUT_BINS, ABOUT_BINS + 1)])
    none = about[..., 0] > about[..., 1]
    about[none] = at[..., 0].min(), at[..., 1].max()
    return np.concatenate([at, about], axis=-1)


def _hull(views: list[Heights]) -> Heights:
    low, high = (np.stack([view[..., end] for view in views]) for end in (0, 1))
    return np.stack([low.min(axis=0), high.max(axis=0)], axis=-1)
