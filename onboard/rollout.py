"""Commands rolled forward with the motion model, many at once.

A state is a row of seven: x [m], y [m], yaw [rad], v [m/s], w [rad/s], dv [m/s^2], dw [rad/s^2]. The yaw of a path is
not wrapped. Each kernel has its plain definition beside it; tests hold the two equal, and the benchmark their ratio.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard.messages import Pose, Twist
from onboard.motion import Axis, MotionState, Plant, step, step_axis

Floats = npt.NDArray[np.float64]

STATE = 7
"""Numbers in a state."""


@njit(cache=True, nogil=True)
def roll_out(
    starts: Floats, commands: Floats, linear: Floats, angular: Floats, ticks: int, dt_s: float
) -> Floats:  # pragma: no cover - compiled
    """Return (n, ticks, 7): the state after every tick, command i (v, w) held from start i.

    starts: (n, 7); commands: (n, 2); linear, angular: the plant's axes as `Axis.as_array` gives them.
    """
    count = starts.shape[0]
    paths = np.empty((count, ticks, starts.shape[1]))
    for i in range(count):
        x, y, yaw, v, w, dv, dw = starts[i]
        for k in range(ticks):
            v, dv = step_axis(commands[i, 0], v, dv, linear, dt_s)
            w, dw = step_axis(commands[i, 1], w, dw, angular, dt_s)
            yaw += dt_s * w
            x += dt_s * v * math.cos(yaw)
            y += dt_s * v * math.sin(yaw)
            row = paths[i, k]
            row[0], row[1], row[2], row[3], row[4], row[5], row[6] = x, y, yaw, v, w, dv, dw
    return paths


def roll_out_definition(starts: Floats, commands: Floats, plant: Plant, ticks: int, dt_s: float) -> Floats:
    """Define `roll_out` by `motion.step`; here the yaw is wrapped."""
    paths = np.empty((len(starts), ticks, STATE))
    for i, (start, command) in enumerate(zip(starts, commands, strict=True)):
        x, y, yaw, v, w, dv, dw = (float(part) for part in start)
        state = MotionState(Pose(x, y, yaw), Twist(v, w), dv, dw)
        for k in range(ticks):
            state = step(state, Twist(float(command[0]), float(command[1])), plant, dt_s)
            pose, twist = state.pose, state.twist
            paths[i, k] = (
                pose.x_m, pose.y_m, pose.yaw_rad, twist.v_mps, twist.w_radps, state.dv_mps2, state.dw_radps2,
            )  # fmt: skip
    return paths


@njit(cache=True, nogil=True)
def roll_axis(
    starts: Floats, commands: Floats, axis: Floats, ticks: int, dt_s: float
) -> Floats:  # pragma: no cover - compiled
    """Return (s, c, ticks, 2): speed and rate of one axis after every tick, each command held from each start.

    starts: (s, 2) speed and rate; commands: (c,) speeds; axis: as `Axis.as_array` gives it
    """
    paths = np.empty((len(starts), len(commands), ticks, 2))
    for i in range(len(starts)):
        for j in range(len(commands)):
            speed, rate = starts[i, 0], starts[i, 1]
            for k in range(ticks):
                speed, rate = step_axis(commands[j], speed, rate, axis, dt_s)
                paths[i, j, k, 0], paths[i, j, k, 1] = speed, rate
    return paths


def roll_axis_definition(starts: Floats, commands: Floats, axis: Axis, ticks: int, dt_s: float) -> Floats:
    """Define `roll_axis` by the plain step of one axis."""
    paths = np.empty((len(starts), len(commands), ticks, 2))
    for i, start in enumerate(starts):
        for j, command in enumerate(commands):
            speed, rate = float(start[0]), float(start[1])
            for k in range(ticks):
                speed, rate = step_axis.py_func(float(command), speed, rate, axis.as_array(), dt_s)
                paths[i, j, k] = speed, rate
    return paths
