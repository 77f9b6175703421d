"""Lanes of the batched world against the fast loop and the definitions: the same robot, limits, filter and scan."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from engines.train.batched import lane_kernels as kernels
from engines.train.batched import world
from engines.train.batched.atlas import UNIT_M, Atlas, Generation, GoalChunk, plan_floors
from engines.train.batched.lane_sight import FANS, allowed_mps
from engines.train.batched.lane_values import ENDS
from engines.train.batched.policy import manifest_of
from engines.train.batched.world import BatchedWorld
from engines.train.config import rules_of
from engines.train.drives.domain import DomainSection, Rules
from engines.train.drives.places import Building, make_building
from hil.drive.fast.drive import FastDrive
from hil.drive.fast.limits_kernel import REACH, FastLimits
from hil.drive.fast.tick_kernels import SIM_STEP_S
from hil.physics.free_space import Episode
from hil.sensors.direct_scan import ScanCaster, looked_at
from hil.sensors.direct_scan_kernels import FAN
from onboard.policy.contract import ACTIONS, STOP_ACTION
from onboard.policy.encode import memory_size, tensors
from onboard.safety import recovery
from onboard.safety.limits import bounds_of
from onboard.values.errors import InputError
from onboard.values.geometry import compose
from onboard.values.messages import Pose, Twist
from tests.rigs.deferred_drive import FRESH, MADE, DeferredInference, ExternalPolicy
from tests.rigs.train_rig import batched

CPU = torch.device("cpu")
LANES, DECISIONS = 32, 120
MOVES = [action for action in range(len(ACTIONS)) if action != STOP_ACTION]
POSE_M, SCAN_M, MOST_BINS = 1e-3, 0.01, 2
MOST_PARTED = 1
"""Lanes that rounding may lead elsewhere: a bin that shows another cell can mean another step of the slow zone."""


SOON = {"blocked_s": 1.0}
"""A recovery that begins soon, for many tries in a drive."""


@pytest.fixture(autouse=True)
def _cools_down_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (recovery, world):
        monkeypatch.setattr(module, "COOL_DOWN_S", 0.5)


@cache
def site(tries: int | None = None) -> tuple[Rules, Building, Atlas, list[GoalChunk]]:
    """Return a furnished depot with goals, and a robot without drift and scan noise, that matches no scans.

    tries: of a recovery that begins soon, of a robot that remembers no obstacles, as a lane
    """
    config = batched(places__furniture=1.0, batched__graded=0.0)
    rules = replace(rules_of(config), domain=PLAIN)
    odometry = rules.robot.config.odometry.model_copy(update={"scan_matching": False})
    changes: dict[str, object] = {"odometry": odometry}
    if tries is not None:
        changes["recovery"] = rules.robot.config.recovery.model_copy(update=SOON | {"tries": tries})
        changes["limits"] = rules.robot.config.limits.model_copy(update={"remember_s": 0.0})
    robot = replace(rules.robot, config=rules.robot.config.model_copy(update=changes))
    rules = replace(rules, robot=robot)
    floors = plan_floors(rules.places.maps, 1, 0)
    building = make_building(rules.places, *floors[0], rules.robot)
    if tries is not None:
        return rules, building, *site()[2:]
    with Generation(rules, floors, 0, 0, 8) as generation:
        atlas, goals = generation.atlas(), generation.goals(at_least=6)
    return rules, building, atlas, goals


def world_of(lanes: int = LANES, seed: int = 1, *, fixes: bool = True, tries: int | None = None) -> BatchedWorld:
    rules, _, atlas, goals = site(tries)
    rules = replace(rules, domain=rules.domain.model_copy(update={"no_localization": 0.0 if fixes else 1.0}))
    section = batched(batched__graded=0.0).batched
    return BatchedWorld(rules, section, atlas, goals, lanes, seed, CPU)


PLAIN = DomainSection(
    plant_spread=0.0, delay_ticks=(3, 3), drift_scale=(0.0, 0.0), drift_paper=0.0, no_localization=0.0,
    often_localized=0.0, scan_noise=0.0, scan_holes=0.0,
)  # fmt: skip
"""The configured robot, without drift."""


def in_map(x_m: float, y_m: float, yaw_rad: float) -> Pose:
    """Return a pose of the atlas in the map frame."""
    _, building, atlas, _ = site()
    world, (row, column) = building.setting.world, atlas.corners[0]
    return compose(world.map_from_grid, Pose(x_m - column * world.cell_m, y_m - row * world.cell_m, yaw_rad))


def apart(scan: np.ndarray, other: np.ndarray) -> int:
    """Return in how many bins two scans differ. A rounding error of the pose can show a bin another cell."""
    return int((10.0 * np.abs(scan - other) > SCAN_M).sum())


class Twin:
    """The drive of the fast loop that begins where a lane does."""

    def __init__(self, world: BatchedWorld, lane: int, *, fixes: bool = True, tries: int | None = None) -> None:
        _, building, _, goals = site(tries)
        self.state, self.more = world._lanes.states[lane], world._lanes.more[lane]
        goal = in_map(*goals[int(self.more["goal"])].xy_m, 0.0)
        senses = replace(building.setting.senses, drift_scale=0.0, localization=fixes)
        setting = replace(building.setting, senses=senses, limits=True)
        episode = Episode(in_map(self.state["x_m"], self.state["y_m"], self.state["yaw"]), (goal.x_m, goal.y_m), 1.0)
        self.inference = DeferredInference()
        self.drive = FastDrive(setting, building.course, episode, ExternalPolicy(None, False), 1, 180.0, self.inference)
        self.drive.begin()

    def follow(self) -> None:
        """Drive to the lane's decision."""
        while self.inference.pending is None and not self.drive.ended() and self.drive.robot.tick < self.state["tick"]:
            self.drive.advance()

    def leaves(self) -> bool:
        """Return whether the two may differ from now on.

        The recovery reads the filter, whose fixes have other noise in the lane, and a lane's goal is never occupied.
        """
        if self.drive.ended() == "goal is occupied":
            return True
        return bool(self.drive._recovery.tries_ns)

    def differences(self, scan: np.ndarray) -> tuple[float, int]:
        """Return how far the poses are apart [m], and the number of bins that are."""
        assert self.inference.pending is not None, self.drive.ended()
        seen = tensors(self.inference.pending[1], FRESH, MADE)["scan"][0, 0]
        return self.apart_m(), apart(scan, seen)

    def apart_m(self) -> float:
        """Return how far the poses are apart [m]."""
        pose, found = in_map(self.state["x_m"], self.state["y_m"], self.state["yaw"]), self.drive.robot.pose
        return math.hypot(pose.x_m - found.x_m, pose.y_m - found.y_m)


