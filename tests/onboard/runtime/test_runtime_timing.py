"""Timing of decisions and actions: the grid, the constant delay, lateness, and failing engines."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest

from onboard.counters import Counters
from onboard.policy.contract import ACTIONS, NO_ACTION
from onboard.safety.limits import WINDOW
from onboard.state import TickRecord
from onboard.values.messages import STOP, Decision, Inputs, Twist
from tests.rigs.runtime_bench import (
    FORWARD,
    LEFT,
    MS,
    SLOW,
    Bench,
    Puppet,
    acted_slots,
    commands,
    raising,
    sensed_slots,
    wanting,
)

AHEAD = ACTIONS[FORWARD]


def at(factor: float) -> Twist:
    return Twist(AHEAD.v_mps * factor, 0.0)


@pytest.mark.parametrize("delay_ticks", [1, 3, 9])
def test_a_decision_acts_the_same_number_of_ticks_after_it_sensed(delay_ticks: int) -> None:
    bench = Bench(rates={"delay_ticks": delay_ticks})
    bench.ask()
    ticks = bench.ticks(60)
    assert sensed_slots(ticks) == [0, 10, 20, 30, 40, 50]
    assert acted_slots(ticks) == [slot + delay_ticks for slot in sensed_slots(ticks)]
    assert commands(ticks) == [STOP] * delay_ticks + [AHEAD] * (60 - delay_ticks)


def test_a_goal_waits_for_the_next_decision_slot() -> None:
    bench = Bench()
    bench.ticks(7)
    bench.ask()
    ticks = bench.ticks(30)
    assert sensed_slots(ticks) == [10, 20, 30]
    assert acted_slots(ticks) == [13, 23, 33]


#   what                              blocked before slot, slots missed     sensed                acted
BLOCKS = [
    ("between decisions",             14, 3,                               [0, 10, 20, 30, 40], [3, 13, 23, 33]),
    ("over a decision",               18, 4,                               [0, 10, 22, 30, 40], [3, 13, 25, 33]),
    ("over an action",                22, 3,                               [0, 10, 20, 30, 40], [3, 13, 25, 33]),
    ("over both",                     18, 7,                               [0, 10, 25, 30, 40], [3, 13, 28, 33]),
    ("so late that the next is near", 18, 11,                              [0, 10, 29, 40],     [3, 13, 32]),
    ("over two decisions",            18, 20,                              [0, 10, 38],         [3, 13]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "before", "missed", "sensed", "acted"), BLOCKS, ids=[row[0] for row in BLOCKS])
def test_missed_slots_are_counted_never_caught_up(
    what: str, before: int, missed: int, sensed: list[int], acted: list[int]
) -> None:
    bench = Bench()
    bench.ask()
    ticks = bench.ticks(before)
    bench.skip(missed)
    ticks += bench.ticks(41 - before - missed)
    assert [tick.slot.number for tick in ticks] == [*range(before), *range(before + missed, 41)]
    assert bench.runtime.counters.missed_slots == missed
    assert (sensed_slots(ticks), acted_slots(ticks)) == (sensed, acted)


def test_a_late_decision_is_dropped_and_the_set_point_halves() -> None:
    policy = Puppet(wanting(FORWARD, LEFT, SLOW))
    bench = Bench(policy, takes_ms={2: 150})
    bench.ask()
    ticks = bench.ticks(40)
    assert commands(ticks)[3:13] == [AHEAD] * 10
    assert commands(ticks)[13:23] == [at(0.5)] * 10  # never LEFT, which came at slot 15
    assert commands(ticks)[23:] == [ACTIONS[SLOW]] * 17
    assert (bench.runtime.counters.deadline_misses, bench.runtime.counters.decisions) == (1, 3)


def test_a_late_decision_is_not_taken_for_the_next_one() -> None:
    policy = Puppet(wanting(FORWARD, LEFT, SLOW))
    bench = Bench(policy, takes_ms={2: 150, 3: 150})
    bench.ask()
    ticks = bench.ticks(40)
    assert commands(ticks)[23:33] == [at(0.25)] * 10
    assert ACTIONS[LEFT] not in commands(ticks)
    assert ticks[33].command == ACTIONS[SLOW]


def test_misses_count_only_in_a_row() -> None:
    bench = Bench(takes_ms={2: 110, 4: 110, 5: 110})
    bench.ask()
    ticks = bench.ticks(60)
    acted = [tick.command for tick in ticks if tick.acted]
    assert acted == [AHEAD, at(0.5), AHEAD, at(0.5), at(0.25), AHEAD]


def test_one_just_in_time_acts_and_one_just_too_late_does_not() -> None:
    in_time, too_late = Bench(takes_ms={1: 99.9}), Bench(takes_ms={1: 100.1})
    for bench in (in_time, too_late):
        bench.ask()
    assert in_time.tick(4).command == AHEAD
    assert too_late.tick(4).command == STOP
    assert in_time.runtime.counters.over_budget == 1


def test_misses_in_a_row_stop_the_robot_and_a_decision_starts_it_again() -> None:
    bench = Bench(takes_ms={2: 990})
    bench.ask()
    ticks = bench.ticks(60)
    acted = {tick.slot.number: tick for tick in ticks if tick.acted}
    assert [acted[slot].command for slot in (3, 13, 23, 33)] == [AHEAD, at(0.5), at(0.25), STOP]
    assert ticks[42].command == STOP
    assert acted[43].command == AHEAD
    assert bench.inference.refused == [3, 4]  # none began while the engine was busy
    assert [tick.acted.number for tick in acted.values()] == [1, 2, 3, 4, 5, 6]


def test_a_lost_engine_does_not_wait_for_a_ramp() -> None:
    """The ramp that smooths a policy's set points must not keep a robot rolling without a policy or operator."""
    bench = Bench(takes_ms={4: 1e9}, limits={"acceleration_mps2": 0.3})
    bench.ask()
    ticks = bench.ticks(70)
    third = next(tick for tick in ticks if tick.after.pilot.misses_in_row == 3)
    assert ticks[third.slot.number - 1].command.v_mps > 0.1
    assert (third.command, third.reason, third.state) == (STOP, "engine_lost", "navigating")


