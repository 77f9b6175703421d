"""Arithmetic of the wheels' motion and of the error that it adds, for the runtime and for simulation at speed.

Poses are x, y [m] and yaw [rad]. `covariance` is (n, n) with x, y, yaw first, and is changed in place.
"""

from __future__ import annotations

import math
from typing import Any

from onboard.values.geometry import Numbers, wrap
from onboard.values.kernel import compilable, kernel

FORWARD_VARIANCE, BOTH_COVARIANCE, TURN_VARIANCE = 1e-4, 1e-4, 1e-3
"""Covariance of forward [m] and turn [rad] added in one environment step while moving (paper 1, section 3)."""
STEPS_PER_S = 3.0
REST_MPS = 1e-3
REST_RADPS = 1e-3
"""Below both the base is at rest, and its odometry adds no noise."""


@compilable
def is_moving(v_mps: float, w_radps: float) -> bool:
    """Return whether the base is not at rest, by its twist."""
    return abs(v_mps) > REST_MPS or abs(w_radps) > REST_RADPS


@compilable
def arc(x_m: float, y_m: float, yaw_rad: float, v_mps: float, w_radps: float, dt_s: float) -> Numbers:
    """Return the pose after a constant body twist for `dt_s`. Exact for an arc, however the interval is split."""
    half_turn = 0.5 * w_radps * dt_s
    chord_m = v_mps * dt_s * (math.sin(half_turn) / half_turn if half_turn != 0.0 else 1.0)
    heading = yaw_rad + half_turn
    return x_m + chord_m * math.cos(heading), y_m + chord_m * math.sin(heading), wrap(yaw_rad + 2.0 * half_turn)


@compilable
def true_twist(
    v_mps: float, w_radps: float, speed: float, turning: float, turn_per_m: float
) -> tuple[float, float]:  # fmt: skip
    """Return the true v, w of a base that believes in other wheels. speed to turn_per_m: `odometry.correction`"""
    return speed * v_mps, turning * w_radps + turn_per_m * v_mps


@compilable
def true_step(dx_m: float, dy_m: float, dyaw_rad: float, speed: float, turning: float, turn_per_m: float) -> Numbers:
    """Return the true motion in the body frame for a short increment of the base's own pose."""
    yaw_rad = turning * dyaw_rad + turn_per_m * dx_m
    aside = 0.5 * (yaw_rad - dyaw_rad)
    c, s = math.cos(aside), math.sin(aside)
    return speed * (c * dx_m - s * dy_m), speed * (s * dx_m + c * dy_m), wrap(yaw_rad)


@compilable
def mean_heading(yaw_rad: float, after_rad: float) -> float:
    """Return the heading in the middle between two [rad]."""
    return yaw_rad + 0.5 * wrap(after_rad - yaw_rad)


@compilable
def carry(covariance: Any, lever: Any) -> None:
    """Carry the error of the later states into x and y: only these two rows of the transition differ from identity.

    lever: two rows, of x and of y, by the states from yaw on
    """
    size = len(covariance)
    for column in range(size):
        for row in range(2):
            added = 0.0
            for i in range(len(lever[0])):
                added += lever[row][i] * covariance[2 + i, column]
            covariance[row, column] += added
    for row in range(size):
        for column in range(2):
            added = 0.0
            for i in range(len(lever[0])):
                added += lever[column][i] * covariance[row, 2 + i]
            covariance[row, column] += added


@compilable
def add_noise(covariance: Any, heading_rad: float, moving_s: float) -> None:
    """Add the paper's noise of a motion, forward along the mean heading and in yaw, to the upper triangle."""
    c, s, steps = math.cos(heading_rad), math.sin(heading_rad), STEPS_PER_S * moving_s
    covariance[0, 0] += c * c * FORWARD_VARIANCE * steps
    covariance[1, 1] += s * s * FORWARD_VARIANCE * steps
    covariance[2, 2] += TURN_VARIANCE * steps
    covariance[0, 1] += c * s * FORWARD_VARIANCE * steps
    covariance[0, 2] += c * BOTH_COVARIANCE * steps
    covariance[1, 2] += s * BOTH_COVARIANCE * steps


@compilable
def mirror(covariance: Any) -> None:
    """Copy the upper triangle to the lower one."""
    for row in range(1, len(covariance)):
        for column in range(row):
            covariance[row, column] = covariance[column, row]


@compilable
def excess(
    x_m: float, y_m: float, yaw_rad: float, after_x_m: float, after_y_m: float, after_yaw_rad: float, moving_s: float
) -> tuple[float, float, float, float]:  # fmt: skip
    """Return the error of x and y in the reported pose `after`, for each unit of scale and of creep.

    Scale acts along the displacement, creep along the mean heading; neither affects yaw.
    """
    heading = mean_heading(yaw_rad, after_yaw_rad)
    return after_x_m - x_m, after_y_m - y_m, moving_s * math.cos(heading), moving_s * math.sin(heading)


@kernel
def grow(
    covariance: Any, x_m: float, y_m: float, yaw_rad: float, after_x_m: float, after_y_m: float, after_yaw_rad: float,
    moving_s: float,
) -> None:  # fmt: skip
    """Turn the covariance (3, 3) of a pose into that of the pose `after`, for a fixed motion in the body frame."""
    carry(covariance, ((y_m - after_y_m,), (after_x_m - x_m,)))
    add_noise(covariance, mean_heading(yaw_rad, after_yaw_rad), moving_s)
    mirror(covariance)
