"""The local costmap: cells that a scan marks and clears, the moving window, and the path through it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.policy.dwa.cost_to_go import sample
from onboard.policy.dwa.costmap import (
    CAPACITY,
    CELL_M,
    EMPTY,
    FREE_NEAR,
    HIDDEN_M,
    LIFE_DECISIONS,
    SIDE,
    LocalMap,
    WayFinder,
    observed,
)
from onboard.values.messages import BINS, Pose, Scan

RADIUS_M = 0.25
HOME = Pose(0.0, 0.0, 0.0)
AHEAD = BINS // 2
WAY = WayFinder(RADIUS_M)


def scan_of(ranges: dict[int, float], blind: tuple[int, ...] = ()) -> Scan:
    """Return a scan with the ranges [m] of some bins, the rest seen free."""
    ranges_m, seen = np.full(BINS, np.inf, np.float32), np.ones(BINS, np.bool_)
    for index, range_m in ranges.items():
        ranges_m[index] = range_m
    seen[list(blind)] = False
    return Scan(0, ranges_m, seen)


BLIND = Scan(0, np.full(BINS, np.inf, np.float32), np.zeros(BINS, np.bool_))


def cost_at(known: LocalMap, x_m: float, y_m: float, goal: tuple[float, float], robot: Pose | None = None) -> float:
    """Return the cost to go from a place, for a robot that stands there."""
    robot = robot or Pose(x_m, y_m, 0.0)
    field = WAY.cost_to_go(known, robot, goal, np.array([(robot.x_m, robot.y_m), (x_m, y_m)]))
    i, j = ((a - corner) / field.cell_m - 0.5 for a, corner in zip((x_m, y_m), field.corner_xy_m, strict=True))
    return sample(field.cost, i, j, field.most_m)[0]


def wall(x_m: float, y_from_m: float, y_to_m: float) -> list[tuple[float, float]]:
    """Return the places of one wall across."""
    return [(x_m, y_m) for y_m in np.arange(y_from_m + CELL_M / 2, y_to_m, CELL_M)]


def remembered(*places: tuple[float, float]) -> LocalMap:
    """Return a map of obstacles at places."""
    cells = np.floor(np.array(places) / CELL_M)
    return LocalMap(np.concatenate([cells, np.ones((len(cells), 1))], axis=1).astype(np.float32))


@pytest.mark.parametrize("half_width_m", [0.05, 0.105, 0.1815, RADIUS_M])
@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("offset_m", [0.0, CELL_M])
def test_a_wall_of_single_cells_is_closed_for_the_narrowest_robot(
    half_width_m: float, slope: float, offset_m: float
) -> None:
    """A Stretch, whose origin is 6 cm behind its front, drove into the corner next to its goal behind a wall."""
    along_m = np.arange(-8.0, 2.0, CELL_M) + CELL_M / 2
    wall = remembered(*((1.0 + offset_m + slope * y, y) for y in along_m))
    (x, y), goal = (0.3, 0.0), (2.5, 0.0)
    field = WayFinder(half_width_m).cost_to_go(wall, Pose(x, y, 0.0), goal, np.array([(x, y)]))
    i, j = ((a - corner) / field.cell_m - 0.5 for a, corner in zip((x, y), field.corner_xy_m, strict=True))
    around_m = math.dist((x, y), end := (1.0 + offset_m + 2.0 * slope, 2.0)) + math.dist(end, goal)
    assert sample(field.cost, i, j, field.most_m)[0] > 0.9 * around_m


#   bin                azimuth        range
RETURNS = [
    (AHEAD, 1.0, 2.0),
    (AHEAD + 45, 91.0, 1.0),
    (AHEAD - 45, -89.0, 3.0),
    (0, -179.0, 1.5),
]


@pytest.mark.parametrize(("index", "azimuth_deg", "range_m"), RETURNS)
@pytest.mark.parametrize("pose", [HOME, Pose(3.3, -7.2, 2.0), Pose(-250.0, 90.0, -1.0)])
def test_a_return_is_marked_where_it_stands(index, azimuth_deg, range_m, pose):
    (point,) = observed(EMPTY, pose, scan_of({index: range_m}), RADIUS_M).centres()
    angle = math.radians(azimuth_deg) + pose.yaw_rad
    expected = np.array([pose.x_m + range_m * math.cos(angle), pose.y_m + range_m * math.sin(angle)])
    assert np.abs(point - expected).max() <= CELL_M / 2 + 1e-4


#   what the next scan says                             remains
NEXT = [
    ("seen free through it", scan_of({}), False),
    ("seen behind it", scan_of(dict.fromkeys(range(AHEAD - 3, AHEAD + 4), 3.0)), False),
    ("hidden by something nearer", scan_of(dict.fromkeys(range(AHEAD - 3, AHEAD + 4), 1.0)), True),
    ("in a blind sector", scan_of({}, tuple(range(AHEAD - 3, AHEAD + 4))), True),
]


@pytest.mark.parametrize(("name", "scan", "remains"), NEXT)
def test_an_obstacle_is_forgotten_only_when_seen_free(name, scan, remains):
    known = observed(EMPTY, HOME, scan_of({AHEAD: 2.0}), RADIUS_M)
    points = observed(known, HOME, scan, RADIUS_M).centres()
    assert bool((np.abs(points[:, 0] - 2.0) < 0.1).any()) is remains


def test_near_by_one_free_scan_does_not_clear():
    """A low camera looks under a table top that it saw from afar."""
    known = observed(EMPTY, HOME, scan_of({AHEAD: HIDDEN_M - 0.4}), RADIUS_M)
    looks = 0
    while len(known.cells):
        known, looks = observed(known, HOME, scan_of({}), RADIUS_M), looks + 1
    assert looks == pytest.approx(1.0 / (FREE_NEAR + 1.0 / LIFE_DECISIONS), abs=1.0)


def test_where_the_robot_stands_is_free():
    known = observed(EMPTY, HOME, scan_of({AHEAD: 1.0}), RADIUS_M)
    assert len(observed(known, Pose(1.0, 0.0, 0.0), scan_of({}), RADIUS_M).cells) == 0


def test_cells_that_are_not_seen_again_expire():
    known = observed(EMPTY, HOME, scan_of({AHEAD: 2.0}), RADIUS_M)
    for _ in range(LIFE_DECISIONS - 2):
        known = observed(known, HOME, BLIND, RADIUS_M)
    assert len(known.cells) == 1
    for _ in range(4):
        known = observed(known, HOME, BLIND, RADIUS_M)
    assert len(known.cells) == 0


@given(x=st.floats(-11.0, 11.0), y=st.floats(-11.0, 11.0))
@settings(max_examples=50, deadline=None)
def test_the_window_moves_over_a_grid_that_stands_still(x, y):
    known = remembered(*wall(0.55, -0.5, 0.5))
    moved = observed(known, Pose(x, y, 0.3), BLIND, 0.0)
    np.testing.assert_array_equal(moved.cells[:, :2], known.cells[:, :2])


def test_cells_outside_the_window_are_lost():
    known = remembered(*wall(0.55, -0.5, 0.5))
    assert len(observed(known, Pose(CELL_M * SIDE / 2 + 0.7, 0.0, 0.0), BLIND, RADIUS_M).cells) == 0


def test_a_cell_is_remembered_once():
    scan = scan_of({AHEAD: 2.0})
    known = observed(observed(EMPTY, HOME, scan, RADIUS_M), HOME, scan, RADIUS_M)
    assert known.cells[:, 2].tolist() == [1.0]


def test_beyond_its_capacity_the_longest_known_is_forgotten():
    full = remembered(*[(-11.0 + 0.1 * (n // 100) + 0.05, -5.0 + 0.1 * (n % 100) + 0.05) for n in range(CAPACITY)])
    known = observed(full, HOME, Scan(0, np.full(BINS, 5.0, np.float32), np.ones(BINS, np.bool_)), 0.0)
    assert len(known.cells) <= CAPACITY
    assert not (known.cells[:, :2] == full.cells[0, :2]).all(axis=1).any()
    hits = np.hypot(*known.centres().T)
    assert (np.abs(hits - 5.0) < CELL_M).sum() > BINS / 2


@given(x=st.floats(-9.0, 9.0), y=st.floats(-9.0, 9.0))
@settings(max_examples=50, deadline=None)
def test_in_free_space_the_cost_is_the_distance(x, y):
    assert cost_at(EMPTY, x, y, (2.0, -1.0)) == pytest.approx(math.hypot(x - 2.0, y + 1.0), rel=0.08, abs=0.06)


@pytest.mark.parametrize("goal", [(30.0, 0.0), (-20.0, 40.0), (11.95, 0.0)])
def test_a_goal_outside_the_window_is_as_far_as_it_is(goal):
    assert cost_at(EMPTY, 0.0, 0.0, goal) == pytest.approx(math.hypot(*goal), rel=0.06)


def test_the_way_leads_around_a_wall_and_not_through():
    around = 2 * math.hypot(1.0, 3.0)
    assert around < cost_at(remembered(*wall(1.05, -3.0, 3.0)), 0.0, 0.0, (2.0, 0.0)) < 1.4 * around


#   door [m]  passable
DOORS = [(1.0, True), (0.8, True), (0.7, True), (0.3, False)]


@pytest.mark.parametrize(("door_m", "passable"), DOORS)
@pytest.mark.parametrize("off_m", [0.0, 0.05, 0.1, 0.15])
def test_the_way_takes_a_door_that_is_wide_enough_and_no_other(door_m, passable, off_m):
    half = door_m / 2
    known = remembered(*wall(1.05, -5.0, off_m - half - 0.05), *wall(1.05, off_m + half - 0.05, 5.0))
    cost = cost_at(known, 0.0, off_m, (2.0, off_m))
    assert cost < 5.5 if passable else cost > 9.0


def test_a_closed_room_still_has_a_way_out_at_a_price():
    across = wall(-1.55, -1.5, 1.5) + wall(1.45, -1.5, 1.5)
    room = remembered(*across, *[(y, x) for x, y in across])
    assert 20.0 < cost_at(room, 0.0, 0.0, (4.0, 0.0)) < 100.0


def test_a_way_of_fifty_metres_out_of_a_dead_end_is_cheaper_than_its_wall():
    """A robot 0.5 m wide took a wall for 40 m of path, and forgot what was 12 m behind it: it stayed in the corner."""
    sides = [(x_m, side * 10.0) for x_m in np.arange(-18.0, 2.0, CELL_M) for side in (-1.0, 1.0)]
    shown = remembered(*wall(2.0, -10.0, 10.0), *sides)
    assert 50.0 < cost_at(shown, 0.0, 0.0, (4.0, 0.0)) < 65.0


def test_a_cell_of_noise_in_a_door_costs_less_than_a_wall():
    door = remembered(*wall(2.0, -12.0, -0.45), (2.0, 0.0), *wall(2.0, 0.45, 12.0))
    shut = remembered(*wall(2.0, -12.0, 12.0))
    assert cost_at(door, 0.0, 0.0, (4.0, 0.0)) < 0.5 * cost_at(shut, 0.0, 0.0, (4.0, 0.0))
