"""When decisions are made and when they take effect: a constant delay from sensing to acting.

A decision senses in every `ticks_per_decision`-th slot of the grid and acts `delay_ticks` later, always. One that is
not ready by then is a deadline miss: the last set point is kept at half its speed, and after `deadline_misses_to_stop`
in a row it is zero. After a pause of the loop as long as a decision's period nothing from before it is in force. The
recurrent memory is a value here: passed into a decision, replaced by what comes back, and reset for the reasons in
`reset_reason`. Time is counted in slots, so that a replay of the slots is a replay of this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onboard.config.config import RatesSection
from onboard.policy.contract import ACTIONS, NO_ACTION, STOP_ACTION
from onboard.policy.inference import Inference, Result
from onboard.values.clock import Slot
from onboard.values.messages import STOP, Decision, Memory, Observation, Twist


@dataclass(frozen=True, slots=True)
class Sensed:
    """A decision that began in this tick. memory_reset says why the memory was reset before it, or ""."""

    number: int
    observation: Observation
    memory_reset: str


@dataclass(frozen=True, slots=True)
class Acted:
    """A decision at its due slot: None is a deadline miss, or a failed engine, told apart by `fault`.

    elapsed_ns: what the policy took; sensed_ns: when the tick that sensed began, monotonic
    """

    number: int
    sensed_ns: int
    decision: Decision | None
    elapsed_ns: int
    finished_ns: int = 0
    fault: str = ""


SLOW_DOWN_AFTER_MISS = 0.5
GAP_DECISIONS = 2.5
"""A pause of more decision periods than this breaks the recurrent sequence: the memory is reset."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The policy's memory after a reset, and how often it is reset [s]; None is never."""

    initial: Memory
    reset_s: float | None


@dataclass(frozen=True, slots=True)
class Pending:
    """A decision under way: its number, the slot and time in which it sensed, and the slot in which it acts."""

    number: int
    sensed_slot: int
    sensed_ns: int
    due_slot: int


@dataclass(frozen=True, slots=True)
class DecisionState:
    """Where decision making stands between two ticks.

    set_point:       the velocity pair in force
    previous_action: its index, contract.NO_ACTION at an episode's start, after a recovery and after an override
    memory:          recurrent state after the last accepted decision, None before the first of a sequence
    memory_slot:     slot in which that decision sensed, or in which the memory was reset
    reset_slot:      slot in which it was last reset
    """

    set_point: Twist = STOP
    previous_action: int = NO_ACTION
    memory: Memory | None = None
    memory_slot: int = 0
    reset_slot: int = 0
    decisions: int = 0
    misses_in_row: int = 0
    pending: Pending | None = None


def begin(state: DecisionState) -> DecisionState:
    """Return the state for a new episode: an engine that was lost is asked anew."""
    return replace(restart(state), misses_in_row=0)


def restart(state: DecisionState) -> DecisionState:
    """Return the state for a new sequence (after a recovery or an override): stop and forget.

    An engine that was lost before stays so until it decides: neither makes it answer.
    """
    return replace(hold(state), memory=None, previous_action=NO_ACTION)


def hold(state: DecisionState) -> DecisionState:
    """Return the state while nothing can be sensed: stop, drop what is under way, and go on with the memory later."""
    return replace(state, set_point=STOP, pending=None)


def resumed(state: DecisionState, slot: Slot, rates: RatesSection) -> DecisionState:
    """Return the state after slots that were missed: what was decided before too many of them is too old."""
    return hold(state) if slot.missed >= rates.ticks_per_decision else state


def failure(state: DecisionState, acted: Acted | None, rates: RatesSection, patience_s: float) -> str:
    """Return why no more decisions are to be expected: a failed engine, or none in time for so long; else ""."""
    if acted is None:
        return ""
    if acted.fault:
        return f"engine failed: {acted.fault}"
    silent_s = state.misses_in_row * rates.ticks_per_decision / rates.control_hz
    return f"engine failed: no decision for {patience_s:g} s" if silent_s >= patience_s else ""


def is_lost(state: DecisionState, rates: RatesSection) -> bool:
    """Return whether so many decisions have been missed in a row that nobody asks for a motion any more."""
    return state.misses_in_row >= rates.deadline_misses_to_stop


