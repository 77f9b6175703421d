"""The compiled roll-out says what the motion model says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.config import DEFAULT_ROBOT
from onboard.contract import ACTIONS
from onboard.motion import load_plant
from onboard.rollout import STATE, clearances, clearances_definition, roll_out, roll_out_definition

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


#   action         expected v [m/s]  w [rad/s] after two seconds from rest
SETTLED = [(index, action.v_mps, action.w_radps) for index, action in enumerate(ACTIONS)]


@pytest.mark.parametrize(("index", "v_mps", "w_radps"), SETTLED)
def test_every_action_settles_at_its_set_point(index, v_mps, w_radps):
    end = from_rest(60)[index, -1]
    assert end[3] == pytest.approx(v_mps, abs=0.01)
    assert end[4] == pytest.approx(w_radps, abs=0.01)


def test_left_and_right_are_mirrored():
    paths = from_rest(45).reshape(4, 7, 45, STATE)
    np.testing.assert_allclose(paths[:, ::-1, :, 1], -paths[:, :, :, 1], atol=1e-12)
    np.testing.assert_allclose(paths[:, ::-1, :, 0], paths[:, :, :, 0], atol=1e-12)


def test_a_roll_out_in_two_parts_is_the_roll_out_in_one():
    whole = from_rest(30)
    first = from_rest(12)
    second = roll_out(first[:, -1], COMMANDS, LINEAR, ANGULAR, 18, DT_S)
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), whole, atol=1e-12)


@given(
    points=st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), max_size=12),
    stride=st.integers(1, 7),
    ticks=st.integers(1, 20),
)
@settings(max_examples=50, deadline=None)
def test_clearances_equal_their_definition(points, stride, ticks):
    obstacles = np.array(points, dtype=float).reshape(-1, 2)
    paths = from_rest(ticks)
    fast = clearances(paths, obstacles, stride)
    np.testing.assert_allclose(fast, clearances_definition(paths, obstacles, stride), atol=1e-12)


def test_clearance_ahead_shrinks_with_the_way_driven():
    wall = np.array([[2.0, 0.0]])
    paths = from_rest(30)
    straight = clearances(paths, wall, 1)[[3, 10, 17, 24]]
    np.testing.assert_allclose(straight, 2.0 - paths[[3, 10, 17, 24], -1, 0], atol=1e-12)
    assert all(np.diff(straight) < 0)
