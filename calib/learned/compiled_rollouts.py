"""Compiled roll-outs over whole logs, forward and backward: plant, learned models, models that see their pose."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hil.physics.motion.learned import STATE, advance_learned
from onboard.config.plant_model import step_axis
from onboard.values.kernel import kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@kernel
def roll_plant(
    commands: Floats, starts: Ints, initial: Floats, axes: Floats, dt_s: float, after: Floats, before: Floats
) -> None:
    """Write (n, 4) the plant's state after and before each step, begun anew from `initial` (k, 4) in rows `starts`."""
    number = -1
    v = w = dv = dw = 0.0
    for row in range(len(commands)):
        if number + 1 < len(starts) and starts[number + 1] == row:
            number += 1
            v, w, dv, dw = initial[number]
        before[row, 0], before[row, 1], before[row, 2], before[row, 3] = v, w, dv, dw
        v, dv = step_axis(commands[row, 0], v, dv, axes[0], dt_s)
        w, dw = step_axis(commands[row, 1], w, dw, axes[1], dt_s)
        after[row, 0], after[row, 1], after[row, 2], after[row, 3] = v, w, dv, dw


@kernel
def roll_learned(
    kind: int, numbers: Floats, weights: Floats, sizes: Ints, commands: Floats, first: Ints, twists: Floats,
    memory: Floats, motion: Floats,
) -> None:  # fmt: skip
    """Write (n, 3) the motion of each step of a model that runs, log after log. memory: scratch of the model's size"""
    state = np.zeros(STATE)
    for log in range(len(first) - 1):
        for one in range(2):
            state[one] = memory[one] = twists[log, one]
            state[2 + one] = memory[2 + one] = 0.0
            memory[STATE + one :: 2] = twists[log, one]
        for row in range(first[log], first[log + 1]):
            x, y, yaw = advance_learned(
                kind, numbers, weights, sizes, memory, state, commands[row, 0], commands[row, 1], numbers[0]
            )
            motion[row, 0], motion[row, 1], motion[row, 2] = x, y, yaw


# ---- One axis of the plant, for its gradient


@kernel
def forward_axis(
    commands: Floats, starts: Ints, initial: Floats, axis: Floats, h: float, speeds: Floats, slopes: Floats
) -> None:
    """Write (n,) speeds of one axis after each step, and (n, 4) what the backward pass needs.

    initial: (k, 2) speed and rate at rows `starts`
    slopes:  f^2 h, 1 - 2 zeta f h, whether the rate is not clipped, whether the speed is not clipped
    """
    number = -1
    speed = rate = 0.0
    for row in range(len(commands)):
        if number + 1 < len(starts) and starts[number + 1] == row:
            number += 1
            speed, rate = initial[number]
        delta = commands[row] - speed
        if delta * speed > 0.0:
            f, zeta, most = axis[0], axis[2], axis[6]
        else:
            f, zeta, most = axis[1], axis[3], axis[7]
        rate += h * (f * f * delta - 2.0 * zeta * f * rate)
        slopes[row, 0], slopes[row, 1] = h * f * f, 1.0 - 2.0 * zeta * f * h
        slopes[row, 2] = 1.0 if abs(rate) < most else 0.0
        rate = min(max(rate, -most), most)
        speed += h * rate
        slopes[row, 3] = 1.0 if axis[4] < speed < axis[5] else 0.0
        speed = min(max(speed, axis[4]), axis[5])
        speeds[row] = speed


@kernel
def backward_axis(wanted: Floats, starts: Ints, h: float, slopes: Floats, gradient: Floats) -> None:
    """Write (n,) the gradient of the commands. wanted: (n,) gradient of the speeds"""
    number = len(starts) - 1
    g_speed = g_rate = 0.0
    for row in range(len(wanted) - 1, -1, -1):
        inside = slopes[row, 3] * (g_speed + wanted[row])
        unclipped = slopes[row, 2] * (g_rate + h * inside)
        gradient[row] = unclipped * slopes[row, 0]
        g_speed = inside - unclipped * slopes[row, 0]
        g_rate = unclipped * slopes[row, 1]
        if number >= 0 and starts[number] == row:
            number -= 1
            g_speed = g_rate = 0.0


# ---- A linear model without the egocentric transform

LARGE = 1e4
"""Predicted poses stay within [m, rad]."""


@kernel
def seen_as(value: float, which: int) -> float:
    """Return a coordinate as the model sees it: a yaw within a turn."""
    return value if which < 2 else value - 2.0 * np.pi * np.round(value / (2.0 * np.pi))


@kernel
def forward_posed(own: Floats, moved: Floats, begins: Ints, first: int, path: Floats) -> None:
    """Write (windows, length + 1, 3) poses of a linear model that sees its own pose. path[:, 0]: given

    own: (3, 3) motion by seen pose; moved: (n, 3) motion by commands; begins: (windows,) first row of each window
    first: first coordinate that is seen: 2 for the yaw only (translational), 0 for all
    """
    for b in range(len(path)):
        for k in range(path.shape[1] - 1):
            for i in range(3):
                step = moved[begins[b] + k, i]
                for j in range(first, 3):
                    step += own[i, j] * seen_as(path[b, k, j], j)
                path[b, k + 1, i] = min(max(path[b, k, i] + step, -LARGE), LARGE)


@kernel
def backward_posed(
    own: Floats, path: Floats, begins: Ints, first: int, wanted: Floats, g_own: Floats, g_moved: Floats
) -> None:
    """Add the gradients of `own` and `moved`. wanted: (windows, length + 1, 3) gradient of the poses"""
    g, before = np.empty(3), np.empty(3)
    for b in range(len(path)):
        g[:] = 0.0
        for k in range(path.shape[1] - 2, -1, -1):
            for i in range(3):
                g[i] += wanted[b, k + 1, i]
                if abs(path[b, k + 1, i]) >= LARGE:
                    g[i] = 0.0
                g_moved[begins[b] + k, i] += g[i]
            for j in range(3):
                before[j] = g[j]
                if j >= first:
                    for i in range(3):
                        g_own[i, j] += g[i] * seen_as(path[b, k, j], j)
                        before[j] += own[i, j] * g[i]
            for j in range(3):
                g[j] = before[j]
