"""Many compiled ticks in one call against the definitions, tick by tick: the same numbers, the filter to rounding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hil.drive.fast import robot as fast_robot_module
from hil.drive.fast.course import Course, course_of
from hil.drive.fast.robot import FastRobot, time_ns
from hil.drive.fast.tick_kernels import turned
from hil.drive.fast.tick_state import NEVER
from hil.drive.robot import TICK_HZ, Senses
from hil.drive.setting import Setting
from hil.maps.world_grid import World
from hil.physics import odometry_noise
from hil.physics.collision_world import Body, SimState, Simulation
from hil.physics.contact import NO_BODIES
from hil.physics.odometry_noise import Drift, drift_step
from hil.physics.simulated_base import STEP_NS
from onboard.config.config import Config
from onboard.navigation import ekf, mission, odometry, start_frame
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.odometry import OdometryState
from onboard.policy.contract import ACTIONS
from onboard.safety import recovery
from onboard.values.geometry import IDENTITY, between, compose
from onboard.values.messages import STOP, Fix, OdometryMessage, Pose, Twist
from tests.rigs.rooms import body_row, room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT

WORLD = with_box(room(3.0, 2.5), (1.4, 1.7), (1.0, 1.3), (0.0, 0.6))
START = Pose(0.7, 0.7, 0.4)
GOAL = (0.9, 0.3)
BODIES = np.vstack([body_row((2.3, 1.9), 0.2, 1.7, 0), body_row((2.3, 0.5), 0.15, 1.7, 0)])
FIX = Pose(0.72, 0.69, 0.38)
"""A fix that comes before the drive, so that there is something to predict."""
ROUNDING = 1e-12

runs = st.lists(st.tuples(st.sampled_from((*ACTIONS, Twist(-0.2, 0.0))), st.integers(1, 25)), min_size=1, max_size=8)


class Plain:
    """The same ticks by their definitions."""

    def __init__(self, setting: Setting, seed: int, bodies: np.ndarray) -> None:
        self.setting, self.bodies = setting, bodies
        self.simulation = Simulation(setting.world, setting.plant, setting.body)
        self.state: SimState = self.simulation.start(START)
        self.rng, self.drift = np.random.default_rng(seed), Drift(IDENTITY)
        self.wheels, self.filter = OdometryState(), LocalizationState()
        self.progress = mission.Progress(math.hypot(*GOAL), time_ns(1))
        self.blocked_ns: int | None = None
        self.held = recovery.RecoveryState()
        self.clear_m = math.inf
        self.tick = 0
        self.start = start_frame.Start(IDENTITY, None)

    def step(self, command: Twist) -> None:
        before = self.state
        self.tick += 1
        self.state = self.simulation.step(self.simulation.command(before, command), bodies=self.bodies)
        twist = self.state.twist
        moved = twist if self.state.path_m > before.path_m else Twist(0.0, twist.w_radps)
        self.drift, reported = drift_step(self.drift, moved, self.setting.senses.drift_scale, self.rng)
        now_ns, section = time_ns(self.tick), self.setting.config.odometry
        self.wheels = odometry.advance(self.wheels, OdometryMessage(now_ns, now_ns, self.drift.pose, reported), section)
        self.filter = ekf.predict(self.filter, self.wheels)

    def fix(self) -> None:
        now_ns = time_ns(self.tick)
        self.filter = ekf.correct(self.filter, Fix(now_ns, now_ns, FIX), self.wheels, self.setting.config.odometry)
        self.start = start_frame.begin(self.wheels, self.filter)
        self.clear_m = self.simulation.clearance_m(self.state, self.bodies)

    def judge(self, wanted: Twist) -> None:
        """What the runtime judges at the end of a tick."""
        config, now_ns = self.setting.config, time_ns(self.tick)
        self.clear_m = self.simulation.clearance_m(self.state, self.bodies, self.clear_m)
        touching = self.state.touched_at is not None
        located = start_frame.locate(self.start, self.wheels, self.filter, now_ns)
        here_m = located.filtered.pose.x_m, located.filtered.pose.y_m
        travelled_m = self.wheels.travelled_m
        situation = recovery.Situation(False, touching, wanted, self.wheels.twist, travelled_m, 1.0, here_m)
        blocked = recovery.blocked(situation, config.recovery)
        self.blocked_ns = (self.blocked_ns or now_ns) if blocked else None
        self.held = recovery._placed(self.held, situation, config.recovery, now_ns)
        away_m = math.dist((located.filtered.pose.x_m, located.filtered.pose.y_m), GOAL)
        self.progress, _ = mission.track_progress(self.progress, away_m, False, config.goal, now_ns)


def fast_robot(setting: Setting, seed: int, bodies: np.ndarray) -> tuple[FastRobot, Course]:
    course = course_of(setting)
    robot = FastRobot(setting, course, START, seed, 300)
    robot.bodies = bodies
    return robot, course


def setting_of(world: World = WORLD, senses: Senses | None = None, **tables: dict[str, object]) -> Setting:
    config = Config.model_validate(tables)
    return Setting(world, PLANT, Body(), MOUNTS, config, senses or Senses(localization=False))


PLAIN_SETTING = setting_of()
SETTINGS = {
    "twist": PLAIN_SETTING,
    "own pose": setting_of(odometry={"source": "pose"}),
    "perfect wheels": replace(PLAIN_SETTING, senses=Senses(localization=False, drift_scale=0.0)),
    "polygon": replace(PLAIN_SETTING, body=Body(0.37, 1.0, ((-0.2, -0.15), (0.35, -0.12), (0.1, 0.0), (0.3, 0.2)))),
    "turned map": replace(PLAIN_SETTING, world=replace(WORLD, map_from_grid=Pose(-0.1, 0.0, 0.03))),
}


@pytest.mark.parametrize("name", list(SETTINGS))
@pytest.mark.parametrize("bodies", [NO_BODIES, BODIES], ids=["alone", "among others"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=runs, seed=st.integers(0, 5))
def test_they_equal_their_definitions(name, bodies, runs, seed):
    setting = SETTINGS[name]
    robot, _ = fast_robot(setting, seed, bodies)
    plain = Plain(setting, seed, bodies)
    robot.run_to(1, Twist(0.0, 0.0))
    plain.step(Twist(0.0, 0.0))
    plain.fix()
    robot.put_in(plain.filter)
    robot.begin(plain.start, GOAL)
    for command, ticks in runs:
        robot.want(command)
        end = robot.tick + ticks
        while robot.tick < end:
            robot.run_to(end, command)
            follow(plain, robot, command)
        check(robot, plain)


def follow(plain: Plain, robot: FastRobot, command: Twist) -> None:
    """Live until the robot's tick; it has halted where a contact began or ended, and nowhere else."""
    assert plain.tick < robot.tick
    while plain.tick < robot.tick:
        touched = plain.state.touched_at is not None
        plain.judge(command)
        plain.step(command)
        halts = bool(robot.state.halt) and plain.tick == robot.tick
        assert halts == (touched != (plain.state.touched_at is not None))


