"""How late ticks begin: our timerfd clock beside asyncio.sleep to the same absolute deadlines, in the same run."""

from __future__ import annotations

import asyncio

from onboard.commands.bench.lateness import AsyncioClock
from onboard.values.clock import Histogram, MonotonicClock

PERIOD_NS = 5_000_000
TICKS = 300


async def lateness(clock: MonotonicClock) -> Histogram:
    histogram = Histogram()
    deadline_ns = clock.now_ns()
    for _ in range(TICKS):
        deadline_ns += PERIOD_NS
        await clock.sleep_until(deadline_ns)
        histogram.add(abs(clock.now_ns() - deadline_ns))
    clock.close()
    return histogram


def test_timerfd_is_more_punctual_than_asyncio() -> None:
    ours = asyncio.run(lateness(MonotonicClock()))
    peer = asyncio.run(lateness(AsyncioClock()))
    ratio = peer.quantile_ns(0.5) / ours.quantile_ns(0.5)
    print(f"\nlateness ms: timerfd {ours.summary_ms()}, asyncio {peer.summary_ms()}, median ratio {ratio:.1f}")
    assert ratio > 1.0
