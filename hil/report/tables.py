"""Tables of the page: changes of reason, the session's record, its main figures, and remarks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import numpy as np

from hil.recordings.recording import session_name
from hil.report.events import (
    BAD,
    MISS,
    RESET,
    STATE,
    STOPPED,
    ZONE,
    Row,
    TickEvent,
    missed_decisions,
    never_seen,
    row_of,
    runs,
)
from hil.report.session_metrics import Drive, Times, plural
from hil.report.timeline import Flags, Floats, Ints, Timeline, shown
from onboard.values.clock import NS_PER_S

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
LATEST = timedelta(days=400 * 365)
HASH_DIGITS = 16


Extent = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Change:
    """Consecutive commands with one reason.

    wanted, sent: least and most of all its ticks, of v [m/s] and of w [rad/s]; NaN without any
    """

    t_s: float
    took_s: float
    row: Row
    ticks: int
    wanted: tuple[Extent, Extent]
    sent: tuple[Extent, Extent]


@dataclass(frozen=True, slots=True)
class Tile:
    """One main figure."""

    name: str
    value: str
    note: str


def changes_of(timeline: Timeline) -> list[Change]:
    """Return the stretches of one reason in order."""
    return [
        Change(
            float(timeline.t_s[first]),
            timeline.end_s(last) - float(timeline.t_s[first]),
            row_of(str(reason)),
            last - first + 1,
            _extents(timeline.wanted[first : last + 1]),
            _extents(timeline.command[first : last + 1]),
        )
        for first, last, reason in runs(timeline.reason)
    ]


def _extents(values: Floats) -> tuple[Extent, Extent]:
    """Return least and most of each of two columns, of the rows without NaN."""
    known = values[np.isfinite(values).all(axis=1)]
    if not len(known):
        return (np.nan, np.nan), (np.nan, np.nan)
    (v, w), (most_v, most_w) = known.min(axis=0).tolist(), known.max(axis=0).tolist()
    return (v, most_v), (w, most_w)


def tiles_of(timeline: Timeline, drives: Sequence[Drive], distributions: Sequence[Times]) -> list[Tile]:
    """Return the main figures."""
    driven_m = sum(drive.path_m for drive in drives)
    driving_s = sum(drive.took_s for drive in drives)
    cut = [last - first + 1 for first, last, reason in runs(timeline.reason) if row_of(str(reason)).kind == ZONE]
    near = np.where(np.isfinite(timeline.scans), timeline.scans, np.inf)
    nearest = near.min(axis=1) if timeline.ticks else np.array([np.inf])
    where = int(nearest.argmin())
    found = [
        Tile("distance driven", f"{driven_m:.1f} m", f"{driven_m / driving_s:.2f} m/s on average" if driving_s else ""),
        Tile("cut by collision zones", plural(len(cut), "time"), f"{plural(sum(cut), 'command')} in all"),
    ]
    if np.isfinite(nearest[where]):
        found.append(
            Tile("nearest thing seen", f"{nearest[where]:.2f} m", f"from its middle, at {timeline.t_s[where]:.1f} s")
        )
    found += [
        Tile(
            distribution.name,
            f"{distribution.quantiles[2]:.1f} ms",
            f"p99; limit {distribution.limit_ms:.1f} ms, {distribution.over:,} above",
        )
        for distribution in distributions
        if distribution.limit_ms is not None
    ]
    decisions = int((timeline.acted > 0).sum())
    missed = int(missed_decisions(timeline).sum())
    resets = plural(len(timeline.resets), "reset")
    return [*found, Tile("decisions", f"{decisions:,}", f"{missed:,} missed, {resets} of the memory")]


def began(session: Mapping[str, str], first_ns: int) -> str:
    """Return the wall time of the first tick, "" if the session does not state it."""
    try:
        since = timedelta(seconds=(int(session.get("wall_minus_monotonic_ns", "")) + first_ns) / NS_PER_S)
        return f"{EPOCH + since:%Y-%m-%d %H:%M:%S} UTC" if timedelta() <= since <= LATEST else ""
    except (ValueError, OverflowError):
        return ""


def record_of(timeline: Timeline) -> list[tuple[str, str]]:
    """Return the session's record as rows of a table."""
    session, config = timeline.session, timeline.config
    hashed = hashlib.sha256(session.get("configuration", "").encode()).hexdigest()[:HASH_DIGITS]
    model = session.get("model_sha256", "")
    rows = [
        ("robot", session.get("robot", "") or config.robot.name),
        ("version", f"onboard {session.get('onboard_version', 'unknown')}"),
        ("format of the recording", session.get("format", "unknown")),
        ("policy", config.policy.name + (f", sha256 {model[:HASH_DIGITS]}" if model else "")),
        ("configuration", f"sha256 {hashed}"),
        ("rates", f"{config.rates.control_hz:g} ticks/s, a decision every {config.rates.ticks_per_decision}, "
                  f"applied {config.rates.delay_ticks} ticks after its sensing"),
        ("cameras", ", ".join(timeline.cameras) or "none"),
        ("machine", session.get("machine", "unknown")),
        ("file" if len(timeline.files) == 1 else "files", ", ".join(file.name for file in timeline.files)),
    ]  # fmt: skip
    return [(name, shown(value)) for name, value in rows]


def notes_of(timeline: Timeline) -> list[str]:
    """Return remarks on the recording for the reader."""
    found = [f"Camera {name} gave no frame at all." for name in never_seen(timeline)]
    if not timeline.took_ms.any():
        found.append("The clock of this run was simulated: there are no times to show.")
    if gaps := np.flatnonzero(timeline.gap).tolist():
        lost = sum(int(timeline.slot[row] - timeline.slot[row - 1] - 1 - timeline.missed[row]) for row in gaps)
        found.append(f"{lost:,} ticks are missing in the recording, in {len(gaps):,} places; lines are broken there.")
    if len(timeline.sessions) > 1:
        name = shown(session_name(timeline.session))
        found.append(f"The file holds {len(timeline.sessions):,} sessions; this page is about {name}.")
    if timeline.session.get("file_number", "0") != "0":
        found.append("The session began before this file; its first file is not here.")
    return found


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
