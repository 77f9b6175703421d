"""Sensor poses on a robot from the transforms of a bag."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import ns_from_time, rays_from_ros, ros_scan
from onboard.perception.laser_scan import scan_of_rays
from onboard.values.geometry import NORM_TOLERANCE, rotation_from_quaternion

Transform = npt.NDArray[np.float64]


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
    """Return a (4, 4) transform, None if it is not finite or has no unit quaternion."""
    q, t = transform.rotation, transform.translation
    xyzw = np.array([q.x, q.y, q.z, q.w])
    length = float(np.linalg.norm(xyzw))
    whole = np.eye(4)
    whole[:3, 3] = t.x, t.y, t.z
    if not (abs(length - 1.0) <= NORM_TOLERANCE and np.isfinite(xyzw).all() and np.isfinite(whole).all()):
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
    rays, stamp_ns = rays_from_ros(sample), ns_from_time(sample.header.stamp)
    return ros_scan(stamp_ns, base_frame, scan_of_rays(rays, stamp_ns, base_from_laser), rays.range_max_m)
