"""How late ticks begin: our timerfd clock beside asyncio.sleep to the same absolute deadlines, in the same run."""

from __future__ import annotations

import asyncio
import time

from onboard.values.clock import Histogram, MonotonicClock

PERIOD_NS = 5_000_000
TICKS = 300


class AsyncioClock:
    """The peer: asyncio's own timer."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep_until(self, deadline_ns: int) -> None:
        await asyncio.sleep((deadline_ns - time.monotonic_ns()) / 1e9)

    def close(self) -> None:
        pass


async def lateness(clock: AsyncioClock | MonotonicClock) -> Histogram:
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
