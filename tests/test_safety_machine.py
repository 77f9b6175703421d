"""A whole runtime in random hands: sensors lost and mad, e-stop, operator, goals, clocks that step, engines that fail.

After every tick `safety_watch.Watch` judges what was sent.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from runtime_bench import MS, PLANT, Bench, Puppet
from safety_watch import Watch

from onboard.contract import ACTIONS
from onboard.messages import STOP, DepthFrame, Inputs, OdometryMessage, Pose, Twist

CAMERAS = st.sampled_from(("front", "left", "right", "rear"))
NUMBERS = st.sampled_from((0.0, 0.05, 0.3, -0.3, 1.0, -1.0, 3.0, 1e9, nan, inf, -inf))
TWISTS = st.builds(Twist, NUMBERS, NUMBERS)
POSES = st.builds(Pose, NUMBERS, NUMBERS, NUMBERS)
SLOW_RAMPS = {"acceleration_mps2": 1.0, "angular_acceleration_radps2": 4.0}


class Driven(RuleBasedStateMachine):
    """Each rule changes what comes in, then lives a while."""

    @initialize(ramped=st.booleans())
    def begin(self, ramped: bool) -> None:
        self.takes_ms: dict[int, float] = {}
        self.broken: dict[int, Any] = {}
        self.policy = Puppet()
        limits = SLOW_RAMPS if ramped else {}
        self.bench = Bench(self.policy, takes_ms=self.takes_ms, broken=self.broken, limits=limits)
        self.bench.alter = self.alter
        self.watch = Watch(self.bench.config, PLANT)
        self.all_images = dict(self.bench.images)
        self.frozen: dict[str, DepthFrame] = {}
        self.newest: dict[str, DepthFrame] = {}
        self.speed_limit_mps: float | None = None
        self.sender_step_ns = 0
        self.said: OdometryMessage | None = None
        self.mad: Twist | None = None
        self.bench.ask(30.0, 0.0)
        self.live(20)

    def alter(self, inputs: Inputs) -> Inputs:
        """Return the inputs after everything that is wrong with them."""
        self.newest = dict(inputs.depth)
        odometry = tuple(
            replace(message, stamp_ns=message.stamp_ns + self.sender_step_ns, twist=self.mad or message.twist)
            for message in inputs.odometry
        )
        if self.said is not None:
            odometry = (replace(self.said, arrival_ns=inputs.now_ns),)
        depth = {name: self.frozen.get(name, frame) for name, frame in inputs.depth.items()}
        return replace(inputs, odometry=odometry, depth=depth, speed_limit_mps=self.speed_limit_mps)

    def live(self, ticks: int) -> None:
        for _ in range(ticks):
            self.watch.see(self.bench.tick())

    # ---- time

    @rule(ticks=st.integers(1, 40))
    def time_passes(self, ticks: int) -> None:
        self.live(ticks)

    @rule()
    def long_enough_to_be_blocked(self) -> None:
        self.live(230)

    @rule(slots=st.sampled_from((1, 2, 12, 100, 3000)))
    def the_loop_is_blocked(self, slots: int) -> None:
        self.bench.skip(slots)
        self.live(3)

    @rule(step_ms=st.sampled_from((-10_000, -100, -20, 20, 100, 10_000)))
    def the_senders_clock_steps(self, step_ms: int) -> None:
        self.sender_step_ns += step_ms * MS
        self.live(5)

    # ---- who wants what

    @rule(action=st.integers(0, len(ACTIONS) - 1))
    def the_policy_wants(self, action: int) -> None:
        self.policy.action = action
        self.live(13)

    @rule(x_m=NUMBERS, y_m=NUMBERS, frame=st.sampled_from(("base_link", "odom", "map", "mars")))
    def somebody_asks(self, x_m: float, y_m: float, frame: str) -> None:
        self.bench.ask(x_m, y_m, frame)
        self.live(2)

    @rule()
    def a_goal_that_can_be_taken(self) -> None:
        self.bench.ask(30.0, 0.0)
        self.live(14)

    @rule()
    def somebody_cancels(self) -> None:
        self.bench.cancel()
        self.live(2)

    @rule(twist=TWISTS, ticks=st.integers(1, 20))
    def an_operator_drives(self, twist: Twist, ticks: int) -> None:
        for _ in range(ticks):
            self.bench.operate(twist)
            self.live(1)

    @rule(pressed=st.sampled_from((None, True, False)))
    def the_e_stop_changes(self, pressed: bool | None) -> None:
        self.bench.e_stop = pressed
        self.live(3)

    @rule(word=st.none() | NUMBERS)
    def the_speed_limit_changes(self, word: float | None) -> None:
        self.speed_limit_mps = word
        self.live(3)

    # ---- what is seen

    @rule(camera=CAMERAS, there=st.booleans())
    def a_camera_goes_or_comes(self, camera: str, there: bool) -> None:
        if camera not in self.all_images:
            return
        if there:
            self.bench.images[camera] = self.all_images[camera]
        else:
            self.bench.images.pop(camera, None)
        self.live(4)

    @rule(there=st.booleans())
    def all_cameras_go_or_come(self, there: bool) -> None:
        self.bench.images = dict(self.all_images) if there else {}
        self.live(15)

    @rule(camera=CAMERAS, depth_mm=st.sampled_from((0, 101, 250, 400, 800, 1500)))
    def a_wall_before_a_camera(self, camera: str, depth_mm: int) -> None:
        if camera in self.bench.images:
            self.bench.wall(camera, depth_mm)
        self.live(4)

    @rule(camera=CAMERAS, frozen=st.booleans())
    def a_picture_freezes_or_thaws(self, camera: str, frozen: bool) -> None:
        if frozen and camera in self.newest:
            self.frozen[camera] = self.newest[camera]
        else:
            self.frozen.pop(camera, None)
        self.live(15)

    # ---- what the wheels do and say

    @rule(stuck=st.booleans(), obstacle=st.sampled_from((None, True, False)))
    def the_wheels_are_held_or_freed(self, stuck: bool, obstacle: bool | None) -> None:
        self.bench.stuck, self.bench.obstacle = stuck, obstacle
        self.live(5)

    @rule(reports=st.booleans())
    def odometry_goes_or_comes(self, reports: bool) -> None:
        self.bench.reports = reports
        self.live(10)

    @rule(twist=st.none() | TWISTS)
    def odometry_raves(self, twist: Twist | None) -> None:
        self.mad = twist
        self.live(2)

    @rule(repeats=st.booleans())
    def odometry_only_repeats_itself(self, repeats: bool) -> None:
        now_ns = self.bench.clock.now_ns()
        self.said = OdometryMessage(now_ns, now_ns, self.bench.pose, STOP) if repeats else None
        self.live(10)

    @rule(pose=POSES)
    def a_fix(self, pose: Pose) -> None:
        self.bench.fix(pose)
        self.live(2)

    # ---- the engine

    @rule(how=st.sampled_from(({"decision": None, "error": "no device"}, {"decision": None}, {"memory": None})))
    def the_engine_fails(self, how: dict[str, Any]) -> None:
        self.broken[self.bench.runtime.state.pilot.decisions + 1] = how
        self.live(14)

    @rule(takes_ms=st.sampled_from((90.0, 110.0, 400.0, 3000.0)), decisions=st.integers(1, 4))
    def the_engine_is_slow(self, takes_ms: float, decisions: int) -> None:
        begun = self.bench.runtime.state.pilot.decisions
        self.takes_ms.update({begun + number: takes_ms for number in range(1, decisions + 1)})
        self.live(30)


def test_nothing_that_happens_makes_an_unsafe_command() -> None:
    run_state_machine_as_test(Driven, settings=settings(max_examples=12, stateful_step_count=20, deadline=None))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_that_happens_in_many_long_runs_makes_an_unsafe_command() -> None:
    run_state_machine_as_test(Driven, settings=settings(max_examples=400, stateful_step_count=60, deadline=None))
