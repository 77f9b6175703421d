"""Events of a session, derived from its ticks: moments, and lanes of states over time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hil.report.timeline import Flags, Timeline

# ---- Labels of the reasons of commands (`onboard.safety.limits.Reason`)

FREE, IDLE, ZONE, STOP, LOST, BOUND, OPERATOR, OTHER = (
    "free", "idle", "zone", "stop", "lost", "bound", "operator", "other"
)  # fmt: skip
"""Kinds of reasons; the page has a colour for each."""


class Row(NamedTuple):
    """Label, kind and meaning of a reason."""

    label: str
    kind: str
    meaning: str


REASONS: Mapping[str, Row] = {
    "none": Row("as wanted", FREE, "sent as wanted"),
    "idle": Row("idle", IDLE, "no command is wanted: zero"),
    "engine_lost": Row("engine lost", LOST, "no decision for too long: zero"),
    "e_stop": Row("e-stop", STOP, "the e-stop is pressed or latched: zero"),
    "teleop": Row("operator", OPERATOR, "an operator drives"),
    "stale_odometry": Row("odometry lost", LOST, "odometry missing or stale: zero"),
    "stale_scan": Row("scan lost", LOST, "the limits' scan is missing or stale: zero"),
    "stale_policy_scan": Row("policy scan lost", LOST, "the policy's scan is missing or stale: zero"),
    "not_finite": Row("not finite", STOP, "the wanted command is not finite: zero"),
    "speed": Row("top speed", BOUND, "limited to the base's top speed"),
    "acceleration": Row("acceleration", BOUND, "limited in acceleration"),
    "speed_limit": Row("speed limit", BOUND, "limited by the external speed limit"),
    "zone_stop": Row("stop zone", ZONE, "limited so that the robot stops before an obstacle"),
    "zone_slow": Row("slow zone", ZONE, "slowed near an obstacle"),
    "time_to_contact": Row("time to contact", ZONE, "slowed by the time to contact"),
    "blind_ahead": Row("blind ahead", ZONE, "limited towards an area without a camera"),
    "remembered": Row("remembered", ZONE, "limited by a remembered obstacle where no camera looks now"),
    "obstacle": Row("obstacle", ZONE, "no forward speed while an obstacle is reported"),
    "keep_out": Row("keep-out zone", ZONE, "limited so that the robot stops before a keep-out zone of the map"),
    "speed_zone": Row("speed zone", BOUND, "limited by a speed zone of the map"),
    "overload": Row("overload", BOUND, "slowed, as the machine missed ticks"),
    "looking": Row("looking", ZONE, "turns to look where no camera sees ahead"),
    "blind_flank": Row("blind flank", ZONE, "slowed because no camera looks beside the path"),
}


def row_of(reason: str) -> Row:
    """Return the row of a reason; an unknown reason is its own label."""
    return REASONS.get(reason) or Row(reason, OTHER, "unknown reason")


PLAIN, WARNING, BAD = "plain", "warning", "bad"
GOAL, STATE, RESET, RECOVERY, STOPPED, SENSOR, MISS, FAULT, GAP, NOTE = (
    "goal", "state", "memory", "recovery", "e-stop", "sensor", "deadline", "fault", "gap", "note"
)  # fmt: skip
RESET_WORDS = {
    "sequence_start": "a sequence of decisions begins",
    "decision_gap": "no decision for too long",
    "period": "its period has passed",
}
NUMBER = r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
GOAL_NOTE = re.compile(rf"goal_(accepted|refused) x_m={NUMBER} y_m={NUMBER} frame=(.*?) reason=(.*)", re.DOTALL)
STATE_KINDS = {"idle": IDLE, "navigating": FREE, "recovering": ZONE, "reached": OPERATOR, "stopped": STOP}


@dataclass(frozen=True, slots=True)
class Moment:
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


def state_word(state: str) -> str:
    """Return the state without its reason."""
    return state.partition(":")[0]


def lanes_of(timeline: Timeline) -> list[Lane]:
    """Return the lanes: state and reason always, the others only if they have spans."""
    states = [
        Span(first, last, str(value), STATE_KINDS.get(state_word(str(value)), OTHER))
        for first, last, value in runs(timeline.state)
    ]
    rows = [(first, last, row_of(str(value))) for first, last, value in runs(timeline.reason)]
    reasons = [Span(first, last, row.label, row.kind) for first, last, row in rows]
    others = [
        ("recovery", _spans(np.array([word != "" for word in timeline.recovery]), "backing off", ZONE)),
        ("e-stop", _spans(timeline.e_stop == 1, "pressed", STOP)),
        ("obstacle", _spans(timeline.obstacle == 1, "reported", ZONE)),
    ]
    lost = [(f"no {name}", lost_spans(timeline, name)) for name in timeline.cameras]
    return [
        Lane("state", tuple(states)),
        Lane("command", tuple(reasons)),
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
    if config.scan.topic:
        return []
    wanted = config.scan.cameras or list(timeline.mounts.depth)
    return [name for name in wanted if name not in timeline.cameras and config.cameras.source_of(name) != "none"]


def _spans(flags: Flags, label: str, kind: str) -> list[Span]:
    return [Span(first, last, label, kind) for first, last, value in runs(flags.tolist()) if value]


def moments_of(timeline: Timeline) -> list[Moment]:
    """Return the moments in the order of time."""
    found = [
        *_of_events(timeline),
        *(
            Moment(row, RESET, PLAIN, f"memory reset: {RESET_WORDS.get(why, why)}")
            for row, why in timeline.resets.items()
        ),
        *_of_flags(timeline),
        *_of_decisions(timeline),
        *(Moment(row, FAULT, BAD, f"engine failed: {fault}") for row, fault in timeline.faults.items()),
        *(Moment(row, GAP, BAD, _gap_words(timeline, row)) for row in np.flatnonzero(timeline.gap).tolist()),
    ]
    return sorted(found, key=lambda one: one.row)


def _of_events(timeline: Timeline) -> Iterator[Moment]:
    """Yield the moments that the runtime noted."""
    for row, events in timeline.events.items():
        for event in events:
            word = event.split(" ", 1)[0]
            if word == "mission":
                ended = state_word(timeline.state[row])
                yield Moment(row, STATE, BAD if ended == "stopped" else PLAIN, f"state: {timeline.state[row]}")
            elif word.startswith("goal_"):
                yield Moment(row, GOAL, WARNING if word == "goal_refused" else PLAIN, _goal_words(event))
            elif word == "recovery":
                yield Moment(row, RECOVERY, WARNING, f"recovery {event.partition('what=')[2].replace('_', ' ')}")
            elif word != "engine_failed:":  # `faults` has it
                yield Moment(row, NOTE, WARNING, event)


def _goal_words(event: str) -> str:
    """Return the runtime's note of a goal as a sentence; a note in another form is returned unchanged."""
    found = GOAL_NOTE.fullmatch(event)
    if found is None:
        return event
    word, x, y, frame, reason = found.groups()
    place = f"x {float(x):.2f} m, y {float(y):.2f} m in frame {frame}"
    return f"goal accepted: {place}" if word == "accepted" else f"goal refused: {reason} ({place})"


