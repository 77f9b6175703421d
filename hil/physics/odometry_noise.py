"""How a base's odometry drifts and how an external localisation scatters (paper 1, section 1.8).

The paper adds [eps_x, eps_theta] ~ N(mean, covariance) to the motion of every environment step of 1/3 s. Here one
sample is drawn per ten ticks of motion and spread evenly over them, so that the sum over an environment step has
exactly the paper's distribution while the published speeds stay smooth. At rest nothing is added and nothing used up.
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
"""Of [eps_x [m], eps_theta [rad]] per environment step."""
DRIFT_COVARIANCE = ((1e-4, 1e-4), (1e-4, 1e-3))
TICKS_PER_ENVIRONMENT_STEP = 10
REST_MPS = 1e-3
REST_RADPS = 1e-3
"""Below both speeds the base is at rest."""
FIX_SD = (0.03, 0.03, 0.05)
"""Standard deviations of a fix: x, y [m], yaw [rad]; the paper's diagonal, read as standard deviations."""
PRINTED_FIX_SD = (math.sqrt(0.03), math.sqrt(0.03), math.sqrt(0.05))
"""The same diagonal read as the covariance that it is printed as: 17 cm, with which few drives could end in 0.2 m."""
FIX_PERIOD_S = (1.0, 2.0)
"""Least and largest time between fixes, uniform: the paper's robot."""
DECISION_S = TICKS_PER_ENVIRONMENT_STEP * STEP_S
TRAINING_FIX_PERIOD_S = (8 * DECISION_S, 12 * DECISION_S)
"""The same in the paper's training, U(8, 12) decision steps."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Odometry between two ticks.

    pose:       what the base believes, in its odom frame
    per_tick:   (eps_x [m], eps_theta [rad]) added at each tick of motion
    ticks_left: ticks of motion that this sample still serves
    """

    pose: Pose
    per_tick: tuple[float, float] = (0.0, 0.0)
    ticks_left: int = 0


def drift_step(
    drift: Drift, twist: Twist, scale: float, rng: np.random.Generator, dt_s: float = STEP_S
) -> tuple[Drift, Twist]:
    """Return the odometry one tick later and the twist that it reports, from the true body twist of that tick.

    Pose and twist agree: the pose is the exact arc of the reported twist. `scale` multiplies every sample; with 0 the
    twist is the true one. (The motion model moves along its newest heading, not along the arc, so even then the pose
    strays from the true one by up to about dt/2 times a change of velocity: 2 cm for a start, a turn and a stop.)
    """
    if abs(twist.v_mps) < REST_MPS and abs(twist.w_radps) < REST_RADPS:
        return Drift(integrate(drift.pose, twist, dt_s), drift.per_tick, drift.ticks_left), twist
    per_tick, ticks_left = drift.per_tick, drift.ticks_left
    if ticks_left == 0:
        eps_x, eps_theta = rng.multivariate_normal(DRIFT_MEAN, DRIFT_COVARIANCE)
        part = scale / TICKS_PER_ENVIRONMENT_STEP
        per_tick, ticks_left = (float(eps_x) * part, float(eps_theta) * part), TICKS_PER_ENVIRONMENT_STEP
    reported = Twist(twist.v_mps + per_tick[0] / dt_s, twist.w_radps + per_tick[1] / dt_s)
    return Drift(integrate(drift.pose, reported, dt_s), per_tick, ticks_left - 1), reported


def noisy_fix(pose: Pose, scale: float, rng: np.random.Generator, sd: tuple[float, float, float] = FIX_SD) -> Pose:
    """Return what an external localisation reports of a true pose in the map frame; exact with `scale` 0."""
    x, y, yaw = scale * rng.normal(0.0, sd)
    return Pose(pose.x_m + float(x), pose.y_m + float(y), wrap(pose.yaw_rad + float(yaw)))


def next_fix_ns(now_ns: int, rng: np.random.Generator, period_s: tuple[float, float] = FIX_PERIOD_S) -> int:
    """Return the time of the fix after one at `now_ns`."""
    return now_ns + round(float(rng.uniform(*period_s)) * NS)
