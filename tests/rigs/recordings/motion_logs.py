"""Motion logs simulated with known parameters, apart from the code that identifies them."""

from __future__ import annotations

import numpy as np

from calib.dynamics.motion_log import MotionLog
from hil.physics.simulated_base import NS, STEP_NS, base_at, send_command, step_base
from onboard.config.plant_model import Axis, BaseTable, Plant, step_axis
from onboard.values.kernel import kernel
from onboard.values.messages import Pose, Twist


def plant(linear: tuple[float, ...], angular: tuple[float, ...], delay_s: float = 0.0) -> Plant:
    """Return a plant. linear, angular: f_up, zeta_up, f_down, zeta_down, greatest speed, greatest acceleration."""
    axes = [
        Axis(f_up=fu, zeta_up=zu, f_down=fd, zeta_down=zd, speed_min=-top, speed_max=top, acceleration_max=rate)
        for fu, zu, fd, zd, top, rate in (linear, angular)
    ]
    return Plant(linear=axes[0], angular=axes[1], base=BaseTable(command_delay_s=delay_s))


def held_steps(rng: np.random.Generator, rows: int, period_s: float, low: float, high: float) -> np.ndarray:
    """Return (rows,) random commands, each held for 1 to 3 s; every third is zero."""
    command, at = np.zeros(rows), round(0.5 / period_s)
    while at < rows:
        command[at:] = rng.uniform(low, high) if rng.random() > 0.33 else 0.0
        at += round(rng.uniform(1.0, 3.0) / period_s)
    return command


@kernel
def answered(command, period_s, axis, delay_s, step_s, out):
    """Write the speed at each row: the paper's equation with a step of `step_s`, commands late by `delay_s`."""
    inside = max(1, round(period_s / step_s))
    speed = rate = 0.0
    for row in range(len(command)):
        out[row] = speed
        for part in range(inside):
            at = int(np.floor((row * period_s + part * step_s - delay_s) / period_s + 1e-9))
            speed, rate = step_axis(command[at] if at >= 0 else 0.0, speed, rate, axis, step_s)


def simulated(
    base: Plant,
    delays_s: tuple[float, float],
    step_s: float,
    *,
    seed: int = 0,
    logs: int = 4,
    seconds: float = 40.0,
    period_s: float = 0.01,
    noise: float = 0.02,
) -> list[MotionLog]:
    """Return logs at 100 Hz with white noise on both speeds [m/s, rad/s]. delays_s: linear, angular."""
    rng, found = np.random.default_rng(seed), []
    for number in range(logs):
        rows = round(seconds / period_s)
        commands = held_steps(rng, rows, period_s, -0.4, 1.0), held_steps(rng, rows, period_s, -2.0, 2.0)
        speeds = np.empty((2, rows))
        for axis, table in enumerate((base.linear, base.angular)):
            answered(commands[axis], period_s, table.as_array(), delays_s[axis], step_s, speeds[axis])
        speeds += noise * rng.standard_normal(speeds.shape)
        found.append(MotionLog(f"log{number}", np.arange(rows) * period_s, *commands, *speeds))
    return found


def driven_plant(
    base: Plant, *, seed: int = 0, logs: int = 4, seconds: float = 40.0, noise: float = 0.0
) -> list[MotionLog]:
    """Return logs of the project's simulated base at its own 30 Hz, with its pose."""
    rng, found = np.random.default_rng(seed), []
    for number in range(logs):
        rows = round(seconds * NS / STEP_NS)
        v_cmd, w_cmd = (held_steps(rng, rows, STEP_NS / NS, low, high) for low, high in ((-0.4, 1.0), (-2.0, 2.0)))
        state, table = base_at(Pose(0.0, 0.0, 0.0)), np.empty((rows, 5))
        for row in range(rows):
            motion = state.motion
            table[row] = (
                motion.twist.v_mps,
                motion.twist.w_radps,
                motion.pose.x_m,
                motion.pose.y_m,
                motion.pose.yaw_rad,
            )
            state = send_command(state, Twist(v_cmd[row], w_cmd[row]), row * STEP_NS, base)
            state = step_base(state, row * STEP_NS, base)
        v, w = table[:, :2].T + noise * rng.standard_normal((2, rows))
        found.append(MotionLog(f"log{number}", np.arange(rows) * STEP_NS / NS, v_cmd, w_cmd, v, w, table[:, 2:]))
    return found
