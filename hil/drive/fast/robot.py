"""The simulated robot with its odometry and filter, many ticks in one call. For loops that rarely need its state.

The result equals `hil.drive.robot.SimulatedRobot` and the runtime's first stages tick by tick: the same random numbers
in the same order. tests/hil/drive/fast/test_tick_kernels.py drives both robots side by side.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hil.drive.fast.course import Course
from hil.drive.fast.limits_kernel import NONE
from hil.drive.fast.tick_kernels import FIRST_TICK, note_tick, run_ticks, take_fix
from hil.drive.fast.tick_state import NEVER, TickState, TickTable, records_of, state_of
from hil.drive.setting import Setting
from hil.physics.collision_world import no_room
from hil.physics.contact import NO_BODIES, Bodies
from hil.physics.kernel_effects import BaseKernels
from hil.physics.motion.motion_model import memory_of
from hil.physics.odometry_noise import DRIFT_COVARIANCE, DRIFT_MEAN, TICKS_PER_ENVIRONMENT_STEP, next_fix_ns, noisy_fix
from hil.physics.simulated_base import STEP_NS, STEP_S, latency_ns
from hil.scene.walkers import bodies_of, walk
from hil.sensors.flawed_scan import LONGEST_TICKS
from onboard.navigation import ekf, map_tracking, odometry, scan_odometry
from onboard.navigation.ekf import LocalizationState, ReceivedFix
from onboard.navigation.kalman import STATES
from onboard.navigation.map_tracking import MapTracking
from onboard.navigation.odometry import MAX_GAP_S, MAX_SPEED_MPS, MAX_YAW_RATE_RADPS, OdometryState, Sample
from onboard.navigation.scan_odometry import ScanOdometry
from onboard.navigation.start_frame import Start, StartFrameMotion, locate
from onboard.perception.building.reach import Reach
from onboard.safety.recovery import COMMANDED_MPS, COMMANDED_RADPS, MOVING_MPS, MOVING_RADPS, RecoveryState
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import compose, inverse
from onboard.values.messages import STOP, Fix, Motion, OdometryMessage, Pose, Scan, Twist
from onboard.values.reasons import Said

# ---- Initial values of a fast robot


def check_start(setting: Setting, course: Course, start: Pose) -> None:
    """Raise InputError if the body overlaps a solid cell at the start, as `collision_world.Simulation.start` does."""
    if setting.body.overlaps(compose(course.grid_from_map, start), setting.world.cell_m, course.blocked, course.gap):
        raise no_room(setting.world, setting.body, start)


def _drift_factor() -> npt.NDArray[np.float64]:
    """Return the (2, 2) factor by which numpy's `multivariate_normal` multiplies its standard normal numbers."""
    directions, singular, _ = np.linalg.svd(np.array(DRIFT_COVARIANCE))
    return np.asarray((directions * np.sqrt(singular)).T)


DRIFT_FACTOR = _drift_factor()


def table_of(setting: Setting, slip: float = 1.0) -> TickTable:
    """Return the constants of a drive for the compiled ticks."""
    section, grid = setting.config.odometry, setting.world.grid_from_map
    speed_factor, turn_factor, turn_per_m = section.correction or (1.0, 1.0, 0.0)
    return TickTable(
        grid_x_m=grid.x_m,
        grid_y_m=grid.y_m,
        grid_yaw=grid.yaw_rad,
        cell_m=setting.world.cell_m,
        radius_m=setting.body.radius_m,
        height_m=setting.body.height_m,
        driven_s=min(STEP_NS / NS_PER_S, MAX_GAP_S),
        own_pose=float(section.source == "pose"),
        corrects=float(section.correction is not None),
        speed_factor=speed_factor,
        turn_factor=turn_factor,
        turn_per_m=turn_per_m,
        max_v=MAX_SPEED_MPS,
        max_w=MAX_YAW_RATE_RADPS,
        moving_mps=MOVING_MPS,
        moving_radps=MOVING_RADPS,
        commanded_mps=COMMANDED_MPS,
        commanded_radps=COMMANDED_RADPS,
        depth_every=setting.senses.depth_every,
        slip=slip,
    )


START_NS = NS_PER_S
"""Time of tick 0 on the simulated clock."""
NOT_KEPT = np.zeros((3, 3))
"""Placeholder for the covariance of the odometry: only the publisher reads this covariance."""
MOST_TICKS = 10
"""Largest number of ticks in one compiled call."""


def time_ns(tick: int) -> int:
    """Return the time of a tick on the runtime's clock."""
    return START_NS + tick * STEP_NS


def tick_of(now_ns: int) -> int:
    """Return the tick of a time on the runtime's clock."""
    return (now_ns - START_NS) // STEP_NS


