"""Noise models of odometry drift and of external localisation fixes (paper 1, section 3).

The paper adds [eps_x, eps_theta] ~ N(mean, covariance) to the motion of every environment step of 1/3 s. This model
draws a sample per ten ticks of motion and spreads it evenly over them. The sum over an environment step has exactly
the paper's distribution, and the published speeds stay smooth. At rest the model adds no noise and keeps the sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hil.physics.simulated_base import NS, STEP_S
from onboard.navigation.odometry import integrate
from onboard.values.geometry import wrap
from onboard.values.messages import Pose, Twist

DRIFT_MEAN = (0.01, 0.0)
"""Mean of [eps_x [m], eps_theta [rad]] per environment step."""
DRIFT_COVARIANCE = ((1e-4, 1e-4), (1e-4, 1e-3))
TICKS_PER_ENVIRONMENT_STEP = 10
REST_MPS = 1e-3
REST_RADPS = 1e-3
"""Below both speeds the base is at rest."""
FIX_SD = (0.03, 0.03, 0.05)
"""Standard deviations of a fix: x, y [m], yaw [rad]; the paper's diagonal, read as standard deviations."""
PRINTED_FIX_SD = (math.sqrt(0.03), math.sqrt(0.03), math.sqrt(0.05))
"""The same diagonal read as the printed covariance: 17 cm, too much for most drives to end within 0.2 m."""
FIX_PERIOD_S = (1.0, 2.0)
"""Limits of the uniform time between fixes on the paper's robot."""
DECISION_S = TICKS_PER_ENVIRONMENT_STEP * STEP_S
TRAINING_FIX_PERIOD_S = (8 * DECISION_S, 12 * DECISION_S)
"""Limits of the uniform time between fixes in the paper's training, U(8, 12) decision steps."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Odometry between two ticks.

    pose:       estimated pose in the odom frame
    per_tick:   (eps_x [m], eps_theta [rad]) added at each tick of motion
    ticks_left: ticks of motion left for this sample
    """

    pose: Pose
    per_tick: tuple[float, float] = (0.0, 0.0)
    ticks_left: int = 0


def drift_step(drift: Drift, twist: Twist, scale: float, rng: np.random.Generator) -> tuple[Drift, Twist]:
    """Return the odometry one tick later and the reported twist, from the true body twist of that tick.

    Pose and twist agree: the pose is the exact arc of the reported twist. `scale` multiplies every sample; with 0 the
    reported twist is the true twist. Even then the pose drifts by about dt/2 times a change of velocity (2 cm for a
    start, a turn and a stop): the motion model moves along the newest heading, not along the arc.
    """
    if abs(twist.v_mps) < REST_MPS and abs(twist.w_radps) < REST_RADPS:
        return Drift(integrate(drift.pose, twist, STEP_S), drift.per_tick, drift.ticks_left), twist
    per_tick, ticks_left = drift.per_tick, drift.ticks_left
    if ticks_left == 0:
        eps_x, eps_theta = rng.multivariate_normal(DRIFT_MEAN, DRIFT_COVARIANCE)
        part = scale / TICKS_PER_ENVIRONMENT_STEP
        per_tick, ticks_left = (float(eps_x) * part, float(eps_theta) * part), TICKS_PER_ENVIRONMENT_STEP
    reported = Twist(twist.v_mps + per_tick[0] / STEP_S, twist.w_radps + per_tick[1] / STEP_S)
    return Drift(integrate(drift.pose, reported, STEP_S), per_tick, ticks_left - 1), reported


def noisy_fix(pose: Pose, scale: float, rng: np.random.Generator, sd: tuple[float, float, float] = FIX_SD) -> Pose:
    """Return a noisy localisation fix of a true pose in the map frame; exact with `scale` 0."""
    x, y, yaw = scale * rng.normal(0.0, sd)
    return Pose(pose.x_m + float(x), pose.y_m + float(y), wrap(pose.yaw_rad + float(yaw)))


def next_fix_ns(now_ns: int, rng: np.random.Generator, period_s: tuple[float, float] = FIX_PERIOD_S) -> int:
    """Return the time of the next fix after a fix at `now_ns`."""
    return now_ns + round(float(rng.uniform(*period_s)) * NS)