def test_lanes_drive_as_the_fast_loop_does():
    world, rng = world_of(), np.random.default_rng(0)
    twins = {lane: Twin(world, lane) for lane in range(LANES)}
    actions, ends, parted, compared, differing = np.zeros(LANES, np.int64), [], [], 0, 0
    for _ in range(DECISIONS):
        observed = world.observe()
        for lane, twin in list(twins.items()):
            twin.follow()
            if twin.leaves():
                del twins[lane]
                continue
            apart_m, bins = twin.differences(observed.scan[lane].numpy())
            if apart_m >= POSE_M or bins > MOST_BINS:
                parted.append((lane, apart_m, bins))
                del twins[lane]
                continue
            compared, differing = compared + 1, differing + bins
        actions = np.where(rng.random(LANES) < 0.8, actions, rng.choice(MOVES, LANES))
        for lane, twin in twins.items():
            twin.inference.answer(int(actions[lane]))
        ended = world.step(torch.from_numpy(actions)).done.numpy()
        for lane in [lane for lane in twins if ended[lane]]:
            ends.append(ENDS[int(world._tensors["ended"][lane]) - 1])
            del twins[lane]
    assert len(parted) <= MOST_PARTED, parted
    assert compared > 1500, compared
    assert differing < 1e-4 * 180 * compared
    assert {*ends} <= {"contact", "stuck"}


GAVE_UP, HELD_BACK = "gave_up", ("contact", "stuck")
"""Ends of a lane that the fast loop has too, and others, at which the comparison ends."""


