"""`mapped`: the path by the map, what the scan shows beside it, maps that are wrong, and no map."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hil.drive.fast.drive import drive_fast
from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.evaluate.baselines.registry import grid_seen, make_policy
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from onboard.config.config import DEFAULT_ROBOT, Config, GoalSection
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.perception.building.map_image import FREE
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.policy.contract import NO_ACTION
from onboard.policy.dwa import floor
from onboard.policy.dwa.cost_to_go import make_prices
from onboard.policy.dwa.costmap import CELL_M, COARSE
from onboard.policy.dwa.dynamic_window import ReactivePolicy
from onboard.policy.dwa.floor import Floor, floor_in, refuted
from onboard.policy.dwa.mapped import MapPolicy
from onboard.values.messages import BINS, STOP, Motion, Observation, Pose, Scan
from tests.rigs.rooms import drawn, room, with_box

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
EXACT = Senses(drift_scale=0.0, localization_scale=0.0)
PRICES = make_prices(0.25, CELL_M)
LOW_DOOR = drawn(
    """
    ##################
    #.......#........#
    #.......#........#
    #.......#........#
    #.......#........#
    #................#
    #................#
    ##################
    """,
    0.5,
)
HIGH_DOOR = drawn(
    """
    ##################
    #................#
    #................#
    #.......#........#
    #.......#........#
    #.......#........#
    #.......#........#
    ##################
    """,
    0.5,
)
NO_WALL = drawn("\n".join(["#" * 18, *["#" + 16 * "." + "#"] * 6, "#" * 18]), 0.5)
LONG_WALL = drawn(
    """
    ##########################
    #........................#
    #........................#
    #........................#
    ######################...#
    #........................#
    #........................#
    #........................#
    ##########################
    """,
    0.5,
)
ROUND_IT = Episode(Pose(1.5, 1.25, 0.0), (1.5, 3.25), 21.0)
NEXT_DOOR = Episode(Pose(2.5, 2.0, 0.0), (6.5, 2.0), 4.8)
TABLE = with_box(room(8.0, 6.0), (3.0, 5.0), (1.5, 3.5), (0.70, 0.75))
PAST_TABLE = Episode(Pose(1.5, 2.5, 0.0), (6.5, 2.5), 5.3)


def setting_of(world: World) -> Setting:
    return Setting(world, PLANT, Body(), MOUNTS, Config(), EXACT, limits=False)


def grid(world: World, z_m: tuple[float, float] = (0.02, 1.0)) -> OccupancyGrid:
    percent = np.where(world.overlapping(*z_m), 100, 0).astype(np.int8)
    return OccupancyGrid(world.cell_m, world.map_from_grid, percent)


def floor_of(world: World, z_m: tuple[float, float] = (0.0, 1.0)) -> Floor:
    return floor_in(grid(world, z_m), PRICES, 0.25)


def planner(known: World) -> MapPolicy:
    return MapPolicy(PLANT, grid(known))


def unseeing(episode: Episode) -> Observation:
    """Return what is observed in the start frame by a robot that sees almost nothing, and so refutes nothing."""
    c, s = math.cos(episode.start.yaw_rad), math.sin(episode.start.yaw_rad)
    dx, dy = episode.goal_xy_m[0] - episode.start.x_m, episode.goal_xy_m[1] - episode.start.y_m
    scan = Scan(0, np.full(BINS, np.inf, np.float32), np.arange(BINS) == BINS // 2)
    motion = Motion(Pose(0.0, 0.0, 0.0), STOP)
    return Observation(
        0,
        None,
        scan,
        motion,
        None,
        None,
        motion,
        (c * dx + s * dy, c * dy - s * dx),
        NO_ACTION,
        map_from_start=episode.start,
    )


#   what it knows     what there is   at most this long a way
MAPS = [
    ("a true map", LOW_DOOR, LOW_DOOR, 6.0),
    ("the door is elsewhere", HIGH_DOOR, LOW_DOOR, 12.0),
    ("a wall that it does not know", NO_WALL, LOW_DOOR, 12.0),
    ("a wall that is not there", LOW_DOOR, NO_WALL, 6.0),
]


@pytest.mark.parametrize(("name", "known", "world", "way_m"), MAPS)
def test_it_arrives_without_contact_though_the_map_be_wrong(name, known, world, way_m):
    setting = setting_of(world)
    policy = make_policy("planner", setting, NEXT_DOOR, grid_seen(setting, known))
    outcome = drive_fast(setting, NEXT_DOOR, policy, seed=2)
    assert (outcome.reached, outcome.contacts) == (True, 0)
    assert outcome.path_m < way_m


@pytest.mark.parametrize("drive", [drive_fast, drive_runtime])
@pytest.mark.parametrize(("policy", "reached"), [("mapped", True), ("reactive", False)])
def test_a_long_detour_is_progress_by_the_map_alone(drive, policy, reached):
    setting = replace(setting_of(LONG_WALL), config=Config(goal=GoalSection(progress_timeout_s=10.0)), limits=True)
    outcome = drive(setting, ROUND_IT, make_policy(policy, setting, ROUND_IT), seed=2)
    assert outcome.reached is reached
    assert (outcome.time_s > 20.0) is reached


@pytest.mark.parametrize(("scan", "touches"), [("fused", False), ("lidar", True)])
def test_under_a_table_a_lidar_sees_nothing_and_the_cameras_do(scan, touches):
    """Paper 1, Fig. 5."""
    setting = replace(setting_of(TABLE), scan=scan)
    outcome = drive_fast(setting, PAST_TABLE, make_policy("planner", setting, PAST_TABLE), seed=2)
    assert (outcome.contacts > 0) is touches
    assert outcome.reached is not touches


#   known      first turn
FIRST = [("low", LOW_DOOR, -1), ("high", HIGH_DOOR, +1)]


@pytest.mark.parametrize(("name", "known", "side"), FIRST)
def test_the_map_says_where_to_turn_when_nothing_is_seen(name, known, side):
    policy = planner(known)
    decision, _ = policy.decide(unseeing(NEXT_DOOR), policy.initial_memory())
    by_turn = decision.logits.reshape(4, 7)
    assert np.sign(by_turn[0, 4:].max() - by_turn[0, :3].max()) == side


def test_it_is_told_where_the_start_frame_is():
    policy, seen = planner(LOW_DOOR), unseeing(NEXT_DOOR)
    moved = replace(seen, map_from_start=Pose(3.3, 1.0, 0.0))
    here, there = (policy.decide(one, policy.initial_memory())[0].logits.max() for one in (seen, moved))
    assert there > here + 0.5


@pytest.mark.parametrize("yaw_rad", [0.0, 1.0, -2.5])
def test_the_grid_of_a_map_may_stand_anyhow(yaw_rad):
    world = room(7.0, 5.0, map_from_grid=Pose(3.0, -2.0, yaw_rad))
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    start, goal = ((3.0 + c * x - s * y, -2.0 + s * x + c * y) for x, y in ((1.0, 1.0), (6.0, 4.0)))
    episode = Episode(Pose(*start, yaw_rad), goal, math.hypot(5.0, 3.0))
    outcome = drive_fast(setting_of(world), episode, planner(world), seed=0)
    assert (outcome.reached, outcome.contacts) == (True, 0)
    assert outcome.path_m < 1.15 * episode.geodesic_m


def test_a_decision_is_a_function_of_its_arguments_and_the_start_frame():
    policy, observation = planner(LOW_DOOR), unseeing(NEXT_DOOR)
    memory = policy.initial_memory()
    first, kept = policy.decide(observation, memory)
    policy.decide(unseeing(replace(NEXT_DOOR, goal_xy_m=(2.0, 1.0))), kept)
    again, kept_again = policy.decide(observation, memory)
    np.testing.assert_array_equal(first.logits, again.logits)
    np.testing.assert_array_equal(kept, kept_again)


def test_its_logits_are_about_minus_the_seconds_left():
    policy = planner(LOW_DOOR)
    decision, _ = policy.decide(unseeing(NEXT_DOOR), policy.initial_memory())
    assert decision.action == int(np.argmax(decision.logits))
    assert -10.0 < decision.logits.max() < -5.0
    assert decision.logits.dtype == np.float32


def test_without_a_place_in_the_map_it_decides_as_reactive_does_and_forgets_the_map():
    policy, reactive = planner(LOW_DOOR), ReactivePolicy(PLANT)
    lost = replace(unseeing(NEXT_DOOR), map_from_start=None)
    alone, _ = reactive.decide(lost, reactive.initial_memory())
    first, memory = policy.decide(lost, policy.initial_memory())
    np.testing.assert_array_equal(first.logits, alone.logits)
    found, memory = policy.decide(unseeing(NEXT_DOOR), memory)
    assert not np.array_equal(found.logits, alone.logits)
    again, _ = policy.decide(lost, memory)
    np.testing.assert_array_equal(again.logits, alone.logits)


@pytest.mark.parametrize("cell_m", [0.05, 0.03, 0.1])
def test_a_floor_tells_how_near_the_walls_are(cell_m):
    world = room(6.0, 4.0, cell_m)
    floor = floor_of(world)
    assert all(first % COARSE == 0 for first in floor.first)
    # The room's floor begins one cell from the grid's corner; walls count for the fine cell in which they are.
    for x, y, wall_m in ((3.0, 0.4, 0.4), (0.5, 2.0, 0.5), (3.0, 3.6, 0.4)):
        a, b = (math.floor((p + cell_m) / CELL_M) - first for p, first in zip((x, y), floor.first, strict=True))
        told_m = 0.5 * CELL_M * math.sqrt(floor.fine[a, b])
        assert told_m == pytest.approx(wall_m, abs=0.12)
    middle = tuple(math.floor(p / CELL_M) - first for p, first in zip((3.0, 2.0), floor.first, strict=True))
    assert floor.fine[middle] == PRICES.far


def test_what_is_beside_known_walls_is_not_new():
    floor = floor_of(room(6.0, 4.0))
    beside, amid, outside = (30.0, 1.0, 1.0), (30.0, 20.0, 1.0), (-500.0, 3.0, 1.0)
    new = floor.unknown(np.array([beside, amid, outside], np.float32), np.empty((0, 2), np.float32), 25)
    np.testing.assert_array_equal(new, np.array([amid], np.float32))
    gone = np.array([(31.0, 0.0)], np.float32)
    new = floor.unknown(np.array([beside, amid, outside], np.float32), gone, 25)
    np.testing.assert_array_equal(new, np.array([beside, amid], np.float32))


def test_only_what_has_a_height_is_known():
    known = with_box(room(6.0, 4.0), (2.0, 3.0), (1.0, 2.0), (0.7, 0.75))
    heights = [(0.0, 1.0), (0.2, 0.2)]
    low, plane = (floor_of(known, z_m) for z_m in heights)
    cell = math.floor(2.55 / CELL_M) - low.first[0], math.floor(1.55 / CELL_M) - low.first[1]
    assert low.fine[cell] == 0
    assert plane.fine[cell] == PRICES.far


def test_what_the_scan_sees_through_is_gone_until_a_ray_ends_there_again():
    floor = floor_of(with_box(room(6.0, 4.0), (3.0, 3.2), (1.8, 2.2), (0.0, 1.0)))
    pose, ranges = Pose(1.05, 2.05, 0.0), np.full(BINS, 1.0, np.float32)
    none = np.empty((0, 2), np.float32)
    assert len(refuted(floor, none, pose, Scan(0, ranges, np.ones(BINS, np.bool_)))) == 0
    through = ranges.copy()
    through[BINS // 2 - 12 : BINS // 2 + 12] = 3.5
    gone = refuted(floor, none, pose, Scan(0, through, np.ones(BINS, np.bool_)))
    assert {(30, 20), (31, 20), (30, 18), (31, 22)} <= {(int(a), int(b)) for a, b in gone}
    blind = Scan(0, through, np.zeros(BINS, np.bool_))
    np.testing.assert_array_equal(refuted(floor, gone, pose, blind), gone)
    ends = np.full(BINS, 2.03, np.float32)
    again = {(int(a), int(b)) for a, b in refuted(floor, gone, pose, Scan(0, ends, np.ones(BINS, np.bool_)))}
    assert (30, 20) not in again
    assert (31, 20) in again


def test_a_floor_changed_is_the_floor_of_what_there_is():
    world = room(6.0, 4.0)
    boxed = with_box(world, (3.0, 3.2), (1.8, 2.2), (0.0, 1.0))
    empty, full = (
        floor.floor_of((seen.percent != FREE).T, (0, 0), seen.cell_m, PRICES)  # without the map's closed ground
        for seen in (grid(world), grid(boxed))
    )
    box = (np.argwhere(full.occupied & ~empty.occupied) + full.first).astype(np.float32)
    none = np.empty((0, 2), np.float32)
    for before, gone, new, there in ((full, box, none, empty), (empty, none, box, full), (full, none, none, full)):
        changed = before.changed(gone, new, (1.0, 1.0), PRICES)
        np.testing.assert_array_equal(changed.coarse, there.coarse)
        a, b = (first - whole for first, whole in zip(changed.first_fine, there.first, strict=True))
        rows, columns = changed.fine.shape
        np.testing.assert_array_equal(changed.fine, there.fine[a : a + rows, b : b + columns])
