"""Events of a session, derived from its ticks: moments, and lanes of states over time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hil.report.timeline import Flags, Timeline
from onboard.navigation.mission import state_word
from onboard.safety.limits import Reason
from onboard.values import reasons
from onboard.values.reasons import LIMIT, TABLE

# ---- Kinds of the reasons of commands (`onboard/values/reasons.py`); the page has a colour for each

FREE, IDLE, ZONE, STOP, LOST, BOUND, OPERATOR, OTHER = (
    "free", "idle", "zone", "stop", "lost", "bound", "operator", "other"
)  # fmt: skip
KINDS: Mapping[str, tuple[Reason, ...]] = {
    FREE: (Reason.NONE,),
    IDLE: (Reason.IDLE, Reason.PAUSED),
    LOST: (Reason.ENGINE_LOST, Reason.STALE_ODOMETRY, Reason.STALE_SCAN, Reason.STALE_POLICY_SCAN),
    STOP: (Reason.E_STOP, Reason.NOT_FINITE),
    OPERATOR: (Reason.TELEOP,),
    BOUND: (Reason.SPEED, Reason.ACCELERATION, Reason.SPEED_LIMIT, Reason.SPEED_ZONE, Reason.OVERLOAD),
    ZONE: (
        Reason.ZONE_STOP, Reason.ZONE_SLOW, Reason.TIME_TO_CONTACT, Reason.BLIND_AHEAD, Reason.BLIND_FLANK,
        Reason.REMEMBERED, Reason.OBSTACLE, Reason.KEEP_OUT, Reason.LOOKING,
        Reason.CROSSING,
    ),
}  # fmt: skip


class Row(NamedTuple):
    """Code, kind and sentence of a reason, and what clears it."""

    code: str
    kind: str
    meaning: str
    clears: str = ""


def row_of(reason: str) -> Row:
    """Return the row of a command's reason. A reason of another release has no sentence."""
    row = TABLE.get(reason)
    if row is None or row.kind != LIMIT:
        return Row(reason, OTHER, "")
    return Row(reason, next(kind for kind, codes in KINDS.items() if reason in codes), row.sentence, row.clears)


def with_code(reason: str) -> str:
    """Return the reason in a state, followed by its code; a reason of another release as it is."""
    row = reasons.row_of(reason)
    if row is None:
        return reason
    return f"{row.sentence if reason == row.code else reason} ({row.code})"


PLAIN, WARNING, BAD = "plain", "warning", "bad"
GOAL, STATE, RESET, RECOVERY, STOPPED, SENSOR, MISS, FAULT, GAP, NOTE = (
    "goal", "state", "memory", "recovery", "e-stop", "sensor", "deadline", "fault", "gap", "note"
)  # fmt: skip
NUMBER = r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
GOAL_NOTE = re.compile(rf"goal_(accepted|refused) x_m={NUMBER} y_m={NUMBER} frame=(.*?) reason=(.*)", re.DOTALL)
STATE_KINDS = {"idle": IDLE, "navigating": FREE, "recovering": ZONE, "reached": OPERATOR, "stopped": STOP}


@dataclass(frozen=True, slots=True)
class TickEvent:
    """An event at a tick. kind: as above; weight: PLAIN, WARNING or BAD."""

    row: int
    kind: str
    weight: str
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """A state from the tick `first` to the tick `last`, both included."""

    first: int
    last: int
    label: str
    kind: str


@dataclass(frozen=True, slots=True)
class Lane:
    """Spans of one kind of state; they do not overlap."""

    name: str
    spans: tuple[Span, ...]


def runs(values: Sequence[object]) -> Iterator[tuple[int, int, object]]:
    """Yield (first, last, value) of each run of equal values."""
    first = 0
    for row in range(1, len(values) + 1):
        if row == len(values) or values[row] != values[first]:
            yield first, row - 1, values[first]
            first = row


def lanes_of(timeline: Timeline) -> list[Lane]:
    """Return the lanes: state and command always, the others only if they have spans."""
    states = [
        Span(first, last, str(value), STATE_KINDS.get(state_word(str(value)), OTHER))
        for first, last, value in runs(timeline.state)
    ]
    rows = [(first, last, row_of(str(value))) for first, last, value in runs(timeline.reason)]
    commands = [Span(first, last, row.code, row.kind) for first, last, row in rows]
    others = [
        ("recovery", _spans(np.array([word != "" for word in timeline.recovery]), "backing off", ZONE)),
        ("e-stop", _spans(timeline.e_stop == 1, "pressed", STOP)),
        ("obstacle", _spans(timeline.obstacle == 1, "reported", ZONE)),
    ]
    lost = [(f"no {name}", lost_spans(timeline, name)) for name in timeline.cameras]
    return [
        Lane("state", tuple(states)),
        Lane("command", tuple(commands)),
        *(Lane(name, tuple(spans)) for name, spans in [*others, *lost] if spans),
    ]


def lost_spans(timeline: Timeline, camera: str) -> list[Span]:
    """Return the spans without a frame of a camera, after its first frame."""
    there = timeline.cameras[camera]
    gone = ~there
    gone[: int(np.argmax(there))] = False
    return _spans(gone, "lost", LOST)


