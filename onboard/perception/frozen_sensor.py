"""Frozen sensors: depth images or scans that stay the same while the base moves, whatever their stamps say."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import structlog

from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, between, distance
from onboard.values.messages import DepthFrame, OdometryMessage, Pose, Scan
from onboard.values.reasons import NO_REASON, Said

log = structlog.get_logger()

ROW_STEP = 8
"""Only every n-th row is compared: a live sensor has noise in all rows."""
LEVER_M = 1.0
"""A rotation counts as the path of a point at this distance from the axle."""
RECENT = 4
"""A camera that repeats a cycle of at most this many images is frozen too: a driver's ring of buffers."""
RESET_M = 0.5
"""A pose that moves farther from one message to the next was reset: no distance."""
LONGEST_STEP_S = 0.5
"""After a longer silence, the base counts as moving for this long only."""


@dataclass(frozen=True, slots=True)
class _Picture:
    """The newest image of a camera.

    recent:   checksums of the last distinct images, the newest last
    new_m:    distance driven when the last new image came [m]
    newest_m: distance driven when the last image of any kind came [m]
    """

    number: int
    recent: tuple[int, ...]
    new_m: float
    newest_m: float


class UnchangedWatch:
    """Drops depth cameras that have shown no new image over a distance of `limit_m`; 0 drops none.

    An image is new if it differs from the last `RECENT` distinct images. Sensor noise makes any two real images differ.
    Repeats are allowed at rest, for simulated cameras without noise. Colour is not watched: no limit uses it.
    """

    def __init__(self, limit_m: float) -> None:
        self._limit_m = limit_m
        self._way_m = 0.0
        self._odometry: OdometryMessage | None = None
        self._pictures: dict[str, _Picture] = {}

    def believed(self, frames: Mapping[str, DepthFrame], odometry: Sequence[OdometryMessage]) -> dict[str, DepthFrame]:
        """Return the frames of live cameras. odometry: messages since the last call, oldest first."""
        self.move(odometry)
        if self._limit_m == 0.0:
            return dict(frames)
        for name, frame in frames.items():
            self.register(name, frame.number, frame.depth[::ROW_STEP])
        return {name: frame for name, frame in frames.items() if not self.reason(name)}

    def move(self, odometry: Sequence[OdometryMessage]) -> None:
        """Add the distance driven. odometry: messages since the last call, oldest first."""
        for message in odometry:
            self._move(message)

    def register(self, name: str, number: int, picture: npt.NDArray[np.generic]) -> None:
        """Register the newest image of a source; an unchanged number means no new image."""
        before = self._pictures.get(name)
        if before is not None and before.number == number:
            return
        checksum = zlib.crc32(picture.tobytes())
        recent = before.recent if before is not None else ()
        if before is not None and checksum in recent:
            self._pictures[name] = _Picture(number, recent, before.new_m, self._way_m)
        else:
            self._pictures[name] = _Picture(number, (*recent, checksum)[-RECENT:], self._way_m, self._way_m)

    def reason(self, camera: str) -> Said:
        """Return why a camera counts as frozen, or "" while it is live."""
        picture = self._pictures.get(camera)
        way_m = picture.newest_m - picture.new_m if picture is not None else 0.0
        if self._limit_m == 0.0 or way_m <= self._limit_m:
            return NO_REASON
        return reasons.UNCHANGED.say(way_m=way_m, limit_m=self._limit_m)

    def _move(self, message: OdometryMessage) -> None:
        before, self._odometry = self._odometry, message
        if before is None:
            return
        elapsed_s = min((message.arrival_ns - before.arrival_ns) / NS_PER_S, LONGEST_STEP_S)
        ways_m = [(abs(message.twist.v_mps) + LEVER_M * abs(message.twist.w_radps)) * elapsed_s]
        if message.pose is not None and before.pose is not None and _finite(message.pose) and _finite(before.pose):
            step = between(before.pose, message.pose)
            if distance(IDENTITY, step) < RESET_M:
                ways_m.append(distance(IDENTITY, step) + LEVER_M * abs(step.yaw_rad))
        self._way_m += max(filter(math.isfinite, ways_m), default=0.0)


class UnchangedScans:
    """Holds back ready-made scans that have not changed over a distance of `limit_m`, so that the last one turns stale.

    A scan without any return is always new: on open ground all scans are alike.
    """

    def __init__(self, limit_m: float) -> None:
        self._watch = UnchangedWatch(limit_m)
        self._believed: dict[str, Scan] = {}
        self._held: frozenset[str] = frozenset()

    def believed(self, scans: Mapping[str, Scan], odometry: Sequence[OdometryMessage]) -> Mapping[str, Scan]:
        """Return the newest live scan of each topic. odometry: messages since the last call, oldest first."""
        self._watch.move(odometry)
        for topic, scan in scans.items():
            if np.isfinite(scan.ranges_m).any():
                self._watch.register(topic, scan.stamp_ns, scan.ranges_m)
            reason = self._watch.reason(topic)
            if not reason:
                self._believed[topic] = scan
            elif topic not in self._held:
                log.warning("scan_held_back", topic=topic, reason=reason)
            self._held = (self._held - {topic}) if not reason else (self._held | {topic})
        return dict(self._believed)


def _finite(pose: Pose) -> bool:
    """Return whether a pose is finite; the odometry refuses others later."""
    return all(map(math.isfinite, (pose.x_m, pose.y_m, pose.yaw_rad)))
