"""Counters of a run: each event counts once, in its tick; and the journal of a tick."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from onboard.counters import BUDGET_MS, LOG_EVERY, STAGES, Counters, Journal
from onboard.system.log import with_code
from onboard.values.clock import SimulatedClock
from tests.rigs.runtime_bench import LEFT, Bench, Puppet


def test_a_run_is_counted_whole() -> None:
    bench = Bench(Puppet(LEFT), takes_ms={2: 80, 3: 110}, broken={5: {"decision": None, "error": "gone"}})
    bench.ask()
    ticks = bench.ticks(30)
    bench.skip(4)
    ticks += bench.ticks(30)
    counted = bench.runtime.counters
    assert (counted.ticks, counted.missed_slots) == (60, 4)
    assert (counted.decisions, counted.over_budget, counted.deadline_misses) == (3, 1, 1)
    assert counted.memory_resets == 1
    assert dict(counted.faults) == {"engine_failed": 1}
    assert dict(counted.reasons) == {"none": 39, "idle": 21}
    assert counted.decision.count == counted.sense_to_act.count == counted.delay_error.count == 3
    assert counted.lateness.count == 60
    assert {name: histogram.count for name, histogram in counted.stages.items()} == dict.fromkeys(STAGES, 60)


#   time of the second decision [ms]; the third misses its slot
BUDGETS = [(int(BUDGET_MS), 0), (int(BUDGET_MS) + 1, 1)]


@pytest.mark.parametrize(("took_ms", "over"), BUDGETS)
def test_a_decision_over_its_budget_is_counted(took_ms: int, over: int) -> None:
    bench = Bench(Puppet(LEFT), takes_ms={2: took_ms, 3: 110})
    bench.ask()
    bench.ticks(60)
    assert bench.runtime.counters.over_budget == over


def test_the_summary_is_plain_numbers() -> None:
    bench = Bench(Puppet(LEFT)).driving()
    summary = bench.runtime.counters.summary()
    assert json.loads(json.dumps(summary)) == summary
    assert list(summary["stages_ms"]) == list(STAGES)
    assert summary["decisions"] == bench.runtime.counters.decisions
    assert Counters().summary()["decision_ms"] == {"count": 0, "p50": 0.0, "p99": 0.0, "max": 0.0}


def test_a_tick_has_the_time_of_each_stage_and_how_long_the_tick_before_was_told() -> None:
    bench = Bench()

    class Slow:
        def tick(self, record: object, counters: Counters) -> None:
            bench.clock.advance(2_000_000 * counters.ticks)

    bench.runtime._listeners = (Slow(),)
    first, second, third = bench.ticks(3)
    assert list(first.stage_ns) == list(STAGES[:-1])
    assert set(second.stage_ns) == set(STAGES)
    assert (second.stage_ns["tell"], third.stage_ns["tell"]) == (2_000_000, 4_000_000)


# ---- the journal


def test_a_fault_that_comes_again_is_always_counted_and_seldom_logged() -> None:
    counters = Counters()
    journal = Journal(SimulatedClock(), counters)
    with capture_logs() as logged:
        for _ in range(2 * LOG_EVERY):
            journal.fault("stale_scan", "nobody looks")
    assert counters.faults["stale_scan"] == 2 * LOG_EVERY
    assert [line["count"] for line in logged] == [1, LOG_EVERY, 2 * LOG_EVERY]


def altered(bench: Bench, **inputs: object) -> None:
    bench.alter = lambda before: replace(before, **inputs)


#   what happens                                             event, code in the log
LOGGED = [
    (lambda bench: bench.driving().ask(x_m=math.nan), "goal_refused", "goal_not_finite"),
    (lambda bench: bench.driving().ask(x_m=1e4), "goal_refused", "goal_too_far"),
    (lambda bench: altered(bench.driving(), cancel=True), "mission", "cancelled"),
    (lambda bench: altered(bench.driving(), e_stop=True), "mission", "e_stop"),
    (lambda bench: altered(bench, speed_limit_mps=math.nan), "speed_limit_refused", "speed_limit_refused"),
]  # fmt: skip


@pytest.mark.parametrize(("happens", "event", "code"), LOGGED)
def test_the_log_has_the_code_of_a_reason_and_the_recording_does_not(happens, event: str, code: str) -> None:
    bench = Bench(Puppet(LEFT))
    with capture_logs() as entries:
        happens(bench)
        ticks = bench.ticks(2)
    assert [with_code(None, "", entry).get("code") for entry in entries if entry["event"] == event][-1] == code
    assert not [note for tick in ticks for note in tick.events if "code=" in note]
