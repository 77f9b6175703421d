"""How late ticks begin: our timerfd clock beside asyncio.sleep to the same absolute deadlines, in the same run."""

from __future__ import annotations

import asyncio

from onboard.commands.bench.lateness import AsyncioClock, count
from onboard.values.clock import Histogram, MonotonicClock
from tests.benchmarks.conftest import Ratios

PERIOD_NS = 5_000_000
TICKS, TURNS = 60, 5


def test_timerfd_is_more_punctual_than_asyncio(ratios: Ratios) -> None:
    def measure() -> float:
        ours, peer = Histogram(), Histogram()
        for _ in range(TURNS):
            asyncio.run(count(MonotonicClock(), PERIOD_NS, TICKS, ours))
            asyncio.run(count(AsyncioClock(), PERIOD_NS, TICKS, peer))
        return peer.quantile_ns(0.5) / ours.quantile_ns(0.5)

    ratios.check("median lateness of a tick: asyncio.sleep", measure, steady=False)
