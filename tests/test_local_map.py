"""The remembered window: what a scan marks and frees, how it moves, and the way through it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.local_map import (
    CELL_M,
    FREE_NEAR,
    HIDDEN_M,
    LIFE_DECISIONS,
    SIDE,
    LocalMap,
    cost_to_go,
    empty_map,
    observed,
    obstacles,
    recentred,
    sample,
)
from onboard.messages import BINS, Pose, Scan

RADIUS_M = 0.25
HOME = Pose(0.0, 0.0, 0.0)
AHEAD = BINS // 2


def scan_of(ranges: dict[int, float], blind: tuple[int, ...] = ()) -> Scan:
    """Return a scan with the ranges [m] of some bins, the rest seen free."""
    ranges_m, seen = np.full(BINS, np.inf, np.float32), np.ones(BINS, np.bool_)
    for index, range_m in ranges.items():
        ranges_m[index] = range_m
    seen[list(blind)] = False
    return Scan(0, ranges_m, seen)


def at(cost: np.ndarray, window: LocalMap, x_m: float, y_m: float) -> float:
    return sample(cost, x_m / CELL_M - window.corner[0] - 0.5, y_m / CELL_M - window.corner[1] - 0.5)[0]


def wall(x_m: float, y_from_m: float, y_to_m: float) -> LocalMap:
    """Return a window about the start with one wall across."""
    window = empty_map()
    cells = np.floor(np.array([y_from_m, y_to_m]) / CELL_M).astype(int) - window.corner[1]
    window.evidence[math.floor(x_m / CELL_M) - window.corner[0], cells[0] : cells[1]] = 1.0
    return window


#   bin                azimuth        range
RETURNS = [
    (AHEAD, 1.0, 2.0),
    (AHEAD + 45, 91.0, 1.0),
    (AHEAD - 45, -89.0, 3.0),
    (0, -179.0, 1.5),
]


@pytest.mark.parametrize(("index", "azimuth_deg", "range_m"), RETURNS)
@pytest.mark.parametrize("pose", [HOME, Pose(3.3, -7.2, 2.0)])
def test_a_return_is_marked_where_it_stands(index, azimuth_deg, range_m, pose):
    window = observed(recentred(empty_map(), pose), pose, scan_of({index: range_m}), RADIUS_M)
    (point,) = obstacles(window, pose, 5.0)
    angle = math.radians(azimuth_deg) + pose.yaw_rad
    expected = np.array([pose.x_m + range_m * math.cos(angle), pose.y_m + range_m * math.sin(angle)])
    assert np.abs(point - expected).max() <= CELL_M / 2 + 1e-6


#   what the next scan says                             remains
NEXT = [
    ("seen free through it", scan_of({}), False),
    ("seen behind it", scan_of(dict.fromkeys(range(AHEAD - 3, AHEAD + 4), 3.0)), False),
    ("hidden by something nearer", scan_of(dict.fromkeys(range(AHEAD - 3, AHEAD + 4), 1.0)), True),
    ("in a blind sector", scan_of({}, tuple(range(AHEAD - 3, AHEAD + 4))), True),
]


@pytest.mark.parametrize(("name", "scan", "remains"), NEXT)
def test_an_obstacle_is_forgotten_only_when_seen_free(name, scan, remains):
    window = observed(empty_map(), HOME, scan_of({AHEAD: 2.0}), RADIUS_M)
    points = obstacles(observed(window, HOME, scan, RADIUS_M), HOME, 5.0)
    assert bool((np.abs(points[:, 0] - 2.0) < 0.1).any()) is remains


def test_near_by_one_free_look_does_not_forget():
    """A low camera looks under a table top that it saw from afar."""
    near_m = HIDDEN_M - 0.4
    window = observed(empty_map(), HOME, scan_of({AHEAD: near_m}), RADIUS_M)
    looks = 0
    while len(obstacles(window, HOME, 5.0)):
        window, looks = observed(window, HOME, scan_of({}), RADIUS_M), looks + 1
    assert looks == pytest.approx(1.0 / (FREE_NEAR + 1.0 / LIFE_DECISIONS), abs=1.0)


def test_where_the_robot_stands_is_free():
    window = observed(empty_map(), HOME, scan_of({AHEAD: 1.0}), RADIUS_M)
    there = Pose(1.0, 0.0, 0.0)
    assert len(obstacles(observed(window, there, scan_of({}), RADIUS_M), HOME, 5.0)) == 0


def test_what_is_not_seen_again_expires():
    blind = Scan(0, np.full(BINS, np.inf, np.float32), np.zeros(BINS, np.bool_))
    window = observed(empty_map(), HOME, scan_of({AHEAD: 2.0}), RADIUS_M)
    for _ in range(LIFE_DECISIONS - 2):
        window = observed(window, HOME, blind, RADIUS_M)
    assert len(obstacles(window, HOME, 5.0)) == 1
    for _ in range(4):
        window = observed(window, HOME, blind, RADIUS_M)
    assert len(obstacles(window, HOME, 5.0)) == 0


@given(x=st.floats(-11.0, 11.0), y=st.floats(-11.0, 11.0))
@settings(max_examples=50, deadline=None)
def test_the_window_moves_over_a_grid_that_stands_still(x, y):
    window = wall(0.55, -0.5, 0.5)
    moved = recentred(window, Pose(x, y, 0.3))
    np.testing.assert_allclose(obstacles(moved, HOME, 20.0), obstacles(window, HOME, 20.0))
    assert moved.evidence.shape == (SIDE, SIDE)


def test_what_leaves_the_window_is_lost():
    far = recentred(wall(0.55, -0.5, 0.5), Pose(100.0, 0.0, 0.0))
    assert len(obstacles(recentred(far, HOME), HOME, 20.0)) == 0


@given(x=st.floats(-9.0, 9.0), y=st.floats(-9.0, 9.0))
@settings(max_examples=50, deadline=None)
def test_in_free_space_the_cost_is_the_distance(x, y):
    cost = cost_to_go(empty_map(), (2.0, -1.0), RADIUS_M)
    assert at(cost, empty_map(), x, y) == pytest.approx(math.hypot(x - 2.0, y + 1.0), rel=0.06, abs=0.06)


@pytest.mark.parametrize("goal", [(30.0, 0.0), (-20.0, 40.0), (11.95, 0.0)])
def test_a_goal_outside_the_window_is_as_far_as_it_is(goal):
    cost = cost_to_go(empty_map(), goal, RADIUS_M)
    assert at(cost, empty_map(), 0.0, 0.0) == pytest.approx(math.hypot(*goal), rel=0.06)


def test_the_way_leads_around_a_wall_and_not_through():
    window = wall(1.05, -3.0, 3.0)
    around = 2 * math.hypot(1.0, 3.0)
    assert around < at(cost_to_go(window, (2.0, 0.0), RADIUS_M), window, 0.0, 0.0) < 1.4 * around


def test_the_way_takes_a_door_that_is_wide_enough_and_no_other():
    def cost_through(door_m: float) -> float:
        window = wall(1.05, -5.0, 5.0)
        half = round(0.5 * door_m / CELL_M)
        middle = SIDE // 2
        window.evidence[:, middle - half : middle + half] = 0.0
        return at(cost_to_go(window, (2.0, 0.0), RADIUS_M), window, 0.0, 0.0)

    assert cost_through(1.0) < 4.0
    assert cost_through(0.4) > 10.0


def test_a_closed_room_still_has_a_way_out_at_a_price():
    window = empty_map()
    middle = SIDE // 2
    window.evidence[middle - 15 : middle + 15, [middle - 15, middle + 14]] = 1.0
    window.evidence[[middle - 15, middle + 14], middle - 15 : middle + 15] = 1.0
    cost = at(cost_to_go(window, (4.0, 0.0), RADIUS_M), window, 0.0, 0.0)
    assert 20.0 < cost < 100.0