def is_due(state: DecisionState, slot: Slot, rates: RatesSection) -> bool:
    """Return whether a decision senses in this slot: in one of its grid, or the first one after it was missed."""
    return state.pending is None and slot.number % rates.ticks_per_decision <= slot.missed


def reset_reason(state: DecisionState, slot: Slot, rates: RatesSection, reset_s: float | None) -> str:
    """Return why the memory is reset before a decision in this slot, or "" (paper 1, section 1.5: every 10 s)."""
    if state.memory is None:
        return "sequence_start"
    if slot.number - state.memory_slot > GAP_DECISIONS * rates.ticks_per_decision:
        return "decision_gap"
    if reset_s is not None and slot.number - state.reset_slot >= round(reset_s * rates.control_hz):
        return "period"
    return ""


def sense(
    state: DecisionState,
    slot: Slot,
    observation: Observation,
    inference: Inference,
    rates: RatesSection,
    memory: Recurrence,
) -> tuple[DecisionState, Sensed]:
    """Hand an observation to the inference, with the memory that it is due; return the state that waits for it.

    When the previous inference has not returned yet, nothing is started: the due slot will find nothing, a miss.
    """
    reset = reset_reason(state, slot, rates, memory.reset_s)
    if reset and state.set_point == STOP and state.previous_action != STOP_ACTION:
        state = replace(state, previous_action=NO_ACTION)  # that action is no longer in force
    if reset or state.memory is None:
        state = replace(state, memory=memory.initial, memory_slot=slot.number, reset_slot=slot.number)
    number = state.decisions + 1
    observation = replace(observation, previous_action=state.previous_action)
    inference.submit(number, observation, state.memory if state.memory is not None else memory.initial)
    pending = Pending(number, slot.number, slot.start_ns, slot.number + rates.delay_ticks)
    return replace(state, decisions=number, pending=pending), Sensed(number, observation, reset)


def act(
    state: DecisionState, slot: Slot, inference: Inference, rates: RatesSection
) -> tuple[DecisionState, Acted | None]:
    """At a decision's due slot put it in force, or count the miss. Between due slots nothing changes."""
    pending = state.pending
    if pending is None or slot.number < pending.due_slot:
        return state, None
    result = _take(inference, pending.number)
    if result is None:
        return _missed(state, rates), Acted(pending.number, pending.sensed_ns, None, 0)
    fault = fault_of(result)
    if fault or result.decision is None:
        acted = Acted(pending.number, pending.sensed_ns, None, result.elapsed_ns, result.finished_ns, fault)
        return hold(state), acted
    accepted = replace(
        state,
        set_point=ACTIONS[result.decision.action],
        previous_action=result.decision.action,
        memory=result.memory,
        memory_slot=pending.sensed_slot,
        misses_in_row=0,
        pending=None,
    )
    return accepted, Acted(pending.number, pending.sensed_ns, result.decision, result.elapsed_ns, result.finished_ns)


def fault_of(result: Result) -> str:
    """Return what is wrong with a decision, or "". Engines are checked where they run; nothing else gets past here."""
    decision, memory = result.decision, result.memory
    if decision is None or memory is None:
        return result.error or "the engine gave no decision"
    if not 0 <= decision.action < len(ACTIONS):
        return f"action {decision.action} is not one of 0 to {len(ACTIONS) - 1}"
    for name, values in (("logits", decision.logits), ("memory", memory)):
        if not np.isfinite(values).all():
            return f"{name} not finite"
    return ""


def _take(inference: Inference, number: int) -> Result | None:
    """Return the result of that decision; results that came too late for their own slot are dropped."""
    while (result := inference.poll()) is not None:
        if result.number == number:
            return result
    return None


def _missed(state: DecisionState, rates: RatesSection) -> DecisionState:
    """Return the state after a deadline miss: slower, and after so many in a row stopped."""
    misses, last = state.misses_in_row + 1, state.set_point
    slowed = Twist(last.v_mps * SLOW_DOWN_AFTER_MISS, last.w_radps * SLOW_DOWN_AFTER_MISS)
    set_point = STOP if misses >= rates.deadline_misses_to_stop else slowed
    return replace(state, set_point=set_point, misses_in_row=misses, pending=None)
