"""The motion model of paper 1, section 4: steps computed by hand, then laws for every command."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import Axis, MotionState, Plant, load_plant, step, step_axis
from onboard.values.errors import ConfigError
from onboard.values.messages import Pose, Twist

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
DT_S = 1.0 / 30.0
AXIS = Axis(f_up=6, f_down=8, zeta_up=0.7, zeta_down=0.5, speed_min=-0.3, speed_max=1.0, acceleration_max=100)
SLOW = AXIS.model_copy(update={"acceleration_max": 2.0})
APART = AXIS.model_copy(update={"acceleration_max": 0.5, "deceleration_max": 3.0})
FAST = AXIS.model_copy(update={"f_up": 30.0, "f_down": 30.0, "zeta_down": 0.7})


def in_steps(axis: Axis, command: float, steps: int, dt_s: float) -> tuple[float, float]:
    """Return speed and rate after plain steps from rest, for an axis whose "up" and "down" are the same."""
    speed, rate = 0.0, 0.0
    for _ in range(steps):
        rate += dt_s * (axis.f_up**2 * (command - speed) - 2.0 * axis.zeta_up * axis.f_up * rate)
        rate = min(max(rate, -axis.acceleration_max), axis.acceleration_max)
        speed += dt_s * rate
    return speed, rate


# name, axis, command, speed, rate, dt -> speed, rate
STEPS = [
    # At rest the product delta * speed is 0: f_down, 64 * 0.5 = 32, times 0.05 = 1.6; speed 0.08.
    ("a start uses the down parameters", AXIS, 0.5, 0.0, 0.0, 0.05, 0.08, 1.6),
    # delta 0.3 > 0 at speed 0.2: rate 1 + 0.05 (36 * 0.3 - 2 * 0.7 * 6 * 1) = 1.12; speed 0.2 + 0.056.
    ("growing speed uses up", AXIS, 0.5, 0.2, 1.0, 0.05, 0.256, 1.12),
    # delta -0.2: rate 1 + 0.05 (64 * -0.2 - 2 * 0.5 * 8 * 1) = -0.04; speed 0.5 - 0.002.
    ("falling speed uses down", AXIS, 0.3, 0.5, 1.0, 0.05, 0.498, -0.04),
    # Backward and faster: delta -0.1 at speed -0.1, product positive: rate 0.05 * 36 * -0.1 = -0.18; speed -0.109.
    ("faster backward uses up", AXIS, -0.2, -0.1, 0.0, 0.05, -0.109, -0.18),
    # Through zero: delta -0.3 at speed 0.1: rate 0.05 * 64 * -0.3 = -0.96; speed 0.1 - 0.048.
    ("a reversal uses down", AXIS, -0.2, 0.1, 0.0, 0.05, 0.052, -0.96),
    ("the rate is clipped upward", SLOW, 1.0, 0.0, 0.0, 0.05, 0.1, 2.0),
    ("the rate is clipped downward", SLOW, 0.0, 1.0, 0.0, 0.05, 0.9, -2.0),
    ("growing speed has its own limit", APART, 1.0, 0.2, 0.0, 0.05, 0.225, 0.5),
    ("falling speed has its own limit", APART, 0.0, 1.0, 0.0, 0.05, 0.85, -3.0),
    ("speed is clipped at its most", AXIS, 1.0, 0.99, 5.0, 0.05, 1.0, 5 + 0.05 * (36 * 0.01 - 8.4 * 5)),
    ("speed is clipped at its least", AXIS, -0.3, -0.29, -5.0, 0.05, -0.3, -5 + 0.05 * (36 * -0.01 + 8.4 * 5)),
    # 30 * 1.2 * 0.05 is 1.8 times the bound: two steps of 1/40 s, 900 * 0.5 / 40 = 11.25 and so on.
    ("a fast axis takes several steps", FAST, 0.5, 0.0, 0.0, 0.05, *in_steps(FAST, 0.5, 2, 1.0 / 40.0)),
]


@pytest.mark.parametrize(("name", "axis", "command", "speed", "rate", "dt", "speed_after", "rate_after"), STEPS)
def test_one_step_by_hand(name, axis, command, speed, rate, dt, speed_after, rate_after):
    assert step_axis(command, speed, rate, axis.as_array(), dt) == pytest.approx((speed_after, rate_after), abs=1e-12)


def settle(state: MotionState, command: Twist, seconds: float) -> MotionState:
    for _ in range(round(seconds / DT_S)):
        state = step(state, command, PLANT, DT_S)
    return state


commands = st.builds(Twist, st.floats(-0.3, 1.0), st.floats(-3.0, 3.0))
states = st.builds(
    lambda v, w, dv, dw: MotionState(Pose(0.0, 0.0, 0.0), Twist(v, w), dv, dw),
    st.floats(-0.3, 1.0),
    st.floats(-3.0, 3.0),
    st.floats(-2.5, 2.5),
    st.floats(-12.0, 12.0),
)


@given(states, commands)
@settings(max_examples=50, deadline=None)
def test_it_settles_at_any_command_within_the_limits(state, command):
    after = settle(state, command, 4.0)
    assert (after.twist.v_mps, after.twist.w_radps) == pytest.approx((command.v_mps, command.w_radps), abs=1e-3)


@given(states, st.builds(Twist, st.floats(-9.0, 9.0), st.floats(-9.0, 9.0)))
def test_speed_and_rate_never_leave_their_limits(state, command):
    for _ in range(20):
        state = step(state, command, PLANT, DT_S)
        assert PLANT.linear.speed_min <= state.twist.v_mps <= PLANT.linear.speed_max
        assert abs(state.twist.w_radps) <= PLANT.angular.speed_max
        assert abs(state.dv_mps2) <= PLANT.linear.acceleration_max
        assert abs(state.dw_radps2) <= PLANT.angular.acceleration_max
        assert -math.pi <= state.pose.yaw_rad <= math.pi


@given(
    f=st.floats(1.0, 200.0), zeta=st.floats(0.3, 3.0), ramp=st.floats(0.5, 50.0), command=st.floats(-0.3, 1.0),
    dt_s=st.floats(0.005, 0.2),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_every_axis_settles_however_fast_it_is(f, zeta, ramp, command, dt_s):
    axis = np.array([f, f, zeta, zeta, -0.3, 1.0, ramp, ramp])
    speed, rate = 0.0, 0.0
    for _ in range(math.ceil((3.0 / ramp + 20.0 * (1.0 + zeta) / f) / dt_s)):
        speed, rate = step_axis(command, speed, rate, axis, dt_s)
    assert speed == pytest.approx(command, abs=0.02)


def test_slowing_down_is_quicker_than_speeding_up():
    """Small steps about 0.5 m/s, so that no limit acts: f_up 6, f_down 8."""

    def seconds_to_half_way(start: float, end: float) -> int:
        state, ticks = MotionState(Pose(0.0, 0.0, 0.0), Twist(start, 0.0)), 0
        while abs(state.twist.v_mps - start) < abs(end - start) / 2:
            state, ticks = step(state, Twist(end, 0.0), PLANT, 0.001), ticks + 1
        return ticks

    assert seconds_to_half_way(0.5, 0.45) < seconds_to_half_way(0.45, 0.5)


# name, text in the file, its replacement, words in the message
BAD_FILES = [
    ("frequency of zero", "f_up = 6.0", "f_up = 0.0", "linear.f_up"),
    ("not a number", "f_up = 6.0", "f_up = nan", "linear.f_up"),
    ("limits that leave out rest", "speed_min = -0.3", "speed_min = 0.3", "speed_min 0.3 <= 0"),
    ("unknown key", "[base]", "[base]\nmass_kg = 3", "unknown key base.mass_kg"),
    ("missing key", "f_up = 6.0", "", "linear.f_up"),
    ("not TOML", "[base]", "[base", "not valid TOML"),
]


@pytest.mark.parametrize(("name", "text", "replacement", "named"), BAD_FILES)
def test_a_bad_file_is_refused_by_name(name, text, replacement, named, tmp_path: Path):
    good = (DEFAULT_ROBOT / "plant.toml").read_text()
    file = tmp_path / "plant.toml"
    file.write_text(good.replace(text, replacement, 1))
    with pytest.raises(ConfigError) as refused:
        load_plant(file)
    assert str(file) in str(refused.value)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_default_table_is_the_one_of_the_architecture():
    assert isinstance(PLANT, Plant)
    assert (PLANT.linear.f_up, PLANT.linear.f_down, PLANT.angular.f_up, PLANT.angular.f_down) == (6, 8, 8, 10)
    assert (PLANT.linear.acceleration_max, PLANT.angular.acceleration_max) == (2.5, 12.0)
