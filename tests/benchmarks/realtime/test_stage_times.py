"""What it costs to know where a tick's time goes: the timing of all stages beside the whole tick, in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from onboard.counters import STAGES, Counters, Journal
from onboard.values.clock import MonotonicClock, Slot
from tests.rigs.runtime_bench import LEFT, Bench, Puppet

ROUNDS, TICKS = 30, 20
SLOT = Slot(1, 0, 0, 0)


def median_us(call: Callable[[], object]) -> float:
    """Return the median processor time of a call."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(TICKS):
            call()
        times.append((time.process_time() - began) / TICKS * 1e6)
    return statistics.median(times)


def test_the_times_of_the_stages_cost_little_of_a_tick() -> None:
    journal = Journal(MonotonicClock(), Counters())

    def timed() -> None:
        journal.open(SLOT)
        for name in STAGES:
            with journal.timed(name):
                pass
        dict(journal.stage_ns)

    bench = Bench(Puppet(LEFT)).driving(x_m=30.0)
    timing_us, tick_us = median_us(timed), median_us(bench.tick)
    print(
        f"\nstage times {timing_us:.1f} us a tick, a tick of the test bench {tick_us:.0f} us, {timing_us / tick_us:.1%}"
    )
    assert timing_us < 0.1 * tick_us
