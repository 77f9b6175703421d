"""A fix of the external localisation as it comes: whether it can be one, when it was taken, how sure it is. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.config.config import OdometrySection
from onboard.navigation import odometry
from onboard.navigation.odometry import Covariance, OdometryState
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, between, compose, wrap
from onboard.values.messages import Fix, Pose

# ---- Whether a fix can be what the wheels led to: by the noise that is assumed of them, or by that of worse

GATE = 30.66
"""Squared Mahalanobis distance, 3 degrees of freedom, exceeded by one honest fix in a million."""
AGREE_M = 0.5
AGREE_RAD = 0.35
"""Outliers agree so far apart, or further where the wheels have moved from one to the other."""
DOUBT = 3.0
"""As many times the standard deviations of the paper's noise the wheels may have between two outliers that agree."""


@dataclass(frozen=True, slots=True)
class WheelsThen:
    """The odometry at a fix."""

    odom_from_base: Pose = IDENTITY
    moving_s: float = 0.0


AT_THE_ORIGIN = WheelsThen()


def believable(residual: npt.NDArray[np.float64], innovation: Covariance) -> bool:
    """Return whether a residual (3,) is within what its covariance lets expect; one that is no number is not."""
    return float(residual @ np.linalg.solve(innovation, residual)) <= GATE


def led_here(foretold: Pose, then: WheelsThen, measured: Pose, wheels: OdometryState) -> bool:
    """Return whether bad wheels may have led to a fix from the one before, by which `foretold` is where they led.

    then: the wheels at the fix before; measured: map_from_base by this one
    """
    before = compose(measured, between(wheels.pose, then.odom_from_base))
    added = odometry.noise_along(before, measured, wheels.moving_s - then.moving_s)
    apart = np.array([AGREE_M, AGREE_M, AGREE_RAD])
    residual = np.array(
        [measured.x_m - foretold.x_m, measured.y_m - foretold.y_m, wrap(measured.yaw_rad - foretold.yaw_rad)]
    )
    return believable(residual, np.diag(np.square(apart) / GATE) + DOUBT**2 * added)


Variances = npt.NDArray[np.float64]

CLOCKS_DISAGREE_NS = 3 * NS_PER_S
"""Further apart, the stamps of fixes and odometry cannot be of one clock, and arrival times stand in."""
MAX_POSITION_M = 1e7
MOST_SD = (1e4, 1e4, 1e2)
"""Of x, y [m] and yaw [rad]: whoever states more knows nothing of it, which these say as well."""
ROUNDING = 1e-6
"""By so much the correlations of a stated covariance may miss what correlations can be: single precision rounds more
finely. What misses it by more is no covariance.
"""


def refusal(fix: Fix, wheels: OdometryState) -> str:
    """Return what is wrong with the fix, or ""."""
    for name, value in (("x", fix.pose.x_m), ("y", fix.pose.y_m), ("yaw", fix.pose.yaw_rad)):
        if not math.isfinite(value):
            return f"{name} is {value}"
        if abs(value) > MAX_POSITION_M:
            return f"{name} is {value:g}, limit {MAX_POSITION_M:g}"
    return "" if wheels.history else "it came before the first odometry"


def sample_of(fix: Fix, wheels: OdometryState) -> odometry.Sample:
    """Return where the wheels were when the fix was taken.

    By its stamp, when both clocks can be one and the history reaches; otherwise by its arrival, else the newest.
    """
    newest = wheels.history[-1]
    arrived_ns = newest.stamp_ns + fix.arrival_ns - (wheels.arrival_ns or 0)
    if abs(arrived_ns - fix.stamp_ns) <= CLOCKS_DISAGREE_NS:
        sample = odometry.at(wheels, fix.stamp_ns)
        if sample is not None:
            return sample
    return odometry.at(wheels, arrived_ns) or newest


def measurement_noise(fix: Fix, section: OdometrySection) -> Covariance:
    """Return the (3, 3) covariance of a fix: what the sender states, between `localization_sd` and `MOST_SD`.

    No combination of x, y and yaw is known better than `localization_sd` has it either: variances that stand beside
    each other in full correlation leave a direction without any. A stated covariance that is not finite, not symmetric
    positive or has no variance is not believed at all.
    """
    sd = np.asarray(section.localization_sd, dtype=np.float64)
    floor = np.square(sd)
    stated = _believed(fix.covariance, floor)
    if stated is None:
        return np.diag(floor)
    raised: Covariance = stated + np.diag(np.maximum(0.0, floor - np.diag(stated)))
    least = float(np.linalg.eigvalsh(raised / np.outer(sd, sd)).min())
    return raised + max(0.0, 1.0 - least) * np.diag(floor)


def _believed(stated: Covariance | None, floor: Variances) -> Covariance | None:
    """Return a stated covariance, symmetric and at most `MOST_SD`; None where it is none. floor: (3,) variances"""
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
