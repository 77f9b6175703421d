"""Images and scans for a runtime on the simulated clock: rendered images, or scans cast directly in the map."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol

from hil.drive.robot import LIDAR_EVERY, TICK_HZ, Glance, Lasers, SimulatedRobot
from hil.physics.contact import Bodies
from hil.sensors.depth_noise import Ranges, noisy_scan
from hil.sensors.direct_scan import DirectScan
from hil.sensors.flawed_scan import LONGEST_TICKS, FlawedScan
from onboard.config.config import LIDARS, Config, ScanSection, ScanSource
from onboard.perception.laser_scan import fused, scan_of_rays
from onboard.values.clock import NS_PER_S
from onboard.values.messages import (
    STOP,
    ColorFrame,
    DepthFrame,
    Fix,
    GoalRequest,
    ImuSample,
    Inputs,
    OdometryMessage,
    Pose,
    Scan,
    Twist,
)

POLICY_TOPIC, LIMITS_TOPIC = "direct/scan", "direct/limits_scan"


class SensorSource(Protocol):
    """Source of images and scans; takes the images and scans that are due in a tick."""

    def sense(self, newest: Inputs, glance: Glance, stamp_ns: int, depth_due: bool, color_due: bool) -> Inputs:
        """Return `newest`, with the due images and scans replaced by new ones."""


class Cameras:
    """All cameras of the robot, rendered. color: whether the policy uses the colour image."""

    def __init__(self, robot: SimulatedRobot, color: bool = True) -> None:
        self._robot = robot
        self._color = color
        self._times = robot.camera_times if robot.has_own_times else {}
        self._coming: deque[tuple[int, DepthFrame]] = deque()

    def _arrived(self, newest: Inputs, glance: Glance, stamp_ns: int) -> Inputs:
        """Return `newest` with the images that arrive in a tick; each camera takes its images at its own times."""
        tick = glance.tick
        taking = [name for name, times in self._times.items() if times.takes(tick)]
        for name, image in self._robot.depth(glance, taking).items() if taking else ():
            self._coming.append((tick + self._times[name].age, DepthFrame(name, tick, stamp_ns, image)))
        here = {frame.camera: frame for due, frame in self._coming if due <= tick}
        self._coming = deque(one for one in self._coming if one[0] > tick)
        return replace(newest, depth={**newest.depth, **here}) if here else newest

    def sense(self, newest: Inputs, glance: Glance, stamp_ns: int, depth_due: bool, color_due: bool) -> Inputs:
        """Return `newest` with the due images."""
        if self._times:
            newest = self._arrived(newest, glance, stamp_ns)
        elif depth_due:
            images = self._robot.depth(glance)
            frames = {name: DepthFrame(name, glance.tick, stamp_ns, image) for name, image in images.items()}
            newest = replace(newest, depth=frames)
        return self.look_for_color(newest, glance, stamp_ns) if color_due else newest

    def look_for_color(self, newest: Inputs, glance: Glance, stamp_ns: int) -> Inputs:
        """Return `newest` with a new colour image, if there is a colour camera and the policy uses colour."""
        image = self._robot.color(glance) if self._color else None
        return newest if image is None else replace(newest, color=ColorFrame(glance.tick, stamp_ns, image))


class CamerasAndLidars:
    """All cameras of the robot, rendered, and its lidars, read as the runtime reads their LaserScan."""

    def __init__(self, robot: SimulatedRobot, lasers: Lasers, color: bool, together: Collection[str] = ()) -> None:
        """lasers: pose of each topic's lidar in the base frame (`lasers_of`); together: those of `LIDARS`."""
        self._robot, self._lasers, self._cameras, self._together = robot, lasers, Cameras(robot, color), together

    def sense(self, newest: Inputs, glance: Glance, stamp_ns: int, depth_due: bool, color_due: bool) -> Inputs:
        """Return `newest` with the due images and scans."""
        newest = self._cameras.sense(newest, glance, stamp_ns, depth_due, color_due)
        if not self._lasers or glance.tick % LIDAR_EVERY != 0:
            return newest
        rays = self._robot.lidars(glance)
        scans = {topic: scan_of_rays(rays[topic], stamp_ns, pose) for topic, pose in self._lasers.items()}
        parts = [scans.pop(topic) for topic in [*scans] if topic in self._together]
        return replace(newest, scans=scans | ({LIDARS: fused(parts, 0)} if parts else {}))


