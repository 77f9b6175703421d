"""Whether a fix can be what the wheels led to: by the noise that is assumed of them, or by that of worse ones. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard import odometry
from onboard.geometry import IDENTITY, between, compose, wrap
from onboard.messages import Pose
from onboard.odometry import Covariance, OdometryState

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
