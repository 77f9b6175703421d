"""A sender's clock: whether it goes on, and what came late by it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.drivers.dds.participant import ReceivedMessage
from onboard.drivers.dds.sender_clock import SILENCE_NS, SenderClock, WriterClocks
from onboard.values.clock import DRIFT, NS_PER_S

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
    (
        "a queue that stays full for ten minutes",
        [(n * 500, n * 500 + 20 + 2000 * (n > 5)) for n in range(1200)],
        1880.6,
    ),
    ("a clock set back by an hour", [(0, 40), (33 - HOUR_MS, 73)], 0),
    ("and late after that", [(0, 40), (33 - HOUR_MS, 73), (66 - HOUR_MS, 206)], 100),
]


def late_ns(clock: SenderClock, arrivals: Sequence[tuple[float, float]]) -> int:
    """Return how late the last of some arrivals is [ns]; (stamp, arrival) in ms."""
    late: int | None = None
    for stamp_ms, arrival_ms in arrivals:
        late = clock.take(round((stamp_ms + APART_MS) * MS), round(arrival_ms * MS))
        assert late is not None
    assert late is not None
    return late


@pytest.mark.parametrize(("name", "arrivals", "late_ms"), ARRIVALS, ids=[row[0] for row in ARRIVALS])
def test_how_late_the_last_one_is(name: str, arrivals: list[tuple[float, float]], late_ms: float) -> None:
    assert late_ns(SenderClock(), arrivals) == pytest.approx(late_ms * MS, abs=0.5 * MS)


@given(
    drift=st.floats(-0.5 * DRIFT, 0.5 * DRIFT),
    delays_ms=st.lists(st.floats(0.0, 50.0), min_size=2, max_size=400),
)
def test_clocks_that_run_apart_make_nothing_late(drift: float, delays_ms: list[float]) -> None:
    clock = SenderClock()
    for number, delay_ms in enumerate(delays_ms):
        sent_ms = number * 10_000.0
        late = late_ns(clock, [(sent_ms * (1.0 + drift), sent_ms + delay_ms)])
        assert late <= (delay_ms - min(delays_ms[: number + 1]) + 1e-3) * MS


#   name, stamps after the newest [s], which are taken
STAMPS = [
    ("later", [0.001], [True]),
    ("the same again and again", [0.0] * 5, [False] * 5),
    ("repeats that came late", [-0.5, 0.1, -0.4, 0.2], [False, True, False, True]),
    ("the same old one again and again", [-0.5] * 5, [False] * 5),
    ("a clock set back by less than ten seconds", [-0.6, -0.5, -0.4, -0.3], [False, False, True, True]),
    ("a clock set back by more", [-10.1, -10.0], [True, True]),
    ("a clock set forward, then back", [5.0, 0.1, 0.2, 0.3, 0.4], [True, False, False, True, True]),
]


@pytest.mark.parametrize(("name", "after_s", "taken"), STAMPS, ids=[row[0] for row in STAMPS])
def test_what_goes_on(name: str, after_s: list[float], taken: list[bool]) -> None:
    clock, newest_ns = SenderClock(), 100_000 * NS_PER_S
    assert clock.take(newest_ns, 0) == 0
    late = [
        clock.take(newest_ns + round(one * NS_PER_S), (number + 1) * 100 * MS) for number, one in enumerate(after_s)
    ]
    assert [one is not None for one in late] == taken


@pytest.mark.parametrize("set_s", [-9.0, -0.6, -0.2, 0.2, 0.6, 9.0])
def test_a_clock_that_is_set_makes_nothing_late_for_long(set_s: float) -> None:
    """Set back, nothing is taken for two messages at most; set forward, nothing at all is amiss."""
    clock, ours_ms = SenderClock(), 0
    late: list[int | None] = []
    for number in range(40):
        ours_ms = number * 100
        theirs_s = ours_ms / 1e3 + APART_MS / 1e3 + (set_s if number >= 20 else 0.0)
        late.append(clock.take(round(theirs_s * NS_PER_S), (ours_ms + 20) * MS))
    refused = 2 if set_s < -0.1 else 0
    assert late[20 : 20 + refused] == [None] * refused
    assert all(one is not None and one < MS for one in late[:20] + late[23:])


SILENT_S = SILENCE_NS / NS_PER_S

#   what                                      written, arrived [s]                                    late [s]
WRITERS = [
    ("a goal a minute, set back by 8 s",      [(0, 0), (60, 60), (112, 120), (172, 180)],             [0, 0, 0, 0]),
    ("set back, not quite silent",            [(0, 0), (SILENT_S, SILENT_S + 8)],                     [0, 8]),
    ("then silent: refused once",             [(0, 0), (SILENT_S, SILENT_S + 8), (78, 86), (79, 87)], [0, 8, 0, 0]),
    ("an operator who comes again, set back", [(0, 0), (0.1, 0.1), (11.1, 12.1), (11.2, 12.2)],       [0, 0, 0, 0]),
    ("held back by the network for a minute", [(0, 0), (0.1, 60.1), (0.2, 60.2)],                     [0, 60, 60]),
    ("late after a silence",                  [(0, 0), (60, 60), (60.1, 62.1)],                       [0, 0, 2]),
    ("set back by an hour in a silence",      [(0, 0), (60 - 3600, 60), (60.1 - 3600, 62.1)],         [0, 0, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "came_s", "late_s"), WRITERS, ids=[row[0] for row in WRITERS])
def test_after_a_silence_a_writers_clock_is_judged_anew(
    what: str, came_s: list[tuple[float, float]], late_s: list[float]
) -> None:
    clocks, found = WriterClocks(judged=True), []
    for written_s, arrived_s in came_s:
        message = ReceivedMessage(None, 1, round((APART_MS / 1e3 + written_s) * NS_PER_S))
        found.append(clocks.late_ns(message, round(arrived_s * NS_PER_S)) / NS_PER_S)
    assert found == pytest.approx(late_s, abs=0.05)