def pose_of(pose: Pose) -> tuple[float, float, float]:
    return pose.x_m, pose.y_m, pose.yaw_rad


def assert_near(ours: tuple[float, ...], theirs: tuple[float, ...]) -> None:
    """Compare to rounding: some functions of Python's `math` and the compiler's differ in the last bit."""
    assert ours == pytest.approx(theirs, rel=0.0, abs=ROUNDING)


def check(robot: FastRobot, plain: Plain) -> None:
    """The drive's last tick is judged with the next call, so what is judged is compared as of the tick before."""
    state, base, twist = robot.state, plain.state.base.motion, plain.state.twist
    assert_near((state.x_m, state.y_m, state.yaw), pose_of(plain.state.pose))
    assert_near((state.v, state.w, state.dv, state.dw), (twist.v_mps, twist.w_radps, base.dv_mps2, base.dw_radps2))
    assert (robot.tick, state.contacts, state.bumps) == (plain.tick, plain.state.contacts, plain.state.bumps)
    assert bool(state.touching) == (plain.state.touched_at is not None)
    wheels = robot.wheels()
    assert_near(pose_of(wheels.pose), pose_of(plain.wheels.pose))
    assert_near((wheels.twist.v_mps, wheels.twist.w_radps), (plain.wheels.twist.v_mps, plain.wheels.twist.w_radps))
    assert_near((wheels.travelled_m, wheels.moving_s), (plain.wheels.travelled_m, plain.wheels.moving_s))
    assert (None if state.blocked == NEVER else time_ns(int(state.blocked))) == plain.blocked_ns
    assert (state.place != NEVER) == (plain.held.place_m is not None)
    if plain.held.place_m is not None:
        assert time_ns(int(state.place)) == plain.held.place_ns
        assert_near((state.place_x_m, state.place_y_m), plain.held.place_m)
    assert time_ns(int(state.best)) == plain.progress.since_ns
    clear_m = plain.simulation.clearance_m(plain.state, plain.bodies, plain.clear_m)
    assert_near((state.path_m, state.best_m, state.clear_m), (plain.state.path_m, plain.progress.best_m, clear_m))
    ours, theirs = robot.localization(), plain.filter
    assert ours.map_from_base is not None
    assert theirs.map_from_base is not None
    off = between(theirs.map_from_base, ours.map_from_base)
    assert max(abs(off.x_m), abs(off.y_m), abs(off.yaw_rad)) < ROUNDING
    np.testing.assert_allclose(ours.covariance, theirs.covariance, rtol=1e-9, atol=1e-15)


angles = st.floats(-3 * math.pi, 3 * math.pi, exclude_min=True, exclude_max=True)


@given(angle=angles)
@settings(max_examples=300, deadline=None)
def test_turns_are_taken_off_exactly(angle):
    assert turned(angle) == math.remainder(angle, 2.0 * math.pi)


@pytest.mark.parametrize(
    "angle", [math.pi, -math.pi, math.nextafter(math.pi, 4.0), math.nextafter(-math.pi, -4.0), 0.0]
)
def test_half_a_turn_is_where_the_definitions_have_it(angle):
    assert turned(angle) == math.remainder(angle, 2.0 * math.pi)


