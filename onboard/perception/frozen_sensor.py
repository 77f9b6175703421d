"""Depth images, or ready-made scans, that show nothing new while the base moves: what sends them is stuck, whatever its
stamps say."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import structlog

from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, between, distance
from onboard.values.messages import DepthFrame, OdometryMessage, Pose, Scan

log = structlog.get_logger()

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
        self.move(odometry)
        if self._limit_m == 0.0:
            return dict(frames)
        for name, frame in frames.items():
            self.look(name, frame.number, frame.depth[::ROW_STEP])
        return {name: frame for name, frame in frames.items() if not self.reason(name)}

    def move(self, odometry: Sequence[OdometryMessage]) -> None:
        """Take note of the way driven. odometry: what arrived since the last call, oldest first."""
        for message in odometry:
            self._move(message)

    def look(self, name: str, number: int, picture: npt.NDArray[np.generic]) -> None:
        """Take note of the newest picture of a source, the same as at the last call where its number is."""
        before = self._pictures.get(name)
        if before is not None and before.number == number:
            return
        checksum = zlib.crc32(picture.tobytes())
        recent = before.recent if before is not None else ()
        if before is not None and checksum in recent:
            self._pictures[name] = _Picture(number, recent, before.new_m, self._way_m)
        else:
            self._pictures[name] = _Picture(number, (*recent, checksum)[-RECENT:], self._way_m, self._way_m)

    def reason(self, camera: str) -> str:
        """Return why a camera is not believed, "" while it is."""
        picture = self._pictures.get(camera)
        way_m = picture.newest_m - picture.new_m if picture is not None else 0.0
        if self._limit_m == 0.0 or way_m <= self._limit_m:
            return ""
        return f"the same picture over a way of {way_m:.2f} m, limit {self._limit_m:g} m"

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


class UnchangedScans:
    """Holds back ready-made scans that have shown nothing new over a way of `limit_m`, so that the last one ages.

    One in which nothing is seen at all is always new: on open ground the next one is the same.
    """

    def __init__(self, limit_m: float) -> None:
        self._watch = UnchangedWatch(limit_m)
        self._believed: dict[str, Scan] = {}
        self._held: frozenset[str] = frozenset()

    def believed(self, scans: Mapping[str, Scan], odometry: Sequence[OdometryMessage]) -> Mapping[str, Scan]:
        """Return the newest scan of each topic that may be believed. odometry: what arrived since the last call."""
        self._watch.move(odometry)
        for topic, scan in scans.items():
            if np.isfinite(scan.ranges_m).any():
                self._watch.look(topic, scan.stamp_ns, scan.ranges_m)
            reason = self._watch.reason(topic)
            if not reason:
                self._believed[topic] = scan
            elif topic not in self._held:
                log.warning("scan_held_back", topic=topic, reason=reason)
            self._held = (self._held - {topic}) if not reason else (self._held | {topic})
        return dict(self._believed)


def _finite(pose: Pose) -> bool:
    """Return whether a pose is one: what is none is refused later, by the odometry."""
    return all(map(math.isfinite, (pose.x_m, pose.y_m, pose.yaw_rad)))
