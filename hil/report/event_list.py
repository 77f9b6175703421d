"""The event list: consecutive misses as one row, and the filters of the list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hil.report.events import BAD, MISS, RESET, STATE, STOPPED, TickEvent, missed_decisions
from hil.report.session_metrics import plural
from hil.report.timeline import Flags, Ints, Timeline

ALL, STOPS = "all", "stops"
"""Filters: all events; events that ended a drive (bad states and the e-stop)."""
ROWS_AT_MOST = 2_000
"""If there are more, the list first leaves out the latest memory resets, then the latest deadlines."""
LEFT_OUT_FIRST = (RESET, MISS)


@dataclass(frozen=True, slots=True)
class EventRow:
    """One row of the list. stop: the filter `STOPS` shows it."""

    t_s: float
    kind: str
    weight: str
    text: str
    stop: bool


@dataclass(frozen=True, slots=True)
class EventList:
    """The list, its filters with their counts, and the number of events that are left out."""

    rows: tuple[EventRow, ...]
    choices: tuple[tuple[str, int], ...]
    left: int


def happened(timeline: Timeline, moments: Sequence[TickEvent], at_most: int = ROWS_AT_MOST) -> EventList:
    """Return the event list in the order of time."""
    together = _misses_together(timeline, moments)
    ranks = [LEFT_OUT_FIRST[::-1].index(one.kind) + 1 if one.kind in LEFT_OUT_FIRST else 0 for one in together]
    kept = sorted(np.argsort(ranks, kind="stable")[:at_most].tolist())
    rows = tuple(
        EventRow(
            float(timeline.t_s[one.row]),
            one.kind,
            one.weight,
            one.text,
            one.weight == BAD and one.kind in (STATE, STOPPED),
        )
        for one in (together[place] for place in kept)
    )
    counts = Counter(row.kind for row in rows)
    stops = [(STOPS, count)] if (count := sum(row.stop for row in rows)) else []
    choices = [(ALL, len(rows)), *stops, *counts.items()] if len(counts) > 1 else []
    return EventList(rows, tuple(choices), len(together) - len(rows))


def _misses_together(timeline: Timeline, moments: Sequence[TickEvent]) -> list[TickEvent]:
    """Return the moments; the first of consecutive misses represents all and has their count."""
    due = np.flatnonzero(timeline.acted > 0)
    missed = missed_decisions(timeline)[due]
    begins = missed & ~np.concatenate([[False], missed[:-1]])
    first = {int(due[place]): place for place in np.flatnonzero(begins).tolist()}
    found = []
    for moment in moments:
        if (moment.kind, moment.weight) != (MISS, BAD):
            found.append(moment)
        elif moment.row in first:
            found.append(_run_of_misses(timeline, moment, due, missed, first[moment.row]))
    return found


def _run_of_misses(timeline: Timeline, moment: TickEvent, due: Ints, missed: Flags, begin: int) -> TickEvent:
    end = begin + int(np.argmin(np.concatenate([missed[begin:], [False]])))
    if end - begin == 1:
        return moment
    until_s = float(timeline.t_s[due[end]]) if end < len(due) else timeline.end_s(timeline.ticks - 1)
    lasted = f"none came for {until_s - float(timeline.t_s[moment.row]):.1f} s"
    numbers = f"{timeline.acted[due[begin]]} to {timeline.acted[due[end - 1]]}"
    text = f"deadlines missed: {plural(end - begin, 'decision')} in a row, {numbers}; {lasted}"
    return TickEvent(moment.row, moment.kind, moment.weight, text)
