"""Moving things for costmap and dynamic window: a person is no part of the building, and soon elsewhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onboard.perception.collision import UNIT
from onboard.perception.kernels import planar
from onboard.values.messages import Pose, Scan

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

OWN_M = 0.35
"""Returns this near to a return of a moving thing are its own."""
AHEAD_S, STEP_S = 1.2, 0.1
"""A moving thing is taken to go straight on for so long: longer than an action, its sequel and the delay."""


def own_bins(scan: Scan, moving: Floats) -> Flags:
    """Return (180,) bool, the bins whose return is of a moving thing. moving: as `Observation.moving`"""
    own = np.zeros(len(scan.ranges_m), np.bool_)
    if len(moving):
        bins = np.flatnonzero(np.isfinite(scan.ranges_m))
        places = UNIT[bins] * scan.ranges_m[bins, np.newaxis].astype(np.float64)
        off = places[:, np.newaxis] - moving[np.newaxis, :, :2]
        own[bins] = (np.hypot(off[..., 0], off[..., 1]) < OWN_M).any(axis=1)
    return own


def ahead(moving: Floats, pose: Pose, clear_m: float) -> Floats:
    """Return (k, 2) places that moving things reach within `AHEAD_S`, in the frame of the pose [m].

    The path of a thing that comes towards the robot ends `clear_m` from the robot's centre: the robot can still leave.
    moving: as `Observation.moving`
    """
    if not len(moving):
        return np.empty((0, 2))
    times_s = np.arange(STEP_S, AHEAD_S + STEP_S / 2.0, STEP_S)
    paths = moving[:, np.newaxis, :2] + times_s[:, np.newaxis] * moving[:, np.newaxis, 2:]
    free = np.logical_and.accumulate(np.hypot(paths[..., 0], paths[..., 1]) > clear_m, axis=1)
    to = planar(pose)
    return np.asarray(paths[free] @ to[:2, :2].T + to[:2, 2])
