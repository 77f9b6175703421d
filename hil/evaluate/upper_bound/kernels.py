"""Compiled ticks of a known drive, with the ideal estimator beside it; see `upper_bound.py`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hil.drive.fast.tick_kernels import report, roll_on
from hil.drive.fast.tick_state import Records
from hil.physics.odometry_noise import REST_MPS, REST_RADPS, TICKS_PER_ENVIRONMENT_STEP
from hil.physics.simulated_base import STEP_S
from onboard.values.geometry import wrap
from onboard.values.kernel import kernel

Floats = npt.NDArray[np.float64]

IDEAL_STATES = 5
"""x, y, yaw in the map; forward drift [m] and turn drift [rad] per tick."""
X, Y, YAW, V, W = range(5)
"""Columns of a known drive."""


@kernel
def replay_ticks(
    states: Records, covariance: Floats, tables: Records, known: Floats, ticks: int, mean: Floats, spread: Floats,
    drift_mean: Floats, drift_covariance: Floats,
) -> int:  # fmt: skip
    """Simulate `ticks` ticks of a known drive as `tick_kernels.run_ticks` does; return the number of finished ticks.

    The number is smaller if a tick needs a new sample of the drift (`TickState.owing`). The caller then stores a sample
    and calls again for the remaining ticks.

    states, covariance: state of the drive, and covariance of the runtime's filter; changed in place
    known:        (n, 5) x, y, yaw [m, m, rad], v, w [m/s, rad/s] of each tick from tick 0; v is the true speed
    mean, spread: (5,), (5, 5) mean and covariance of the ideal estimator; changed in place
    drift_*:      (2,), (2, 2) mean and covariance of the drift in a tick
    """
    s, k = states[0], tables[0]
    for i in range(ticks):
        if s.owing == 0.0:
            s.tick += 1.0
        row = known[int(s.tick)]
        s.x_m, s.y_m, s.yaw, s.v, s.w = row[X], row[Y], row[YAW], row[V], row[W]
        s.wheel_v, s.wheel_w = row[V], row[W]
        base_x, base_y, base_yaw = s.drift_x_m, s.drift_y_m, s.drift_yaw
        fresh = s.drift_left == TICKS_PER_ENVIRONMENT_STEP
        s.owing = 0.0 if report(s, k) else 1.0
        if s.owing != 0.0:
            return i
        roll_on(s, k, base_x, base_y, base_yaw, covariance)
        drifts = not (abs(row[V]) < REST_MPS and abs(row[W]) < REST_RADPS)
        if drifts and fresh:
            draw_anew(mean, spread, drift_mean, drift_covariance)
        predict_ideal(mean, spread, s.wheel_v, s.wheel_w, drifts)
    return ticks


@kernel
def draw_anew(mean: Floats, spread: Floats, drift_mean: Floats, drift_covariance: Floats) -> None:
    """Reset the drift in mean and spread to its distribution, in place, since a new sample of the drift begins."""
    mean[3:] = drift_mean
    spread[3:, :] = 0.0
    spread[:, 3:] = 0.0
    spread[3:, 3:] = drift_covariance


@kernel
def predict_ideal(mean: Floats, spread: Floats, v: float, w: float, drifts: bool) -> None:
    """Predict mean and spread over a tick, in place: the motion model with the reported twist minus the drift.

    v, w:   reported speeds [m/s, rad/s]
    drifts: False at rest, where the twist has no drift
    """
    drift_m, drift_rad = (mean[3], mean[4]) if drifts else (0.0, 0.0)
    way_m = STEP_S * v - drift_m
    yaw = wrap(mean[2] + wrap(STEP_S * w - drift_rad))
    c, n = math.cos(yaw), math.sin(yaw)
    mean[0] += way_m * c
    mean[1] += way_m * n
    mean[2] = yaw
    carried = np.eye(IDEAL_STATES)
    carried[0, 2], carried[1, 2] = -way_m * n, way_m * c
    if drifts:
        carried[0, 3], carried[1, 3] = -c, -n
        carried[0, 4], carried[1, 4], carried[2, 4] = way_m * n, -way_m * c, -1.0
    spread[:] = carried @ spread @ carried.T


@kernel
def correct_ideal(mean: Floats, spread: Floats, x: float, y: float, yaw: float, variance: Floats) -> None:
    """Correct mean and spread in place by a fix, whose errors have the variances (3,) [m^2, m^2, rad^2]."""
    residual = np.array([x - mean[0], y - mean[1], wrap(wrap(yaw - mean[2]))])
    innovation = spread[:3, :3].copy() + np.diag(variance)
    gain = np.linalg.solve(innovation, spread[:3, :].copy()).T
    mean += gain @ residual
    mean[2] = wrap(mean[2])
    kept = np.eye(IDEAL_STATES)
    kept[:, :3] -= gain
    joseph = kept @ spread @ kept.T + (gain * variance) @ gain.T
    spread[:] = 0.5 * (joseph + joseph.T)
