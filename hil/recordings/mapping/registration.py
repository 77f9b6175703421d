"""Registration: where a scan lies on the lines that other scans saw. Pure.

Point-to-line ICP (Censi, 2008) of the scan's points to lines through the points of a local map. A line is the long axis
of the nearest points. The guess, with its covariance, is one more measurement. Points far off count little (Geman and
McClure), so that people and doors do not move the map.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from onboard.perception.scan_matching import scan_points, untold
from onboard.values.geometry import wrap
from onboard.values.messages import BINS, Pose

Floats = npt.NDArray[np.float64]
Ranges = npt.NDArray[np.float32]

POINTS_M = 8.0
"""Farther points are not used: bins are wide there."""
ON_LINE, LINE_M, THIN, LEAST_ON_LINE = 10, 0.3, 0.1, 4
"""A line has so many of the nearest points within this distance; its variance across is this share of that along."""
STEPS, COARSE, STILL = 20, 4, 1e-5
"""Most steps, coarse steps, and the change [m, rad] that ends them."""
PAIR_M, CLOSE_M = 0.5, 0.2
"""A point pairs with a line this near, in the coarse steps and after them."""
SD_M, WIDE_M, SHARP_M = 0.03, 0.2, 0.09
"""Standard deviation of a point across its line. A point this far off counts a quarter, in coarse steps and after."""
LEAST_PAIRS = 12
CORRELATED, UNKNOWN = 6.0, 1.0
"""As in `map_fit.py`."""
FLOOR = np.diag(np.square([0.01, 0.01, 0.004]))
"""Covariance of any registration [m^2, rad^2]."""


@dataclass(frozen=True)
class Lines:
    """The lines of a local map: of each point that has one its middle (n, 2) and its normal (n, 2)."""

    middles: Floats
    normals: Floats
    tree: cKDTree


@dataclass(frozen=True)
class Registration:
    """pose: by scan and guess; covariance: (3, 3) of the scan alone; share: of the points that lie on lines."""

    pose: Pose
    covariance: Floats
    share: float


def turned_by(yaw_rad: float) -> Floats:
    """Return the (3, 3) rotation of x, y, yaw."""
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def points_of(ranges_m: Ranges) -> Floats:
    """Return the (n, 2) points of a scan in its base frame."""
    points = np.empty((BINS, 2))
    scan_points(ranges_m.astype(np.float64), points)
    return points[np.isfinite(points[:, 0]) & (ranges_m < POINTS_M)]


def placed(points: Floats, pose: Pose) -> Floats:
    """Return the points of a scan, taken at a pose, in the frame of this pose."""
    there: Floats = points @ turned_by(pose.yaw_rad)[:2, :2].T + [pose.x_m, pose.y_m]
    return there


def lines_of(scans: Sequence[tuple[Floats, Pose]]) -> Lines | None:
    """Return the lines that scans, by their points, saw from their poses; None without any."""
    points = np.concatenate([placed(*scan) for scan in scans])
    if len(points) < LEAST_ON_LINE:
        return None
    away_m, numbers = cKDTree(points).query(points, ON_LINE, distance_upper_bound=LINE_M)
    near = np.isfinite(away_m)
    count = near.sum(axis=1)
    members = points[np.where(near, numbers, 0)] * near[..., np.newaxis]
    middles = members.sum(axis=1) / count[:, np.newaxis]
    off = (members - middles[:, np.newaxis]) * near[..., np.newaxis]
    xx, xy, yy = (off[..., 0] ** 2).sum(1), (off[..., 0] * off[..., 1]).sum(1), (off[..., 1] ** 2).sum(1)
    half, mean = np.hypot(0.5 * (xx - yy), xy), 0.5 * (xx + yy)
    along = 0.5 * np.arctan2(2.0 * xy, xx - yy)
    straight = (count >= LEAST_ON_LINE) & (mean - half < THIN * (mean + half))
    if not straight.any():
        return None
    normals = np.stack([-np.sin(along), np.cos(along)], axis=1)
    return Lines(middles[straight], normals[straight], cKDTree(points[straight]))


def register(points: Floats, lines: Lines, guess: Pose, covariance: Floats) -> Registration | None:
    """Return the pose of a scan; None if too few points lie on lines.

    points: (n, 2) in the scan's base frame; guess: its pose; covariance: (3, 3) of the guess, positive definite
    """
    begin = np.array([guess.x_m, guess.y_m, guess.yaw_rad])
    prior, at, information, pairs = np.linalg.inv(covariance), begin.copy(), np.zeros((3, 3)), 0
    for step in range(STEPS):
        coarse = step < COARSE
        there = placed(points, Pose(*at.tolist()))
        away_m, line = lines.tree.query(there, distance_upper_bound=PAIR_M if coarse else CLOSE_M)
        paired = np.isfinite(away_m)
        normal, middle, arm = lines.normals[line[paired]], lines.middles[line[paired]], there[paired] - at[:2]
        off_m = ((there[paired] - middle) * normal).sum(axis=1)
        slope = np.concatenate([normal, (normal[:, 1] * arm[:, 0] - normal[:, 0] * arm[:, 1])[:, np.newaxis]], axis=1)
        weight = 1.0 / (SD_M * (1.0 + (off_m / (WIDE_M if coarse else SHARP_M)) ** 2)) ** 2
        information, pairs = (slope * weight[:, np.newaxis]).T @ slope, len(off_m)
        change = np.linalg.solve(information + prior, slope.T @ (weight * off_m) + prior @ (at - begin))
        at = at - change
        if not coarse and np.abs(change).max() < STILL:
            break
    if pairs < LEAST_PAIRS or not np.isfinite(at).all():
        return None
    alone = np.asarray(np.linalg.inv(information / CORRELATED + UNKNOWN * np.eye(3)), np.float64)
    found = Pose(float(at[0]), float(at[1]), wrap(float(at[2])))
    return Registration(found, 0.5 * (alone + alone.T) + untold(alone) + FLOOR, pairs / len(points))
