"""Checks of an external fix: validity, time, covariance and the outlier gate. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.config.config import OdometrySection
from onboard.navigation import odometry
from onboard.navigation.kalman import GATE, inverse_of, passes
from onboard.navigation.odometry import Covariance, OdometryState
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, between, compose, wrap
from onboard.values.messages import Fix, Pose
from onboard.values.reasons import NO_REASON, Said

# ---- The agreement of outliers, with larger noise than the outlier gate (`kalman.GATE`)

AGREE_M = 0.5
AGREE_RAD = 0.35
"""Outliers agree within this distance, or within more if the wheels moved between them."""
DOUBT = 3.0
"""Odometry noise between two outliers, in standard deviations of the paper's noise."""


@dataclass(frozen=True, slots=True)
class WheelsAtFix:
    """The odometry at the time of a fix."""

    odom_from_base: Pose = IDENTITY
    moving_s: float = 0.0


AT_THE_ORIGIN = WheelsAtFix()


def passes_gate(residual: npt.NDArray[np.float64], innovation: Covariance) -> bool:
    """Return whether a residual (3,) passes the outlier gate; NaN does not."""
    return bool(passes(inverse_of(innovation), residual))


def odometry_explains(predicted: Pose, then: WheelsAtFix, measured: Pose, wheels: OdometryState) -> bool:
    """Return whether bad odometry may explain the difference between a fix and the fix before.

    predicted: map_from_base by the fix before and the odometry since; measured: map_from_base by this fix
    then:     the odometry at the fix before
    """
    before = compose(measured, between(wheels.pose, then.odom_from_base))
    added = odometry.noise_along(before, measured, wheels.moving_s - then.moving_s)
    apart = np.array([AGREE_M, AGREE_M, AGREE_RAD])
    residual = np.array(
        [measured.x_m - predicted.x_m, measured.y_m - predicted.y_m, wrap(measured.yaw_rad - predicted.yaw_rad)]
    )
    return passes_gate(residual, np.diag(np.square(apart) / GATE) + DOUBT**2 * added)


Variances = npt.NDArray[np.float64]

CLOCKS_DISAGREE_NS = 3 * NS_PER_S
"""If the stamps of fix and odometry differ by more, their clocks differ, and arrival times replace the stamps."""
MAX_POSITION_M = 1e7
MOST_SD = (1e4, 1e4, 1e2)
"""Upper limits of the standard deviations of x, y [m] and yaw [rad]: such a fix holds no information."""
ROUNDING = 1e-6
"""Tolerance on the correlations of a stated covariance. Rounding to single precision stays below it."""


def refusal(fix: Fix, wheels: OdometryState) -> Said:
    """Return the reason to reject the fix, or "" if it is valid."""
    for name, value in (("x", fix.pose.x_m), ("y", fix.pose.y_m), ("yaw", fix.pose.yaw_rad)):
        if name == "yaw" and math.isnan(value):
            return reasons.FIX_NO_ORIENTATION.say()
        if not math.isfinite(value):
            return reasons.FIX_NOT_FINITE.say(name=name, value=value)
        if abs(value) > MAX_POSITION_M:
            return reasons.FIX_TOO_FAR.say(name=name, value=value, limit=MAX_POSITION_M)
    return NO_REASON if wheels.history else reasons.FIX_BEFORE_ODOMETRY.say()


def odometry_at(fix: Fix, wheels: OdometryState) -> odometry.Sample:
    """Return the odometry at the time of the fix.

    The time is the fix's stamp if both clocks agree and the history covers it, else its arrival, else the newest.
    """
    newest = wheels.history[-1]
    arrived_ns = newest.stamp_ns + fix.arrival_ns - (wheels.arrival_ns or 0)
    if abs(arrived_ns - fix.stamp_ns) <= CLOCKS_DISAGREE_NS:
        sample = odometry.at(wheels, fix.stamp_ns)
        if sample is not None:
            return sample
    return odometry.at(wheels, arrived_ns) or newest


def measurement_noise(fix: Fix, section: OdometrySection) -> Covariance:
    """Return the (3, 3) covariance of a fix: the sender's, bounded by `localization_sd` and `MOST_SD`.

    The lower bound holds for every combination of x, y and yaw: fully correlated variances would leave a direction with
    no variance. A covariance that is not finite or not symmetric positive, or has a zero variance, is replaced by
    `localization_sd`.
    """
    sd = np.asarray(section.localization_sd, dtype=np.float64)
    floor = np.square(sd)
    stated = _valid_covariance(fix.covariance, floor)
    if stated is None:
        return np.diag(floor)
    raised: Covariance = stated + np.diag(np.maximum(0.0, floor - np.diag(stated)))
    least = float(np.linalg.eigvalsh(raised / np.outer(sd, sd)).min())
    return raised + max(0.0, 1.0 - least) * np.diag(floor)


def _valid_covariance(stated: Covariance | None, floor: Variances) -> Covariance | None:
    """Return a stated covariance, symmetric and at most `MOST_SD`; None if it is invalid. floor: (3,) variances"""
    if stated is None or stated.shape != (3, 3) or not np.isfinite(stated).all() or (np.diag(stated) <= 0.0).any():
        return None
    within = np.minimum(1.0, np.asarray(MOST_SD) / np.sqrt(np.diag(stated)))
    stated = stated * within[:, None] * within
    if not np.allclose(stated, stated.T, rtol=ROUNDING, atol=1e-9):
        return None
    stated = 0.5 * stated + 0.5 * stated.T
    units = np.sqrt(np.maximum(floor, np.diag(stated)))
    most = np.outer(units, units)
    if (np.abs(stated) > (1.0 + ROUNDING) * most).any() or np.linalg.eigvalsh(stated / most).min() < -ROUNDING:
        return None
    return stated
