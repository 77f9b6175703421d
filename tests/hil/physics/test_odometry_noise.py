"""Odometry drift and noise of fixes: the paper's numbers, no noise at rest, and repeatability by seed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hil.physics.odometry_noise import (
    DRIFT_COVARIANCE,
    DRIFT_MEAN,
    FIX_PERIOD_S,
    FIX_SD,
    PRINTED_FIX_SD,
    TICKS_PER_ENVIRONMENT_STEP,
    TRAINING_FIX_PERIOD_S,
    Drift,
    drift_step,
    next_fix_ns,
    noisy_fix,
)
from hil.physics.simulated_base import STEP_S
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import MotionState, load_plant, step
from onboard.values.geometry import IDENTITY, distance
from onboard.values.messages import STOP, Pose, Twist

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
AHEAD = Twist(0.5, 0.2)
STEPS = 4000


def environment_steps(twist: Twist, scale: float, steps: int, seed: int = 7) -> np.ndarray:
    """Return (steps, 2): translation and rotation noise of each environment step of motion [m, rad]."""
    rng, drift, added = np.random.default_rng(seed), Drift(IDENTITY), np.zeros((steps, 2))
    for index in range(steps * TICKS_PER_ENVIRONMENT_STEP):
        drift, reported = drift_step(drift, twist, scale, rng)
        noise = (reported.v_mps - twist.v_mps) * STEP_S, (reported.w_radps - twist.w_radps) * STEP_S
        added[index // TICKS_PER_ENVIRONMENT_STEP] += noise
    return added


def test_the_sum_over_an_environment_step_has_the_papers_distribution():
    added = environment_steps(AHEAD, 1.0, STEPS)
    deviations = np.sqrt(np.diag(DRIFT_COVARIANCE))
    assert np.abs(added.mean(axis=0) - DRIFT_MEAN).max() < (4 * deviations / math.sqrt(STEPS)).max()
    np.testing.assert_allclose(np.cov(added.T), DRIFT_COVARIANCE, rtol=0.15)


def test_the_reported_twist_is_smooth_within_an_environment_step():
    rng, drift, noise = np.random.default_rng(1), Drift(IDENTITY), []
    for _ in range(3 * TICKS_PER_ENVIRONMENT_STEP):
        drift, reported = drift_step(drift, AHEAD, 1.0, rng)
        noise.append(reported.v_mps)
    assert [len(set(noise[start : start + 10])) for start in (0, 10, 20)] == [1, 1, 1]
    assert len(set(noise)) == 3


def test_without_drift_the_odometry_error_is_centimetres_at_most():
    """The motion model moves along its newest heading, the odometry along arcs: documented in `drift_step`."""
    rng, drift, state, strayed = np.random.default_rng(3), Drift(IDENTITY), MotionState(IDENTITY), []
    for command in [Twist(1.0, 0.0), Twist(1.0, 3.0), STOP] * 4:
        for _ in range(30):
            state = step(state, command, PLANT, STEP_S)
            drift, reported = drift_step(drift, state.twist, 0.0, rng)
            assert reported == state.twist
        strayed.append(distance(state.pose, drift.pose))
    assert max(strayed[:3]) < 0.035
    assert drift.pose.yaw_rad == pytest.approx(state.pose.yaw_rad, abs=1e-9)


def test_drift_of_a_long_drive_is_the_papers_bias():
    """10 s at 0.5 m/s straight: 30 environment steps of 1 cm ahead, so 5.3 m of 5 m."""
    ends = []
    for seed in range(60):
        rng, drift = np.random.default_rng(seed), Drift(IDENTITY)
        for _ in range(300):
            drift, _ = drift_step(drift, Twist(0.5, 0.0), 1.0, rng)
        ends.append((math.hypot(drift.pose.x_m, drift.pose.y_m), drift.pose.yaw_rad))
    assert np.mean([length for length, _ in ends]) == pytest.approx(5.3, abs=0.06)
    assert np.std([yaw for _, yaw in ends]) == pytest.approx(math.sqrt(30 * 1e-3), rel=0.3)


@pytest.mark.parametrize("sd", [FIX_SD, PRINTED_FIX_SD])
def test_fixes_scatter_by_the_papers_numbers(sd):
    rng, pose = np.random.default_rng(5), Pose(3.0, -2.0, 0.4)
    fixes = np.array([(fix.x_m, fix.y_m, fix.yaw_rad) for fix in (noisy_fix(pose, 1.0, rng, sd) for _ in range(STEPS))])
    np.testing.assert_allclose(fixes.std(axis=0), sd, rtol=0.08)
    np.testing.assert_allclose(fixes.mean(axis=0), (3.0, -2.0, 0.4), atol=4 * max(sd) / math.sqrt(STEPS))
    assert noisy_fix(pose, 0.0, rng) == pose


def test_both_readings_of_the_papers_diagonal():
    assert FIX_SD == (0.03, 0.03, 0.05)
    np.testing.assert_allclose(np.square(PRINTED_FIX_SD), FIX_SD)


#  name, least and largest time between fixes, as the paper has them
PERIODS = [
    ("on the robot, 0.5 to 1 Hz", FIX_PERIOD_S, (1.0, 2.0)),
    ("in training, 8 to 12 decisions at 3 Hz", TRAINING_FIX_PERIOD_S, (8 / 3, 12 / 3)),
]


@pytest.mark.parametrize(("name", "period_s", "paper_s"), PERIODS)
def test_the_fix_period_is_the_papers(name, period_s, paper_s):
    rng, now, gaps = np.random.default_rng(5), 0, []
    for _ in range(1000):
        then, now = now, next_fix_ns(now, rng, period_s)
        gaps.append((now - then) / 1e9)
    assert paper_s[0] <= min(gaps) < paper_s[0] + 0.05
    assert paper_s[1] - 0.05 < max(gaps) <= paper_s[1]
    assert np.mean(gaps) == pytest.approx(sum(paper_s) / 2, abs=0.05)
