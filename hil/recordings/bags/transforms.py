"""Sensor poses on a robot from the transforms of a bag."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import rays_from_ros, ros_scan
from onboard.perception.laser_scan import BIN_RAD, MOST_RAYS, TOO_CLOSE_M
from onboard.values.errors import InputError
from onboard.values.geometry import rotation_from_quaternion
from onboard.values.messages import BINS, Scan

Transform = npt.NDArray[np.float64]
SHORTEST_QUATERNION = 1e-6


@dataclass(slots=True)
class Frames:
    """Tree of frames: the first transform of each pair, (4, 4) parent_from_child."""

    _near: dict[str, dict[str, Transform]] = field(default_factory=dict)

    def hear(self, transforms: Iterable[ros.TransformStamped]) -> None:
        """Add transforms between frames that are not connected yet."""
        for one in transforms:
            parent, child = one.header.frame_id.strip("/"), one.child_frame_id.strip("/")
            parent_from_child = matrix(one.transform)
            if parent_from_child is not None and child not in self._near.get(parent, {}):
                self._near.setdefault(parent, {})[child] = parent_from_child
                self._near.setdefault(child, {})[parent] = np.asarray(np.linalg.inv(parent_from_child), np.float64)

    def between(self, base: str, frame: str) -> Transform | None:
        """Return base_from_frame, None if the frames are not connected."""
        base, frame = base.strip("/"), frame.strip("/")
        found = {base: np.eye(4)}
        waiting = deque([base])
        while waiting and frame not in found:
            here = waiting.popleft()
            for there, here_from_there in self._near.get(here, {}).items():
                if there not in found:
                    found[there] = found[here] @ here_from_there
                    waiting.append(there)
        return found.get(frame)


def matrix(transform: ros.Transform) -> Transform | None:
    """Return a (4, 4) transform, None if it is not finite or has no rotation."""
    q, t = transform.rotation, transform.translation
    xyzw = np.array([q.x, q.y, q.z, q.w])
    length = float(np.linalg.norm(xyzw))
    whole = np.eye(4)
    whole[:3, 3] = t.x, t.y, t.z
    if not (length > SHORTEST_QUATERNION and np.isfinite(xyzw).all() and np.isfinite(whole).all()):
        return None
    x, y, z, w = (float(part) / length for part in xyzw)
    whole[:3, :3] = rotation_from_quaternion((x, y, z, w))
    return whole


# ---- A laser scan in the base frame


def seen_from_base(sample: ros.LaserScan, base_from_laser: Transform, base_frame: str) -> ros.LaserScan:
    """Return the scan in the base frame: the nearest end of a ray in each bin.

    A ray without a hit marks the bin at the laser's reach as seen. A scan taken at the base is returned unchanged.
    Raises InputError for a bad scan.
    """
    header = ros.Header(sample.header.stamp, base_frame)
    if np.array_equal(base_from_laser, np.eye(4)):
        return replace(sample, header=header)
    rays = rays_from_ros(sample)
    count, reach_m = len(rays.ranges_m), rays.range_max_m
    if not (0 < count <= MOST_RAYS and math.isfinite(reach_m) and math.isfinite(rays.increment_rad)):
        raise InputError(f"invalid laser scan: {count} rays, every {rays.increment_rad} rad, up to {reach_m} m")
    too_close = max(rays.range_min_m, TOO_CLOSE_M)
    ranges = np.where(np.isneginf(rays.ranges_m), too_close, rays.ranges_m).astype(np.float64)
    with np.errstate(invalid="ignore"):
        hits = (ranges >= rays.range_min_m) & (ranges <= reach_m)
    nothing = np.isposinf(ranges)
    azimuth = rays.angle_min_rad + np.arange(count) * rays.increment_rad
    lengths = np.where(hits, ranges, reach_m)
    ends = np.stack([lengths * np.cos(azimuth), lengths * np.sin(azimuth), np.zeros(count)])
    x, y, _ = base_from_laser[:3, :3] @ ends + base_from_laser[:3, 3:]
    bins = np.floor((np.arctan2(y, x) + math.pi) / BIN_RAD).astype(np.int64) % BINS
    nearest = np.full(BINS, np.inf, np.float32)
    np.minimum.at(nearest, bins[hits], np.hypot(x, y)[hits].astype(np.float32))
    seen = np.zeros(BINS, np.bool_)
    seen[bins[hits | nothing]] = True
    stamp_ns = sample.header.stamp.sec * 1_000_000_000 + sample.header.stamp.nanosec
    return ros_scan(stamp_ns, base_frame, Scan(stamp_ns, nearest, seen), reach_m)