def test_the_trace_has_a_row_a_tick():
    robot, _ = fast_robot(PLAIN_SETTING, 0, NO_BODIES)
    robot.run_to(4, Twist(0.0, 0.0))
    robot.begin(start_frame.Start(IDENTITY, None), GOAL)
    robot.run_to(10, Twist(0.3, 1.0))
    trace = robot.trace(6)
    assert trace.shape == (7, 6)
    np.testing.assert_array_equal(trace[:, 0], np.arange(7) * STEP_NS / 1e9)
    assert tuple(trace[0, 1:4]) == (START.x_m, START.y_m, START.yaw_rad)
    assert tuple(trace[-1, 1:4]) == (robot.pose.x_m, robot.pose.y_m, robot.pose.yaw_rad)
    assert (np.diff(trace[1:, 4]) > 0.0).all()


def test_a_fix_after_a_refused_one_is_the_filters_own_to_judge():
    """When it is believed the refusals in a row are forgotten."""
    robot, _ = fast_robot(setting_of(senses=Senses()), 0, NO_BODIES)
    robot.run_to(2 * TICK_HZ, Twist(0.0, 0.0))
    robot.put_in(replace(robot.localization(), rejected_in_row=1))
    before = robot.localization()
    while robot.localization().fixes == before.fixes:
        robot.run_to(robot.tick + 1, Twist(0.0, 0.0))
    after, fix = robot.localization(), robot.localization().received
    assert fix is not None
    now = Fix(fix.stamp_ns, time_ns(robot.tick), fix.pose)
    plain = ekf.correct(before, now, robot.wheels(), Config().odometry)
    assert (after.rejected_in_row, after.rejected) == (plain.rejected_in_row, plain.rejected) == (0, 0)
    assert after.map_from_base is not None
    assert plain.map_from_base is not None
    assert_near(pose_of(after.map_from_base), pose_of(plain.map_from_base))
    np.testing.assert_allclose(after.covariance, plain.covariance, rtol=1e-9, atol=1e-15)


def falsified(generator: np.random.Generator) -> Callable[..., Pose]:
    """Return a localisation that reports a few fixes from where the robot is, a few from aside, and some far away."""
    aside = itertools.cycle([0.0] * 3 + [0.6] * 3)

    def fix(pose: Pose, scale: float, rng: np.random.Generator, sd: tuple[float, float, float]) -> Pose:
        off_m = 50.0 if generator.random() < 0.1 else next(aside)
        return compose(odometry_noise.noisy_fix(pose, scale, rng, sd), Pose(0.0, off_m, 0.0))

    return fix


def assert_refused_alike(ours: LocalizationState, plain: LocalizationState) -> None:
    counts = (ours.fixes, ours.rejected, ours.rejected_in_row, ours.restarts)
    assert counts == (plain.fixes, plain.rejected, plain.rejected_in_row, plain.restarts)
    assert_near(pose_of(ours.refused_at.odom_from_base), pose_of(plain.refused_at.odom_from_base))
    if plain.map_from_base is not None:
        assert ours.map_from_base is not None
        assert_near(pose_of(ours.map_from_base), pose_of(plain.map_from_base))


def filters_with_false_fixes(setting: Setting, seed: int) -> list[LocalizationState]:
    """Return the fast robot's filter after each tick, which is that of the filter itself by the same fixes."""
    generator = np.random.default_rng(seed)
    robot, section = FastRobot(setting, course_of(setting), START, seed, 3000), setting.config.odometry
    plain, history, command, filters = LocalizationState(), [], STOP, []
    for tick in range(1, 1500):
        command = Twist(float(generator.choice([0.3, 0.6, 1.0])), 1.0) if tick % 20 == 1 else command
        known = robot.localization().fixes
        robot.run_to(tick, command)
        wheels, ours = robot.wheels(), robot.localization()
        history.append(wheels.history[-1])
        plain = ekf.predict(plain, wheels)
        if ours.fixes != known:
            assert ours.received is not None
            fix = Fix(ours.received.stamp_ns, time_ns(tick), ours.received.pose)
            plain = ekf.correct(plain, fix, replace(wheels, history=tuple(history[-100:])), section)
        assert_refused_alike(ours, plain)
        filters.append(ours)
    return filters


@pytest.mark.parametrize("delay_s", [0.0, 1.0])
def test_false_fixes_are_refused_and_begin_anew_as_by_the_filter(monkeypatch, delay_s):
    """Bad wheels and many false fixes."""
    monkeypatch.setattr(fast_robot_module, "noisy_fix", falsified(np.random.default_rng(0)))
    setting = setting_of(senses=Senses(drift_scale=3.0, fix_delay_s=delay_s, fix_period_s=(1.0, 2.5)))
    ends = [filters_with_false_fixes(setting, seed)[-1] for seed in range(4)]
    assert all(end.rejected for end in ends)
    assert any(end.restarts for end in ends)
