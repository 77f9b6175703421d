"""The simulated base (motion model, command latency, command timeout) and the bound on its stopping distance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hil.physics.motion.motion_model import advance_motion, memory_of, motion_of
from onboard.config.config import LimitsSection
from onboard.config.plant_model import Axis, MotionState, Plant, step, step_axis
from onboard.values.messages import STOP, Pose, Twist

# ---- The simulated base: motion model with command latency and command timeout

STEP_S = 1.0 / 30.0
"""The paper's fast loop (paper 1, section 4)."""
NS = 1_000_000_000
STEP_NS = round(STEP_S * NS)


@dataclass(frozen=True, slots=True)
class BaseState:
    """State of the base between two steps.

    motion:   pose in the map frame, twist and rates
    pending:  (due [ns], command) of commands in transit, oldest first
    command:  command that the base's controller follows
    heard_ns: time at which the last command took effect; None before the first command
    memory:   of the plant's motion model (`motion_model.memory_of`); None before its first step
    """

    motion: MotionState
    pending: tuple[tuple[int, Twist], ...] = ()
    command: Twist = STOP
    heard_ns: int | None = None
    memory: npt.NDArray[np.float64] | None = None


def base_at(pose: Pose) -> BaseState:
    """Return a base at rest that has received no command."""
    return BaseState(MotionState(pose))


def latency_ns(plant: Plant) -> int:
    """Return the latency of a command to the motion model; the models of `Plant.motion` have their own."""
    return 0 if plant.motion is not None else round(plant.base.command_delay_s * NS)


def send_command(state: BaseState, command: Twist, now_ns: int, plant: Plant) -> BaseState:
    """Return the state with a command in transit; the command takes effect after `latency_ns`."""
    due_ns = now_ns + latency_ns(plant)
    return replace(state, pending=(*state.pending, (due_ns, command)))


def step_base(state: BaseState, now_ns: int, plant: Plant, dt_s: float = STEP_S) -> BaseState:
    """Return the state one step after `now_ns`.

    The base follows the newest due command. It stops if that command is older than `command_timeout_s`. Raises
    InputError if the file of the plant's motion model does not fit.
    """
    due = [entry for entry in state.pending if entry[0] <= now_ns]
    pending = tuple(entry for entry in state.pending if entry[0] > now_ns)
    heard_ns, command = due[-1] if due else (state.heard_ns, state.command)
    if heard_ns is None or now_ns - heard_ns > plant.base.command_timeout_s * NS:
        command = STOP
    if plant.motion is None:
        return BaseState(step(state.motion, command, plant, dt_s), pending, command, heard_ns)
    memory = memory_of(plant) if state.memory is None else state.memory.copy()
    return BaseState(_moved(state.motion, command, plant, memory, dt_s), pending, command, heard_ns, memory)


def _moved(
    motion: MotionState, command: Twist, plant: Plant, memory: npt.NDArray[np.float64], dt_s: float
) -> MotionState:
    """Return the motion after a step of the plant's motion model. Changes `memory`."""
    rates = np.array([motion.twist.v_mps, motion.twist.w_radps, motion.dv_mps2, motion.dw_radps2])
    dx, dy, turned = advance_motion(motion_of(plant), memory, rates, command.v_mps, command.w_radps, dt_s)
    pose, (v, w, dv, dw) = motion.pose, rates.tolist()
    c, s = math.cos(pose.yaw_rad), math.sin(pose.yaw_rad)
    yaw = math.remainder(pose.yaw_rad + turned, 2.0 * math.pi)
    return MotionState(Pose(pose.x_m + c * dx - s * dy, pose.y_m + s * dx + c * dy, yaw), Twist(v, w), dv, dw)


ON_THE_WAY_S = 0.1
"""Upper limit of the transport latency of the last command; the base obeys the command on arrival."""
REST = 1e-4
"""Speed below which an axis is at rest [axis unit/s]."""
LONGEST_BRAKING_S = 60.0
"""A base that still moves after this time is rejected as never stopping."""


@dataclass(frozen=True, slots=True)
class CoastingBound:
    """Upper bound on the motion of a base after the last command was sent (docs/base.md).

    way_m:    distance along the path
    turn_rad: rotation to either side
    time_s:   time until both axes are at rest
    """

    way_m: float
    turn_rad: float
    time_s: float


def most_rolled(plant: Plant, limits: LimitsSection, silence_s: float | None = None) -> CoastingBound:
    """Return the bound for a base at top speed that obeys commands within `limits` until its command timeout.

    silence_s: shorter timeout, if given; the base's own command timeout always applies
    Raises ValueError for a base that does not come to rest.
    """
    timeout_s = plant.base.command_timeout_s
    noticed_s = timeout_s if silence_s is None else min(silence_s, timeout_s)
    obeyed = _steps(ON_THE_WAY_S + plant.base.command_delay_s) + _steps(noticed_s) + 1
    ways = [_stopping(plant.linear, command, obeyed) for command in (limits.v_min_mps, limits.v_max_mps)]
    turns = [_stopping(plant.angular, command, obeyed) for command in (-limits.w_max_radps, limits.w_max_radps)]
    steps = max(steps for _, steps in (*ways, *turns))
    return CoastingBound(max(way for way, _ in ways), max(turn for turn, _ in turns), steps * STEP_S)


def _steps(duration_s: float) -> int:
    """Return the number of steps that cover a duration, including a step that begins exactly at its end."""
    return math.floor(duration_s / STEP_S) + 1


def _stopping(axis: Axis, command: float, obeyed: int) -> tuple[float, int]:
    """Return distance and steps until rest of an axis at top speed: `obeyed` steps at a command, then at zero."""
    table = axis.as_array()
    forward = command > 0.0
    speed, rate = (axis.speed_max, axis.acceleration_max) if forward else (axis.speed_min, -axis.acceleration_max)
    way = 0.0
    for number in range(round(LONGEST_BRAKING_S / STEP_S)):
        speed, rate = step_axis(command if number < obeyed else 0.0, speed, rate, table, STEP_S)
        way += abs(speed) * STEP_S
        if number >= obeyed and abs(speed) < REST and abs(rate) * STEP_S < REST:
            return way, number + 1
    raise ValueError(f"a base that brakes for more than {LONGEST_BRAKING_S:g} s has no bound")
