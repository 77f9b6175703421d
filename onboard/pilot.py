"""When decisions are made and when they take effect: a constant delay from sensing to acting.

A decision senses at its tick and acts `delay_ticks` later, always. One that is not ready by then is a deadline miss:
the last set point is kept at half its speed, and after `deadline_misses_to_stop` in a row it is zero. The recurrent
memory is a value here: passed into a decision, replaced by what comes back, and reset in `reset_reason`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from onboard.config import RatesSection
from onboard.contract import ACTIONS, NO_ACTION
from onboard.inference import Inference, Result
from onboard.messages import STOP, Memory, Observation, Twist
from onboard.scheduler import NS_PER_S, Slot
from onboard.tick import Acted

SLOW_DOWN_AFTER_MISS = 0.5
GAP_DECISIONS = 2.5
"""A pause of more decision periods than this breaks the recurrent sequence: the memory is reset."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A decision under way: its number, the observation it was given, and the slot in which it acts."""

    number: int
    sensed_ns: int
    due_slot: int
    observation: Observation


@dataclass(frozen=True, slots=True)
class Pilot:
    """Where decision making stands between two ticks.

    set_point:        the velocity pair in force
    previous_action:  its index, contract.NO_ACTION at an episode's start, after a recovery and after an override
    memory:           recurrent state after the last accepted decision
    memory_since_ns:  when it was last reset
    accepted_ns:      sensing time of the last accepted decision, None when the sequence is new
    """

    memory: Memory | None = None
    memory_since_ns: int = 0
    accepted_ns: int | None = None
    set_point: Twist = STOP
    previous_action: int = NO_ACTION
    next_slot: int = 0
    decisions: int = 0
    misses_in_row: int = 0
    pending: Pending | None = None


def restart(pilot: Pilot) -> Pilot:
    """Return the pilot for a new sequence (new episode, after a recovery or an override): stop and forget."""
    return replace(
        pilot,
        memory=None,
        accepted_ns=None,
        set_point=STOP,
        previous_action=NO_ACTION,
        misses_in_row=0,
        pending=None,
    )


def is_due(pilot: Pilot, slot: Slot) -> bool:
    """Return True when a decision senses in this slot."""
    return pilot.pending is None and slot.number >= pilot.next_slot


def reset_reason(pilot: Pilot, now_ns: int, rates: RatesSection, memory_reset_s: float | None) -> str:
    """Return why the memory is reset before the next decision, or "" (paper 1, section 1.5: every 10 s)."""
    if pilot.memory is None or pilot.accepted_ns is None:
        return "sequence_start"
    if now_ns - pilot.accepted_ns > GAP_DECISIONS * rates.ticks_per_decision / rates.control_hz * NS_PER_S:
        return "decision_gap"
    if memory_reset_s is not None and now_ns - pilot.memory_since_ns >= memory_reset_s * NS_PER_S:
        return "period"
    return ""


def sense(pilot: Pilot, slot: Slot, observation: Observation, inference: Inference, rates: RatesSection) -> Pilot:
    """Hand an observation to the inference; return the pilot that waits for it.

    When the previous inference has not returned yet, nothing is started: the due slot will find nothing, a miss.
    """
    if pilot.memory is None:
        raise ValueError("the memory must be reset before the first decision of a sequence")
    number = pilot.decisions + 1
    inference.submit(number, observation, pilot.memory)
    period = rates.ticks_per_decision
    return replace(
        pilot,
        decisions=number,
        next_slot=(slot.number // period + 1) * period,
        pending=Pending(number, slot.start_ns, slot.number + rates.delay_ticks, observation),
    )


def act(pilot: Pilot, slot: Slot, inference: Inference, rates: RatesSection) -> tuple[Pilot, Acted | None]:
    """At a decision's due slot put it in force, or count the miss. Between due slots nothing changes."""
    pending = pilot.pending
    if pending is None or slot.number < pending.due_slot:
        return pilot, None
    result = _take(inference, pending.number)
    if result is None:
        return _miss(pilot, pending, rates)
    if result.decision is None or result.memory is None:
        fault = result.error or "the engine gave no decision"
        failed = Acted(pending.number, pending.sensed_ns, None, result.elapsed_ns, result.finished_ns, fault)
        return replace(pilot, pending=None, set_point=STOP), failed
    accepted = replace(
        pilot,
        memory=result.memory,
        accepted_ns=pending.sensed_ns,
        set_point=ACTIONS[result.decision.action],
        previous_action=result.decision.action,
        misses_in_row=0,
        pending=None,
    )
    return accepted, Acted(pending.number, pending.sensed_ns, result.decision, result.elapsed_ns, result.finished_ns)


def _take(inference: Inference, number: int) -> Result | None:
    """Return the result of that decision; results that came too late for their own slot are dropped."""
    while (result := inference.poll()) is not None:
        if result.number == number:
            return result
    return None


def _miss(pilot: Pilot, pending: Pending, rates: RatesSection) -> tuple[Pilot, Acted]:
    misses = pilot.misses_in_row + 1
    slowed = Twist(
        pilot.set_point.v_mps * SLOW_DOWN_AFTER_MISS,
        pilot.set_point.w_radps * SLOW_DOWN_AFTER_MISS,
    )
    set_point = STOP if misses >= rates.deadline_misses_to_stop else slowed
    missed = replace(pilot, pending=None, misses_in_row=misses, set_point=set_point)
    return missed, Acted(pending.number, pending.sensed_ns, None, 0)
