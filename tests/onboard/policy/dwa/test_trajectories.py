"""The compiled rollout equals the motion model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import load_plant
from onboard.policy.contract import ACTIONS, ANGULAR_RADPS, LINEAR_MPS
from onboard.policy.dwa.trajectories import (
    GRID_M,
    STATE,
    clearance_about,
    distance_at,
    roll_axis,
    roll_axis_definition,
    roll_out,
    roll_out_definition,
)

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
LINEAR, ANGULAR = PLANT.linear.as_array(), PLANT.angular.as_array()
COMMANDS = np.array([[action.v_mps, action.w_radps] for action in ACTIONS])
DT_S = 1.0 / 30.0

speeds = st.tuples(st.floats(-0.3, 1.0), st.floats(-3.0, 3.0), st.floats(-2.5, 2.5), st.floats(-12.0, 12.0))


def from_rest(ticks: int) -> np.ndarray:
    return roll_out(np.zeros((len(COMMANDS), STATE)), COMMANDS, LINEAR, ANGULAR, ticks, DT_S)


@given(pose=st.tuples(st.floats(-50, 50), st.floats(-50, 50), st.floats(-3.1, 3.1)), twist=speeds)
@settings(max_examples=30, deadline=None)
def test_kernel_equals_the_motion_model(pose, twist):
    starts = np.tile(np.array([*pose, *twist]), (len(COMMANDS), 1))
    fast = roll_out(starts, COMMANDS, LINEAR, ANGULAR, 45, DT_S)
    plain = roll_out_definition(starts, COMMANDS, PLANT, 45, DT_S)
    turned = fast[..., 2] - plain[..., 2]
    np.testing.assert_allclose(np.remainder(turned + math.pi, 2 * math.pi), math.pi, atol=1e-9)
    others = [0, 1, 3, 4, 5, 6]
    np.testing.assert_allclose(fast[..., others], plain[..., others], atol=1e-9)


@given(
    starts=st.lists(st.tuples(st.floats(-1.0, 1.0), st.floats(-3.0, 3.0)), min_size=1, max_size=4),
    commands=st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=4),
    ticks=st.integers(1, 20),
)
@settings(max_examples=30, deadline=None)
def test_rolling_one_axis_equals_its_definition(starts, commands, ticks):
    fast = roll_axis(np.array(starts), np.array(commands), LINEAR, ticks, DT_S)
    plain = roll_axis_definition(np.array(starts), np.array(commands), PLANT.linear, ticks, DT_S)
    np.testing.assert_allclose(fast, plain, atol=1e-12)


def test_both_axes_rolled_alone_are_the_roll_out():
    paths = from_rest(30)
    rest = np.zeros((1, 2))
    v = roll_axis(rest, np.array(LINEAR_MPS), LINEAR, 30, DT_S)[0]
    w = roll_axis(rest, np.array(ANGULAR_RADPS), ANGULAR, 30, DT_S)[0]
    for index, path in enumerate(paths):
        a, b = divmod(index, len(ANGULAR_RADPS))
        np.testing.assert_array_equal(path[:, [3, 5]], v[a])
        np.testing.assert_array_equal(path[:, [4, 6]], w[b])


# ---- The distance field against exact distances

FAR_M = 0.55
places = st.tuples(st.floats(-0.9, 0.9), st.floats(-0.9, 0.9))


@given(points=st.lists(places, max_size=8), place=places, middle=places)
@settings(max_examples=100, deadline=None)
def test_distances_are_those_to_the_nearest_point(points, place, middle):
    obstacles = np.array(points, dtype=float).reshape(-1, 2)
    clearance = clearance_about(obstacles, *middle, 2.0, FAR_M)
    exact_m = min([math.dist(place, point) for point in points], default=math.inf)
    told_m = distance_at(clearance, *place)
    if exact_m >= FAR_M + GRID_M:
        assert told_m >= FAR_M
    elif exact_m >= FAR_M:
        assert told_m >= exact_m - GRID_M
    else:
        assert told_m == pytest.approx(exact_m, abs=GRID_M)


@given(bearing=st.floats(-math.pi, math.pi), distance_m=st.floats(0.25, FAR_M), offset=places)
@settings(max_examples=100, deadline=None)
def test_beside_one_obstacle_interpolation_errs_by_less_than_two_millimetres(bearing, distance_m, offset):
    x, y = offset
    clearance = clearance_about(np.array([offset]), 0.0, 0.0, 2.0, FAR_M)
    told_m = distance_at(clearance, x + distance_m * math.cos(bearing), y + distance_m * math.sin(bearing))
    assert told_m == pytest.approx(distance_m, abs=0.002)


def test_outside_of_the_square_it_is_that_at_the_edge():
    clearance = clearance_about(np.array([(1.0, 0.0)]), 0.0, 0.0, 1.0, FAR_M)
    edge_m = clearance.corner_x_m + (len(clearance.distance_m) - 1) * GRID_M
    assert distance_at(clearance, 5.0, 0.0) == pytest.approx(distance_at(clearance, edge_m, 0.0), abs=1e-3)
