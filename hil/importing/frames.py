"""Where sensors sit on a robot, by the transforms in a bag."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from onboard.drivers import ros_types as ros
from onboard.geometry import rotation_from_quaternion

Transform = npt.NDArray[np.float64]
SHORTEST_QUATERNION = 1e-6


@dataclass(slots=True)
class Frames:
    """The tree of frames: of each pair the transform that was heard first, (4, 4) parent_from_child."""

    _near: dict[str, dict[str, Transform]] = field(default_factory=dict)

    def hear(self, transforms: Iterable[ros.TransformStamped]) -> None:
        """Take up those between frames that are not joined yet."""
        for one in transforms:
            parent, child = one.header.frame_id.strip("/"), one.child_frame_id.strip("/")
            parent_from_child = matrix(one.transform)
            if parent_from_child is not None and child not in self._near.get(parent, {}):
                self._near.setdefault(parent, {})[child] = parent_from_child
                self._near.setdefault(child, {})[parent] = np.linalg.inv(parent_from_child)

    def between(self, base: str, frame: str) -> Transform | None:
        """Return base_from_frame, None where the two are not joined."""
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
    """Return a (4, 4) transform, None where it is none: not finite, or without a rotation."""
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
