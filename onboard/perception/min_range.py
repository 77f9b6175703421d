"""The minimum range from which cameras see an obstacle in each bin. Nearer, an empty bin does not mean free.

    LEAST   a depth camera returns nothing below its minimum distance, `least_m` of its mount. For a stereo camera it is
            fx * baseline / 126 (D435 at 848x480: 0.17 m, at 1280x720: 0.28 m). The camera may also see past a low
            obstacle, so a farther return does not mean that nothing stands nearer
    BESIDE  the views of two cameras meet only at some distance: nearer, neither camera sees the bin between them
    MARGIN  an obstacle that approaches between two images must not count as gone in the second

It depends only on the mounts and is computed once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from onboard.config.config import CamerasSection, ScanSection
from onboard.config.mounts import Mount, Mounts
from onboard.perception.kernels import EDGE_M, NEAR_M, bins_of
from onboard.values.messages import BIN_DEG, BINS, bins_within

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
