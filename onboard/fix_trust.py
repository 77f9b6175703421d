"""Whether a fix can be what the wheels led to: by the noise that is assumed of them, or by that of worse ones. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard import odometry
from onboard.geometry import IDENTITY, between, compose
from onboard.messages import Pose
from onboard.odometry import Covariance, OdometryState

GATE = 30.66
"""Squared Mahalanobis distance, 3 degrees of freedom, exceeded by one honest fix in a million."""
DOUBT = 3.0
"""Of the standard deviations of the wheels' noise: as bad as wheels may be that fixes put right again."""


@dataclass(frozen=True, slots=True)
class WheelsThen:
    """The odometry at a fix."""

    odom_from_base: Pose = IDENTITY
    moving_s: float = 0.0


AT_THE_ORIGIN = WheelsThen()


def believable(residual: npt.NDArray[np.float64], innovation: Covariance) -> bool:
    """Return whether a residual (3,) is within what its covariance lets expect; one that is no number is not."""
    return float(residual @ np.linalg.solve(innovation, residual)) <= GATE


def way_noise(then: WheelsThen, measured: Pose, wheels: OdometryState) -> Covariance:
    """Return the (3, 3) covariance that the paper's noise adds on a straight way since `then` to `measured`."""
    before = compose(measured, between(wheels.pose, then.odom_from_base))
    return odometry.noise_along(before, measured, wheels.moving_s - then.moving_s)
