"""How fast an axis of the base answers, against `plant.toml`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import types

from onboard.config.plant_model import Axis, step_axis
from onboard.values.kernel import kernel

Floats = npt.NDArray[np.float64]

RATIOS = np.exp(np.linspace(math.log(0.4), math.log(1.8), 31))
"""How much faster than the plant the base may be: factors on its natural frequencies."""
WINDOW_S = 5.0
MOST_GAP_S = 0.1
LEAST_WINDOWS = 4
EXCITED = {"linear": 0.2, "angular": 0.4}
"""A window counts if its commands differ by so much [m/s, rad/s]."""


_VECTOR = types.float64[::1]


@kernel(signature=types.float64(_VECTOR, _VECTOR, _VECTOR, _VECTOR, types.float64))
def squared_error(
    commands: Floats, speeds: Floats, dt_s: Floats, axis: Floats, ratio: float
) -> float:  # pragma: no cover - compiled
    """Return the sum of squares of the speed errors of a plant with `ratio` times its frequencies.

    commands, speeds, dt_s: (n,) of ticks; the command of a tick acts until the next, dt_s later
    """
    scaled = axis.copy()
    scaled[0] *= ratio
    scaled[1] *= ratio
    speed, rate, total = speeds[0], 0.0, 0.0
    for k in range(len(commands) - 1):
        speed, rate = step_axis(commands[k], speed, rate, scaled, dt_s[k])
        total += (speed - speeds[k + 1]) ** 2
    return total


def response(
    t_s: Floats, commands: Floats, speeds: Floats, axis: Axis, delay_s: float, least: float
) -> tuple[float, float] | None:
    """Return by how much of its natural frequency an axis answers faster than the plant, and the standard deviation.

    t_s, commands, speeds: (n,) of ticks; least: change of the commands in a window that counts
    None if too few windows count. 0 is as the plant says, -0.3 is 30 % slower.
    """
    if len(t_s) < 2:
        return None
    late = round(delay_s / max(float(np.median(np.diff(t_s))), 1e-3))
    given = np.concatenate([np.zeros(min(late, len(commands))), commands[: max(0, len(commands) - late)]])
    cuts = np.flatnonzero(np.diff(t_s) > MOST_GAP_S) + 1
    errors = []
    for span in np.split(np.arange(len(t_s)), cuts):
        count = max(1, int((t_s[span[-1]] - t_s[span[0]]) / WINDOW_S))
        for window in np.array_split(span, count):
            if len(window) > 20 and np.ptp(given[window]) > least:
                dt_s, table = np.diff(t_s[window]), axis.as_array()
                ways = given[window].astype(np.float64), speeds[window].astype(np.float64)
                errors.append([squared_error(*ways, dt_s, table, ratio) for ratio in RATIOS])
    if len(errors) < LEAST_WINDOWS:
        return None
    table = np.array(errors)
    rng = np.random.default_rng(0)
    drawn = [_lowest(table[rng.integers(0, len(table), len(table))].sum(axis=0)) for _ in range(50)]
    return math.exp(_lowest(table.sum(axis=0))) - 1.0, float(np.std(drawn))


def _lowest(errors: Floats) -> float:
    """Return the logarithm of the ratio with the least error, by a parabola through its neighbours."""
    at = int(np.clip(np.argmin(errors), 1, len(errors) - 2))
    low, middle, high = errors[at - 1 : at + 2]
    bent = low - 2.0 * middle + high
    step = float(np.log(RATIOS[1] / RATIOS[0]))
    return float(
        np.log(RATIOS[at]) + (0.5 * step * float(np.clip((low - high) / bent, -2.0, 2.0)) if bent > 0.0 else 0.0)
    )
