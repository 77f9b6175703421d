"""Arithmetic of the filter: prediction, outlier gate and correction, for the runtime and for simulation at speed.

`predict` and `correct` run compiled in the runtime too: as Python a correction would take a millisecond.

The state is x, y [m], yaw [rad] in the map, scale, creep [m/s]; with a key scan x, y, yaw of its pose follow.
`covariance` (n, n) is symmetric and changed in place. A measurement has three values.
"""

from __future__ import annotations

import math
from typing import Any

from onboard.navigation.wheel_motion import add_noise, carry, excess, mean_heading, mirror
from onboard.values.geometry import Numbers, composed
from onboard.values.kernel import compilable, kernel

STATES = 5
"""x, y, yaw, scale, creep. With a key scan, x, y, yaw of its pose follow."""
SCALE_VARIANCE, CREEP_VARIANCE = 0.05 * 0.05, 0.03 * 0.03
"""Initial variance of scale and creep [m/s]."""
SCALE_WALK, CREEP_WALK = 0.01 * 0.01, 0.003 * 0.003
"""Growth of their variance in a second of motion: floors differ."""
GATE = 30.66
"""Squared Mahalanobis distance, 3 degrees of freedom: one good fix in a million exceeds it."""

Inverse = tuple[Numbers, Numbers, Numbers]
"""A symmetric (3, 3), row by row."""


@kernel
def predict(
    covariance: Any, x_m: float, y_m: float, yaw_rad: float, dx_m: float, dy_m: float, dyaw_rad: float, scale: float,
    creep: float, moving_s: float,
) -> Numbers:  # fmt: skip
    """Return the pose after the wheels reported a motion in the body frame, less their systematic errors.

    covariance: of x, y, yaw, scale, creep, and of what stays
    """
    x, y, yaw = composed(x_m, y_m, yaw_rad, dx_m, dy_m, dyaw_rad)
    scale_x, scale_y, creep_x, creep_y = excess(x_m, y_m, yaw_rad, x, y, yaw, moving_s)
    x -= scale_x * scale + creep_x * creep
    y -= scale_y * scale + creep_y * creep
    carry(covariance, ((y_m - y, -scale_x, -creep_x), (x - x_m, -scale_y, -creep_y)))
    add_noise(covariance, mean_heading(yaw_rad, yaw), moving_s)
    covariance[3, 3] += SCALE_WALK * moving_s
    covariance[4, 4] += CREEP_WALK * moving_s
    mirror(covariance)
    return x, y, yaw


@compilable
def begin(covariance: Any, noise: Any) -> None:
    """Set the covariance of a filter that starts at a fix. noise: (3, 3) of the fix"""
    for row in range(len(covariance)):
        for column in range(len(covariance)):
            covariance[row, column] = noise[row, column] if row < 3 and column < 3 else 0.0
    covariance[3, 3], covariance[4, 4] = SCALE_VARIANCE, CREEP_VARIANCE


@compilable
def inverse_of(matrix: Any) -> Inverse:
    """Return the inverse of a symmetric (3, 3); NaN if its determinant is not positive."""
    a, b, c, d, e, f = matrix[0, 0], matrix[0, 1], matrix[0, 2], matrix[1, 1], matrix[1, 2], matrix[2, 2]
    x, y, z = d * f - e * e, c * e - b * f, b * e - c * d
    determinant = a * x + b * y + c * z
    if not determinant > 0.0:
        determinant = math.nan
    xx, xy, xz, yz = x / determinant, y / determinant, z / determinant, (b * c - a * e) / determinant
    return (xx, xy, xz), (xy, (a * f - c * c) / determinant, yz), (xz, yz, (a * d - b * b) / determinant)


@compilable
def passes(inverse: Inverse, residual: Any) -> bool:
    """Return whether a residual (3,) passes the outlier gate; NaN does not. inverse: of its covariance"""
    squared = 0.0
    for i in range(3):
        for j in range(3):
            squared += residual[i] * inverse[i][j] * residual[j]
    return squared <= GATE


@kernel
def correct(covariance: Any, model: Any, residual: Any, noise: Any, work: Any) -> bool:
    """Correct by a measurement; return False, and change nothing but `work`, for an outlier.

    model: (3, n) derivative of the measurement; noise: (3, 3) of it
    work:  (6 + 2 n, n); its first row holds the change of the state afterwards

    The covariance follows by Joseph's form, which stays symmetric and positive under rounding.
    """
    size = len(covariance)
    gain, kept, moved = 3, 6, 6 + size
    for row in range(3):
        for column in range(size):
            total = 0.0
            for i in range(size):
                total += model[row, i] * covariance[i, column]
            work[row, column] = total
    for row in range(3):
        for column in range(3):
            total = noise[row, column]
            for i in range(size):
                total += work[row, i] * model[column, i]
            work[gain + row, column] = total
    inverse = inverse_of(work[gain : gain + 3])
    if not passes(inverse, residual):
        return False
    for i in range(size):
        for j in range(3):
            work[gain + j, i] = work[0, i] * inverse[0][j] + work[1, i] * inverse[1][j] + work[2, i] * inverse[2][j]
    for i in range(size):
        work[0, i] = work[gain, i] * residual[0] + work[gain + 1, i] * residual[1] + work[gain + 2, i] * residual[2]
        for column in range(size):
            total = 1.0 if i == column else 0.0
            for j in range(3):
                total -= work[gain + j, i] * model[j, column]
            work[kept + i, column] = total
    for row in range(size):
        for column in range(size):
            total = 0.0
            for i in range(size):
                total += work[kept + row, i] * covariance[i, column]
            work[moved + row, column] = total
    for row in range(size):
        for column in range(row, size):
            total = 0.0
            for i in range(size):
                total += work[moved + row, i] * work[kept + column, i]
            for i in range(3):
                for j in range(3):
                    total += work[gain + i, row] * noise[i, j] * work[gain + j, column]
            covariance[row, column] = total
    mirror(covariance)
    return True


@compilable
def axes(xx: float, xy: float, yy: float) -> Numbers:
    """Return the larger and the smaller variance of x and y [m^2], and the direction of the larger one [rad]."""
    mean, half = 0.5 * (xx + yy), math.hypot(0.5 * (xx - yy), xy)
    return max(0.0, mean + half), max(0.0, mean - half), 0.5 * math.atan2(2.0 * xy, xx - yy)
