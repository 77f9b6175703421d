"""The simulated robot and its odometry and filter, for loops that need them only now and then: many ticks in one call.

What it goes through is what `robot.SimulatedRobot` and the runtime's first stages go through tick by tick, with the
same draws in the same order. tests/hil/drive/fast/test_tick_kernels.py drives both side by side.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hil.drive.fast.course import Course
from hil.drive.fast.ekf_kernel import correct_fast
from hil.drive.fast.limits_kernel import NONE
from hil.drive.fast.tick_kernels import (
    FIRST_TICK,
    NEVER,
    TickState,
    TickTable,
    note_tick,
    records_of,
    run_ticks,
    state_of,
)
from hil.drive.setting import Setting
from hil.maps.cell_kernels import circle_overlaps
from hil.physics.contact import NO_BODIES, Bodies
from hil.physics.odometry_noise import DRIFT_COVARIANCE, DRIFT_MEAN, TICKS_PER_ENVIRONMENT_STEP, next_fix_ns, noisy_fix
from hil.physics.simulated_base import NS, STEP_NS, STEP_S
from hil.scene.walkers import bodies_of, walk
from onboard.navigation import ekf, odometry
from onboard.navigation.ekf import STATES, LocalizationState, Received
from onboard.navigation.odometry import OdometryState, Sample
from onboard.navigation.start_frame import Located, Start, locate
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import apply
from onboard.values.messages import STOP, Fix, Motion, OdometryMessage, Pose, Twist

# ---- What a fast robot is given at the beginning: a free start, the table of its compiled ticks, the form of


def check_start(setting: Setting, course: Course, start: Pose) -> None:
    """Raise InputError where a body would overlap something, as `world.Simulation.start` does."""
    x_m, y_m = apply(course.grid_from_map, (start.x_m, start.y_m))
    cell_m, radius_m = setting.world.cell_m, setting.body.radius_m
    if circle_overlaps(x_m / cell_m, y_m / cell_m, radius_m / cell_m, course.blocked, course.gap):
        raise InputError(
            f"map {setting.world.name}: start ({start.x_m:.2f}, {start.y_m:.2f}): "
            f"a body of radius {radius_m} m does not fit there"
        )


def _drift_factor() -> npt.NDArray[np.float64]:
    """Return (2, 2): what numpy's `multivariate_normal` multiplies its standard normal numbers by."""
    directions, singular, _ = np.linalg.svd(np.array(DRIFT_COVARIANCE))
    return np.asarray((directions * np.sqrt(singular)).T)


DRIFT_FACTOR = _drift_factor()


def table_of(setting: Setting) -> TickTable:
    """Return what holds for a drive, for the compiled ticks."""
    section, recovery, grid = setting.config.odometry, setting.config.recovery, setting.world.grid_from_map
    return TickTable(
        grid_x_m=grid.x_m,
        grid_y_m=grid.y_m,
        grid_yaw=grid.yaw_rad,
        cell_m=setting.world.cell_m,
        radius_m=setting.body.radius_m,
        height_m=setting.body.height_m,
        driven_s=min(STEP_NS / NS_PER_S, section.max_gap_ms / 1e3),
        own_pose=float(section.source == "pose"),
        max_v=section.max_speed_mps,
        max_w=section.max_yaw_rate_radps,
        moving_mps=recovery.moving_mps,
        moving_radps=recovery.moving_radps,
        commanded_mps=recovery.commanded_mps,
        commanded_radps=recovery.commanded_radps,
        depth_every=setting.senses.depth_every,
    )


START_NS = NS_PER_S
"""Time of tick 0 on the simulated clock."""
NOT_KEPT = np.zeros((3, 3))
"""In place of the covariance of the wheels' own pose, which nothing but the publisher looks at."""
MOST_TICKS = 10
"""Ticks that are lived in one call at most."""


def time_ns(tick: int) -> int:
    """Return the time of a tick on the runtime's clock."""
    return START_NS + tick * STEP_NS


