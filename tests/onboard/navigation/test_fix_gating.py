"""The distance at which outliers agree: the figures of SAFETY.md."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from onboard.navigation.ekf import LocalizationState, localised
from onboard.navigation.fix_gating import (
    AGREE_M,
    MOST_SD,
    WheelsAtFix,
    measurement_noise,
    odometry_explains,
    passes_gate,
)
from onboard.navigation.kalman import GATE
from onboard.navigation.odometry import OdometryState
from onboard.values.geometry import compose, wrap
from onboard.values.messages import STOP, Fix, Pose
from tests.onboard.navigation.fixes import MAP_FROM_ODOM, SECTION, after, fix_at, jumped, near, wheels_after

SPEED_MPS = 1.0
CARRIED_M = 20.0
TRIES, MOST_FIXES = 100, 400


def agrees(off: Pose, moving_s: float) -> bool:
    """Return whether a fix with this offset agrees with the fix before, after `moving_s` straight ahead."""
    wheels = OdometryState(pose=Pose(SPEED_MPS * moving_s, 0.0, 0.0), moving_s=moving_s)
    return odometry_explains(wheels.pose, WheelsAtFix(), compose(wheels.pose, off), wheels)


def farthest(off: Callable[[float], Pose], moving_s: float) -> float:
    """Return the largest distance that agrees [m], to 1 mm; all smaller distances agree."""
    low, high = 0.0, 100.0
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if agrees(off(middle), moving_s) else (low, middle)
    return low


def farthest_of_all(moving_s: float) -> float:
    """Return the largest distance of any direction and heading that agrees [m], to the steps of the search."""
    places = [(r, b) for r in np.arange(0.5, 60.0, 0.5) for b in np.arange(-np.pi, np.pi, np.pi / 12)]
    headings = np.arange(-np.pi, np.pi, np.pi / 12)
    return max(
        float(r)
        for r, b in places
        if any(agrees(Pose(float(r * np.cos(b)), float(r * np.sin(b)), float(h)), moving_s) for h in headings)
    )


#   standard deviations off   passes
GATED = [(5.53, True), (5.54, False), (float("nan"), False)]


@pytest.mark.parametrize(("off", "passes"), GATED)
@pytest.mark.parametrize("axis", range(3))
def test_one_good_fix_in_a_million_fails_the_outlier_gate(off: float, passes: bool, axis: int) -> None:
    sd = np.array([0.03, 0.03, 0.05])
    assert passes_gate(off * sd * np.eye(3)[axis], np.diag(sd**2)) == passes
    assert chi2.sf(GATE, 3) == pytest.approx(1e-6, rel=0.01)


#    s between two fixes   ahead m   aside m, both of the right heading
APART = [(0.0, 0.5, 0.5), (4.0, 0.74, 2.27), (10.0, 1.00, 8.5), (20.0, 1.32, 23.8)]


@pytest.mark.parametrize(("moving_s", "ahead_m", "aside_m"), APART)
def test_so_far_apart_two_refused_fixes_may_lie_and_agree(moving_s: float, ahead_m: float, aside_m: float) -> None:
    assert farthest(lambda off: Pose(off, 0.0, 0.0), moving_s) == pytest.approx(ahead_m, abs=0.01)
    assert farthest(lambda off: Pose(0.0, off, 0.0), moving_s) == pytest.approx(aside_m, abs=0.05)


#    s between two fixes   any direction and heading, m
FARTHEST = [(0.0, 0.5), (4.0, 4.0), (10.0, 16.0), (20.0, 45.0)]


@pytest.mark.parametrize(("moving_s", "most_m"), FARTHEST)
def test_of_another_heading_they_may_lie_farther_apart(moving_s: float, most_m: float) -> None:
    assert farthest_of_all(moving_s) == pytest.approx(most_m, rel=0.1)


def test_each_fix_agrees_with_the_one_before_not_with_the_first() -> None:
    wheels = wheels_after(50, STOP)
    state = after(wheels, fix_at(wheels, 0))
    for jump_m in (5.0, 5.0 + 0.9 * AGREE_M, 5.0 + 1.8 * AGREE_M):
        wheels = wheels_after(5, STOP, wheels)
        state = after(wheels, fix_at(wheels, 0, jumped(jump_m)), state=state)
    assert state.restarts == 1


def fixes_until_found(sd: tuple[float, float, float], rng: np.random.Generator) -> int:
    """Return the number of fixes until the filter restarts, for a localised robot carried away at rest."""
    stated = np.diag(np.square(sd))
    wheels, state = wheels_after(50, STOP), LocalizationState()
    for _ in range(5):
        wheels = wheels_after(1, STOP, wheels)
        state = after(wheels, fix_at(wheels, 0, covariance=stated), state=state)
    there = jumped(CARRIED_M)
    for count in range(1, MOST_FIXES):
        wheels = wheels_after(1, STOP, wheels)
        x, y, yaw = rng.normal(0.0, sd)
        seen = compose(there, wheels.pose)
        pose = Pose(seen.x_m + x, seen.y_m + y, wrap(seen.yaw_rad + yaw))
        state = after(wheels, Fix(wheels.stamp_ns or 0, wheels.arrival_ns or 0, pose, stated), state=state)
        if state.restarts:
            return count
    return MOST_FIXES


#    scatter of a fix (m, m, rad)   half of the times by, nine of ten times by
FOUND = [((0.03, 0.03, 0.05), 3, 3), ((0.17, 0.17, 0.22), 5, 11), ((0.3, 0.3, 0.3), 15, 45)]


@pytest.mark.parametrize(("sd", "half", "nine_of_ten"), FOUND)
def test_coarse_fixes_find_a_robot_that_was_carried_away_later(
    sd: tuple[float, float, float], half: float, nine_of_ten: float
) -> None:
    rng = np.random.default_rng(0)
    counts = [fixes_until_found(sd, rng) for _ in range(TRIES)]
    assert np.median(counts) == pytest.approx(half, rel=0.2)
    assert np.percentile(counts, 90) == pytest.approx(nine_of_ten, rel=0.2)


# ---- The covariance of a fix: the sender's, within bounds in every direction

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
