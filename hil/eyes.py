"""What a runtime on the simulated clock gets of what its robot could see: rendered images, or scans cast directly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from hil.direct_scan import DirectScan
from hil.robot import Glance, SimulatedRobot
from hil.scan_noise import Ranges, noisy_scan
from onboard.config import Config
from onboard.messages import ColorFrame, DepthFrame, Inputs, Scan

POLICY_TOPIC, LIMITS_TOPIC = "direct/scan", "direct/limits_scan"


class Eyes(Protocol):
    """Takes what is due in one tick."""

    def look(self, newest: Inputs, glance: Glance, stamp_ns: int, depth_due: bool, color_due: bool) -> Inputs:
        """Return the newest images and scans, with those that are due taken now."""


class Cameras:
    """All cameras of the robot, rendered. color: whether anybody looks at the colour image."""

    def __init__(self, robot: SimulatedRobot, color: bool = True) -> None:
        self._robot = robot
        self._color = color

    def look(self, newest: Inputs, glance: Glance, stamp_ns: int, depth_due: bool, color_due: bool) -> Inputs:
        """Return the newest images."""
        if depth_due:
            images = self._robot.depth(glance)
            frames = {name: DepthFrame(name, glance.tick, stamp_ns, image) for name, image in images.items()}
            newest = replace(newest, depth=frames)
        return self.look_for_color(newest, glance, stamp_ns) if color_due else newest

    def look_for_color(self, newest: Inputs, glance: Glance, stamp_ns: int) -> Inputs:
        """Return the newest images with a new colour image, where there is such a camera and anybody looks."""
        image = self._robot.color(glance) if self._color else None
        return newest if image is None else replace(newest, color=ColorFrame(glance.tick, stamp_ns, image))


class Caster:
    """Scans cast directly, by topic, at the rate of the depth cameras; colour is rendered where anybody looks at it."""

    def __init__(self, scans: Mapping[str, DirectScan], cameras: Cameras, noise_seed: int | None = None) -> None:
        """Take the scans. noise_seed: of the noise of real depth images in them; None is without."""
        self._scans = scans
        self._cameras = cameras
        self._noise_seed = noise_seed

    def look(self, newest: Inputs, glance: Glance, stamp_ns: int, depth_due: bool, color_due: bool) -> Inputs:
        """Return the newest scans."""
        if depth_due:
            scans = {topic: Scan(stamp_ns, self._seen(scan, glance), scan.seen) for topic, scan in self._scans.items()}
            newest = replace(newest, scans=scans)
        return self._cameras.look_for_color(newest, glance, stamp_ns) if color_due else newest

    def _seen(self, scan: DirectScan, glance: Glance) -> Ranges:
        ranges_m = scan.ranges(glance.pose, glance.bodies)
        return ranges_m if self._noise_seed is None else noisy_scan(ranges_m, self._noise_seed, glance.tick)


def without_cameras(config: Config) -> Config:
    """Return the configuration of a robot whose scans come ready-made, on the topics of a `Caster`."""
    update = {"scan": config.scan.model_copy(update={"topic": POLICY_TOPIC})}
    if config.limits_scan is not None:
        update["limits_scan"] = config.limits_scan.model_copy(update={"topic": LIMITS_TOPIC})
    return config.model_copy(update=update)
