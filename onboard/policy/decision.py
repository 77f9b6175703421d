"""The schedule of decisions, with a constant delay from sensing to acting.

A decision senses in every `ticks_per_decision`-th slot of the grid and acts exactly `delay_ticks` later. A decision
that is not ready by then is a deadline miss: the set point is halved, and zero after `MISSES_TO_STOP` in a
row. A pause of the loop as long as a decision's period cancels everything before it.

The recurrent memory is a value: passed into a decision, replaced by its result, reset by `reset_reason`. Time is
counted in slots, so that a replay of the slots gives the same decisions. The lower-case names are keys of `rates` in
`onboard/config/config.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onboard.config.config import RatesSection
from onboard.policy.contract import ACTIONS, NO_ACTION, STOP_ACTION, nearest_action, twist_of
from onboard.policy.inference import Inference, InferenceResult
from onboard.values import reasons
from onboard.values.clock import Slot
from onboard.values.messages import STOP, Decision, Memory, Observation, Twist
from onboard.values.reasons import NO_REASON, Said


@dataclass(frozen=True, slots=True)
class StartedDecision:
    """A decision that began in this tick. memory_reset: reason of a memory reset before it, or ""."""

    number: int
    observation: Observation
    memory_reset: str


@dataclass(frozen=True, slots=True)
class FinishedDecision:
    """A decision at its due slot. `decision` is None after a deadline miss, or after an engine failure (see `fault`).

    elapsed_ns: compute time of the policy
    sensed_ns:  start of the tick that sensed, monotonic
    """

    number: int
    sensed_ns: int
    decision: Decision | None
    elapsed_ns: int
    finished_ns: int = 0
    fault: str = ""


SLOW_DOWN_AFTER_MISS = 0.5
MISSES_TO_STOP = 3
"""Late decisions in a row after which the command is zero."""
GAP_DECISIONS = 2.5
"""A pause of more decision periods than this breaks the recurrent sequence: the memory is reset."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The policy's initial memory, and the period of its resets [s]; None for no resets."""

    initial: Memory
    reset_s: float | None


@dataclass(frozen=True, slots=True)
class Pending:
    """A decision in progress: its number, slot and time of sensing, and the slot in which it acts."""

    number: int
    sensed_slot: int
    sensed_ns: int
    due_slot: int


