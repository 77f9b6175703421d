"""How far a base rolls after its last command: the bound that its own command time-out gives (docs/base.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from onboard.config.config import LimitsSection
from onboard.config.plant_model import Axis, MotionState, Plant, step, step_axis
from onboard.values.messages import STOP, Pose, Twist

# ---- The simulated base: the motion model behind its own command time-out and the delay of its wire

STEP_S = 1.0 / 30.0
"""The paper's fast loop (paper 1, section 4)."""
NS = 1_000_000_000
STEP_NS = round(STEP_S * NS)


@dataclass(frozen=True, slots=True)
class BaseState:
    """The base between two steps.

    motion:   pose in the map frame, twist and rates
    pending:  (due [ns], command) of what is still on its way, oldest first
    command:  what the base's controller follows
    heard_ns: when the last command took effect; None before the first
    """

    motion: MotionState
    pending: tuple[tuple[int, Twist], ...] = ()
    command: Twist = STOP
    heard_ns: int | None = None


def base_at(pose: Pose) -> BaseState:
    """Return a base at rest that has heard nothing."""
    return BaseState(MotionState(pose))


def send_command(state: BaseState, command: Twist, now_ns: int, plant: Plant) -> BaseState:
    """Return the state with a command on its way; it takes effect `command_delay_s` later."""
    due_ns = now_ns + round(plant.base.command_delay_s * NS)
    return replace(state, pending=(*state.pending, (due_ns, command)))


def step_base(state: BaseState, now_ns: int, plant: Plant, dt_s: float = STEP_S) -> BaseState:
    """Return the state one step after `now_ns`.

    The newest command that is due is followed. One that is older than `command_timeout_s` is replaced by a stop.
    """
    due = [entry for entry in state.pending if entry[0] <= now_ns]
    pending = tuple(entry for entry in state.pending if entry[0] > now_ns)
    heard_ns, command = due[-1] if due else (state.heard_ns, state.command)
    if heard_ns is None or now_ns - heard_ns > plant.base.command_timeout_s * NS:
        command = STOP
    return BaseState(step(state.motion, command, plant, dt_s), pending, command, heard_ns)


ON_THE_WAY_S = 0.1
"""A command that was sent before the end may come to the base so much later, and is then obeyed like any other."""
REST = 1e-4
"""What is slower counts as standing, in the axis' unit a second."""
LONGEST_BRAKING_S = 60.0
"""A base that still moves after so long does not stop at all."""


@dataclass(frozen=True, slots=True)
class Rolled:
    """The most that a base can do after the last command was sent.

    way_m: along its path; turn_rad: to either side; time_s: until both are at rest
    """

    way_m: float
    turn_rad: float
    time_s: float


def most_rolled(plant: Plant, limits: LimitsSection, silence_s: float | None = None) -> Rolled:
    """Return the bound for a base at its top speed that obeys commands within `limits` until it has noticed.

    silence_s: after so much silence it stops; its own command time-out when not given, and never later than that
    Raises ValueError for a base that does not come to rest.
    """
    timeout_s = plant.base.command_timeout_s
    noticed_s = timeout_s if silence_s is None else min(silence_s, timeout_s)
    obeyed = _steps(ON_THE_WAY_S + plant.base.command_delay_s) + _steps(noticed_s) + 1
    ways = [_coasted(plant.linear, command, obeyed) for command in (limits.v_min_mps, limits.v_max_mps)]
    turns = [_coasted(plant.angular, command, obeyed) for command in (-limits.w_max_radps, limits.w_max_radps)]
    steps = max(steps for _, steps in (*ways, *turns))
    return Rolled(max(way for way, _ in ways), max(turn for turn, _ in turns), steps * STEP_S)


def _steps(duration_s: float) -> int:
    """Return the steps in which a duration ends, also where it ends just at the beginning of one."""
    return math.floor(duration_s / STEP_S) + 1


def _coasted(axis: Axis, command: float, obeyed: int) -> tuple[float, int]:
    """Return way and steps of an axis that moves its fastest, obeys a command for so many steps, then a zero."""
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