class FastRobot:
    """A simulated robot in a building; the caller gives a command and the number of ticks. For one drive.

    tick:        number of the newest tick
    state:       `TickState` of the newest tick
    bodies:      moving bodies in the newest tick
    seen_bodies: moving bodies when the newest scan was taken
    seed:        seed of all noise
    tracking:    state of the tracker, or of the comparison with the map
    """

    def __init__(self, setting: Setting, course: Course, start: Pose, seed: int, most_ticks: int) -> None:
        """Place the robot at tick 0 for a drive of at most `most_ticks`. Raises InputError if the start is not free."""
        check_start(setting, course, start)
        self._senses, self._course, self._section = setting.senses, course, setting.config.odometry
        self._radius_m, self._corners = setting.body.radius_m, setting.body.corners()
        self._rng = np.random.default_rng(seed)
        self.seed = seed
        self._crowd = setting.crowd
        self._past_bodies: deque[tuple[int, Bodies]] = deque(maxlen=LONGEST_TICKS)
        self.bodies: Bodies = NO_BODIES if setting.crowd is None else bodies_of(setting.crowd)
        self._fix_tick = 1 if setting.senses.localization else None
        self._coming: deque[tuple[int, Fix, Sample]] = deque()
        self._delay = math.ceil(latency_ns(setting.base_plant) / STEP_NS)
        self._memory = memory_of(setting.base_plant)
        self._late = np.zeros((self._delay, 2))
        self._states = records_of(TickState(x_m=start.x_m, y_m=start.y_m, yaw=start.yaw_rad))
        self._table = records_of(table_of(setting, setting.senses.slipping(seed)))
        self._covariance = np.zeros((STATES, STATES))
        self._filter = LocalizationState()
        self._matching = ScanOdometry()
        self._tracks, self.tracking = setting.config.map.tracker, MapTracking()
        self._fix_noise = np.diag(np.square(np.array(self._section.localization_sd)))
        self._trace = np.zeros((most_ticks + 1, 6))
        self.seen_bodies = self.bodies
        self._wanted, self._judged, self._ways = STOP, False, NONE
        self._kernels = None if setting.kernels is None else BaseKernels(setting.kernels, seed, self._overlaps(setting))
        self._look_up()

    @property
    def pose(self) -> Pose:
        """True pose in the map frame."""
        return Pose(self.state.x_m, self.state.y_m, self.state.yaw)

    def run_to(self, tick: int, command: Twist, ways: npt.NDArray[np.float64] = NONE) -> None:
        """Simulate until `tick`. The command is sent again in every tick from now on, except in the last tick.

        The call ends earlier in a tick with one of these flags:

        state.halt     by a new scan the limits may bind the command of `ways`, or a contact begins or ends
        state.refused  the wheels report a speed that odometry does not believe
        """
        self._ways = ways
        halted = False
        while self.tick < tick and not halted:
            end = min(tick, self.tick + (MOST_TICKS if self._crowd is None else 1))
            if self._kernels is not None:
                end = min(end, self._set_by_kernels(self._kernels, command))
            for due in self._fixes_due():
                end = min(end, max(due, self.tick + 1))
            if self._senses.spoils_scans and len(ways):
                end = min(end, self.tick + 1 + (FIRST_TICK - self.tick - 1) % self._senses.depth_every)
            self._live(end - self.tick, command)
            if self._senses.spoils_scans and len(ways) and self.state.seen_tick == self.tick:
                self._states["halt"] = 1.0  # a scan with noise or flaws may bind the command
                self._look_up()
            halted = bool(self.state.refused or self.state.halt)
            if self.tick == self._fix_tick:
                self._take_fix()
            if self._coming and self.tick == self._coming[0][0]:
                _, fix, then = self._coming.popleft()
                self._put_fix(fix, then)

    @property
    def poses_set(self) -> int | None:
        """How many poses kernels have set so far; None without kernels."""
        return None if self._kernels is None else self._kernels.poses_set

    def _overlaps(self, setting: Setting) -> Callable[[Pose], bool]:
        course, body, cell_m = self._course, setting.body, setting.world.cell_m
        return lambda pose: body.overlaps(compose(course.grid_from_map, pose), cell_m, course.blocked, course.gap)

    def _set_by_kernels(self, kernels: BaseKernels, command: Twist) -> int:
        """Let a kernel set the pose of the base if a period ends now. Return the tick in which the next period ends."""
        tick = self.tick
        if kernels.due(tick):
            s, states = self.state, self._states
            pose = kernels.pose_at(tick, self.pose, Twist(s.v, s.w))
            if pose != self.pose:
                states["x_m"], states["y_m"], states["yaw"] = pose.x_m, pose.y_m, pose.yaw_rad
                states["near_m"] = -math.inf  # the bound on the clearance holds along a driven path only
            follows = Twist(*self._late[0].tolist()) if self._delay else command
            kernels.begin(pose, Twist(s.v, s.w), follows)
            self._look_up()
        return tick + kernels.every - tick % kernels.every

    def begin(self, start: Start, goal_xy_m: tuple[float, float]) -> None:
        """Record clearance, progress, blocks and trace from this tick on, for a goal in the start frame."""
        frame = start.start_from_odom if start.start_from_map is None else start.start_from_map
        table, states = self._table, self._states
        table["start_x_m"], table["start_y_m"], table["start_yaw"] = frame.x_m, frame.y_m, frame.yaw_rad
        table["anchored"] = start.start_from_map is not None
        table["goal_x_m"], table["goal_y_m"] = goal_xy_m
        table["driving"] = states["best"] = self.tick
        states["best_m"] = math.hypot(*goal_xy_m)
        note_tick(states, table, self._course.blocked, self._course.gap, self.bodies, self._corners, self._trace)
        self._look_up()

    def pause(self) -> None:
        """Record nothing until the next `begin`."""
        self._table["driving"] = NEVER

    def want(self, set_point: Twist) -> None:
        """Store the policy's set point from this tick on. The test whether the robot is blocked uses the set point."""
        if set_point is not self._wanted:
            self._wanted = set_point
            self._table["wanted_v"], self._table["wanted_w"] = set_point.v_mps, set_point.w_radps

    def note_progress(self) -> None:
        """Note progress towards the goal in this tick, beside that by the straight distance."""
        self._states["best"] = self.tick
        self._look_up()

    def judge_blocked(self, state: RecoveryState) -> None:
        """Store since when the robot is blocked and at its place, after the recovery itself judged this tick."""
        states = self._states
        states["blocked"] = NEVER if state.blocked_ns is None else tick_of(state.blocked_ns)
        states["place"] = NEVER if state.place_m is None else tick_of(state.place_ns)
        states["place_x_m"], states["place_y_m"] = state.place_m or (0.0, 0.0)
        self._judged = True

    @property
    def seen_wheels(self) -> Pose:
        """Pose of the odometry when the newest scan was taken."""
        s = self.state
        return Pose(s.seen_wheel_x_m, s.seen_wheel_y_m, s.seen_wheel_yaw)

    def glance(self, tick: int) -> tuple[Pose, Bodies]:
        """Return true pose and moving bodies of one of the last ticks. Before the goal comes, the robot stands."""
        driving = int(self._table["driving"][0])
        if driving == int(NEVER) or tick == self.tick:
            pose = self.pose
        else:
            pose = Pose(*self._trace[max(tick - driving, 0), 1:4].tolist())
        bodies = next((bodies for then, bodies in self._past_bodies if then == tick), self.bodies)
        return pose, bodies

    def wheels(self, then: Sample | None = None) -> OdometryState:
        """Return the runtime's odometry in this tick, without covariance.

        The history holds `then`, if given and older, and the newest sample.
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
            history=(newest,) if then is None or then.stamp_ns >= newest.stamp_ns else (then, newest),
        )

    def _sample(self) -> Sample:
        s = self.state
        motion = Motion(Pose(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw), Twist(s.wheel_v, s.wheel_w))
        return Sample(time_ns(self.tick), motion, s.moving_s)

    def localization(self) -> LocalizationState:
        """Return the state of the runtime's filter in this tick."""
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

    def located(self, start: Start) -> StartFrameMotion:
        """Return the estimated location of the robot in the start frame."""
        s = self.state
        wheels = OdometryState(
            Pose(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw), Twist(s.wheel_v, s.wheel_w), covariance=NOT_KEPT
        )
        place = Pose(s.filter_x_m, s.filter_y_m, s.filter_yaw) if s.filtering else None
        filtered = LocalizationState(place, (s.scale, s.creep), self._covariance, received=self._filter.received)
        corrected = scan_odometry.corrected(self._matching, wheels.pose)
        return locate(start, wheels, filtered, time_ns(self.tick), corrected)

    def match(self, scan: Scan, start: Start) -> None:
        """Correct odometry and filter by the newest scan, as `scan_odometry` does, and the start of the kernels."""
        wheels = self._wheels_then(scan)
        self._matching, after = scan_odometry.advance(self._matching, self.localization(), scan, wheels)
        self.put_in(after)
        key, table = self._matching.key, self._table
        if key is not None and start.start_from_map is None:
            frame = compose(start.start_from_odom, compose(self._matching.pose, inverse(key.wheels)))
            table["start_x_m"], table["start_y_m"], table["start_yaw"] = frame.x_m, frame.y_m, frame.yaw_rad

    def track(self, scan: Scan, reach: Reach) -> None:
        """Compare the newest scan with the map, as the runtime does in the slot of a decision."""
        self.tracking, after = map_tracking.advance(
            self.tracking, self.localization(), scan, self._wheels_then(scan), reach, self._section, tracks=self._tracks
        )
        if self._tracks:
            self.put_in(after)

    def _wheels_then(self, scan: Scan) -> OdometryState:
        """Return the odometry with that of the newest scan."""
        s = self.state
        motion = Motion(Pose(s.seen_wheel_x_m, s.seen_wheel_y_m, s.seen_wheel_yaw), Twist(s.wheel_v, s.wheel_w))
        return self.wheels(Sample(scan.stamp_ns, motion, s.seen_moving_s))

    def refusal(self) -> Said:
        """Return the reason why odometry rejected the newest wheel message."""
        s, now_ns = self.state, time_ns(self.tick)
        message = OdometryMessage(now_ns, now_ns, None, Twist(s.wheel_v, s.wheel_w))
        return odometry.advance(OdometryState(), message, self._section).refusal

    def trace(self, ticks: int) -> npt.NDArray[np.float64]:
        """Return a copy of the first `ticks` + 1 rows of `Outcome.trace`, (ticks + 1, 6)."""
        rows: npt.NDArray[np.float64] = self._trace[: ticks + 1].copy()
        return rows

    def _live(self, ticks: int, command: Twist) -> None:
        """Simulate up to `ticks` ticks; draw every sample that the drift needs."""
        course, late = self._course, self._late
        left = ticks
        self._walk()
        while True:
            left -= run_ticks(
                self._states, self._covariance, self._table, course.linear, course.angular, left, command.v_mps,
                command.w_radps, late[ticks - left :], self._judged, course.blocked, course.gap, self.bodies,
                self._corners, self._trace, self._ways, course.solid, course.solid_gap, course.motion, self._memory,
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
        """Move the crowd by one tick."""
        if self._crowd is not None:
            self._crowd = walk(self._crowd, STEP_S, (self.state.x_m, self.state.y_m), self._radius_m)
            self.bodies = bodies_of(self._crowd)
            self._past_bodies.append((self.tick + 1, self.bodies))

    def _draw_drift(self) -> None:
        """Draw the sample that `odometry_noise.drift_step` draws: the same numbers from the same random stream."""
        eps_m, eps_rad = DRIFT_MEAN + (self._rng.standard_normal((1, 2)) @ DRIFT_FACTOR)[0]
        part = self._senses.drift_scale / TICKS_PER_ENVIRONMENT_STEP
        self._states["drift_eps_m"], self._states["drift_eps_rad"] = eps_m * part, eps_rad * part
        self._states["drift_left"] = TICKS_PER_ENVIRONMENT_STEP

    def _fixes_due(self) -> Iterator[int]:
        """Yield the tick in which the next fix is taken, and the tick in which the next delayed fix arrives."""
        if self._fix_tick is not None:
            yield self._fix_tick
        if self._coming:
            yield self._coming[0][0]

    def _take_fix(self) -> None:
        """Take a fix of the external localisation. The fix arrives now, or after `fix_delay_ticks`."""
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
        """Correct the filter by a fix that arrives now. then: odometry sample of the fix's stamp, None if taken now."""
        if then is not None or not self.state.filtering or not self._correct(fix.pose):
            self.put_in(ekf.correct(self.localization(), fix, self.wheels(then), self._section))

    def _correct(self, pose: Pose) -> bool:
        """Correct the filter by a fix taken now; return False, and change nothing, if `ekf.correct` must process it.

        `ekf.correct` must process an outlier, each fix after an outlier until `rejected_in_row` is 0 again, and all
        fixes once there is a key scan.
        """
        if self._filter.rejected_in_row or self._filter.key is not None:
            return False
        if not take_fix(self._states, self._covariance, pose.x_m, pose.y_m, pose.yaw_rad, self._fix_noise):
            return False
        s, now_ns = self.state, time_ns(self.tick)
        received = ReceivedFix(pose, Twist(s.wheel_v, s.wheel_w), now_ns, now_ns)
        self._filter = replace(self._filter, received=received, fixes=self._filter.fixes + 1)
        self._look_up()
        return True

    def put_in(self, after: LocalizationState) -> None:
        """Replace the state of the filter by `after`, which already includes the newest odometry."""
        states, pose = self._states, after.map_from_base
        if pose is not None and after.covariance is not None:
            states["filtering"] = 1.0
            states["filter_x_m"], states["filter_y_m"], states["filter_yaw"] = pose.x_m, pose.y_m, pose.yaw_rad
            states["scale"], states["creep"] = after.systematic
            self._covariance = after.covariance.copy()
        self._filter = after
        self._look_up()
