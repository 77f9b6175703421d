"""Scans and colour images of a fast drive: taken in the cameras' ticks, computed only if their content matters."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hil.drive.fast.course import Course
from hil.drive.fast.limits_kernel import cells_may_bind
from hil.drive.fast.robot import FastRobot, time_ns
from hil.drive.fast.tick_kernels import FIRST_TICK
from hil.drive.setting import Setting, flawed, wants_color
from hil.maps.materials import PLAIN
from hil.sensors.camera import Rays, rays_of, render_color
from hil.sensors.depth_noise import noisy_scan
from hil.sensors.flawed_scan import FlawedScan
from onboard.values.geometry import compose
from onboard.values.interfaces import Policy
from onboard.values.messages import ColorFrame, Pose, Scan

Ranges = npt.NDArray[np.float32]


class FastEyes:
    """The scans of one drive, and its colour image if the policy uses colour.

    The cameras take images every `depth_every` and `color_every` ticks, beginning with tick 1, as in
    `hil.drive.robot.SimulatedRobot`. A scan is cast only when the caller asks for it, and only to the range asked for.
    """

    def __init__(self, setting: Setting, course: Course, policy: Policy, robot: FastRobot) -> None:
        self._setting, self._course, self._robot = setting, course, robot
        self._noisy = setting.senses.spoils_scans
        config = setting.config
        policy_scan = flawed(course.scan, setting, config.scan, robot.seed)
        own = policy_scan if course.limits_scan is course.scan else None
        self._flawed = policy_scan if isinstance(policy_scan, FlawedScan) else None
        limits_scan = own or flawed(course.limits_scan, setting, config.own_scan or config.scan, robot.seed)
        self._limits_flawed = limits_scan if isinstance(limits_scan, FlawedScan) else None
        self._ticks_per_decision = setting.config.rates.ticks_per_decision
        self._color_rays: Rays | None = None
        if wants_color(policy) and setting.mounts.color:
            self._color_rays = rays_of(next(iter(setting.mounts.color.values())))
        self._color: ColorFrame | None = None
        self._tick, self._pose, self._bodies = 0, robot.pose, robot.bodies
        self._policy_ranges: Ranges | None = None
        self._near: tuple[float, Ranges] | None = None

    def next_tick(self, tick: int, until: int, every_scan: bool) -> int:
        """Return the next tick with an image to take, otherwise `until`.

        The image is the next scan if `every_scan`, or the last colour image by `until`.
        """
        senses = self._setting.senses
        due = tick + senses.depth_every - (tick - FIRST_TICK) % senses.depth_every if every_scan else until
        if self._color_rays is not None and tick < last_image(until, senses.color_every):
            due = min(due, last_image(until, senses.color_every))
        return due

    def take_images(self) -> bool:
        """Take the images due in this tick. Return whether there is a new scan since the last call."""
        robot, senses = self._robot, self._setting.senses
        if self._color_rays is not None and robot.tick == last_image(robot.tick, senses.color_every):
            look = PLAIN if self._setting.look is None else self._setting.look
            image = render_color(self._setting.world, self._color_rays, robot.pose, look, robot.bodies)
            self._color = ColorFrame(robot.tick, time_ns(robot.tick), image)
        s = robot.state
        if s.seen_tick == self._tick:
            return False
        self._tick, self._pose = int(s.seen_tick), Pose(s.seen_x_m, s.seen_y_m, s.seen_yaw)
        self._bodies = robot.seen_bodies
        self._policy_ranges = self._near = None
        return True

    @property
    def pose(self) -> Pose:
        """True pose in the map frame from which the newest scan was taken."""
        return self._pose

    def color(self) -> ColorFrame | None:
        """Return the newest colour image."""
        return self._color

    def policy_scan(self) -> Scan:
        """Return the newest scan for the policy."""
        if self._policy_ranges is None:
            if self._flawed is not None:
                self._policy_ranges = self._flawed.ranges(self._tick, self._robot.glance)
            else:
                self._policy_ranges = self._spoilt(self._course.scan.ranges(self._pose, self._bodies))
        return Scan(time_ns(self._tick), self._policy_ranges, self._course.scan.seen)

    def limits_scan(self, within_m: float = math.inf) -> Scan:
        """Return the newest scan for the limits; ranges beyond `within_m` may be missing (inf)."""
        shared = self._course.limits_scan is self._course.scan
        if shared and self._policy_ranges is None and self._serves_decision():
            self.policy_scan()
        if shared and self._policy_ranges is not None:
            return self.policy_scan()
        if self._noisy:
            within_m = math.inf  # noise can shorten a range below `within_m`
        if self._near is None or self._near[0] < within_m:
            if self._limits_flawed is not None:
                self._near = within_m, self._limits_flawed.ranges(self._tick, self._robot.glance)
            else:
                ranges_m = self._course.limits_scan.ranges(self._pose, self._bodies, within_m)
                self._near = within_m, self._spoilt(ranges_m)
        return Scan(time_ns(self._tick), self._near[1], self._course.limits_scan.seen)

    def scan_from(self, pose: Pose, tick: int) -> Scan:
        """Return the scan for the limits that was taken in a tick from a true pose, without bodies."""
        ranges_m = self._course.limits_scan.ranges(pose)
        noisy = noisy_scan(ranges_m, self._robot.seed, tick) if self._setting.senses.depth_noise else ranges_m
        return Scan(time_ns(tick), noisy, self._course.limits_scan.seen)

    def may_bind(self, ways: npt.NDArray[np.float64]) -> bool:
        """Return whether the limits may bind a `limits_kernel.CommandSpace` by the newest scan. Casts no scan."""
        course, world, placed = self._course, self._setting.world, compose(self._course.grid_from_map, self._pose)
        return (
            self._noisy
            or len(self._bodies) > 0
            or bool(
                cells_may_bind(
                    placed.x_m, placed.y_m, placed.yaw_rad, ways, world.cell_m, course.solid, course.solid_gap
                )
            )
        )

    def _spoilt(self, ranges_m: Ranges) -> Ranges:
        """Return the ranges of the newest scan, with noise if the setting asks for depth noise."""
        noisy = self._setting.senses.depth_noise
        return noisy_scan(ranges_m, self._robot.seed, self._tick) if noisy else ranges_m

    def _serves_decision(self) -> bool:
        """Return whether the next decision will use the newest scan."""
        tick, every = self._tick, self._setting.senses.depth_every
        return (tick + every - 1) // self._ticks_per_decision > (tick - 1) // self._ticks_per_decision


def last_image(tick: int, every: int) -> int:
    """Return the last tick, at most `tick`, with images every `every` ticks."""
    return tick - (tick - FIRST_TICK) % every
