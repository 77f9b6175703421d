"""Keyframes of a drive: a scan every few decimetres, each with its motion since the one before by wheels and scans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.recordings.mapping.registration import lines_of, placed, points_of, register, turned_by
from onboard.navigation.scan_odometry import spread_of
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
CELL_M, EDGE_M = 0.05, 1.0
SPEED_MPS = 0.5
"""A log without times: the wheels' noise is that of this speed."""


@dataclass(frozen=True)
class Sample:
    """A scan with the odometry's pose when it was taken. ranges_m: (180,), NaN where nothing looks"""

    odom: Pose
    ranges_m: Ranges


@dataclass(frozen=True)
class Keyframe:
    """A scan of the map, with its `points_of`.

    pose: by the chain of motions; motion: since the keyframe before, with its information (3, 3)
    unsure: whether scan matching told nothing, so that the wheels alone count
    """

    ranges_m: Ranges
    points: Floats
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
            kept.append(Keyframe(sample.ranges_m, points_of(sample.ranges_m), IDENTITY, IDENTITY, np.eye(3), False))
            last = sample
            continue
        wheels = between(last.odom, sample.odom)
        way_m = distance(IDENTITY, wheels)
        if way_m < KEY_M and abs(wheels.yaw_rad) < KEY_RAD:
            continue
        points, spread = points_of(sample.ranges_m), spread_of(wheels, max(way_m, abs(wheels.yaw_rad)) / SPEED_MPS)
        pose, turned = compose(kept[-1].pose, wheels), turned_by(kept[-1].pose.yaw_rad)
        lines = lines_of([(frame.points, frame.pose) for frame in kept[-RECENT:]])
        found = None if lines is None else register(points, lines, pose, turned @ spread @ turned.T)
        information = np.asarray(np.linalg.inv(spread), np.float64)
        if found is not None:
            pose, information = found.pose, information + np.linalg.inv(turned.T @ found.covariance @ turned)
        motion = between(kept[-1].pose, pose)
        kept.append(Keyframe(sample.ranges_m, points, pose, motion, information, found is None))
        last = sample
    return kept


def scan_in(ranges_m: Ranges) -> Scan:
    """Return the ranges as a scan; NaN is not seen."""
    far = np.where(np.isnan(ranges_m), np.inf, ranges_m).astype(np.float32)
    return Scan(0, far, ~np.isnan(ranges_m))


def local_map(scans: Sequence[tuple[Floats, Pose]]) -> Reach | None:
    """Return the obstacles that scans, by their points, saw from their poses; None without any."""
    points = np.concatenate([placed(*scan) for scan in scans])
    if len(points) == 0:
        return None
    low = points.min(axis=0) - EDGE_M
    cells = np.floor((points - low) / CELL_M).astype(int)
    columns, rows = np.ceil((points.max(axis=0) + EDGE_M - low) / CELL_M).astype(int)
    percent = np.zeros((rows, columns), np.int8)
    percent[cells[:, 1], cells[:, 0]] = OCCUPIED
    grid = OccupancyGrid(CELL_M, Pose(float(low[0]), float(low[1]), 0.0), percent)
    return Reach(grid, distances(grid.occupied, CELL_M), np.zeros((1, 1), np.int32))
