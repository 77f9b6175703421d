"""A sender's clock: whether it goes on, and what came late by it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.drivers.sender_clock import SPAN_NS, SPANS, SenderClock
from onboard.scheduler import NS_PER_S

MS = 1_000_000
HOUR_MS = 3_600_000
APART_MS = 5 * HOUR_MS
"""The sender's clock is so much ahead of ours."""

#   name, (stamp without what the clocks are apart, arrival) [ms], late by the last [ms]
ARRIVALS = [
    ("the first is never late", [(0, 40)], 0),
    ("at an even pace", [(0, 40), (33, 73), (66, 106)], 0),
    ("one that took longer", [(0, 40), (33, 73), (66, 306)], 200),
    ("one that was quicker than all before", [(0, 40), (33, 63)], 0),
    ("after a quicker one", [(0, 40), (33, 63), (66, 106)], 10),
    ("a queue that is full", [(n * 100, n * 100 + 20 + 500 * (n > 5)) for n in range(20)], 500),
    ("a queue that empties", [(n * 100, n * 100 + 20 + 500 * (5 < n < 15)) for n in range(20)], 0),
    ("a clock set forward by an hour", [(0, 40), (HOUR_MS + 33, 73)], 0),
    ("and late after it", [(0, 40), (HOUR_MS + 33, 73), (HOUR_MS + 66, 206)], 100),
    ("a clock set back by an hour", [(0, 40), (33 - HOUR_MS, 73)], 0),
    ("and late after that", [(0, 40), (33 - HOUR_MS, 73), (66 - HOUR_MS, 206)], 100),
]


def late_ns(clock: SenderClock, arrivals: Sequence[tuple[float, float]]) -> int:
    """Return how late the last of some arrivals is [ms] -> [ns]."""
    late = -1
    for stamp_ms, arrival_ms in arrivals:
        stamp_ns = round((stamp_ms + APART_MS) * MS)
        assert clock.goes_on(stamp_ns)
        late = clock.take(stamp_ns, round(arrival_ms * MS))
    return late


@pytest.mark.parametrize(("name", "arrivals", "late_ms"), ARRIVALS, ids=[row[0] for row in ARRIVALS])
def test_how_late_the_last_one_is(name: str, arrivals: list[tuple[float, float]], late_ms: float) -> None:
    assert late_ns(SenderClock(), arrivals) == late_ms * MS


def test_the_quickest_is_forgotten_after_some_minutes() -> None:
    """Else two clocks that run apart by a little would make everything late in the end."""
    clock = SenderClock()
    assert late_ns(clock, [(0, 40)]) == 0
    spans = [(n * SPAN_NS / MS, n * SPAN_NS / MS + 140) for n in range(1, SPANS)]
    assert late_ns(clock, spans) == 100 * MS
    assert late_ns(clock, [(SPANS * SPAN_NS / MS, SPANS * SPAN_NS / MS + 140)]) == 0


@given(
    drift=st.floats(-1e-4, 1e-4),
    delays_ms=st.lists(st.floats(0.0, 50.0), min_size=2, max_size=400),
)
def test_clocks_that_run_apart_by_a_ten_thousandth_add_milliseconds(drift: float, delays_ms: list[float]) -> None:
    clock = SenderClock()
    for number, delay_ms in enumerate(delays_ms):
        sent_ms = number * 1000.0
        late = late_ns(clock, [(sent_ms * (1.0 + drift), sent_ms + delay_ms)])
        assert -1 <= late / MS - (delay_ms - min(delays_ms[: number + 1])) <= 50.0 + 1e-4 * SPANS * SPAN_NS / MS


#   stamp after the newest [s], whether it goes on
STAMPS = [(0.001, True), (0.0, False), (-0.5, False), (-9.9, False), (-10.1, True), (3600.0, True)]


@pytest.mark.parametrize(("after_s", "goes_on"), STAMPS)
def test_what_goes_on(after_s: float, goes_on: bool) -> None:
    clock, newest_ns = SenderClock(), 100_000 * NS_PER_S
    assert clock.goes_on(newest_ns)
    clock.take(newest_ns, 0)
    assert clock.goes_on(newest_ns + round(after_s * NS_PER_S)) is goes_on