@dataclass(frozen=True, slots=True)
class DecisionState:
    """State of the decisions between two ticks.

    set_point:       the current velocity pair
    previous_action: `Decision.action` of it; contract.NO_ACTION at an episode's start, after recovery and override
    memory:          recurrent state after the last accepted decision; None before the first decision of a sequence
    memory_slot:     slot in which that decision sensed, or of the last reset
    reset_slot:      slot of the last reset
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
    """Return the state for a new episode, with the count of misses cleared: a lost engine gets another chance."""
    return replace(restart(state), misses_in_row=0)


def restart(state: DecisionState) -> DecisionState:
    """Return the state for a new sequence, after a recovery or an override: stop and reset the memory.

    A lost engine stays lost until it returns a decision.
    """
    return replace(hold(state), memory=None, previous_action=NO_ACTION)


def replaced(state: DecisionState, twist: Twist) -> DecisionState:
    """Return the state with another current velocity pair. The policy gets it as its previous action."""
    return state if twist == state.set_point else replace(state, set_point=twist, previous_action=nearest_action(twist))


def hold(state: DecisionState) -> DecisionState:
    """Return the state while sensing is impossible: stop, drop the pending decision, keep the memory."""
    return replace(state, set_point=STOP, pending=None)


def resumed(state: DecisionState, slot: Slot, rates: RatesSection) -> DecisionState:
    """Return the state after missed slots: after too many of them the last decision is stale."""
    return hold(state) if slot.missed >= rates.ticks_per_decision else state


def failure(state: DecisionState, acted: FinishedDecision | None, rates: RatesSection, patience_s: float) -> Said:
    """Return why the engine counts as failed (a fault, or no decision for `patience_s`), or ""."""
    if acted is None:
        return NO_REASON
    if acted.fault:
        return reasons.ENGINE_FAILED.say(why=acted.fault)
    silent_s = state.misses_in_row * rates.ticks_per_decision / rates.control_hz
    return reasons.ENGINE_SILENT.say(seconds=patience_s) if silent_s >= patience_s else NO_REASON


def is_lost(state: DecisionState) -> bool:
    """Return whether the engine is lost: so many deadline misses in a row that the set point is zero."""
    return state.misses_in_row >= MISSES_TO_STOP


def is_due(state: DecisionState, slot: Slot, rates: RatesSection) -> bool:
    """Return whether a decision senses in this slot: a slot of its grid, or the first slot after a missed one."""
    return state.pending is None and slot.number % rates.ticks_per_decision <= slot.missed


def reset_reason(state: DecisionState, slot: Slot, rates: RatesSection, reset_s: float | None) -> Said:
    """Return why the memory is reset before a decision in this slot, or "" (paper 1, section 5: every 10 s)."""
    if state.memory is None:
        return reasons.SEQUENCE_START.named
    if slot.number - state.memory_slot > GAP_DECISIONS * rates.ticks_per_decision:
        return reasons.DECISION_GAP.named
    if reset_s is not None and slot.number - state.reset_slot >= round(reset_s * rates.control_hz):
        return reasons.PERIOD.named
    return NO_REASON


def sense(
    state: DecisionState,
    slot: Slot,
    observation: Observation,
    inference: Inference,
    rates: RatesSection,
    memory: Recurrence,
) -> tuple[DecisionState, StartedDecision]:
    """Submit an observation and the memory to the inference; return the state that waits for the result.

    While the previous inference runs, nothing is started, and the due slot counts a miss.
    """
    reset = reset_reason(state, slot, rates, memory.reset_s)
    if reset and state.set_point == STOP and state.previous_action != STOP_ACTION:
        state = replace(state, previous_action=NO_ACTION)  # that action no longer acts
    if reset or state.memory is None:
        state = replace(state, memory=memory.initial, memory_slot=slot.number, reset_slot=slot.number)
    number = state.decisions + 1
    observation = replace(observation, previous_action=state.previous_action, set_point=state.set_point)
    inference.submit(number, observation, state.memory if state.memory is not None else memory.initial)
    pending = Pending(number, slot.number, slot.start_ns, slot.number + rates.delay_ticks)
    return replace(state, decisions=number, pending=pending), StartedDecision(number, observation, reset)


def act(state: DecisionState, slot: Slot, inference: Inference) -> tuple[DecisionState, FinishedDecision | None]:
    """Apply a decision at its due slot, or count a miss. Other slots change nothing."""
    pending = state.pending
    if pending is None or slot.number < pending.due_slot:
        return state, None
    result = _take(inference, pending.number)
    if result is None:
        return _missed(state), FinishedDecision(pending.number, pending.sensed_ns, None, 0)
    fault = fault_of(result)
    if fault or result.decision is None:
        acted = FinishedDecision(pending.number, pending.sensed_ns, None, result.elapsed_ns, result.finished_ns, fault)
        return hold(state), acted
    accepted = replace(
        state,
        set_point=twist_of(result.decision),
        previous_action=result.decision.action,
        memory=result.memory,
        memory_slot=pending.sensed_slot,
        misses_in_row=0,
        pending=None,
    )
    return accepted, FinishedDecision(
        pending.number, pending.sensed_ns, result.decision, result.elapsed_ns, result.finished_ns
    )


def fault_of(result: InferenceResult) -> str:
    """Return the reason to reject a decision, or "" if it is valid."""
    decision, memory = result.decision, result.memory
    if decision is None or memory is None:
        return result.error or "the engine gave no decision"
    if not 0 <= decision.action < len(ACTIONS):
        return f"action {decision.action} is not one of 0 to {len(ACTIONS) - 1}"
    twist = twist_of(decision)
    for name, values in (("logits", decision.logits), ("memory", memory), ("command", (twist.v_mps, twist.w_radps))):
        if not np.isfinite(values).all():
            return f"{name} not finite"
    return ""


def _take(inference: Inference, number: int) -> InferenceResult | None:
    """Return the result of decision `number`, or None; late results of earlier decisions are dropped."""
    while (result := inference.poll()) is not None:
        if result.number == number:
            return result
    return None


def _missed(state: DecisionState) -> DecisionState:
    """Return the state after a deadline miss: slower, or stopped after too many in a row."""
    misses, last = state.misses_in_row + 1, state.set_point
    slowed = Twist(last.v_mps * SLOW_DOWN_AFTER_MISS, last.w_radps * SLOW_DOWN_AFTER_MISS)
    set_point = STOP if misses >= MISSES_TO_STOP else slowed
    return replace(state, set_point=set_point, misses_in_row=misses, pending=None)
