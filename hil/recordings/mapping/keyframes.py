"""Keyframes of a drive: a scan every few decimetres, each with its motion since the one before by wheels and scans."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.navigation.scan_odometry import explains, spread_of
from onboard.perception import scan_matching
from onboard.perception.building import map_fit
from onboard.perception.building.map_image import OCCUPIED
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.building.reach import Reach, distances
from onboard.values.geometry import IDENTITY, between, compose, distance
from onboard.values.messages import Pose, Scan

Floats = npt.NDArray[np.float64]
Ranges = npt.NDArray[np.float32]

KEY_M, KEY_RAD = 0.3, 0.3
RECENT = 12
"""Keyframes of the local map that a new one is fitted to."""
LEAST_EXPLAINED = 0.5
SLACK = np.diag(np.square([0.03, 0.03, 0.02]))
"""Covariance that is added to the guess."""
POINTS_M, CELL_M, EDGE_M = 8.0, 0.05, 1.0
SPEED_MPS = 0.5
"""A log without times: the wheels' noise is that of this speed."""


@dataclass(frozen=True)
class Sample:
    """A scan with the odometry's pose when it was taken. ranges_m: (180,), NaN where nothing looks"""

    odom: Pose
    ranges_m: Ranges


@dataclass(frozen=True)
class Keyframe:
    """A scan of the map. pose: by the chain of motions; motion: since the keyframe before, with its information (3, 3).

    unsure: whether scan matching told nothing, so that the wheels alone count
    """

    ranges_m: Ranges
    pose: Pose
    motion: Pose
    information: Floats
    unsure: bool


def keyframes(samples: Iterable[Sample]) -> list[Keyframe]:
    """Return the keyframes of one drive, the first at the origin."""
    kept: list[Keyframe] = []
    last: Sample | None = None
    for sample in samples:
        if last is None:
            kept.append(Keyframe(sample.ranges_m, IDENTITY, IDENTITY, np.eye(3), False))
            last = sample
            continue
        wheels = between(last.odom, sample.odom)
        if distance(IDENTITY, wheels) < KEY_M and abs(wheels.yaw_rad) < KEY_RAD:
            continue
        way_s = max(distance(IDENTITY, wheels), abs(wheels.yaw_rad)) / SPEED_MPS
        spread = spread_of(wheels, way_s)
        before, now = (np.where(np.isfinite(one), one, np.inf) for one in (last.ranges_m, sample.ranges_m))
        found = scan_matching.match(before.astype(np.float32), now.astype(np.float32), wheels, spread)
        unsure = found is None or not explains(found, wheels, spread)
        if found is None or unsure:
            motion, covariance = wheels, spread
        else:
            motion = found.likely
            covariance = np.linalg.inv(np.linalg.inv(spread) + np.linalg.inv(found.covariance))
        refined = _refined(kept, sample.ranges_m, motion, covariance)
        if refined is not None:
            motion, covariance, unsure = *refined, False
        information = np.asarray(np.linalg.inv(covariance), np.float64)
        kept.append(Keyframe(sample.ranges_m, compose(kept[-1].pose, motion), motion, information, unsure))
        last = sample
    return kept


def _refined(
    kept: Sequence[Keyframe], ranges_m: Ranges, motion: Pose, covariance: Floats
) -> tuple[Pose, Floats] | None:
    """Return the motion by the local map of the last keyframes, with its covariance; None where the scan disagrees."""
    last = kept[-1].pose
    local = local_map([(frame.ranges_m, frame.pose) for frame in kept[-RECENT:]])
    if local is None:
        return None
    turned = turned_by(last.yaw_rad)
    scan = scan_in(ranges_m)
    found = map_fit.fit(scan, local, compose(last, motion), turned @ covariance @ turned.T + SLACK)
    if found is None or map_fit.agreement(scan, local, found.likely).explained < LEAST_EXPLAINED:
        return None
    alone = turned.T @ found.covariance @ turned
    both: Floats = np.linalg.inv(np.linalg.inv(covariance) + np.linalg.inv(alone))
    return between(last, found.likely), both


def scan_in(ranges_m: Ranges) -> Scan:
    """Return the ranges as a scan; NaN is not seen."""
    far = np.where(np.isnan(ranges_m), np.inf, ranges_m).astype(np.float32)
    return Scan(0, far, ~np.isnan(ranges_m))


def turned_by(yaw_rad: float) -> Floats:
    """Return the (3, 3) rotation of x, y, yaw."""
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def local_map(scans: Sequence[tuple[Ranges, Pose]]) -> Reach | None:
    """Return the obstacles that scans at their poses saw; None without any."""
    points = np.concatenate([_placed(ranges_m, pose) for ranges_m, pose in scans])
    if len(points) == 0:
        return None
    low = points.min(axis=0) - EDGE_M
    cells = np.floor((points - low) / CELL_M).astype(int)
    columns, rows = np.ceil((points.max(axis=0) + EDGE_M - low) / CELL_M).astype(int)
    percent = np.zeros((rows, columns), np.int8)
    percent[cells[:, 1], cells[:, 0]] = OCCUPIED
    grid = OccupancyGrid(CELL_M, Pose(float(low[0]), float(low[1]), 0.0), percent)
    return Reach(grid, distances(grid.occupied, CELL_M), np.zeros((1, 1), np.int32))


def _placed(ranges_m: Ranges, pose: Pose) -> Floats:
    placed: Floats = points_of(ranges_m, POINTS_M) @ turned_by(pose.yaw_rad)[:2, :2].T + [pose.x_m, pose.y_m]
    return placed


def points_of(ranges_m: Ranges, most_m: float = math.inf) -> Floats:
    """Return the (n, 2) points of a scan in its base frame."""
    points = np.empty((len(ranges_m), 2))
    scan_matching.scan_points(ranges_m.astype(np.float64), points)
    near = np.isfinite(points[:, 0]) & (ranges_m < most_m)
    return points[near]
