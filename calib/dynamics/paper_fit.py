"""Identification as in paper 1, Appendix A: smoothed derivatives and four least-squares problems."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from calib.dynamics.motion_log import Floats, MotionLog
from calib.dynamics.response_model import KEYS

WINDOW = 21
"""Samples of the Hanning window (about 210 ms at 100 Hz)."""
ADJUSTED_ZETA = 0.7
LOW, HIGH = 0.1, 0.9
"""Rise time: from this to this share of a step."""

Fit = dict[str, float | None]
"""Parameters of an axis by the names `KEYS`; None where the data do not state one."""


def paper_fit(logs: Sequence[MotionLog], axis: str) -> Fit:
    """Return the paper's plain fit of axis "v" or "w". It knows no delay, so that is 0.

    f is None where the least squares have no real root: derivatives of noisy speeds can hide a phase altogether.
    """
    rows = [_derivatives(log, axis) for log in logs if len(log.t_s) > WINDOW + 2]
    if not rows:
        return dict.fromkeys(KEYS)
    delta, speed, rate, second = np.concatenate(rows, axis=1)
    found: Fit = {}
    for name, phase in (("up", delta * speed > 0.0), ("down", delta * speed < 0.0)):
        f, zeta = _least_squares(delta[phase], rate[phase], second[phase])
        found |= {f"f_{name}": f, f"zeta_{name}": zeta}
        found[f"a_max_{name}"] = float(np.abs(rate[phase]).max()) if phase.any() else None
    found |= {"delay_s": 0.0, "v_max": float(speed.max()), "v_min": float(speed.min())}
    return {key: found[key] for key in KEYS}


def _derivatives(log: MotionLog, axis: str) -> Floats:
    """Return (4, n) delta, smoothed speed, its first and second derivative, at the rows where all exist."""
    command, raw = (log.v_cmd, log.v) if axis == "v" else (log.w_cmd, log.w)
    window = np.hanning(WINDOW)
    half = WINDOW // 2
    speed = np.convolve(raw, window / window.sum(), "valid")
    t_s = log.t_s[half:-half]
    rate = (speed[2:] - speed[:-2]) / (t_s[2:] - t_s[:-2])
    second = (rate[2:] - rate[:-2]) / (t_s[3:-1] - t_s[1:-3])
    return np.stack([command[half:-half][2:-2] - speed[2:-2], speed[2:-2], rate[1:-1], second])


def _least_squares(delta: Floats, rate: Floats, second: Floats) -> tuple[float | None, float | None]:
    """Return f and zeta of `[delta rate] [f^2; -2 zeta f] = second`."""
    if len(delta) < 2:
        return None, None
    (square, damping), *_ = np.linalg.lstsq(np.column_stack([delta, rate]), second, rcond=None)
    if square <= 0.0:
        return None, None
    f = math.sqrt(square)
    return f, float(-damping / (2.0 * f))


def adjusted_fit(fit: Fit) -> Fit:
    """Return a fit with zeta = 0.7 and f such that the rise time of a step stays (the paper adjusts f by hand)."""
    found = dict(fit)
    for name in ("up", "down"):
        f, zeta = fit[f"f_{name}"], fit[f"zeta_{name}"]
        if f is not None and zeta is not None and zeta > 0.0:
            found[f"f_{name}"] = f * rise_time(ADJUSTED_ZETA) / rise_time(zeta)
            found[f"zeta_{name}"] = ADJUSTED_ZETA
    return found


def rise_time(zeta: float) -> float:
    """Return the time from 10 to 90 % of a step, of a second-order system with f = 1 1/s."""

    def crossing(share: float) -> float:
        end = 1.0
        while _step(end, zeta) < share:
            end *= 1.5
        return float(brentq(lambda t: _step(t, zeta) - share, 0.0, end))

    return crossing(HIGH) - crossing(LOW)


def _step(t: float, zeta: float) -> float:
    """Return the response to a unit step at time t, with f = 1 1/s. The first crossing is meant: t below the peak."""
    root = complex(zeta * zeta - 1.0) ** 0.5
    if abs(root) < 1e-6:
        return 1.0 - math.exp(-t) * (1.0 + t)
    slow, fast = -zeta + root, -zeta - root
    response = 1.0 + (fast * np.exp(slow * t) - slow * np.exp(fast * t)) / (slow - fast)
    return float(response.real)
