"""The response of one axis over whole logs: the model of paper 1, section 4, with command delay, compiled.

The same equation as `onboard/config/plant_model.py`, with the acceleration limit of each phase, a delay of any length,
and an own integration step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from calib.dynamics.motion_log import Floats, MotionLog
from onboard.config.plant_model import stable_steps
from onboard.values.kernel import kernel

PLANT_STEP_S = 1.0 / 30.0
"""The paper's fast loop, which the simulated base uses too."""
FINE_STEP_S = 0.0025
"""Step that approximates continuous time."""


class P(IntEnum):
    """Places in an array of parameters."""

    F_UP = 0
    ZETA_UP = 1
    F_DOWN = 2
    ZETA_DOWN = 3
    DELAY_S = 4
    V_MAX = 5
    V_MIN = 6
    A_MAX_UP = 7
    A_MAX_DOWN = 8


KEYS = tuple(place.name.lower() for place in P)
"""Names of the parameters in results."""


@dataclass(frozen=True, slots=True, eq=False)
class AxisLogs:
    """One axis of all logs, as the kernels take it.

    t_s, command, speed: (n,) rows of all logs, one log after the other
    first:               (logs + 1,) first row of each log, and n
    fresh:               (n,) False where the row repeats an older measurement (held feedback)
    """

    t_s: Floats
    command: Floats
    speed: Floats
    first: npt.NDArray[np.int64]
    fresh: npt.NDArray[np.bool_]


def axis_logs(logs: Sequence[MotionLog], axis: str) -> AxisLogs:
    """Return axis "v" or "w" of the logs."""
    first = np.cumsum([0, *(len(log.t_s) for log in logs)])
    command = np.concatenate([log.v_cmd if axis == "v" else log.w_cmd for log in logs])
    speed = np.concatenate([log.v if axis == "v" else log.w for log in logs])
    return AxisLogs(
        np.concatenate([log.t_s for log in logs]), command, speed, first, np.concatenate([_fresh(log) for log in logs])
    )


def _fresh(log: MotionLog) -> npt.NDArray[np.bool_]:
    """Return where a row has a new measurement. A row at rest counts, as a base at rest repeats its zero."""
    same = np.r_[False, (np.diff(log.v) == 0.0) & (np.diff(log.w) == 0.0)]
    fresh: npt.NDArray[np.bool_] = ~same | ((log.v == 0.0) & (log.w == 0.0))
    return fresh


def speeds(logs: AxisLogs, parameters: Floats, step_s: float) -> Floats:
    """Return (n,) the model's speed at each row, rolled out over each log from its first measured speed.

    Before its first row a base is taken to follow a command equal to that speed.
    """
    model = np.empty_like(logs.speed)
    for begin, end in zip(logs.first[:-1], logs.first[1:], strict=True):
        roll_out(logs.t_s[begin:end], logs.command[begin:end], logs.speed[begin], parameters, step_s, model[begin:end])
    return model


def greatest_rates(logs: AxisLogs, parameters: Floats, step_s: float) -> tuple[float, float]:
    """Return the greatest acceleration of the roll-outs while the speed grows, and otherwise."""
    scratch, found = np.empty_like(logs.speed), np.zeros((len(logs.first) - 1, 2))
    for number, (begin, end) in enumerate(zip(logs.first[:-1], logs.first[1:], strict=True)):
        part = scratch[begin:end]
        found[number] = roll_out(
            logs.t_s[begin:end], logs.command[begin:end], logs.speed[begin], parameters, step_s, part
        )
    up, down = found.max(axis=0)
    return float(up), float(down)


@kernel
def roll_out(
    t_s: Floats, command: Floats, speed: float, parameters: Floats, step_s: float, model: Floats
) -> tuple[float, float]:
    """Write the model's speed at each row of one log into `model`; return the greatest rates (up, down).

    parameters: in the order of `P`. The command of a step is the mean over the step of the delayed command, which is
    exact where delay and command times lie on the grid of steps, and smooth in the delay between. Between two steps
    the speed is interpolated.
    """
    rows = len(t_s)
    inside = stable_steps(step_s, parameters[0], parameters[1], parameters[2], parameters[3])
    h_s = step_s / inside
    most_up = most_down = 0.0
    before = speed
    rate, previous, now_s = 0.0, speed, t_s[0]
    row = 0  # the command in force at the end of the last step, before which all is integrated
    at_s = t_s[0] - parameters[4]
    edge = -1  # the row whose command holds at at_s; -1: before the log
    while edge + 1 < rows and t_s[edge + 1] <= at_s + 1e-9:
        edge += 1
    while row < rows:
        while row < rows and t_s[row] <= now_s + 1e-9:
            if now_s == t_s[0]:
                model[row] = speed
            else:
                share = (t_s[row] - now_s) / step_s + 1.0
                model[row] = previous + (speed - previous) * share
            row += 1
        if row == rows:
            break
        until_s = at_s + step_s
        mean = 0.0
        while edge + 1 < rows and t_s[edge + 1] < until_s - 1e-9:
            held = command[edge] if edge >= 0 else before
            mean += held * (t_s[edge + 1] - at_s)
            at_s = t_s[edge + 1]
            edge += 1
        held = command[edge] if edge >= 0 else before
        mean = (mean + held * (until_s - at_s)) / step_s
        at_s = until_s
        while edge + 1 < rows and t_s[edge + 1] <= at_s + 1e-9:
            edge += 1
        previous = speed
        for _ in range(inside):
            delta = mean - speed
            if delta * speed > 0.0:
                rate += h_s * (parameters[0] * parameters[0] * delta - 2.0 * parameters[1] * parameters[0] * rate)
                rate = min(max(rate, -parameters[7]), parameters[7])
                most_up = max(most_up, abs(rate))
            else:
                rate += h_s * (parameters[2] * parameters[2] * delta - 2.0 * parameters[3] * parameters[2] * rate)
                rate = min(max(rate, -parameters[8]), parameters[8])
                most_down = max(most_down, abs(rate))
            speed = min(max(speed + h_s * rate, parameters[6]), parameters[5])
        now_s += step_s
    return most_up, most_down


def first_order_speeds(logs: AxisLogs, delay_s: float, time_constant_s: float, step_s: float) -> Floats:
    """Return (n,) the speeds of a first-order model with one time constant and one delay, without limits."""
    model = np.empty_like(logs.speed)
    for begin, end in zip(logs.first[:-1], logs.first[1:], strict=True):
        first_order(
            logs.t_s[begin:end], logs.command[begin:end], logs.speed[begin], delay_s, time_constant_s, step_s,
            model[begin:end],
        )  # fmt: skip
    return model


@kernel
def first_order(
    t_s: Floats, command: Floats, speed: float, delay_s: float, time_constant_s: float, step_s: float, model: Floats
) -> None:
    """Write the speed of a first-order lag at each row of one log into `model`."""
    before, now_s, row, edge = speed, t_s[0], 0, -1
    decay = np.exp(-step_s / time_constant_s)
    while row < len(t_s):
        while row < len(t_s) and t_s[row] <= now_s + 1e-9:
            model[row] = speed
            row += 1
        while edge + 1 < len(t_s) and t_s[edge + 1] <= now_s - delay_s + 1e-9:
            edge += 1
        held = command[edge] if edge >= 0 else before
        speed = held + (speed - held) * decay
        now_s += step_s
