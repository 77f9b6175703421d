"""Compiled correction of the filter by a fix: `onboard.navigation.ekf.correct` for fixes of the simulated robot.

Such a fix has the stamp of the newest odometry, is not late, and is finite. tests/hil/drive/fast/test_ekf_kernel.py
compares the kernel with `ekf.correct`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hil.drive.fast.tick_kernels import wrapped
from onboard.navigation.ekf import STATES
from onboard.navigation.fix_gating import GATE
from onboard.values.kernel import kernel

Floats = npt.NDArray[np.float64]


@kernel
def correct_fast(states: Any, covariance: Floats, x: float, y: float, yaw: float, variance: Floats) -> bool:
    """Correct the filter in `tick_state.TickState` by a fix; return False, and change nothing, for an outlier.

    x, y, yaw: pose of the fix in the map frame
    covariance: (5, 5) of the filter, changed in place
    variance:  (3,) variances of x, y, yaw of the fix; the errors are independent
    """
    s = states[0]
    residual = np.array([x - s.filter_x_m, y - s.filter_y_m, wrapped(wrapped(yaw - s.filter_yaw))])
    inverse = _inverse(covariance, variance)
    squared = 0.0
    for i in range(3):
        for j in range(3):
            squared += residual[i] * inverse[i, j] * residual[j]
    if squared > GATE:
        return False
    gain = covariance[:, :3].copy() @ inverse
    change = gain @ residual
    s.filter_x_m += change[0]
    s.filter_y_m += change[1]
    s.filter_yaw = wrapped(s.filter_yaw + change[2])
    s.scale += change[3]
    s.creep += change[4]
    kept = np.eye(STATES)
    kept[:, :3] -= gain
    joseph = kept @ covariance @ kept.T + (gain * variance) @ gain.T
    covariance[:] = 0.5 * (joseph + joseph.T)
    return True


@kernel
def _inverse(covariance: Floats, variance: Floats) -> Floats:
    """Return the inverse (3, 3) of the residual's covariance: filter covariance of x, y, yaw plus fix covariance."""
    a, b, c = covariance[0, 0] + variance[0], covariance[0, 1], covariance[0, 2]
    d, e, f = covariance[1, 1] + variance[1], covariance[1, 2], covariance[2, 2] + variance[2]
    minors = (d * f - e * e, c * e - b * f, b * e - c * d)
    determinant = a * minors[0] + b * minors[1] + c * minors[2]
    inverse = np.empty((3, 3))
    inverse[0, 0], inverse[0, 1], inverse[0, 2] = minors
    inverse[1, 0], inverse[1, 1], inverse[1, 2] = minors[1], a * f - c * c, b * c - a * e
    inverse[2, 0], inverse[2, 1], inverse[2, 2] = minors[2], inverse[1, 2], a * d - b * b
    scaled: Floats = inverse / determinant
    return scaled
