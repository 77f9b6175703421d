"""The yaw rate of an IMU joins that of wheels that slip: bias at rest, sign, unit, silence."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from onboard.config.config import OdometrySection
from onboard.navigation import gyro, odometry
from onboard.navigation.gyro import Gyro
from onboard.navigation.odometry import OdometryState
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY
from onboard.values.messages import STOP, ImuSample, OdometryMessage, Twist
from onboard.values.reasons import row_of

TICK_S, BIAS = 1.0 / 30.0, 0.02
TWIST, POSE = OdometrySection(imu="/imu"), OdometrySection(imu="/imu", source="pose")


def driven(
    state: OdometryState,
    wheels: Twist,
    seconds: float,
    turns: float | None,
    section: OdometrySection = TWIST,
    variance: float | None = None,
) -> OdometryState:
    """Return the state after a constant twist of the wheels. turns: rate of the IMU without bias; None: silent"""
    for _ in range(round(seconds / TICK_S)):
        now_ns = (state.arrival_ns or 0) + round(TICK_S * NS_PER_S)
        samples = () if turns is None else (ImuSample(now_ns, now_ns, turns + BIAS),)
        state = replace(state, gyro=gyro.hear(state.gyro, samples, now_ns))
        pose = odometry.integrate(state.base_pose or IDENTITY, wheels, TICK_S)
        state = odometry.advance(state, OdometryMessage(now_ns, now_ns, pose, wheels, variance), section)
    return state


RESTED = driven(OdometryState(), STOP, 2.0, 0.0)


@pytest.mark.parametrize("section", [TWIST, POSE], ids=["twist", "pose"])
def test_wheels_that_slip_are_corrected_after_the_first_turn(section):
    """Wheels of a skid-steer report 1.4 times the turn of the body."""
    rested = driven(OdometryState(), STOP, 2.0, 0.0, section)
    assert rested.gyro.bias_radps == pytest.approx(BIAS)
    turned = driven(rested, Twist(0.0, 0.7), 4.0, 0.5, section)
    assert turned.gyro.used
    assert turned.gyro.ratio == pytest.approx(0.5 / 0.7, abs=0.01)
    assert turned.pose.yaw_rad == pytest.approx(2.0, abs=0.08 + gyro.TRIED_RAD * 0.4)
    alone = driven(rested, Twist(0.0, 0.7), 4.0, None, section)
    assert alone.pose.yaw_rad == pytest.approx(2.8, abs=0.03)


def test_a_stated_variance_weighs_the_wheels():
    mild = driven(RESTED, Twist(0.0, 0.7), 4.0, 0.5, variance=1e-6)
    strong = driven(RESTED, Twist(0.0, 0.7), 4.0, 0.5, variance=0.1)
    assert mild.twist.w_radps == pytest.approx(0.7, abs=0.005)
    assert strong.twist.w_radps == pytest.approx(0.5, abs=0.005)


#   rate of the IMU for 0.7 rad/s of the wheels, code of the reason
WRONG = [(-0.5, "imu_against_wheels"), (math.degrees(0.5), "imu_other_unit"), (0.05, "imu_idle")]


@pytest.mark.parametrize(("turns", "code"), WRONG)
def test_a_wrong_imu_is_found_within_the_first_turn_and_not_used(turns, code):
    turned = driven(RESTED, Twist(0.0, 0.7), 0.5, turns)
    assert turned.gyro.turned_rad < 0.4
    assert row_of(turned.gyro.doubt).code == code
    assert turned.twist.w_radps == 0.7


def test_wheels_that_spin_are_no_wrong_imu_for_ever():
    stuck = driven(RESTED, Twist(0.0, 0.7), 1.0, 0.0)
    assert not stuck.gyro.used
    assert driven(stuck, Twist(0.0, 0.7), 3.0, 0.6).gyro.used


def test_a_silent_imu_leaves_the_wheels_alone_until_it_is_back():
    turned = driven(RESTED, Twist(0.0, 0.7), 2.0, 0.5)
    silent = driven(turned, Twist(0.0, 0.7), 1.0, None)
    assert row_of(silent.gyro.doubt).code == "imu_silent"
    assert silent.twist.w_radps == 0.7
    back = driven(silent, Twist(0.0, 0.7), 0.1, 0.5)
    assert (back.gyro.doubt, back.gyro.used) == ("", True)


def test_an_imu_that_never_comes_is_said():
    assert row_of(driven(OdometryState(), STOP, 1.0, None).gyro.doubt).code == "imu_silent"


def test_before_a_rest_the_bias_is_unknown_and_the_wheels_turn_alone():
    assert driven(OdometryState(), Twist(0.0, 0.7), 3.0, 0.5).twist.w_radps == 0.7


def test_a_robot_that_is_carried_has_no_bias():
    assert driven(OdometryState(), STOP, 2.0, 0.5).gyro.samples == 0


def test_at_rest_the_heading_stays():
    assert driven(RESTED, STOP, 60.0, 0.01).pose.yaw_rad == 0.0


def test_without_the_key_nothing_joins():
    assert driven(OdometryState(), Twist(0.0, 0.7), 3.0, 0.5, OdometrySection()).gyro == replace(
        Gyro(), rate_radps=0.52, heard_ns=90 * round(TICK_S * NS_PER_S), received=True
    )
