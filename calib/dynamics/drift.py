"""How far a predicted drive runs away from a measured one, over windows of a given duration."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calib.dynamics.motion_log import Floats, MotionLog


def path(t_s: Floats, v: Floats, w: Floats) -> Floats:
    """Return (n, 3) x, y [m], yaw [rad] from sampled twists, by the trapezoidal rule."""
    dt_s = np.diff(t_s)
    turned = 0.5 * (w[:-1] + w[1:]) * dt_s
    yaw = np.r_[0.0, np.cumsum(turned)]
    middle = yaw[:-1] + 0.5 * turned
    way = 0.5 * (v[:-1] + v[1:]) * dt_s
    return np.column_stack(
        [np.r_[0.0, np.cumsum(way * np.cos(middle))], np.r_[0.0, np.cumsum(way * np.sin(middle))], yaw]
    )


def measured_path(log: MotionLog) -> Floats:
    """Return (n, 3) the pose that the base stated, else its integrated twist."""
    if log.pose is None:
        return path(log.t_s, log.v, log.w)
    return np.column_stack([log.pose[:, :2], np.unwrap(log.pose[:, 2])])


def drifts(t_s: Floats, measured: Floats, predicted: Floats, window_s: float) -> Floats:
    """Return (windows, 2) distance [m] and angle [rad] between both paths at the end of each window.

    Both paths begin each window at the same pose. A new window begins each half of `window_s`. No row if the drive is
    shorter.
    """
    starts = np.arange(t_s[0], t_s[-1] - window_s + 1e-6, window_s / 2.0)
    begin = np.searchsorted(t_s, starts - 1e-6)
    end = np.minimum(np.searchsorted(t_s, starts + window_s - 1e-6), len(t_s) - 1)
    moved = [_moved(one, begin, end) for one in (measured, predicted)]
    away = moved[1] - moved[0]
    return np.column_stack([np.hypot(away[:, 0], away[:, 1]), np.abs(away[:, 2])])


def _moved(poses: Floats, begin: npt.NDArray[np.intp], end: npt.NDArray[np.intp]) -> Floats:
    """Return (windows, 3) the motion from row `begin` to row `end`, in the frame of `begin`."""
    step = poses[end] - poses[begin]
    cos, sin = np.cos(poses[begin, 2]), np.sin(poses[begin, 2])
    return np.column_stack([cos * step[:, 0] + sin * step[:, 1], cos * step[:, 1] - sin * step[:, 0], step[:, 2]])
