"""Forbidden places, computed independently from the inputs: missing floor, keep-out zones, remembered obstacles.

Each is computed pixel by pixel and cell by cell, without doubtful places: the runtime must avoid all the others. Points
are (n, 2) [m] in the base frame.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import numpy as np

from onboard.config.config import Config
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BINS, DepthFrame, Pose, Scan
from tests.rigs.runtime_bench import MOUNTS

CENTERS_RAD = np.deg2rad(np.arange(BINS) * 2.0 - 179.0)
SLOPE = 0.06
"""Floor that falls by less is a ramp."""
FLOOR_REACH_M = 1.45
"""From the camera: farther than 1.5 m missing floor is not looked for."""
PIXELS = 16
"""So many in one bin are enough for a drop; eight in three bins are asked for."""
MEMORY_REACH_M = 1.45
"""What is farther away than 1.5 m need not be remembered."""
MOST = 500
"""A thousand places are remembered, the longest known are forgotten first."""
FORBIDDEN = 100
BELOW_M = 0.5


def seen_points(scan: Scan) -> np.ndarray:
    """Return the visible obstacle points."""
    ranges_m = scan.ranges_m.astype(np.float64)
    there = np.isfinite(ranges_m)
    return np.stack([np.cos(CENTERS_RAD[there]), np.sin(CENTERS_RAD[there])], axis=1) * ranges_m[there, np.newaxis]


def bins_around(points: np.ndarray) -> np.ndarray:
    """Return (n, 3) the bin of each point and its neighbours."""
    azimuth_deg = np.degrees(np.arctan2(points[:, 1], points[:, 0]))
    middle = np.floor((azimuth_deg + 180.0) / 2.0).astype(np.int64)
    return (middle[:, np.newaxis] + [0, -1, 1]) % BINS


@functools.cache
def rays_of(camera: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (height, width, 3) the ray of a metre of depth in the base frame, and (3,) the camera's position."""
    mount = MOUNTS.depth[camera]
    v, u = np.indices((mount.height, mount.width))
    optical = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)], axis=-1)
    return optical @ mount.base_from_camera[:3, :3].T, mount.base_from_camera[:3, 3]


@functools.cache
def on_the_floor(camera: str) -> np.ndarray:
    """Return (height, width, 2) where a camera's rays pass the floor's height; NaN for rays that never do."""
    rays, position = rays_of(camera)
    down = np.where(rays[..., 2] < 0.0, -rays[..., 2], np.nan)
    return position[:2] + rays[..., :2] * (position[2] / down)[..., np.newaxis]


@functools.cache
def ending_floor(camera: str, from_m: float) -> np.ndarray:
    """Return a camera's image of a floor that drops deep at the distance `from_m`."""
    rays, position = rays_of(camera)
    with np.errstate(divide="ignore"):
        depth_m = (position[2] + BELOW_M) / -rays[..., 2]
    beyond = np.hypot(*np.moveaxis(on_the_floor(camera), -1, 0)) >= from_m
    seen_m = np.where(beyond & (depth_m > 0.0) & (depth_m < 10.0), depth_m, 0.0)
    return np.round(seen_m / MOUNTS.depth[camera].depth_scale_m).astype(np.uint16)


def missing_floor(frames: Mapping[str, DepthFrame], drop_m: float) -> np.ndarray:
    """Return where the floor is missing: rays pass its height and end clearly below."""
    found = [np.empty((0, 2))]
    for camera, frame in frames.items():
        rays, position = rays_of(camera)
        depth_m = frame.depth[..., np.newaxis] * MOUNTS.depth[camera].depth_scale_m
        along_m = np.hypot(*np.moveaxis(depth_m * rays[..., :2], -1, 0))
        height_m = position[2] + (depth_m * rays)[..., 2]
        where = on_the_floor(camera)
        near = np.hypot(*np.moveaxis(where - position[:2], -1, 0)) <= FLOOR_REACH_M
        points = where[(height_m < -(drop_m + SLOPE * along_m) - 0.002) & near & (depth_m[..., 0] <= 10.0)]
        bins = bins_around(points)[:, 0]
        found.append(points[np.bincount(bins, minlength=BINS)[bins] >= PIXELS])
    return np.concatenate(found)