class Caster:
    """Scans cast directly, by topic, at the rate of the depth cameras. `cameras` renders the colour image."""

    def __init__(
        self, scans: Mapping[str, DirectScan | FlawedScan], cameras: Cameras, noise_seed: int | None = None
    ) -> None:
        """Take the scans to cast. noise_seed: seed for the noise of real depth images; None for no noise."""
        self._scans = scans
        self._cameras = cameras
        self._noise_seed = noise_seed
        self._glances: dict[int, Glance] = {}

    def sense(self, newest: Inputs, glance: Glance, stamp_ns: int, depth_due: bool, color_due: bool) -> Inputs:
        """Return `newest` with the due scans and the due colour image."""
        if any(isinstance(scan, FlawedScan) for scan in self._scans.values()):
            self._glances[glance.tick] = glance
            self._glances.pop(glance.tick - LONGEST_TICKS, None)
        if depth_due:
            scans = {topic: Scan(stamp_ns, self._seen(scan, glance), scan.seen) for topic, scan in self._scans.items()}
            newest = replace(newest, scans=scans)
        return self._cameras.look_for_color(newest, glance, stamp_ns) if color_due else newest

    def _then(self, tick: int) -> tuple[Pose, Bodies]:
        glance = self._glances[tick]
        return glance.pose, glance.bodies

    def _seen(self, scan: DirectScan | FlawedScan, glance: Glance) -> Ranges:
        if isinstance(scan, FlawedScan):
            return scan.ranges(glance.tick, self._then)
        ranges_m = scan.ranges(glance.pose, glance.bodies)
        return ranges_m if self._noise_seed is None else noisy_scan(ranges_m, self._noise_seed, glance.tick)


NO_LIDARS: Mapping[str, Any] = {"lasers": {}, "clouds": [], "cameras": []}


def without_cameras(config: Config) -> Config:
    """Return the configuration of a robot that receives complete scans, on the topics of a `Caster`."""
    update: dict[str, ScanSource] = {"scan": config.scan.model_copy(update={"topic": POLICY_TOPIC, **NO_LIDARS})}
    if config.limits_scan is not None:
        update["limits_scan"] = config.limits_scan.model_copy(update={"topic": LIMITS_TOPIC, **NO_LIDARS})
    return config.model_copy(update=update)


def seen_by_cameras(section: ScanSection) -> ScanSection:
    """Return a table of `without_cameras` for the cast of what the cameras see."""
    return section.model_copy(update={"topic": ""})


# ---- Inbox of a runtime on the simulated clock, with a simulated robot in the same process

STEP_NS = round(NS_PER_S / TICK_HZ)


class SimulatedInbox:
    """`interfaces.Inbox` and `interfaces.Drive` of a simulated robot. `take` advances the robot to `now_ns`."""

    def __init__(self, robot: SimulatedRobot, start_ns: int, sensors: SensorSource | None = None) -> None:
        self._robot = robot
        self._sensors = sensors or Cameras(robot)
        self._time_ns = start_ns
        self._newest = Inputs(start_ns)
        self.requests: list[GoalRequest] = []
        self.sent: list[Twist] = []

    def take(self, now_ns: int) -> Inputs:
        """Simulate the robot until `now_ns` and return its newest signals."""
        odometry: list[OdometryMessage] = []
        imu: list[ImuSample] = []
        fixes: list[Fix] = []
        while self._time_ns + STEP_NS <= now_ns:
            self._time_ns += STEP_NS
            self._step(odometry, fixes, imu)
        goals, self.requests = tuple(self.requests), []
        newest = replace(self._newest, odometry=tuple(odometry), fixes=tuple(fixes), imu=tuple(imu))
        return replace(newest, now_ns=now_ns, goals=goals)

    def send(self, command: Twist) -> None:
        """Pass a command to the base."""
        self.sent.append(command)
        self._robot.command(command)

    def close(self) -> None:
        """Stop the base."""
        if not self.sent or self.sent[-1] != STOP:
            self.send(STOP)

    def _step(self, odometry: list[OdometryMessage], fixes: list[Fix], imu: list[ImuSample]) -> None:
        robot, stamp_ns = self._robot, self._time_ns
        due = robot.depth_due, robot.color_due
        sensed = robot.step(images=False)
        odometry.append(OdometryMessage(stamp_ns, stamp_ns, sensed.odometry.pose, sensed.odometry.twist))
        if sensed.imu_radps is not None:
            imu.append(ImuSample(stamp_ns, stamp_ns, sensed.imu_radps))
        if sensed.fix is not None:
            fixes.append(Fix(stamp_ns - sensed.fix_age_ns, stamp_ns, sensed.fix))
        seen = self._sensors.sense(self._newest, robot.glance(), stamp_ns, *due)
        self._newest = replace(seen, obstacle=sensed.touching)
