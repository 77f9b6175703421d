"""The tree of frames that a robot publishes (tf): where its sensors are."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.values.geometry import NORM_TOLERANCE, rotation_from_quaternion

Transform = npt.NDArray[np.float64]


@dataclass(slots=True)
class Frames:
    """Tree of frames: the first transform of each pair, (4, 4) parent_from_child."""

    _near: dict[str, dict[str, Transform]] = field(default_factory=dict)

    def hear(self, transforms: Iterable[Any]) -> None:
        """Add transforms between frames that are not connected yet."""
        for transform in transforms:
            parent, child = transform.header.frame_id.strip("/"), transform.child_frame_id.strip("/")
            parent_from_child = matrix(transform.transform)
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

    def names(self) -> list[str]:
        """Return all frames."""
        return sorted(self._near)


def matrix(transform: Any) -> Transform | None:
    """Return a (4, 4) transform, None if it is not finite or has no unit quaternion."""
    q, t = transform.rotation, transform.translation
    xyzw = (q.x, q.y, q.z, q.w)
    length = math.hypot(*xyzw)
    whole = np.eye(4)
    whole[:3, 3] = t.x, t.y, t.z
    if not (abs(length - 1.0) <= NORM_TOLERANCE and np.isfinite(whole).all()):
        return None
    x, y, z, w = (part / length for part in xyzw)
    whole[:3, :3] = rotation_from_quaternion((x, y, z, w))
    return whole


def place_of(pose: Transform) -> tuple[float, float, float, float, float, float]:
    """Return x, y, z [m], roll, pitch, yaw [deg] of a (4, 4) transform, as `scan.lasers` states them."""
    r, (x, y, z) = pose[:3, :3], (float(part) for part in pose[:3, 3])
    pitch = math.atan2(-r[2, 0], math.hypot(r[2, 1], r[2, 2]))
    angles = math.atan2(r[2, 1], r[2, 2]), pitch, math.atan2(r[1, 0], r[0, 0])
    roll, pitch, yaw = (math.degrees(angle) for angle in angles)
    return x, y, z, roll, pitch, yaw


def quaternion_of(rotation: Transform) -> Transform:
    """Return (x, y, z, w) of a (3, 3) rotation: the main eigenvector of the matrix K of Bar-Itzhack (2000)."""
    r = rotation
    k = np.array(
        [
            [r[0, 0] - r[1, 1] - r[2, 2], r[1, 0] + r[0, 1], r[2, 0] + r[0, 2], r[2, 1] - r[1, 2]],
            [r[1, 0] + r[0, 1], r[1, 1] - r[0, 0] - r[2, 2], r[2, 1] + r[1, 2], r[0, 2] - r[2, 0]],
            [r[2, 0] + r[0, 2], r[2, 1] + r[1, 2], r[2, 2] - r[0, 0] - r[1, 1], r[1, 0] - r[0, 1]],
            [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], r[0, 0] + r[1, 1] + r[2, 2]],
        ]
    )
    main: Transform = np.linalg.eigh(k)[1][:, -1]
    return main if main[3] >= 0.0 else -main
