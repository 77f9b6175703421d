"""The event list: consecutive misses are one row, important events stay, filters work."""

from __future__ import annotations

import numpy as np
import pytest

from hil.report.events import BAD, MISS, PLAIN, RESET, STATE, STOPPED, TickEvent, moments_of
from hil.report.tables import happened
from tests.hil.report.report_rows import timeline

N = 120


def decisions(text: str, every: int = 10):
    """Return a session with a decision due every so many ticks: d for one that came, m for a missed one."""
    acted, action = np.zeros(N, np.int64), np.full(N, -1)
    for place, sign in enumerate(text):
        acted[place * every] = place + 1
        action[place * every] = 3 if sign == "d" else -1
    return timeline(N, acted=acted, action=action)


#   decisions      texts of the list
MISSES = [
    ("dddd", []),
    ("dmd", ["deadline missed: decision 2 was not there when it was due"]),
    ("dmmmd", ["deadlines missed: 3 decisions in a row, 2 to 4; none came for 1.0 s"]),
    ("mmdm", ["deadlines missed: 2 decisions in a row, 1 to 2; none came for 0.7 s",
              "deadline missed: decision 4 was not there when it was due"]),
    ("dddddddddmmm", ["deadlines missed: 3 decisions in a row, 10 to 12; none came for 1.0 s"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "texts"), MISSES)
def test_misses_in_a_row_are_one(text, texts):
    session = decisions(text)
    assert [row.text for row in happened(session, moments_of(session)).rows] == texts


def test_of_too_many_what_matters_stays():
    rows = range(0, N, 10)
    moments = [TickEvent(row, RESET, PLAIN, "reset") for row in rows] + [TickEvent(50, STATE, BAD, "state: stopped: x")]
    moments += [TickEvent(row, MISS, "warning", "1 tick skipped") for row in rows]
    ordered = sorted(moments, key=lambda one: one.row)
    found = happened(timeline(N), ordered, at_most=5)
    assert [one.kind for one in found.rows] == [MISS] * 4 + [STATE]
    assert found.left == len(moments) - 5
    assert happened(timeline(N), ordered).left == 0


def test_it_can_be_narrowed_to_stops_and_to_each_kind():
    moments = [TickEvent(1, STATE, PLAIN, "state: navigating"), TickEvent(2, STATE, BAD, "state: stopped: x"),
               TickEvent(3, STOPPED, BAD, "e-stop pressed"), TickEvent(4, "sensor", BAD, "camera a lost")]  # fmt: skip
    found = happened(timeline(N), moments)
    assert dict(found.choices) == {"all": 4, "stops": 2, STATE: 2, STOPPED: 1, "sensor": 1}
    assert [row.stop for row in found.rows] == [False, True, True, False]
    assert happened(timeline(N), moments[:2]).choices == ()