def never_seen(timeline: Timeline) -> list[str]:
    """Return the configured depth cameras that never gave a frame."""
    config = timeline.config
    if not config.scan.uses_cameras:
        return []
    wanted = config.scan.cameras or list(timeline.mounts.depth)
    return [name for name in wanted if name not in timeline.cameras and config.cameras.source_of(name) != "none"]


def _spans(flags: Flags, label: str, kind: str) -> list[Span]:
    return [Span(first, last, label, kind) for first, last, value in runs(flags.tolist()) if value]


def moments_of(timeline: Timeline) -> list[TickEvent]:
    """Return the moments in the order of time."""
    found = [
        *_of_events(timeline),
        *(TickEvent(row, RESET, PLAIN, with_code(why)) for row, why in timeline.resets.items()),
        *_of_flags(timeline),
        *_of_decisions(timeline),
        *(TickEvent(row, FAULT, BAD, f"engine failed: {fault}") for row, fault in timeline.faults.items()),
        *(TickEvent(row, GAP, BAD, _gap_words(timeline, row)) for row in np.flatnonzero(timeline.gap).tolist()),
    ]
    return sorted(found, key=lambda one: one.row)


def _of_events(timeline: Timeline) -> Iterator[TickEvent]:
    """Yield the moments that the runtime noted."""
    for row, events in timeline.events.items():
        for event in events:
            word = event.split(" ", 1)[0]
            if word == "mission":
                ended = state_word(timeline.state[row])
                state, _, reason = timeline.state[row].partition(": ")
                why = f": {with_code(reason)}" if reason else ""
                yield TickEvent(row, STATE, BAD if ended == "stopped" else PLAIN, f"state: {state}{why}")
            elif word.startswith("goal_"):
                yield TickEvent(row, GOAL, WARNING if word == "goal_refused" else PLAIN, _goal_words(event))
            elif word == "recovery":
                yield TickEvent(row, RECOVERY, WARNING, with_code(f"recovery_{event.partition('what=')[2]}"))
            elif word != "engine_failed:":  # `faults` has it
                yield TickEvent(row, NOTE, WARNING, event)


def _goal_words(event: str) -> str:
    """Return the runtime's note of a goal as a sentence; a note in another form is returned unchanged."""
    found = GOAL_NOTE.fullmatch(event)
    if found is None:
        return event
    word, x, y, frame, reason = found.groups()
    place = f"x {float(x):.2f} m, y {float(y):.2f} m in frame {frame}"
    return f"goal accepted: {place}" if word == "accepted" else f"goal refused: {with_code(reason)}: {place}"


def _of_flags(timeline: Timeline) -> Iterator[TickEvent]:
    for span in _spans(timeline.e_stop == 1, "", STOP):
        yield TickEvent(span.first, STOPPED, BAD, "e-stop pressed")
        if span.last + 1 < timeline.ticks:
            yield TickEvent(span.last + 1, STOPPED, WARNING, "e-stop released")
    for span in _spans(timeline.obstacle == 1, "", ZONE):
        yield TickEvent(
            span.first, SENSOR, WARNING, f"obstacle reported for {_lasted(timeline, span.first, span.last)}"
        )
    for name in timeline.cameras:
        for span in lost_spans(timeline, name):
            back = f"for {_lasted(timeline, span.first, span.last)}" if span.last + 1 < timeline.ticks else "to the end"
            yield TickEvent(span.first, SENSOR, BAD, f"camera {name} lost {back}")
    for first, last, reason in runs(timeline.reason):
        row = row_of(str(reason))
        if row.kind == LOST:
            yield TickEvent(first, SENSOR, BAD, f"{row.code} for {_lasted(timeline, first, last)}: {row.meaning}")
        if row.kind == OPERATOR:
            yield TickEvent(first, NOTE, PLAIN, f"an operator drives for {_lasted(timeline, first, last)}")


def missed_decisions(timeline: Timeline) -> Flags:
    """Return (n,) whether a due decision was missing without a fault of the engine."""
    missed = (timeline.acted > 0) & (timeline.action < 0)
    missed[list(timeline.faults)] = False
    return missed


def _of_decisions(timeline: Timeline) -> Iterator[TickEvent]:
    for row in np.flatnonzero(missed_decisions(timeline)).tolist():
        yield TickEvent(
            row, MISS, BAD, f"deadline missed: decision {timeline.acted[row]} was not there when it was due"
        )
    for row in np.flatnonzero(timeline.missed > 0).tolist():
        slots = int(timeline.missed[row])
        yield TickEvent(row, MISS, WARNING, f"{slots} tick{'s' if slots > 1 else ''} of the control rate skipped")


def _gap_words(timeline: Timeline, row: int) -> str:
    lost = int(timeline.slot[row] - timeline.slot[row - 1] - 1 - timeline.missed[row])
    return f"{lost} tick{'s' if lost > 1 else ''} missing in the recording"


def _lasted(timeline: Timeline, first: int, last: int) -> str:
    return f"{timeline.end_s(last) - timeline.t_s[first]:.1f} s"
