"""The simulated base: the motion model behind its own command time-out and the delay of its wire."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onboard.messages import STOP, Pose, Twist
from onboard.motion import MotionState, Plant, step

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