def test_an_operator_who_lets_go_while_the_engine_is_lost_leaves_the_robot_standing_at_once() -> None:
    """Decisions restart after an operator. There is no set point then, so there is no ramp."""
    bench = Bench(takes_ms={4: 1e9}, limits={"acceleration_mps2": 0.3})
    bench.ask()
    bench.ticks(100)
    for _ in range(30):
        bench.operate(AHEAD)
        driven = bench.tick()
    assert driven.command.v_mps > 0.1
    after = bench.ticks(25)
    let_go = next(number for number, tick in enumerate(after) if tick.wanted != AHEAD)
    assert set(commands(after[:let_go])) != {STOP}
    assert {(tick.command, tick.reason) for tick in after[let_go:]} == {(STOP, "engine_lost")}


def test_an_engine_that_hangs_leaves_the_robot_standing() -> None:
    bench = Bench(takes_ms={3: 1e9})
    bench.driving()
    bench.seconds(3.0)
    assert set(commands(bench.seconds(3.0))) == {STOP}


#   what                    result instead of the decision                                        reason
FAULTS = [
    ("engine error", {"decision": None, "memory": None, "error": "CUDA is gone"}, "CUDA is gone"),
    ("nothing at all", {"decision": None, "memory": None}, "the engine gave no decision"),
    ("NaN logits", {"decision": Decision(3, np.full(28, np.nan, np.float32))}, "logits not finite"),
    ("infinite memory", {"memory": np.full((1, 1), np.inf, np.float32)}, "memory not finite"),
    ("no action", {"decision": Decision(NO_ACTION, np.zeros(28, np.float32))}, "action 28 is not one of 0 to 27"),
    ("a negative action", {"decision": Decision(-1, np.zeros(28, np.float32))}, "action -1 is not one of 0 to 27"),
]


@pytest.mark.parametrize(("what", "broken", "reason"), FAULTS, ids=[row[0] for row in FAULTS])
def test_an_engine_that_fails_stops_the_robot_in_the_same_tick(what: str, broken: dict[str, Any], reason: str) -> None:
    bench = Bench(broken={3: broken})
    bench.ask()
    ticks = bench.ticks(30)
    assert commands(ticks)[22:24] == [AHEAD, STOP]
    assert ticks[23].state == f"stopped: engine failed: {reason}"
    assert set(commands(ticks[23:])) == {STOP}
    assert bench.runtime.counters.faults["engine_failed"] == 1
    assert bench.runtime.counters.deadline_misses == 0


def test_a_policy_that_raises_is_an_engine_that_fails_and_a_new_goal_tries_again() -> None:
    policy = Puppet(raising("wrong shape"))
    bench = Bench(policy)
    bench.driving()
    assert bench.tick().state == "stopped: engine failed: wrong shape"
    policy.action = FORWARD
    assert bench.driving().tick().command == AHEAD


def test_what_was_decided_before_a_cancel_is_never_done() -> None:
    bench = Bench()
    bench.ask()
    bench.ticks(2)
    bench.cancel()
    assert set(commands(bench.ticks(30))) == {STOP}


def test_what_was_decided_for_an_older_goal_is_never_done() -> None:
    policy = Puppet(wanting(LEFT, FORWARD))
    bench = Bench(policy)
    bench.ask()
    bench.ticks(2)
    bench.ask(0.0, 5.0)
    ticks = bench.ticks(20)
    assert ACTIONS[LEFT] not in commands(ticks)
    assert commands(ticks)[-1] == AHEAD