TRIES = [pytest.param(1, marks=pytest.mark.long), 3, pytest.param(5, marks=pytest.mark.long)]


@pytest.mark.parametrize("tries", TRIES)
def test_whole_drives_with_recoveries_are_those_of_the_fast_loop(tries):
    """Without fixes nothing is drawn, so the two stay together, try after try, to the tick in which both give up."""
    world, rng = world_of(fixes=False, tries=tries), np.random.default_rng(0)
    twins = {lane: Twin(world, lane, fixes=False, tries=tries) for lane in range(LANES)}
    actions, tried, gave_up = np.full(LANES, ACTIONS.index(Twist(1.0, 0.0))), 0, 0
    for _ in range(2 * DECISIONS):
        for lane, twin in list(twins.items()):
            twin.follow()
            if twin.drive.ended() == "goal is occupied":
                del twins[lane]
                continue
            assert twin.drive.ended() == "", lane
            assert twin.apart_m() < POSE_M, (lane, twin.state["tick"])
        actions = np.where(rng.random(LANES) < 0.9, actions, rng.choice(MOVES, LANES))
        for lane, twin in twins.items():
            if twin.inference.pending is not None:
                twin.inference.answer(int(actions[lane]))
        ended = world.step(torch.from_numpy(actions)).done.numpy()
        for lane in [lane for lane in twins if ended[lane]]:
            twin, end = twins.pop(lane), ENDS[int(world._tensors["ended"][lane]) - 1]
            assert end in (GAVE_UP, *HELD_BACK)
            if end != GAVE_UP:
                continue
            spent = round(float(world._tensors["spent_s"][lane]) / SIM_STEP_S)
            while not twin.drive.ended() and twin.drive.robot.tick < twin.drive._began + spent:
                twin.drive.advance()
            assert (twin.drive.robot.tick, len(twin.drive._recovery.tries_ns)) == (twin.drive._began + spent, tries)
            assert twin.drive.ended().startswith("blocked: "), (lane, twin.drive.ended())
            gave_up += 1
        tried = max([tried, *(len(twin.drive._recovery.tries_ns) for twin in twins.values())])
    assert (tried, gave_up > 5) == (tries, True), gave_up


def test_the_runtime_gives_the_policy_the_state_that_it_learned_from():
    world, rng = world_of(fixes=False), np.random.default_rng(3)
    twins = {lane: Twin(world, lane, fixes=False) for lane in range(LANES)}
    manifest = manifest_of("0" * 64, "test", {})
    memory, compared = np.zeros(memory_size(manifest), np.float32), 0
    for _ in range(40):
        observed = world.observe()
        for lane, twin in list(twins.items()):
            twin.follow()
            if twin.leaves():
                del twins[lane]
                continue
            assert twin.inference.pending is not None
            given = tensors(twin.inference.pending[1], memory, manifest)
            np.testing.assert_allclose(observed.state[lane].numpy(), given["state"][0], rtol=0.0, atol=1e-4)
            assert apart(observed.scan[lane].numpy(), given["scan"][0]) <= MOST_BINS
            compared += 1
        actions = rng.choice(MOVES, LANES)
        for lane, twin in twins.items():
            twin.inference.answer(int(actions[lane]))
        for lane in np.flatnonzero(world.step(torch.from_numpy(actions)).done.numpy()):
            twins.pop(int(lane), None)
    assert compared > 500, compared


def placed(world: BatchedWorld, rng: np.random.Generator) -> list[Pose]:
    """Put the newest scan of each lane to a random pose in free space; return the poses in the map frame."""
    _, _, atlas, _ = site()
    free = np.argwhere(~atlas.blocked)
    poses = []
    for state in world._lanes.states:
        row, column = free[rng.integers(len(free))]
        x_m, y_m = (column + rng.random()) * atlas.cell_m, (row + rng.random()) * atlas.cell_m
        state["seen_x_m"], state["seen_y_m"], state["seen_yaw"] = x_m, y_m, rng.uniform(-math.pi, math.pi)
        poses.append(in_map(x_m, y_m, state["seen_yaw"]))
    return poses


