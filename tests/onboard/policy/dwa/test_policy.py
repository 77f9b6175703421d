"""The reactive policy: first decisions, closed loops without contact, and its memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.drive.fast.drive import drive_fast
from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.maps.load import load_map
from hil.physics.collision_world import Body
from hil.physics.free_space import free_space, pick_episode
from hil.sensors.direct_scan import looked_at
from onboard.config.config import DEFAULT_ROBOT, Config, GoalSection, RobotSection, ScanSection
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import MotionState, load_plant, step
from onboard.perception.collision import BIN_CENTERS_RAD
from onboard.policy.contract import ACTIONS, NO_ACTION, STOP_ACTION
from onboard.policy.dwa.costmap import CAPACITY, EMPTY, LocalMap
from onboard.policy.dwa.dynamic_window import Course, ReactivePolicy, pack, unpack
from onboard.values.messages import BIN_DEG, BINS, STOP, Memory, Motion, Observation, Pose, Scan, Twist
from tests.onboard.policy.dwa.walls import NO_WALLS, Walls, box, distance_to, scan_from

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
POLICY = ReactivePolicy(PLANT)
MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
SEEN = looked_at(MOUNTS, ScanSection())
RADIUS_M = 0.25
DT_S = 1.0 / 30.0
TICKS, DELAY_TICKS = 10, 3


def look(walls: Walls, pose: Pose, seen: np.ndarray = SEEN) -> Scan:
    return scan_from(walls, pose, seen)


def observe(
    scan: Scan, goal: tuple[float, float], motion: Motion | None = None, previous: int = NO_ACTION
) -> Observation:
    motion = motion or Motion(Pose(0.0, 0.0, 0.0), STOP)
    return Observation(0, None, scan, motion, None, None, motion, goal, previous)


def chosen(walls: Walls, goal: tuple[float, float], twist: Twist = STOP, previous: int = NO_ACTION) -> Twist:
    """Return the twist chosen at the start, with no memory."""
    pose = Pose(0.0, 0.0, 0.0)
    observation = observe(look(walls, pose), goal, Motion(pose, twist), previous)
    return ACTIONS[POLICY.decide(observation, POLICY.initial_memory())[0].action]


@dataclass(frozen=True)
class Driven:
    """A closed loop over exact walls: end pose, least distance of the centre to a wall, path length, actions."""

    pose: Pose
    nearest_m: float
    path_m: float
    actions: list[int]

    @property
    def stopped(self) -> bool:
        return self.actions[-3:] == [STOP_ACTION] * 3


def run(
    walls: Walls, goal: tuple[float, float], decisions: int, noise_m: float = 0.0, seen: np.ndarray = SEEN
) -> Driven:
    """Drive from the origin, with the delay, until three stops in a row; the estimated pose jumps by the noise."""
    rng = np.random.default_rng(3)
    state, command, memory = MotionState(Pose(0.0, 0.0, 0.0)), STOP, POLICY.initial_memory()
    actions, nearest_m, path_m, previous = [], math.inf, 0.0, NO_ACTION
    while len(actions) < decisions and actions[-3:] != [STOP_ACTION] * 3:
        dx, dy = rng.normal(0.0, noise_m, 2) if noise_m else (0.0, 0.0)
        believed = Motion(replace(state.pose, x_m=state.pose.x_m + dx, y_m=state.pose.y_m + dy), state.twist)
        decision, memory = POLICY.decide(observe(look(walls, state.pose, seen), goal, believed, previous), memory)
        actions.append(decision.action)
        for tick in range(TICKS):
            if tick == DELAY_TICKS:
                previous, command = decision.action, ACTIONS[decision.action]
            before = state.pose
            state = step(state, command, PLANT, DT_S)
            path_m += math.hypot(state.pose.x_m - before.x_m, state.pose.y_m - before.y_m)
            nearest_m = min(nearest_m, distance_to(walls, state.pose))
    return Driven(state.pose, nearest_m, path_m, actions)


#   first decision          walls                   goal         least v, most v, sign of w
FIRST = [
    ("goal ahead, open space", [], (5.0, 0.0), 0.6, 1.0, 0),
    ("goal left", [], (0.0, 3.0), 0.0, 1.0, +1),
    ("goal right", [], (0.0, -3.0), 0.0, 1.0, -1),
    ("goal behind, a little left", [], (-3.0, 0.5), 0.0, 1.0, +1),
    ("wall close ahead", [(0.45, -3.0, 0.45, 3.0)], (5.0, 0.0), 0.0, 0.0, None),
    ("wall ahead, open on the left", [(0.8, -4.0, 0.8, 0.4)], (3.0, 0.0), 0.0, 1.0, +1),
    ("wall ahead, open on the right", [(0.8, -0.4, 0.8, 4.0)], (3.0, 0.0), 0.0, 1.0, -1),
]


@pytest.mark.parametrize(("name", "walls", "goal", "v_from", "v_to", "side"), FIRST)
def test_first_decision(name, walls, goal, v_from, v_to, side):
    twist = chosen(np.array(walls).reshape(-1, 4), goal)
    assert v_from <= twist.v_mps <= v_to
    if side is not None:
        assert np.sign(twist.w_radps) == side


#   course                 walls                      goal         straight way, most decisions
BEND = [(-1, -0.6, 3.6, -0.6), (-1, 0.6, 2.4, 0.6), (3.6, -0.6, 3.6, 5.0), (2.4, 0.6, 2.4, 5.0)]
COURSES = [
    ("open space", [], (5.0, 0.0), 5.0, 30),
    ("goal behind", [], (-3.0, 0.0), 3.0, 25),
    ("goal a hand's width behind", [], (-0.3, 0.05), 0.3, 20),
    ("goal near and left", [], (0.0, 0.3), 0.3, 20),
    ("a wall to go around", [(1.5, -1.0, 1.5, 1.2)], (3.0, 0.0), 3.5, 40),
    ("a door of 0.8 m", [(1.5, -6.0, 1.5, 0.6), (1.5, 1.4, 1.5, 6.0)], (3.0, 0.0), 3.8, 50),
    ("a door in a thick wall", box(1.5, -6.0, 1.9, -0.4) + box(1.5, 0.4, 1.9, 6.0), (3.5, 0.0), 3.5, 40),
    ("a dead end", [(2.0, -1.0, 2.0, 1.0), (0.5, 1.0, 2.0, 1.0), (0.5, -1.0, 2.0, -1.0)], (4.0, 0.0), 5.0, 80),
    ("goal before a wall", [(3.35, -3.0, 3.35, 3.0)], (3.0, 0.5), 3.0, 30),
    ("goal along a wall", [(-1.0, 0.85, 5.0, 0.85)], (3.0, 0.5), 3.0, 30),
    ("goal in a corner", [(3.4, -3.0, 3.4, 0.9), (-1.0, 0.9, 3.4, 0.9)], (3.0, 0.5), 3.0, 30),
    ("a corridor with a bend", BEND, (3.0, 4.0), 6.2, 50),
]


@pytest.mark.parametrize(("name", "walls", "goal", "way_m", "decisions"), COURSES)
@pytest.mark.parametrize("noise_m", [0.0, 0.02])
def test_it_arrives_without_contact(name, walls, goal, way_m, decisions, noise_m):
    walls = np.array(walls).reshape(-1, 4)
    driven = run(walls, goal, decisions, noise_m)
    assert driven.stopped
    assert math.hypot(driven.pose.x_m - goal[0], driven.pose.y_m - goal[1]) < 0.2
    assert driven.nearest_m > RADIUS_M + 0.05
    assert driven.path_m < 2.0 * way_m + 1.0


@pytest.mark.parametrize("wall_m", [0.40, 0.42, 0.45])
@pytest.mark.parametrize("goal", [(0.17, 0.0), (0.15, 0.08), (0.12, -0.13)])
def test_where_nothing_gets_nearer_within_the_tolerance_it_stops(wall_m: float, goal: tuple[float, float]) -> None:
    """A wall keeps the robot from a goal that is already within the tolerance: it may turn for three seconds."""
    walls = np.array([(wall_m, -3.0, wall_m, 3.0), *box(-0.45, -0.5, wall_m, 0.5)])
    driven = run(walls, goal, 40)
    assert driven.stopped
    assert len(driven.actions) <= 16
    assert driven.nearest_m > RADIUS_M + 0.05


def test_at_the_goal_it_stands_and_stays_though_the_estimate_jumps():
    rng = np.random.default_rng(1)
    memory = POLICY.initial_memory()
    actions = []
    for _ in range(30):
        pose = Pose(*rng.uniform(-0.05, 0.05, 2), 0.0)
        observation = observe(look(NO_WALLS, pose), (0.05, 0.0), Motion(pose, STOP), STOP_ACTION)
        decision, memory = POLICY.decide(observation, memory)
        actions.append(decision.action)
    assert set(actions) == {STOP_ACTION}


#   what the cameras see
BLIND = [
    ("nothing at all", np.zeros(BINS, np.bool_)),
    ("only to the rear", np.abs(BIN_CENTERS_RAD) > math.radians(135)),
    ("all but straight ahead", np.abs(BIN_CENTERS_RAD) > math.radians(36)),
]


@pytest.mark.parametrize(("name", "seen"), BLIND)
def test_blind_ahead_it_stands(name, seen):
    decision, _ = POLICY.decide(observe(look(NO_WALLS, Pose(0, 0, 0), seen), (5.0, 0.0)), POLICY.initial_memory())
    assert decision.action == STOP_ACTION


@given(bearing=st.floats(-math.pi, math.pi), first=st.integers(0, BINS - 1), width=st.integers(10, 120))
@settings(max_examples=60, deadline=None)
def test_it_never_drives_into_a_blind_sector(bearing, first, width):
    seen = np.ones(BINS, np.bool_)
    seen[np.arange(first, first + width) % BINS] = False
    goal = (4.0 * math.cos(bearing), 4.0 * math.sin(bearing))
    decision, _ = POLICY.decide(observe(look(NO_WALLS, Pose(0, 0, 0), seen), goal), POLICY.initial_memory())
    end = rest_after(MotionState(Pose(0.0, 0.0, 0.0)), ACTIONS[decision.action])[-1]
    if math.hypot(end.x_m, end.y_m) > 0.12:
        assert seen[math.floor((math.atan2(end.y_m, end.x_m) + math.pi) / (2 * math.pi / BINS)) % BINS]


def rest_after(state: MotionState, command: Twist) -> list[Pose]:
    """Return the poses while a stop is still in force, then the command for one decision, then braking."""
    poses = []
    for tick in range(DELAY_TICKS + TICKS + 30):
        held = command if DELAY_TICKS <= tick < DELAY_TICKS + TICKS else STOP
        state = step(state, held, PLANT, DT_S)
        poses.append(state.pose)
    return poses


@given(
    ranges=st.lists(st.floats(0.36, 4.0), min_size=18, max_size=18),
    bearing=st.floats(-math.pi, math.pi),
    v_mps=st.floats(0.0, 1.0),
)
@settings(max_examples=150, deadline=None)
def test_the_chosen_action_can_stop_clear_of_the_scan(ranges, bearing, v_mps):
    ranges_m = np.where(SEEN, np.repeat(ranges, BINS // 18), np.inf).astype(np.float32)
    state = MotionState(Pose(0.0, 0.0, 0.0), Twist(v_mps, 0.0))
    goal = (6.0 * math.cos(bearing), 6.0 * math.sin(bearing))
    motion = Motion(state.pose, state.twist)
    decision, _ = POLICY.decide(observe(Scan(0, ranges_m, SEEN), goal, motion), POLICY.initial_memory())
    points = np.stack([ranges_m * np.cos(BIN_CENTERS_RAD), ranges_m * np.sin(BIN_CENTERS_RAD)], axis=1)[SEEN]

    def clearance(command: Twist) -> float:
        poses = np.array([(pose.x_m, pose.y_m) for pose in rest_after(state, command)])
        return float(np.linalg.norm(poses[:, None] - points[None], axis=2).min())

    assert clearance(ACTIONS[decision.action]) >= min(RADIUS_M + 0.05, clearance(STOP) - 0.01)


def test_an_obstacle_in_a_blind_sector_is_remembered():
    blind = math.radians(120.0)
    box_walls = np.array(box(-0.5, 0.40, -0.05, 0.8))
    side = Pose(0.0, 0.0, math.pi / 2)
    _, memory = POLICY.decide(observe(look(box_walls, side), (0.0, 3.0), Motion(side, STOP)), POLICY.initial_memory())
    now = Pose(0.0, 0.0, math.atan2(0.6, -0.3) - blind)
    blank = Scan(0, np.full(BINS, np.inf, np.float32), SEEN)
    remembered, _ = POLICY.decide(observe(blank, (-0.6, 1.4), Motion(now, STOP)), memory)
    forgotten, _ = POLICY.decide(observe(blank, (-0.6, 1.4), Motion(now, STOP)), POLICY.initial_memory())
    assert remembered.logits.max() < forgotten.logits.max() - 0.3


@pytest.mark.parametrize("walls", [[], box(1.0, -1.0, 2.0, 1.0)])
def test_a_decision_is_a_function_of_its_arguments(walls):
    walls = np.array(walls).reshape(-1, 4)
    observation = observe(look(walls, Pose(0, 0, 0)), (3.0, 1.0))
    memory: Memory = POLICY.initial_memory()
    before = memory.copy()
    first, kept = POLICY.decide(observation, memory)
    again, kept_again = POLICY.decide(observation, memory)
    np.testing.assert_array_equal(memory, before)
    np.testing.assert_array_equal(first.logits, again.logits)
    np.testing.assert_array_equal(kept, kept_again)
    assert first.action == again.action == int(np.argmax(first.logits))
    assert kept.shape == before.shape
    assert kept.dtype == np.float32
    assert first.logits.shape == (len(ACTIONS),)
    assert first.logits.dtype == np.float32
    assert np.isfinite(first.logits).all()


def test_a_wider_robot_keeps_out_of_a_door_that_is_too_narrow_for_it():
    door = np.array([(0.9, -6.0, 0.9, -0.45), (0.9, 0.45, 0.9, 6.0)])
    observation = observe(look(door, Pose(0, 0, 0)), (3.0, 0.0), Motion(Pose(0, 0, 0), Twist(0.6, 0.0)), 17)
    wide = ReactivePolicy(PLANT, RobotSection(footprint_radius_m=0.6))
    narrow, _ = POLICY.decide(observation, POLICY.initial_memory())
    kept_out, _ = wide.decide(observation, wide.initial_memory())
    assert ACTIONS[narrow.action].v_mps > 0.0
    assert ACTIONS[kept_out.action].v_mps == 0.0


def test_a_tighter_tolerance_is_met_more_tightly():
    observation = observe(look(NO_WALLS, Pose(0, 0, 0)), (0.05, 0.0))
    tight = ReactivePolicy(PLANT, goal=GoalSection(tolerance_m=0.05))
    assert POLICY.decide(observation, POLICY.initial_memory())[0].action == STOP_ACTION
    assert tight.decide(observation, tight.initial_memory())[0].action != STOP_ACTION


def test_it_drives_through_a_real_floor_plan():
    world = load_map("gdc1")
    rng = np.random.default_rng(17)
    space = free_space(world, Body())
    senses = Senses(drift_scale=0.0, localization_scale=0.0)
    setting = Setting(world, PLANT, Body(), MOUNTS, Config(), senses, limits=False)
    for _ in range(3):
        outcome = drive_fast(setting, pick_episode(space, rng, 5.0, 9.0), POLICY, seed=0)
        assert outcome.reached
        assert outcome.contacts == 0


FULL = LocalMap(np.arange(3 * CAPACITY, dtype=np.float32).reshape(CAPACITY, 3))
SOME = LocalMap(np.array([(-3.0, 70.0, 0.5), (12.0, -9.0, 1.0)], np.float32))


@pytest.mark.parametrize("known", [EMPTY, SOME, FULL])
@pytest.mark.parametrize("course", [Course(), Course(True, (0.5, -1.0, 0.25, 2.0))])
def test_packed_and_unpacked_it_is_the_same(known, course):
    memory = pack(known, course)
    assert (memory.dtype, memory.shape) == (np.float32, pack(EMPTY, Course()).shape)
    assert np.isfinite(memory).all()
    again, same = unpack(memory)
    np.testing.assert_array_equal(again.cells, known.cells)
    assert same == course


LONG = RobotSection(footprint_m=((0.6, 0.25), (-0.6, 0.25), (-0.6, -0.25), (0.6, -0.25)))
FRONT_AND_REAR = np.abs(np.abs(BIN_CENTERS_RAD) - math.pi / 2) > math.radians(46.0)


@pytest.mark.parametrize(("goal", "w_radps"), [((0.0, 4.0), 1.0), ((0.0, -4.0), -1.0)])
def test_a_polygon_between_walls_asks_for_the_turn_that_it_cannot_make(
    goal: tuple[float, float], w_radps: float
) -> None:
    """So the recovery sees that it is held, and backs off; a stop away from the goal would end the drive."""
    policy = ReactivePolicy(PLANT, LONG)
    ranges_m = np.full(BINS, 9.0, np.float32)
    for x in np.arange(-0.6, 0.61, 0.02):
        for y in (0.32, -0.32):
            ranges_m[int((math.degrees(math.atan2(y, x)) + 180.0) // BIN_DEG) % BINS] = math.hypot(x, y)
    ranges_m[np.abs(BIN_CENTERS_RAD) < 0.4] = 0.68
    observation = observe(Scan(0, ranges_m, np.ones(BINS, np.bool_)), goal)
    decision, _ = policy.decide(observation, policy.initial_memory())
    assert (ACTIONS[decision.action], int(np.argmax(decision.logits))) == (Twist(0.0, w_radps), decision.action)


def test_a_polygon_with_cameras_front_and_rear_chooses_no_arc_into_its_blind_flanks() -> None:
    policy = ReactivePolicy(PLANT, LONG)
    for goal in [(4.0, 0.0), (4.0, 0.6), (4.0, -2.0), (1.0, 3.0)]:
        observation = observe(Scan(0, np.full(BINS, np.inf, np.float32), FRONT_AND_REAR), goal)
        twist = ACTIONS[policy.decide(observation, policy.initial_memory())[0].action]
        assert twist.v_mps == 0.0 or twist.w_radps == 0.0, goal
        assert twist != STOP