def test_sense_to_act_is_measured_from_the_tick_that_sensed() -> None:
    bench = Bench()
    bench.driving()
    counters = bench.runtime.counters
    assert counters.sense_to_act.summary_ms()["max"] == pytest.approx(100.0, abs=0.001)
    assert counters.delay_error.max_ns <= 3


class Laboured:
    """Runs the runtime's own loop for some ticks; the work of each takes longer than the work of the tick before."""

    WORK_MS = (1.0, 3.5, 0.4, 6.0, 2.2, 4.9, 0.9)

    def __init__(self, lead_ms: float, ticks: int = 100) -> None:
        self.ticks: list[TickRecord] = []
        self.bench = Bench(Puppet(wanting(FORWARD, LEFT, SLOW)), listeners=(self,))
        self._work_ms, self._most = itertools.cycle(self.WORK_MS), ticks
        self.bench.alter = self._work
        self.bench.ask(30.0)
        asyncio.run(self.bench.runtime.run(round(lead_ms * MS)))

    def delays_ms(self) -> list[float]:
        return [(tick.sent_ns - tick.acted.sensed_ns) / MS for tick in self.ticks if tick.acted is not None]

    def _work(self, inputs: Inputs) -> Inputs:
        self.bench.clock.advance(round(next(self._work_ms) * MS))
        return inputs

    def tick(self, record: TickRecord, counters: Counters) -> None:
        self.ticks.append(record)
        if len(self.ticks) == self._most:
            self.bench.runtime.stop()


def test_a_tick_that_begins_early_sends_after_exactly_the_same_delay_whatever_its_work_takes() -> None:
    ahead, behind = Laboured(lead_ms=6.0), Laboured(lead_ms=0.0)
    assert len(ahead.delays_ms()) == 10
    assert ahead.delays_ms() == pytest.approx([100.0] * 10, abs=1e-5)
    assert max(behind.delays_ms()) - min(behind.delays_ms()) > 4.0
    began = {tick.slot.number: tick.slot.start_ns for tick in ahead.ticks}
    for tick, other in zip(ahead.ticks, behind.ticks, strict=True):
        assert began[tick.slot.number] == other.slot.start_ns - (tick.acted is not None) * 6 * MS
        assert (tick.slot.missed, tick.slot.lateness_ns, tick.command) == (0, 0, other.command)


def test_work_that_takes_longer_than_the_lead_is_not_made_longer() -> None:
    delays_ms = Laboured(lead_ms=3.0).delays_ms()
    assert min(delays_ms) == pytest.approx(100.0, abs=1e-5)
    assert max(delays_ms) == pytest.approx(100.0 + max(Laboured.WORK_MS) - 3.0, abs=1e-5)


@pytest.mark.parametrize(("sensed_late_ms", "held_ms"), [(0, 0), (4, 4), (14, 14), (25, 15)])
def test_a_late_sensing_is_made_up_for_by_a_short_wait_that_is_bounded(sensed_late_ms: int, held_ms: int) -> None:
    bench = Bench()
    bench.ask()
    bench.clock.advance(sensed_late_ms * MS)
    acting = bench.ticks(4)[-1]
    assert acting.acted is not None
    assert acting.stage_ns["hold"] == pytest.approx(held_ms * MS, abs=2)
    assert acting.sent_ns - acting.slot.start_ns == acting.stage_ns["hold"]


def test_a_stop_never_waits() -> None:
    bench = Bench()
    bench.ask()
    bench.clock.advance(10 * MS)
    bench.ticks(3)
    bench.e_stop = True
    acting = bench.tick()
    assert acting.acted is not None
    assert acting.acted.decision is not None
    assert (acting.command, acting.stage_ns["hold"], acting.sent_ns) == (STOP, 0, acting.slot.start_ns)
    assert bench.runtime.counters.delay_error.count == 0


#   slots missed   decision pending         keeps the previous decision
PAUSES = [
    (9, False, True),
    (9, True, True),
    (10, False, False),
    (10, True, False),
    (300, False, False),
    (300, True, False),
]


@pytest.mark.parametrize(("missed", "in_progress", "goes_on"), PAUSES)
def test_after_a_long_pause_nothing_drives_by_an_old_picture(missed: int, in_progress: bool, goes_on: bool) -> None:
    bench = Bench(Puppet(FORWARD)).driving(x_m=30.0)
    while (bench.runtime.state.pilot.pending is not None) is not in_progress:
        bench.tick()
    decided = bench.runtime.state.pilot.decisions
    bench.skip(missed)
    ticks = bench.ticks(15)
    fresh = next(
        n for n, tick in enumerate(ticks) if tick.acted and tick.acted.decision and tick.acted.number > decided
    )
    slowed_mps = AHEAD.v_mps * (WINDOW - missed) / WINDOW  # limits R27
    assert set(commands(ticks[:fresh])) == {Twist(slowed_mps, 0.0) if goes_on else STOP}
    assert 0.0 < ticks[fresh].command.v_mps < AHEAD.v_mps