def scans_m(poses: list[Pose]) -> list[np.ndarray]:
    _, building, _, _ = site()
    scan = building.course.scan
    caster = ScanCaster(building.setting.world, scan.z_min_m, scan.z_max_m)
    seen = looked_at(building.setting.mounts, building.setting.config.scan)
    return [np.where(seen, caster.cast(pose), np.inf).astype(np.float32) for pose in poses]


def test_the_scan_of_the_atlas_is_that_of_its_floor():
    world = world_of(256)
    poses = placed(world, np.random.default_rng(1))
    world._cast_scans()
    _, building, _, _ = site()
    seen = looked_at(building.setting.mounts, building.setting.config.scan)
    expected = np.array([np.where(seen, np.minimum(scan, 10.0) / 10.0, 0.0) for scan in scans_m(poses)])
    np.testing.assert_allclose(world.observe().scan.numpy(), expected, rtol=0.0, atol=1e-6)


def part_of(world: BatchedWorld, state: np.void, row: int) -> float:
    """Return the part of a command that the limits let pass, by the fans of the newest scan."""
    wanted_mps = abs(float(world._site.twists[row, 0]))
    if world._site.ways[0, row, REACH] == 0.0:
        return 1.0
    speeds = [allowed_mps(state, fan * FAN, row, 0, world._rules, world._site) for fan in range(FANS)]
    return min(1.0, min(speeds) / wanted_mps)


def test_the_limits_let_pass_what_the_fast_loop_lets_pass():
    world = world_of(64)
    _, building, _, _ = site()
    setting = building.setting
    bounds = bounds_of(setting.config.limits, setting.plant, setting.config.robot.footprint, 200.0)
    fast = FastLimits(bounds, looked_at(setting.mounts, setting.config.scan))
    twists = [*ACTIONS, Twist(-setting.config.recovery.backward_mps, 0.0)]
    slowed = 0
    for lane, scan_m in enumerate(scans_m(placed(world, np.random.default_rng(2)))):
        state = world._lanes.states[lane]
        for row, twist in enumerate(twists):
            part = part_of(world, state, row)
            passed = fast.limited(scan_m, twist)
            near = pytest.approx((passed.v_mps, passed.w_radps), abs=1e-5)
            assert (part * twist.v_mps, part * twist.w_radps) == near, (lane, row)
            slowed += passed != twist
    assert slowed > 100


def test_the_path_left_is_read_from_the_field_of_the_goal():
    world = world_of(1)
    _, _, atlas, goals = site()
    state, more = world._lanes.states[0], world._lanes.more[0]
    for number, goal in enumerate(goals):
        more["goal"] = float(number)
        for x_m, y_m, length_m in goal.starts:
            state["x_m"], state["y_m"] = x_m, y_m
            left_m = kernels.field_m(state, more, world._rules, world._site)
            assert left_m == pytest.approx(length_m, abs=0.15)
            row = (math.floor(y_m / atlas.cell_m) - goal.row) // 2
            column = (math.floor(x_m / atlas.cell_m) - goal.column) // 2
            assert left_m == goal.field[row, column] * UNIT_M
    more["left_m"], state["x_m"], state["y_m"] = 7.0, 0.0, 0.0
    assert kernels.field_m(state, more, world._rules, world._site) == 7.0  # the last known one, where there is no path


def test_goals_beyond_the_room_are_left_out():
    world = world_of(1)
    _, _, _, goals = site()
    world.add_goals(goals)
    assert world.goals == len(goals)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("acceleration_mps2", 1.0, "the batched world simulates round robots without a ramp in the limits"),
        (
            "v_max_mps",
            0.6,
            r"the action of 1 m/s and -3 rad/s is beyond the robot's, -0\.3 to 0\.6 m/s and 3 rad/s",
        ),
    ],
)
def test_a_robot_that_lanes_cannot_simulate_is_refused(key, value, words):
    rules, _, atlas, goals = site()
    limits = rules.robot.config.limits.model_copy(update={key: value})
    config = rules.robot.config.model_copy(update={"limits": limits})
    section = batched().batched
    with pytest.raises(InputError, match=words):
        BatchedWorld(replace(rules, robot=replace(rules.robot, config=config)), section, atlas, goals, 1, 0, CPU)
