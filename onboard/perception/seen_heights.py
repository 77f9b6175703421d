"""The heights that cameras see at a place near the robot. An obstacle out of these heights is there, and not seen.

A camera at 0.3 m sees a table's top from afar and the floor below it from near by; a level one sees over a low box. So
an empty bin does not mean that the obstacle has gone: the camera must see the heights at which it was seen before
(`obstacle_memory.py`). It depends only on the mounts and is computed once.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.config.config import ScanSection
from onboard.config.mounts import Mount
from onboard.perception.kernels import NEAR_M
from onboard.values.messages import BIN_RAD, BINS, bins_within

STEP_M = 0.05
STEPS = 33
"""Distances of the table, `STEP_M` apart from 0 on: a little more than `obstacle_memory.REACH_M`."""
ABOUT_DEG = 4.0
ABOUT_BINS = bins_within(ABOUT_DEG)
"""A return of a bin may be beside its centre, where a camera sees other heights."""

Heights = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]


def seen_heights(mount: Mount, section: ScanSection) -> Heights:
    """Return (180, STEPS, 2) the lowest and highest visible point of the obstacles' band [m]; (inf, -inf) for none.

    Entry [i, k] is of the upright line at the centre of bin i, k * `STEP_M` from the base. A point z of it is at
    `start + z * rise` in the camera's frame, and in view where five linear functions of z are not negative.
    """
    bearings = (np.arange(BINS) + 0.5) * BIN_RAD - math.pi
    away_m = np.arange(STEPS) * STEP_M
    line = np.stack([np.outer(np.cos(bearings), away_m), np.outer(np.sin(bearings), away_m)], axis=-1)
    rotation, position = mount.base_from_camera[:3, :3], mount.base_from_camera[:3, 3]
    start: Floats = (line - position[:2]) @ rotation[:2] - position[2] * rotation[2]
    rise: Floats = rotation[2]
    low, high = np.full((BINS, STEPS), section.z_min_m), np.full((BINS, STEPS), section.z_max_m)
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
    """Return (180, STEPS, 4): the heights that several cameras see at a place, and those that they see about it.

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


def heights_at(table: Heights | None, points: Floats) -> Floats:
    """Return (n, 4) of `joined` at points (n, 2) in the base frame; all heights without a table.

    Linear between the entries about a point, in bearing and distance; where one of them has no view, the nearest entry.
    """
    if table is None:
        return np.tile([-np.inf, np.inf, -np.inf, np.inf], (len(points), 1))
    across = (np.arctan2(points[:, 1], points[:, 0]) + math.pi) / BIN_RAD - 0.5
    along = np.minimum(np.hypot(points[:, 0], points[:, 1]) / STEP_M, STEPS - 1.001)
    i, k = np.floor(across).astype(np.int64), np.floor(along).astype(np.int64)
    a, b = (across - i)[:, np.newaxis], (along - k)[:, np.newaxis]
    corners = [table[(i + side) % BINS, k + step].astype(np.float64) for side in (0, 1) for step in (0, 1)]
    with np.errstate(invalid="ignore"):
        mixed = (1.0 - a) * ((1.0 - b) * corners[0] + b * corners[1]) + a * ((1.0 - b) * corners[2] + b * corners[3])
    nearest = table[np.round(across).astype(np.int64) % BINS, np.round(along).astype(np.int64)]
    complete = np.all([np.isfinite(corner).all(axis=1) for corner in corners], axis=0)
    return np.where(complete[:, np.newaxis], mixed, nearest)


def within(inner: Floats, outer: Floats) -> npt.NDArray[np.bool_]:
    """Return (n,) whether heights (n, 2) are all among others (n, 2)."""
    inside: npt.NDArray[np.bool_] = (outer[:, 0] <= inner[:, 0]) & (outer[:, 1] >= inner[:, 1])
    return inside