class FastRobot:
    """A robot in a building that is told a command and lives for some ticks. For one drive.

    tick: number of the newest tick; state: everything in it; bodies: who else was where then
    seen_bodies: who else was where when the newest scan was taken; seed: of all noise
    """

    def __init__(self, setting: Setting, course: Course, start: Pose, seed: int, most_ticks: int) -> None:
        """Put the robot down at tick 0, for a drive of so many ticks. Raises InputError where it does not fit."""
        check_start(setting, course, start)
        self._senses, self._course, self._section = setting.senses, course, setting.config.odometry
        self._radius_m = setting.body.radius_m
        self._rng = np.random.default_rng(seed)
        self.seed = seed
        self._crowd = setting.crowd
        self.bodies: Bodies = NO_BODIES if setting.crowd is None else bodies_of(setting.crowd)
        self._fix_tick = 1 if setting.senses.localization else None
        self._coming: deque[tuple[int, Fix, Sample]] = deque()
        self._delay = math.ceil(round(setting.base_plant.base.command_delay_s * NS) / STEP_NS)
        self._late = np.zeros((self._delay, 2))
        self._states = records_of(TickState(x_m=start.x_m, y_m=start.y_m, yaw=start.yaw_rad))
        self._table = records_of(table_of(setting))
        self._covariance = np.zeros((STATES, STATES))
        self._filter = LocalizationState()
        self._fix_variance = np.square(np.array(self._section.localization_sd))
        self._trace = np.zeros((most_ticks + 1, 6))
        self.seen_bodies = self.bodies
        self._wanted, self._judged, self._ways = STOP, False, NONE
        self._look_up()

    @property
    def pose(self) -> Pose:
        """True pose in the map frame."""
        return Pose(self.state.x_m, self.state.y_m, self.state.yaw)

    def run_to(self, tick: int, command: Twist, ways: npt.NDArray[np.float64] = NONE) -> None:
        """Live until a tick, with a command that is sent anew in every tick from now on, the last one left out.

        It ends earlier in a tick with a scan by which the limits may bind the command of `ways`, in one in which a
        contact begins or ends (`state.halt`), and where the wheels report what cannot be believed (`state.refused`).
        """
        self._ways = ways
        halted = False
        while self.tick < tick and not halted:
            end = min(tick, self.tick + (MOST_TICKS if self._crowd is None else 1))
            for due in self._fixes_due():
                end = min(end, max(due, self.tick + 1))
            if self._senses.depth_noise and len(ways):
                end = min(end, self.tick + 1 + (FIRST_TICK - self.tick - 1) % self._senses.depth_every)
            self._live(end - self.tick, command)
            if self._senses.depth_noise and len(ways) and self.state.seen_tick == self.tick:
                self._states["halt"] = 1.0  # by a noisy scan anything may bind
                self._look_up()
            halted = bool(self.state.refused or self.state.halt)
            if self.tick == self._fix_tick:
                self._take_fix()
            if self._coming and self.tick == self._coming[0][0]:
                _, fix, then = self._coming.popleft()
                self._put_fix(fix, then)

    def begin(self, start: Start, goal_xy_m: tuple[float, float]) -> None:
        """Count clearance, progress, blocks and trace from this tick on, for a goal in the start frame."""
        frame = start.start_from_odom if start.start_from_map is None else start.start_from_map
        table, states = self._table, self._states
        table["start_x_m"], table["start_y_m"], table["start_yaw"] = frame.x_m, frame.y_m, frame.yaw_rad
        table["anchored"] = start.start_from_map is not None
        table["goal_x_m"], table["goal_y_m"] = goal_xy_m
        table["driving"] = states["best"] = self.tick
        states["best_m"] = math.hypot(*goal_xy_m)
        note_tick(states, table, self._course.blocked, self._course.gap, self.bodies, self._trace)
        self._look_up()

    def want(self, set_point: Twist) -> None:
        """Tell what the policy wants from this tick on: by that it is judged whether the robot is blocked."""
        if set_point is not self._wanted:
            self._wanted = set_point
            self._table["wanted_v"], self._table["wanted_w"] = set_point.v_mps, set_point.w_radps

    def judge_blocked(self, since_tick: int | None) -> None:
        """Tell since when the robot is blocked, where the recovery itself has judged this tick."""
        self._states["blocked"] = NEVER if since_tick is None else since_tick
        self._judged = True

    def wheels(self, then: Sample | None = None) -> OdometryState:
        """Return the odometry as the runtime has it in this tick; no covariance.

        Of its history the newest sample, and before it another one that matters.
        """
        s, newest = self.state, self._sample()
        return OdometryState(
            pose=newest.motion.pose,
            twist=newest.motion.twist,
            stamp_ns=newest.stamp_ns,
            arrival_ns=newest.stamp_ns,
            covariance=NOT_KEPT,
            travelled_m=s.travelled_m,
            moving_s=s.moving_s,
            history=(newest,) if then is None else (then, newest),
        )

    def _sample(self) -> Sample:
        s = self.state
        motion = Motion(Pose(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw), Twist(s.wheel_v, s.wheel_w))
        return Sample(time_ns(self.tick), motion, s.moving_s)

    def localization(self) -> LocalizationState:
        """Return the filter as the runtime has it in this tick."""
        s = self.state
        if not s.filtering:
            return self._filter
        return replace(
            self._filter,
            systematic=(s.scale, s.creep),
            map_from_base=Pose(s.filter_x_m, s.filter_y_m, s.filter_yaw),
            covariance=self._covariance.copy(),
            odom_from_base=Pose(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw),
            moving_s=s.moving_s,
        )

    def located(self, start: Start) -> Located:
        """Return where the robot is in the start frame, as it believes itself."""
        s = self.state
        wheels = OdometryState(
            Pose(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw), Twist(s.wheel_v, s.wheel_w), covariance=NOT_KEPT
        )
        place = Pose(s.filter_x_m, s.filter_y_m, s.filter_yaw) if s.filtering else None
        filtered = LocalizationState(place, received=self._filter.received)
        return locate(start, wheels, filtered, self._section, time_ns(self.tick))

    def refusal(self) -> str:
        """Return why the newest message of the wheels was not believed."""
        s, now_ns = self.state, time_ns(self.tick)
        message = OdometryMessage(now_ns, now_ns, None, Twist(s.wheel_v, s.wheel_w))
        return odometry.advance(OdometryState(), message, self._section).refusal

    def trace(self, ticks: int) -> npt.NDArray[np.float64]:
        """Return (ticks + 1, 6) rows of `Outcome.trace`, from the beginning on."""
        rows: npt.NDArray[np.float64] = self._trace[: ticks + 1].copy()
        return rows

    def _live(self, ticks: int, command: Twist) -> None:
        """Live so many ticks, drawing what the drift needs."""
        course, late = self._course, self._late
        left = ticks
        self._walk()
        while True:
            left -= run_ticks(
                self._states, self._covariance, self._table, course.linear, course.angular, left, command.v_mps,
                command.w_radps, late[ticks - left :], self._judged, course.blocked, course.gap, self.bodies,
                self._trace, self._ways, course.solid, course.solid_gap,
            )  # fmt: skip
            if not self._states["owing"][0]:
                break
            self._draw_drift()
        self._judged = False
        if self._delay:
            sent = np.full((ticks, 2), (command.v_mps, command.w_radps))
            lived = ticks - left
            self._late = np.concatenate([late, sent])[lived : lived + self._delay]
        self._look_up()

    def _look_up(self) -> None:
        self.state = state_of(self._states)
        self.tick = int(self.state.tick)
        if self.state.seen_tick == self.tick:
            self.seen_bodies = self.bodies

    def _walk(self) -> None:
        """Let those around walk for a tick."""
        if self._crowd is not None:
            self._crowd = walk(self._crowd, STEP_S, (self.state.x_m, self.state.y_m), self._radius_m)
            self.bodies = bodies_of(self._crowd)

    def _draw_drift(self) -> None:
        """Draw what `noise.drift_step` draws, with the same numbers from the same stream."""
        eps_m, eps_rad = DRIFT_MEAN + (self._rng.standard_normal((1, 2)) @ DRIFT_FACTOR)[0]
        part = self._senses.drift_scale / TICKS_PER_ENVIRONMENT_STEP
        self._states["drift_eps_m"], self._states["drift_eps_rad"] = eps_m * part, eps_rad * part
        self._states["drift_left"] = TICKS_PER_ENVIRONMENT_STEP

    def _fixes_due(self) -> Iterator[int]:
        """Return the ticks in which the next fix is taken, and the next one comes."""
        if self._fix_tick is not None:
            yield self._fix_tick
        if self._coming:
            yield self._coming[0][0]

    def _take_fix(self) -> None:
        """Let an external localisation look where the robot is; it reports at once, or later."""
        senses, now_ns = self._senses, time_ns(self.tick)
        due_ns = next_fix_ns(self.tick * STEP_NS, self._rng, senses.fix_period_s)
        self._fix_tick = -(-due_ns // STEP_NS)
        pose = noisy_fix(self.pose, senses.localization_scale, self._rng, senses.fix_sd)
        if senses.fix_delay_ticks:
            comes = self.tick + senses.fix_delay_ticks
            self._coming.append((comes, Fix(now_ns, time_ns(comes), pose), self._sample()))
        else:
            self._put_fix(Fix(now_ns, now_ns, pose))

    def _put_fix(self, fix: Fix, then: Sample | None = None) -> None:
        """Let the filter take in a fix that comes now. then: where the wheels were when it was taken, if not now."""
        if then is not None or not self.state.filtering or not self._correct(fix.pose):
            self.put_in(ekf.correct(self.localization(), fix, self.wheels(then), self._section))

    def _correct(self, pose: Pose) -> bool:
        """Let the filter take in a fix that comes now; False, and nothing is changed, where `correct` has to take it.

        That is one that cannot be believed, and the one after such a one, which ends the count of those in a row.
        """
        if self._filter.rejected_in_row:
            return False
        if not correct_fast(self._states, self._covariance, pose.x_m, pose.y_m, pose.yaw_rad, self._fix_variance):
            return False
        s, now_ns = self.state, time_ns(self.tick)
        received = Received(pose, Twist(s.wheel_v, s.wheel_w), now_ns, now_ns)
        self._filter = replace(self._filter, received=received, fixes=self._filter.fixes + 1)
        self._look_up()
        return True

    def put_in(self, after: LocalizationState) -> None:
        """Go on with another state of the filter, one that has taken in the newest odometry."""
        states, pose = self._states, after.map_from_base
        if pose is not None and after.covariance is not None:
            states["filtering"] = 1.0
            states["filter_x_m"], states["filter_y_m"], states["filter_yaw"] = pose.x_m, pose.y_m, pose.yaw_rad
            states["scale"], states["creep"] = after.systematic
            self._covariance[:] = after.covariance
        self._filter = after
        self._look_up()