class Cells:
    """The marked cells of a mask. percent: (n,) their values."""

    def __init__(self, layer: OccupancyGrid) -> None:
        rows, columns = np.nonzero(layer.percent > 0)
        self._in_map = placed(np.stack([columns + 0.5, rows + 0.5], axis=1) * layer.cell_m, layer.map_from_grid)
        self._cell_m = layer.cell_m
        self.percent = layer.percent[rows, columns]

    def centres(self, base: Pose) -> np.ndarray:
        """Return (n, 2) the cells' centres."""
        return seen_from(self._in_map, base)

    def forbidden(self, base: Pose) -> np.ndarray:
        """Return (n, 2) the centres of forbidden cells."""
        return self.centres(base)[self.percent == FORBIDDEN]

    def slowest(self, base: Pose, radius_m: float) -> int:
        """Return the lowest percentage of the speed zones under a circle about the base."""
        under = self.percent[np.hypot(*self.centres(base).T) <= radius_m]
        return int(under.min(initial=FORBIDDEN))

    def stands_in(self, base: Pose) -> bool:
        """Return whether the base's centre is clearly within a forbidden cell."""
        return bool((np.hypot(*self.forbidden(base).T) < 0.49 * self._cell_m).any())


def placed(points: np.ndarray, pose: Pose) -> np.ndarray:
    """Return points of a pose's frame in the outer frame."""
    return points @ _rotation(-pose.yaw_rad) + np.array([pose.x_m, pose.y_m])


def seen_from(points: np.ndarray, pose: Pose) -> np.ndarray:
    """Return points of the outer frame in a pose's frame."""
    return (points - np.array([pose.x_m, pose.y_m])) @ _rotation(pose.yaw_rad)


def _rotation(yaw_rad: float) -> np.ndarray:
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    return np.array([[c, -s], [s, c]])


class Remembered:
    """Obstacles seen near by a moment ago that no camera sees now, by the robot's odometry."""

    def __init__(self, config: Config) -> None:
        self._remember_ns = config.limits.remember_s * NS_PER_S
        self._places = np.empty((0, 3))
        self._scan_ns = 0
        self._poses: dict[int, Pose] = {}

    def see(self, tick: TickRecord) -> np.ndarray:
        """Enter this tick's scan, and return the remembered points out of view."""
        now_ns, pose, scan = tick.inputs.now_ns, tick.after.wheels.pose, tick.limits_scan
        self._poses = {then_ns: one for then_ns, one in self._poses.items() if 0 < now_ns - then_ns <= NS_PER_S}
        self._poses[now_ns] = pose
        if scan.stamp_ns != self._scan_ns:
            self._enter(scan, self._poses.get(scan.stamp_ns))
        self._scan_ns = scan.stamp_ns
        points = seen_from(self._places[:, :2], pose)
        kept = (np.abs(now_ns - self._places[:, 2]) <= self._remember_ns) & (np.hypot(*points.T) <= MEMORY_REACH_M)
        self._places = self._places[kept][-MOST:]
        points = points[kept][-MOST:]
        return points[~_looked_at(scan, points)]

    def _enter(self, scan: Scan, then: Pose | None) -> None:
        if then is None:
            self._places = np.empty((0, 3))
            return
        before = seen_from(self._places[:, :2], then)
        seen = seen_points(scan)
        near = placed(seen[np.hypot(*seen.T) <= MEMORY_REACH_M], then)
        new = np.column_stack([near, np.full(len(near), scan.stamp_ns)])
        self._places = np.concatenate([self._places[~_looked_at(scan, before)], new])


def _looked_at(scan: Scan, points: np.ndarray) -> np.ndarray:
    """Return (n,) whether a camera sees the point's bin or a neighbour."""
    return (scan.seen & (scan.ranges_m >= 0.0))[bins_around(points)].any(axis=1)


class SeenFree:
    """The ground that scans of the last seconds looked over, by the robot's odometry."""

    def __init__(self, config: Config) -> None:
        self._free_ns = config.limits.seen_free_s * NS_PER_S
        self._scans: list[tuple[Scan, Pose]] = []
        self._poses: dict[int, Pose] = {}

    def see(self, tick: TickRecord) -> None:
        """Enter this tick's scan."""
        now_ns, scan = tick.inputs.now_ns, tick.limits_scan
        self._poses = {then_ns: pose for then_ns, pose in self._poses.items() if 0 < now_ns - then_ns <= NS_PER_S}
        self._poses[now_ns] = tick.after.wheels.pose
        self._scans = [one for one in self._scans if abs(now_ns - one[0].stamp_ns) <= self._free_ns]
        if scan.stamp_ns in self._poses:
            self._scans.append((scan, self._poses[scan.stamp_ns]))

    def unknown(self, tick: TickRecord, points: np.ndarray) -> np.ndarray:
        """Return the points in a sector that no camera sees, over which no scan looked."""
        left = points[~_looks(tick.limits_scan)[bins_around(points)[:, 0]]]
        for scan, then in self._scans:
            before = seen_from(placed(left, tick.after.wheels.pose), then)
            bins = bins_around(before)[:, 0]
            left = left[~(_looks(scan)[bins] & (scan.ranges_m[bins] > np.hypot(*before.T)))]
        return left


def _looks(scan: Scan) -> np.ndarray:
    looks: np.ndarray = scan.seen & (scan.ranges_m >= 0.0)
    return looks
