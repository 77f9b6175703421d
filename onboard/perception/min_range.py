"""From which range on the cameras see what stands in a bin. Nearer, an empty bin says nothing.

    LEAST   a depth camera returns nothing from what is nearer than its least distance, `least_m` of its mount: for a
            stereo camera fx * baseline / 126 (D435 at 848x480: 0.17 m, at 1280x720: 0.28 m). It may then even see past
            a low thing, so what it sees farther away does not say that nothing stands near
    BESIDE  the views of two cameras that stand apart meet some way off: a bin that both look into farther away has
            nobody's eye nearer by
    MARGIN  what comes up to the robot between two images must not be taken for gone in the second

It depends on the mounts alone and is computed once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from onboard.config.config import CamerasSection, ScanSection
from onboard.config.mounts import Mount, Mounts
from onboard.perception.kernels import EDGE_M, bins_of
from onboard.values.messages import BINS

WIDEST_BASELINE_M, DISPARITIES = 0.095, 126
"""Of the RealSense D400 family (D455; librealsense and realsense-ros #2367 have the formula): who does not say which
camera it is has the one that sees least near by."""
MARGIN_M = 0.05
REACH_M = 2.0
"""Depth up to which rays are followed: what is farther is not remembered."""
STEP_M = 0.02
MOST_RAYS = 80
"""In each direction of an image: two a bin and more."""

Floats = npt.NDArray[np.float64]


def with_least(mounts: Mounts, section: CamerasSection) -> Mounts:
    """Return the mounts with a least distance for each RealSense that states none, or 0 as simulated ones do.

    Images over DDS may be of any camera: `onboard doctor` asks for theirs.
    """
    depth = {
        name: replace(mount, least_m=mount.fx * WIDEST_BASELINE_M / DISPARITIES)
        if not mount.least_m and section.source_of(name) == "realsense"
        else mount
        for name, mount in mounts.depth.items()
    }
    return replace(mounts, depth=depth)


def sees_from(mount: Mount, section: ScanSection) -> npt.NDArray[np.float32]:
    """Return (180,) the range [m] from which on one camera sees what stands in each bin; inf where it never does.

    It is beyond all in the bin that is too near to the camera, and beyond the first places that rays come through there
    and in the bins beside it: at the view's edge a part of a bin is not the bin.
    """
    rays, position = _rays(mount), mount.base_from_camera[:3, 3]
    too_near_m, covered_m = np.zeros(BINS), np.full(BINS, np.inf)
    least_m = max(mount.least_m or 0.0, section.near_m) + MARGIN_M
    for depth_m in np.arange(STEP_M, max(REACH_M, 2.0 * least_m), STEP_M):
        x, y, z = depth_m * rays + position[:, np.newaxis]
        inside = (z >= section.z_min_m - EDGE_M) & (z <= section.z_max_m + EDGE_M)
        bins, ranges_m = bins_of(x[inside], y[inside]), np.hypot(x[inside], y[inside])
        if depth_m < least_m:
            np.maximum.at(too_near_m, bins, ranges_m)
        else:
            np.minimum.at(covered_m, bins, ranges_m)
    covered_m = np.max([np.roll(covered_m, side) for side in (-1, 0, 1)], axis=0)
    return np.asarray(np.maximum(too_near_m, covered_m), np.float32)


def _rays(mount: Mount) -> Floats:
    """Return (3, n) the rays through pixels all over the image, its corners among them, in the base's directions."""
    sides = (np.unique(np.linspace(0, side - 1, min(side, MOST_RAYS)).round()) for side in (mount.width, mount.height))
    u, v = (grid.ravel() for grid in np.meshgrid(*sides))
    rays: Floats = mount.base_from_camera[:3, :3] @ np.stack(
        [(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.size)]
    )
    return rays
