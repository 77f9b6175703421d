"""Depth images that show nothing new while the base moves: a camera that is stuck, whatever its stamps say."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onboard.geometry import IDENTITY, between, distance
from onboard.messages import DepthFrame, OdometryMessage, Pose
from onboard.scheduler import NS_PER_S

ROW_STEP = 8
"""Every so many-th row is looked at: the noise of a live sensor is in all of them."""
LEVER_M = 1.0
"""A turn counts as the way of a point so far from the axle."""
RECENT = 4
"""A camera that shows so many pictures in turn, again and again, is stuck as well: a driver's ring of buffers."""
LONGEST_STEP_S = 0.5
"""A base that was silent for longer is taken to have moved for this long."""


@dataclass(frozen=True, slots=True)
class _Picture:
    """The newest frame of a camera.

    recent: checksums of the newest pictures that differ, the newest last
    new_m, newest_m: the way driven [m] when a picture came that was none of these, and when one came at all
    """

    number: int
    recent: tuple[int, ...]
    new_m: float
    newest_m: float


class UnchangedWatch:
    """Leaves out depth cameras that have shown nothing new over a way of `limit_m`; 0 leaves out none.

    Nothing new is what is among the last `RECENT` pictures that differ. A depth sensor's noise makes two of its images
    differ even when nothing moves, so the same one twice is no image. Standing is allowed it all the same, so that
    simulated cameras without noise may be used. Colour is not watched: no limit looks at it.
    """

    def __init__(self, limit_m: float) -> None:
        self._limit_m = limit_m
        self._way_m = 0.0
        self._heard: OdometryMessage | None = None
        self._pictures: dict[str, _Picture] = {}

    def believed(self, frames: Mapping[str, DepthFrame], odometry: Sequence[OdometryMessage]) -> dict[str, DepthFrame]:
        """Return the frames that may be believed. odometry: what arrived since the last call, oldest first."""
        for message in odometry:
            self._move(message)
        if self._limit_m == 0.0:
            return dict(frames)
        for name, frame in frames.items():
            self._look(name, frame)
        return {name: frame for name, frame in frames.items() if not self.reason(name)}

    def reason(self, camera: str) -> str:
        """Return why a camera is not believed, "" while it is."""
        picture = self._pictures.get(camera)
        way_m = picture.newest_m - picture.new_m if picture is not None else 0.0
        if self._limit_m == 0.0 or way_m <= self._limit_m:
            return ""
        return f"the same picture over a way of {way_m:.2f} m, limit {self._limit_m:g} m"

    def _look(self, name: str, frame: DepthFrame) -> None:
        before = self._pictures.get(name)
        if before is not None and before.number == frame.number:
            return
        checksum = zlib.crc32(frame.depth[::ROW_STEP].tobytes())
        recent = before.recent if before is not None else ()
        if before is not None and checksum in recent:
            self._pictures[name] = _Picture(frame.number, recent, before.new_m, self._way_m)
        else:
            self._pictures[name] = _Picture(frame.number, (*recent, checksum)[-RECENT:], self._way_m, self._way_m)

    def _move(self, message: OdometryMessage) -> None:
        before, self._heard = self._heard, message
        if before is None:
            return
        elapsed_s = min((message.arrival_ns - before.arrival_ns) / NS_PER_S, LONGEST_STEP_S)
        ways_m = [(abs(message.twist.v_mps) + LEVER_M * abs(message.twist.w_radps)) * elapsed_s]
        if message.pose is not None and before.pose is not None and _finite(message.pose) and _finite(before.pose):
            step = between(before.pose, message.pose)
            ways_m.append(distance(IDENTITY, step) + LEVER_M * abs(step.yaw_rad))
        self._way_m += max(filter(math.isfinite, ways_m), default=0.0)


def _finite(pose: Pose) -> bool:
    """Return whether a pose is one: what is none is refused later, by the odometry."""
    return all(map(math.isfinite, (pose.x_m, pose.y_m, pose.yaw_rad)))
