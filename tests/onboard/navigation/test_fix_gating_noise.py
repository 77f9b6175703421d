"""The covariance of a fix: the sender's, within bounds in every direction."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.navigation.ekf import localised
from onboard.navigation.fix_gating import MOST_SD, measurement_noise
from onboard.values.geometry import compose
from onboard.values.messages import STOP, Fix, Pose
from tests.onboard.navigation.fixes import MAP_FROM_ODOM, SECTION, after, fix_at, near, wheels_after

SD = np.square([0.03, 0.03, 0.05])
CORRELATED = np.array([[0.04, 0.01, 0.0], [0.01, 0.09, 0.0], [0.0, 0.0, 0.01]])
#   what                  stated covariance                        used
STATED = [
    ("none", None, np.diag(SD)),
    ("larger", CORRELATED, CORRELATED),
    ("smaller", np.diag(SD) / 100, np.diag(SD)),
    ("zero", np.zeros((3, 3)), np.diag(SD)),
    ("not finite", np.diag([nan, 1.0, 1.0]), np.diag(SD)),
    ("negative", -np.eye(3), np.diag(SD)),
    ("not symmetric", CORRELATED + np.triu(np.full((3, 3), 0.01), 1), np.diag(SD)),
    ("not positive", np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.diag(SD)),
    ("wrong shape", np.eye(6), np.diag(SD)),
    ("one smaller", np.diag([1e-6, 0.5, 0.5]), np.diag([SD[0], 0.5, 0.5])),
    ("huge", np.diag([1e308, 1e308, 1e308]), np.diag(np.square(MOST_SD))),
    ("no heading", np.diag([0.01, 0.01, 1e9]), np.diag([0.01, 0.01, MOST_SD[2] ** 2])),
    ("huge and not symmetric", np.diag([1e300] * 3) + np.triu(np.full((3, 3), 1e299), 1), np.diag(SD)),
]


@pytest.mark.parametrize(("what", "stated", "used"), STATED, ids=[row[0] for row in STATED])
def test_stated_covariance(what: str, stated: np.ndarray | None, used: np.ndarray) -> None:
    fix = Fix(0, 0, MAP_FROM_ODOM, stated)
    np.testing.assert_allclose(measurement_noise(fix, SECTION), used)


@given(st.lists(st.floats(1e-8, 1e4), min_size=3, max_size=3))
def test_variances_without_correlations_are_used_to_the_last_bit(variances: list[float]) -> None:
    floor = np.square(np.asarray(SECTION.localization_sd))
    used = measurement_noise(Fix(0, 0, MAP_FROM_ODOM, np.diag(variances)), SECTION)
    np.testing.assert_array_equal(used, np.diag(variances + np.maximum(0.0, floor - variances)))


LINE = np.array([[0.25, 0.25, 0.0], [0.25, 0.25, 0.0], [0.0, 0.0, 0.01]])
#   what                                   stated covariance
WITHOUT_A_VARIANCE = [
    ("sure across a corridor", LINE),
    ("all alike, as of one number", np.full((3, 3), 0.1)),
    ("x tells the yaw", np.array([[0.04, 0.0, 0.04], [0.0, 0.04, 0.0], [0.04, 0.0, 0.04]])),
    ("by rounding below zero", LINE + np.diag([-2e-10, -2e-10, 0.0])),
    ("nothing known, in one line", np.outer(MOST_SD, MOST_SD)),
    ("not quite symmetric", 4050.0 * (LINE > 0.1) + np.diag([0.0, 0.0, 0.01]) + np.diag([4050.0 * 9e-7, 0.0], 1)),
    ("in single precision", 1e5 * (LINE > 0.1) + np.diag([0.0, 0.0, 0.01]) + np.diag([1e5 * 6e-8, 0.0], 1)),
]


@pytest.mark.parametrize(("what", "stated"), WITHOUT_A_VARIANCE, ids=[row[0] for row in WITHOUT_A_VARIANCE])
def test_no_direction_has_less_variance_than_configured(what: str, stated: np.ndarray) -> None:
    used = measurement_noise(Fix(0, 0, MAP_FROM_ODOM, stated), SECTION)
    assert np.linalg.eigvalsh(used / np.sqrt(np.outer(SD, SD))).min() > 1.0 - 1e-3
    np.testing.assert_array_equal(used, used.T)
    np.testing.assert_allclose(used, stated, atol=4.0 * SD.max() + 1e-6 * stated.max(), rtol=1e-6)


#   what                       variance   upper     lower: fractions by which the covariances exceed the variance
SURE = [
    ("singular", 0.01, 0.0, 0.0),
    ("below zero", 0.01, 0.9e-7, 0.9e-7),
    ("not quite symmetric", 4050.0, 9e-7, 0.0),
    ("in single precision", 1e5, 6e-8, 0.0),
    ("not quite symmetric, huge", 1e8, 9e-7, 0.0),
]


@pytest.mark.parametrize(("what", "variance", "upper", "lower"), SURE, ids=[row[0] for row in SURE])
def test_a_false_fix_is_refused_however_sure_it_is_of_a_direction(
    what: str, variance: float, upper: float, lower: float
) -> None:
    stated = variance * np.array([[1.0, 1.0 + upper, 0.0], [1.0 + lower, 1.0, 0.0], [0.0, 0.0, 0.0]])
    stated[2, 2] = 0.01
    wheels = wheels_after(50, STOP)
    state = after(wheels, fix_at(wheels, 0))
    false = compose(MAP_FROM_ODOM, wheels.pose)
    for _ in range(2):
        wheels = wheels_after(5, STOP, wheels)
        aside = Pose(false.x_m + 2.0, false.y_m - 2.0, false.yaw_rad)
        state = after(wheels, fix_at(wheels, 0, pose=aside, covariance=stated), state=state)
    assert (state.rejected, localised(state)) == (2, False)
    assert near(state.map_from_base, false, 1e-9)
