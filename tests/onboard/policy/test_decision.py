"""When a decision is due, when the memory is reset, and how a result takes effect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.config.config import RatesSection
from onboard.policy import decision
from onboard.policy.contract import ACTIONS, NO_ACTION
from onboard.policy.decision import (
    DecisionState,
    FinishedDecision,
    Pending,
    Recurrence,
    act,
    begin,
    failure,
    hold,
    is_due,
    reset_reason,
    restart,
    sense,
)
from onboard.policy.inference import InlineInference, blank_observation
from onboard.values.clock import Slot
from onboard.values.messages import STOP, Twist
from tests.rigs.runtime_bench import FORWARD, Puppet

RATES = RatesSection()
MEMORY = np.ones((1, 1), np.float32)
RECURRENCE = Recurrence(np.zeros((1, 1), np.float32), 10.0)
DRIVING = DecisionState(ACTIONS[FORWARD], FORWARD, MEMORY, memory_slot=100, reset_slot=40, decisions=7)


def slot(number: int, missed: int = 0) -> Slot:
    return Slot(number, number, number, missed)


#   slot  missed before it   due
DUE = [
    (0, 0, True),
    (1, 0, False),
    (9, 0, False),
    (10, 0, True),
    (11, 1, True),
    (12, 1, False),
    (12, 2, True),
    (19, 8, False),
    (19, 9, True),
    (19, 40, True),
    (20, 40, True),
]


@pytest.mark.parametrize(("number", "missed", "due"), DUE)
def test_a_decision_is_due_in_its_slot_or_the_first_after_it(number: int, missed: int, due: bool) -> None:
    assert is_due(DecisionState(), slot(number, missed), RATES) == due
    waiting = DecisionState(pending=Pending(1, 0, 0, number + 1))
    assert not is_due(waiting, slot(number, missed), RATES)


@given(blocks=st.lists(st.integers(0, 30), max_size=30), period=st.integers(1, 12))
def test_every_decision_slot_is_used_once_or_merged_with_the_next_by_a_block(blocks: list[int], period: int) -> None:
    rates = RatesSection(ticks_per_decision=max(period, 2), delay_ticks=1)
    number, due = 0, []
    for missed in blocks:
        number += missed
        due += [number] if is_due(DecisionState(), slot(number, missed), rates) else []
        number += 1
    served = [one // rates.ticks_per_decision for one in due]
    assert served == sorted(set(served))


#   slot   memory, memory slot, reset slot       policy's reset [s]   reason
RESETS = [
    ("first decision", 0, replace(DRIVING, memory=None), 10.0, "sequence_start"),
    ("the next one", 110, DRIVING, 10.0, ""),
    ("one missed", 120, DRIVING, 10.0, ""),
    ("two missed", 130, DRIVING, 10.0, "decision_gap"),
    ("just within", 125, DRIVING, 10.0, ""),
    ("just beyond", 126, DRIVING, 10.0, "decision_gap"),
    ("before ten seconds", 339, replace(DRIVING, memory_slot=330), 10.0, ""),
    ("after ten seconds", 340, replace(DRIVING, memory_slot=330), 10.0, "period"),
    ("never by time", 3_000_000, replace(DRIVING, memory_slot=2_999_990), None, ""),
]


@pytest.mark.parametrize(("what", "number", "state", "reset_s", "reason"), RESETS, ids=[row[0] for row in RESETS])
def test_why_the_memory_is_reset(
    what: str, number: int, state: DecisionState, reset_s: float | None, reason: str
) -> None:
    assert reset_reason(state, slot(number), RATES, reset_s) == reason


@pytest.mark.parametrize(("control_hz", "period"), [(30.0, 10), (60.0, 20), (15.0, 5)])
def test_ten_seconds_are_thirty_decisions_at_any_control_rate(control_hz: float, period: int) -> None:
    rates = RatesSection(control_hz=control_hz, ticks_per_decision=period)

    def reason(decision: int) -> str:
        state = replace(DRIVING, memory_slot=(decision - 1) * period, reset_slot=0)
        return reset_reason(state, slot(decision * period), rates, 10.0)

    assert [decision for decision in range(1, 31) if reason(decision)] == [30]


def test_sensing_hands_over_memory_and_previous_action_and_waits() -> None:
    policy = Puppet()
    inference = InlineInference(policy, lambda: 0)
    waiting, sensed = sense(DRIVING, slot(110), blank_observation(), inference, RATES, RECURRENCE)
    assert (sensed.number, sensed.memory_reset, sensed.observation.previous_action) == (8, "", FORWARD)
    assert (policy.remembered, policy.seen) == ([1], [sensed.observation])
    assert waiting == replace(DRIVING, decisions=8, pending=Pending(8, 110, 110, 113))
    assert act(waiting, slot(112), inference) == (waiting, None)
    acted, record = act(waiting, slot(113), inference)
    assert record is not None
    assert record.number == 8
    assert (acted.memory_slot, float(acted.memory[0, 0]), acted.pending) == (110, 2.0, None)


def test_a_reset_is_recorded_with_the_decision_and_its_slot() -> None:
    policy = Puppet()
    old = replace(DRIVING, memory_slot=330)
    waiting, sensed = sense(old, slot(340), blank_observation(), InlineInference(policy, lambda: 0), RATES, RECURRENCE)
    assert (sensed.memory_reset, policy.remembered) == ("period", [0])
    assert (waiting.reset_slot, waiting.memory_slot) == (340, 340)
    assert sensed.observation.previous_action == FORWARD


def test_holding_stops_and_keeps_the_memory_and_restarting_forgets_it() -> None:
    busy = replace(DRIVING, pending=Pending(8, 110, 110, 113), misses_in_row=2)
    held = hold(busy)
    assert (held.set_point, held.pending, held.memory, held.previous_action) == (STOP, None, MEMORY, FORWARD)
    fresh = restart(busy)
    assert (fresh.set_point, fresh.pending, fresh.memory, fresh.previous_action) == (STOP, None, None, NO_ACTION)
    assert (fresh.misses_in_row, fresh.decisions) == (2, 7)
    assert begin(busy) == replace(fresh, misses_in_row=0)


@pytest.mark.parametrize("to_stop", [1, 3])
def test_misses_in_a_row_slow_down_and_then_stop(to_stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "MISSES_TO_STOP", to_stop)
    state, speeds = DRIVING, []
    for miss in range(4):
        waiting = replace(state, pending=Pending(8 + miss, 0, 0, 3))
        state, record = act(waiting, slot(3), InlineInference(Puppet(), lambda: 0))
        assert record is not None
        assert (record.decision, record.fault) == (None, "")
        speeds.append(state.set_point.v_mps)
    assert speeds == [0.6 * 0.5 ** (n + 1) if n + 1 < to_stop else 0.0 for n in range(4)]
    assert state.previous_action == FORWARD
    assert state.memory is MEMORY
    assert Twist(0.6, 0.0) == ACTIONS[FORWARD]


MISSED = FinishedDecision(1, 0, None, 0)

#   what                  acted                          misses in a row  why
FAILURES = [
    ("nothing was due",   None,                          15,              ""),
    ("it failed",         replace(MISSED, fault="why"),  0,               "engine failed: why"),
    ("late for a while",  MISSED,                        14,              ""),
    ("late for too long", MISSED,                        15,              "engine failed: no decision for 5 s"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "acted", "misses", "why"), FAILURES, ids=[row[0] for row in FAILURES])
def test_why_no_more_decisions_are_to_be_expected(
    what: str, acted: FinishedDecision | None, misses: int, why: str
) -> None:
    assert failure(DecisionState(misses_in_row=misses), acted, RATES, 5.0) == why
