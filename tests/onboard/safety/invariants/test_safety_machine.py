"""A whole runtime under random events: failed sensors, e-stop, operator, goals, clock steps, engine failures,
missing floor, a map with zones, cameras or a ready-made scan.

After every tick `safety_watch.Watch` checks the command.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from math import inf, nan, pi
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from hil.reliability.faults.invariants import GRACE_TICKS, NS_PER_MS
from onboard.config.config import Config, ZonesSection
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.scan_fusion import Rig, ScanMemory
from onboard.policy.contract import ACTIONS
from onboard.safety.keepout_zones import MapZones, decode, encode
from onboard.state import TickRecord
from onboard.values.geometry import IDENTITY, distance
from onboard.values.messages import STOP, DepthFrame, Inputs, OdometryMessage, Pose, Scan, Twist
from tests.onboard.safety.invariants.safety_places import ending_floor
from tests.onboard.safety.invariants.safety_watch import Watch, must
from tests.rigs.runtime_bench import MS, NEAR_MM, PLANT, Bench, Puppet, rigs_of

CAMERAS = ("front", "front_left", "front_right", "rear")
NUMBERS = st.sampled_from((0.0, 0.05, 0.3, -0.3, 1.0, -1.0, 3.0, 1e9, nan, inf, -inf))
TWISTS = st.builds(Twist, NUMBERS, NUMBERS)
POSES = st.builds(Pose, NUMBERS, NUMBERS, NUMBERS)
SLOW_RAMPS = {"acceleration_mps2": 1.0, "angular_acceleration_radps2": 4.0}
DROP_M = 0.1
#   zones of the map: none, in force while localised, and required
MAPS = ("none", "wanted", "required")
#   variances that a fix states of x, y [m^2] and yaw [rad^2], and one covariance
STATED = (
    (1.7e308, 1.7e308, 1.7e308, 0.0),
    (1e308, 1e308, 1e308, 5e307),
    (1e9, 1e9, 10.0, 0.0),
    (0.01, 0.01, 0.01, 0.5),
    (nan, 1.0, 1.0, 0.0),
    (-1.0, 0.0, 1.0, 0.0),
    (0.25, 0.25, 0.01, 0.25),
    (0.01, 0.01, 0.01, 0.01 + 0.9e-9),
    (4050.0, 4050.0, 0.01, 4050.0 * (1.0 + 9e-7)),
)
TOPIC = "scan"
FASTEST = ACTIONS.index(Twist(1.0, 0.0))
CELL_M, CORNER = 0.05, Pose(-3.0, -3.0, 0.2)
NEARLY_M = 0.5
EXAMPLES = int(os.environ.get("SAFETY_EXAMPLES", "400"))


class UnderWay:
    """Delivers messages `late_ns` after they were sent, in order."""

    def __init__(self) -> None:
        self.late_ns = 0
        self._waiting: deque[tuple[int, OdometryMessage]] = deque()
        self._sent_ns: int | None = None
        self._overdue = 0

    def arrived(self, sent: Iterable[OdometryMessage], now_ns: int) -> tuple[OdometryMessage, ...]:
        """Return the messages that arrive now. sent: messages sent just now."""
        self._waiting.extend((now_ns, message) for message in sent)
        there = []
        while self._waiting and now_ns - self._waiting[0][0] >= self.late_ns:
            self._sent_ns, message = self._waiting.popleft()
            there.append(replace(message, arrival_ns=now_ns))
        return tuple(there)

    def overdue(self, now_ns: int, config: Config) -> bool:
        """Return whether the newest arrival has been stale for more ticks than allowed. Call once a tick."""
        late = self._sent_ns is None or now_ns - self._sent_ns > config.odometry.stale_ms * NS_PER_MS
        self._overdue = self._overdue + 1 if late else 0
        return self._overdue > GRACE_TICKS


@functools.cache
def masks_of(kind: str) -> MapZones | None:
    """Return a map of 6 m x 6 m: a strip of forbidden ground, and two speed zones, one inside the other."""
    if kind == "none":
        return None
    keep_out, speed = np.zeros((2, 120, 120), np.int8)
    keep_out[:, 90:110], keep_out[:20, :20] = 100, 100
    speed[70:, :], speed[90:, :80] = 40, 5
    layers = OccupancyGrid(CELL_M, CORNER, keep_out), OccupancyGrid(CELL_M, CORNER, speed)
    config, required = Config(), kind == "required"
    numbers = config.limits.v_max_mps, config.robot.footprint
    text = encode(MapZones(*layers, np.zeros((0, 0), np.bool_), required, *numbers))
    return decode(text, ZonesSection(required=required), *numbers)


class Driven(RuleBasedStateMachine):
    """Each rule changes the inputs, then runs some ticks."""

    @initialize(
        ramped=st.booleans(),
        drop_m=st.sampled_from((0.0, DROP_M)),
        zones=st.sampled_from(MAPS),
        ready=st.sampled_from((False, False, True)),
    )
    def begin(self, ramped: bool, drop_m: float, zones: str, ready: bool = False) -> None:
        """ready: the scan is ready-made, with the cameras' field of view."""
        self.takes_ms: dict[int, float] = {}
        self.broken: dict[int, Any] = {}
        self.policy = Puppet()
        self.rig = rigs_of(Config().model_dump_json(include={"scan", "limits_scan"}))[0] if ready else None
        self.ready: dict[str, Scan] = {}
        scan = {"topic": TOPIC} if ready else {"drop_m": drop_m}
        sections = {"limits": SLOW_RAMPS if ramped else {}, "scan": scan}
        masks = masks_of(zones)
        self.bench = Bench(self.policy, takes_ms=self.takes_ms, broken=self.broken, masks=masks, **sections)
        self.bench.alter = self.alter
        self.watch = Watch(self.bench.config, PLANT, masks)
        self.all_images = dict(self.bench.images)
        self.frozen: dict[str, DepthFrame] = {}
        self.newest: dict[str, DepthFrame] = {}
        self.speed_limit_mps: float | None = None
        self.sender_step_ns, self.stepped = 0, False
        self.said: OdometryMessage | None = None
        self.mad: Twist | None = None
        self.wheels = UnderWay()
        self.stated: np.ndarray | None = None
        self.bench.ask(30.0, 0.0)
        self.live(20)

    def alter(self, inputs: Inputs) -> Inputs:
        """Return the inputs with all current faults."""
        self.newest = dict(inputs.depth)
        odometry = tuple(
            replace(message, stamp_ns=message.stamp_ns + self.sender_step_ns, twist=self.mad or message.twist)
            for message in inputs.odometry
        )
        odometry = self.wheels.arrived(odometry, inputs.now_ns)
        if self.said is not None:
            odometry = (replace(self.said, arrival_ns=inputs.now_ns),)
        depth = {name: self.frozen.get(name, frame) for name, frame in inputs.depth.items()}
        inputs = replace(inputs, odometry=odometry, depth=depth, speed_limit_mps=self.speed_limit_mps)
        inputs = replace(inputs, fixes=tuple(replace(fix, covariance=self.stated) for fix in inputs.fixes))
        return inputs if self.rig is None else self.scanned(inputs, self.rig)

    def scanned(self, inputs: Inputs, rig: Rig) -> Inputs:
        """Return the inputs with the cameras' scan as a ready-made scan; without any camera the last scan stays."""
        if inputs.depth:
            self.ready[TOPIC] = rig.scan(inputs, IDENTITY, ScanMemory())[0]
        return replace(inputs, depth={}, scans=dict(self.ready))

    def live(self, ticks: int) -> TickRecord | None:
        """Run some ticks, check each, and return the last."""
        tick = None
        for _ in range(ticks):
            self.watch.see(tick := self.bench.tick())
            if self.said is None and not self.stepped:
                overdue = self.wheels.overdue(tick.inputs.now_ns, self.bench.config)
                must("late odometry", not overdue or tick.command == STOP, tick.command)
        return tick

    # ---- a drive, and what stands in its way

    @rule(ticks=st.integers(1, 60))
    def time_passes(self, ticks: int) -> None:
        self.live(ticks)

    @rule(action=st.integers(0, len(ACTIONS) - 1))
    def it_drives_as_the_policy_wants(self, action: int) -> None:
        """End all faults except walls, release the e-stop and give a goal."""
        self.bench.e_stop, self.bench.teleop, self.bench.stuck, self.bench.reports = False, None, False, True
        self.bench.obstacle = None
        self.bench.images = {name: self.bench.images.get(name, image) for name, image in self.all_images.items()}
        self.said, self.mad, self.policy.action, self.wheels.late_ns = None, None, action, 0
        self.frozen.clear()
        self.live(1)
        self.bench.ask(30.0, 0.0)
        self.live(30)

    @rule(camera=st.sampled_from(CAMERAS), depth_mm=st.sampled_from((101, 250, 400, 800, 1500)))
    def a_wall_before_a_camera(self, camera: str, depth_mm: int) -> None:
        if camera in self.bench.images:
            self.bench.wall(camera, depth_mm)
        self.live(20)

    @rule(camera=st.sampled_from(CAMERAS), from_m=st.sampled_from((0.0, 0.5, 0.9, 1.4)))
    def the_floor_ends_before_a_camera(self, camera: str, from_m: float) -> None:
        if camera in self.bench.images:
            self.bench.images[camera] = ending_floor(camera, from_m)
        self.live(20)

    @rule(
        x_m=st.sampled_from((-2.8, -1.5, 0.0, 0.7, 1.0, 1.2, 2.5, 9.0)),
        y_m=st.sampled_from((-2.7, 0.0, 0.8, 2.0)),
        yaw_rad=st.sampled_from((0.0, 0.5 * pi, pi, -1.0)),
        action=st.integers(0, len(ACTIONS) - 1),
    )
    def it_learns_that_it_is_elsewhere(self, x_m: float, y_m: float, yaw_rad: float, action: int) -> None:
        """Fixes that agree, until the filter accepts them. It must, after any history, unless the odometry is wild."""
        self.policy.action, self.stated = action, None
        for _ in range(4):
            self.bench.fix(Pose(x_m, y_m, yaw_rad))
            tick = self.live(1)
        if self.bench.reports and self.said is None and self.mad is None:
            known = None if tick is None else self.watch.known(tick)
            must("localised", known is not None and distance(known, Pose(x_m, y_m, 0.0)) < NEARLY_M, known, x_m, y_m)
        self.live(30)

    @rule()
    def all_walls_are_gone(self) -> None:
        self.bench.images = {name: self.all_images[name] for name in self.bench.images}
        self.live(10)

    @rule(notice=st.sampled_from((None, True)), backs=st.integers(0, 70))
    def it_is_stuck_until_it_backs(self, notice: bool | None, backs: int) -> None:
        """Hold the robot until a try begins, if it can, then release it after some ticks of the try."""
        self.bench.stuck, self.bench.obstacle = True, notice
        for _ in range(230):
            if (tick := self.live(1)) is not None and tick.recovery:
                break
        self.bench.stuck = False
        self.live(backs)
        self.bench.obstacle = None

    @rule(word=st.sampled_from((None, False, True, True)), ticks=st.integers(1, 30))
    def an_obstacle_is_told(self, word: bool | None, ticks: int) -> None:
        self.bench.obstacle = word
        self.live(ticks)

    @rule(backs=st.integers(0, 70))
    def it_backs_into_something(self, backs: int) -> None:
        self.it_is_stuck_until_it_backs(None, backs)
        self.bench.obstacle = True
        self.live(250)

    @rule(depth_mm=st.sampled_from((101, 400)))
    def it_is_stuck_with_something_behind(self, depth_mm: int) -> None:
        if "rear" in self.bench.images:
            self.bench.wall("rear", depth_mm)
        self.it_is_stuck_until_it_backs(True, 20)

    @rule(times=st.integers(1, 4), other=st.booleans(), every=st.sampled_from((15, 60, 300)))
    def it_is_stuck_and_is_asked_again_and_again(self, times: int, other: bool, every: int) -> None:
        """Repeat the same goal, or give others, while an obstacle is right ahead and the rear is free."""
        self.policy.action = FASTEST
        self.all_walls_are_gone()
        if "front" in self.bench.images:
            self.bench.wall("front", NEAR_MM)
        for number in range(times * 300):
            if number % every == 0:
                self.bench.ask(30.0 + other * (number // every), 0.0, "odom")
            self.live(1)

    # ---- who wants what

    @rule(pressed=st.sampled_from((None, True, True, False)))
    def the_e_stop_changes(self, pressed: bool | None) -> None:
        self.bench.e_stop = pressed
        self.live(3)

    @rule(twist=TWISTS, ticks=st.integers(1, 20))
    def an_operator_drives(self, twist: Twist, ticks: int) -> None:
        for _ in range(ticks):
            self.bench.operate(twist)
            self.live(1)

    @rule(x_m=NUMBERS, y_m=NUMBERS, frame=st.sampled_from(("base_link", "odom", "map", "mars")), cancel=st.booleans())
    def somebody_asks_or_cancels(self, x_m: float, y_m: float, frame: str, cancel: bool) -> None:
        self.bench.ask(x_m, y_m, frame)
        if cancel:
            self.bench.cancel()
        self.live(14)

    @rule(word=st.none() | NUMBERS, pose=POSES)
    def a_speed_limit_and_a_fix_arrive(self, word: float | None, pose: Pose) -> None:
        self.speed_limit_mps = word
        self.bench.fix(pose)
        self.live(5)

    @rule(variances=st.sampled_from(STATED), pose=POSES, ticks=st.integers(1, 4))
    def fixes_state_how_sure_they_are(self, variances: tuple[float, ...], pose: Pose, ticks: int) -> None:
        self.stated = np.diag(variances[:3])
        self.stated[0, 1] = self.stated[1, 0] = variances[3]
        for _ in range(ticks):
            self.bench.fix(pose)
            self.live(1)

    # ---- what fails

    @rule(cameras=st.sets(st.sampled_from(CAMERAS), min_size=1), ticks=st.integers(1, 20))
    def cameras_go(self, cameras: set[str], ticks: int) -> None:
        for camera in cameras:
            self.bench.images.pop(camera, None)
        self.live(ticks)

    @rule(cameras=st.sets(st.sampled_from(CAMERAS), min_size=1))
    def pictures_freeze(self, cameras: set[str]) -> None:
        self.frozen.update({camera: self.newest[camera] for camera in cameras if camera in self.newest})
        self.live(20)

    @rule(how=st.sampled_from(("falls silent", "raves", "repeats itself")), twist=TWISTS)
    def odometry_fails(self, how: str, twist: Twist) -> None:
        now_ns = self.bench.clock.now_ns()
        if how == "falls silent":
            self.bench.reports = False
        elif how == "raves":
            self.mad = twist
        else:
            self.said = OdometryMessage(now_ns, now_ns, self.bench.pose, STOP)
        self.live(12)

    @rule(late_ms=st.sampled_from((0, 100, 400, 1000)), ticks=st.integers(1, 60))
    def odometry_comes_late(self, late_ms: int, ticks: int) -> None:
        """Odometry at its own rate, with a latency."""
        self.wheels.late_ns = late_ms * MS
        self.live(ticks)

    @rule(how=st.sampled_from(({"decision": None, "error": "no device"}, {"memory": None}, 90.0, 110.0, 400.0, 3000.0)))
    def the_engine_fails_or_is_slow(self, how: dict[str, Any] | float) -> None:
        number = self.bench.runtime.state.pilot.decisions + 1
        if isinstance(how, float):
            self.takes_ms.update({number: how, number + 1: how})
        else:
            self.broken[number] = how
        self.live(25)

    @rule(slots=st.sampled_from((1, 2, 12, 100, 3000)), step_ms=st.sampled_from((0, -10_000, -100, 20, 10_000)))
    def clocks_step(self, slots: int, step_ms: int) -> None:
        """Block the loop for some slots, and step the base's clock."""
        self.sender_step_ns += step_ms * MS
        self.stepped = self.stepped or step_ms != 0
        self.bench.skip(slots)
        self.live(5)


@pytest.mark.timeout(900)
def test_nothing_that_happens_makes_an_unsafe_command() -> None:
    run_state_machine_as_test(Driven, settings=settings(max_examples=8, stateful_step_count=20, deadline=None))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_that_happens_in_many_long_runs_makes_an_unsafe_command() -> None:
    run_state_machine_as_test(Driven, settings=settings(max_examples=EXAMPLES, stateful_step_count=60, deadline=None))
