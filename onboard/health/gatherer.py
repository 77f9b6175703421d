"""What the checks need of each tick, live or recorded. Costs the tick almost nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from onboard.config.config import Config
from onboard.navigation import odometry
from onboard.navigation.odometry import OdometryState
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import wrap
from onboard.values.messages import DepthFrame, Pose

LOOK_S = 2.0
"""Between two sets of images on the robot."""
STILL_RADPS = 0.3
"""Above this yaw rate, images of different cameras show different poses of the base."""


Place = tuple[float, float, Pose, Pose, float, float]
"""Way so far [m], turn so far [rad], odometry's pose, fix's pose, its sd [m] and [rad]."""


@dataclass(slots=True)
class TickExcerpt:
    """What the checks need of some ticks.

    motions: (time [s], commanded v, w, measured v, w) of each tick
    places:  of each fix
    frames:  images of all cameras at one time
    """

    motions: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    frames: Mapping[str, DepthFrame] = field(default_factory=dict)


class Gatherer:
    """Collects from ticks, live or recorded, what the checks need. look_s: between two sets of images."""

    def __init__(self, config: Config, look_s: float = LOOK_S) -> None:
        self._section, self._look_ns = config.odometry, look_s * NS_PER_S
        self._wheels = OdometryState()
        self._part = TickExcerpt()
        self._looked_ns = 0
        self._yaw: tuple[float, float] | None = None

    def take(self, record: TickRecord) -> TickExcerpt | None:
        """Take a tick; return what was gathered whenever images are due. Recorded images are in some ticks only."""
        wheels = self._followed(record)
        command, measured, now_ns = record.command, record.odometry.twist, record.slot.start_ns
        row = (now_ns / NS_PER_S, command.v_mps, command.w_radps, measured.v_mps, measured.w_radps)
        self._part.motions.append(row)
        self._note_fixes(record, wheels)
        if now_ns - self._looked_ns < self._look_ns or abs(measured.w_radps) > STILL_RADPS:
            return None
        frames = {name: frame for name, frame in record.inputs.depth.items() if frame.depth.size}
        if not frames and record.inputs.depth:
            return None
        self._looked_ns = now_ns
        return self.rest(frames)

    def rest(self, frames: Mapping[str, DepthFrame] | None = None) -> TickExcerpt:
        """Return what was gathered since the last part."""
        part, self._part = self._part, TickExcerpt()
        part.frames = frames or {}
        return part

    def _followed(self, record: TickRecord) -> OdometryState:
        """Return the odometry after a tick: the runtime's, or integrated again where a recording has none."""
        if record.after is not None:
            return record.after.wheels
        for message in record.inputs.odometry:
            self._wheels = odometry.advance(self._wheels, message, self._section)
        return self._wheels

    def _note_fixes(self, record: TickRecord, wheels: OdometryState) -> None:
        yaw = record.odometry.pose.yaw_rad
        before, turned = self._yaw or (yaw, 0.0)
        turned += wrap(yaw - before)
        self._yaw = yaw, turned
        for fix in record.inputs.fixes:
            then = odometry.at(wheels, fix.stamp_ns)
            if then is None:
                continue
            covariance = np.zeros((3, 3)) if fix.covariance is None else fix.covariance
            sd_m = max(self._section.localization_sd[0], math.sqrt(max(0.0, covariance[0, 0], covariance[1, 1])))
            sd_rad = max(self._section.localization_sd[2], math.sqrt(max(0.0, covariance[2, 2])))
            since = wrap(yaw - then.motion.pose.yaw_rad)
            way_m = wheels.travelled_m
            self._part.places.append((way_m, turned - since, then.motion.pose, fix.pose, sd_m, sd_rad))
