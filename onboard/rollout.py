"""Many commands rolled forward at once with the motion model, and how near each path comes to obstacles.

A state is a row of seven: x [m], y [m], yaw [rad], v [m/s], w [rad/s], dv [m/s^2], dw [rad/s^2]. The yaw of a path is
not wrapped. Each kernel has its plain definition beside it; tests hold the two equal, and the benchmark their ratio.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard.messages import Pose, Twist
from onboard.motion import MotionState, Plant, step, step_axis

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
def clearances(paths: Floats, points: Floats, stride: int) -> Floats:  # pragma: no cover - compiled
    """Return (n,): the least distance from path i's centre to any point [m], inf without points.

    paths: (n, ticks, 7); points: (k, 2) in the frame of the paths. Every `stride`-th state is looked at, and the last.
    """
    count, ticks = paths.shape[0], paths.shape[1]
    nearest = np.full(count, np.inf)
    for i in range(count):
        least = np.inf
        for k in range(ticks):
            if k % stride != stride - 1 and k != ticks - 1:
                continue
            x, y = paths[i, k, 0], paths[i, k, 1]
            for j in range(points.shape[0]):
                dx, dy = points[j, 0] - x, points[j, 1] - y
                least = min(least, dx * dx + dy * dy)
        nearest[i] = math.sqrt(least)
    return nearest


def clearances_definition(paths: Floats, points: Floats, stride: int) -> Floats:
    """Define `clearances`, with the distances of all pairs at once."""
    if len(points) == 0:
        return np.full(len(paths), np.inf)
    looked_at = np.union1d(np.arange(stride - 1, paths.shape[1], stride), [paths.shape[1] - 1])
    offsets = paths[:, looked_at, None, :2] - points[None, None, :, :]
    distances: Floats = np.linalg.norm(offsets, axis=-1).min(axis=(1, 2))
    return distances