def _of_flags(timeline: Timeline) -> Iterator[Moment]:
    for span in _spans(timeline.e_stop == 1, "", STOP):
        yield Moment(span.first, STOPPED, BAD, "e-stop pressed")
        if span.last + 1 < timeline.ticks:
            yield Moment(span.last + 1, STOPPED, WARNING, "e-stop released")
    for span in _spans(timeline.obstacle == 1, "", ZONE):
        yield Moment(span.first, SENSOR, WARNING, f"obstacle reported for {_lasted(timeline, span.first, span.last)}")
    for name in timeline.cameras:
        for span in lost_spans(timeline, name):
            back = f"for {_lasted(timeline, span.first, span.last)}" if span.last + 1 < timeline.ticks else "to the end"
            yield Moment(span.first, SENSOR, BAD, f"camera {name} lost {back}")
    for first, last, reason in runs(timeline.reason):
        row = row_of(str(reason))
        if row.kind == LOST:
            yield Moment(first, SENSOR, BAD, f"{row.label} for {_lasted(timeline, first, last)}")
        if row.kind == OPERATOR:
            yield Moment(first, NOTE, PLAIN, f"an operator drives for {_lasted(timeline, first, last)}")


def missed_decisions(timeline: Timeline) -> Flags:
    """Return (n,) whether a due decision was missing without a fault of the engine."""
    missed = (timeline.acted > 0) & (timeline.action < 0)
    missed[list(timeline.faults)] = False
    return missed


def _of_decisions(timeline: Timeline) -> Iterator[Moment]:
    for row in np.flatnonzero(missed_decisions(timeline)).tolist():
        yield Moment(row, MISS, BAD, f"deadline missed: decision {timeline.acted[row]} was not there when it was due")
    for row in np.flatnonzero(timeline.missed > 0).tolist():
        slots = int(timeline.missed[row])
        yield Moment(row, MISS, WARNING, f"{slots} tick{'s' if slots > 1 else ''} of the control rate skipped")


def _gap_words(timeline: Timeline, row: int) -> str:
    lost = int(timeline.slot[row] - timeline.slot[row - 1] - 1 - timeline.missed[row])
    return f"{lost} tick{'s' if lost > 1 else ''} missing in the recording"


def _lasted(timeline: Timeline, first: int, last: int) -> str:
    return f"{timeline.end_s(last) - timeline.t_s[first]:.1f} s"
