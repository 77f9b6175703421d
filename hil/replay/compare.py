"""Result of a replay: what was compared, how far fields differ, and the first difference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hil.recordings.recording import Session
from hil.replay.compared_fields import Difference, Value, differences
from hil.replay.player import NO_IMAGES, unfused_reason
from hil.replay.tick_selection import MissingTicks
from hil.replay.tolerances import BIT_FOR_BIT, Measure
from onboard.recording.tick_message import NO_ACTION, action_of
from onboard.state import TickRecord
from onboard.values.messages import Scan

LEAST_COMPARED = 0.5
"""Least compared share of the ticks, and of the scans of decisions, for a meaningful replay."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference with its slot, and its time since the session's first tick [s].

    scans:   of that tick, recorded and replayed; the limits' scans if those differ
    allowed: the difference is within the tolerance
    """

    tick: int
    t_s: float
    difference: Difference
    scans: tuple[Scan, Scan] | None = None
    allowed: bool = False


@dataclass(slots=True)
class FieldCount:
    """Differences of a field: number of values, largest difference, number outside the tolerance."""

    values: int = 0
    worst: float = 0.0
    outside: int = 0


@dataclass(slots=True)
class SessionCount:
    """Counts of one session in one file.

    ticks:     compared ticks
    missing:   ticks that could not be compared: before the first keyframe, or between a gap and the next keyframe
    measure:   tolerance of its differences
    fused:     ticks whose scan was fused from recorded images
    unfused:   decisions whose scan was not fused and so not compared, by reason
    decisions: compared decisions; same: those with the same action
    first:     first difference outside the tolerance, else the first difference
    from_s:    time of the first compared tick; recorded_s: duration of the compared ticks on the robot
    """

    session: Session
    ticks: int = 0
    missing: MissingTicks = field(default_factory=MissingTicks)
    measure: Measure = BIT_FOR_BIT
    fused: int = 0
    unfused: Counter[str] = field(default_factory=Counter)
    decisions: int = 0
    same: int = 0
    first: Mismatch | None = None
    from_s: float | None = None
    recorded_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "session": self.session.name,
            "robot": self.session.record.get("robot", ""),
            "part": self.session.part,
            "from_s": None if self.from_s is None else round(self.from_s, 3),
            "recorded_s": round(self.recorded_s, 3),
            "ticks": self.ticks,
            "skipped_ticks": self.missing.skipped,
            "gaps": self.missing.gaps,
            "fused_scans": self.fused,
            "scans_not_fused": dict(self.unfused),
            "judged": self.measure.description,
            "decisions": self.decisions,
            "same_actions": self.same,
            "identical": self.identical,
        }

    @property
    def identical(self) -> bool:
        """Whether nothing differs and all was compared."""
        return self.first is None and not self.missing.skipped and not self.unfused


@dataclass(slots=True)
class Comparison:
    """Result of a replay of one file, by session and in total.

    source:  path or URL of the file
    first:   first difference outside the tolerance, else the first difference; fields: all differences
    took_s:  duration of the replay
    cut_off: a repaired copy was replayed
    """

    source: str
    sessions: Sequence[SessionCount]
    first: Mismatch | None = None
    fields: dict[str, FieldCount] = field(default_factory=dict)
    took_s: float = 0.0
    cut_off: bool = False

    @property
    def ticks(self) -> int:
        """Compared ticks."""
        return sum(session.ticks for session in self.sessions)

    @property
    def skipped(self) -> int:
        """Ticks that could not be compared."""
        return sum(session.missing.skipped for session in self.sessions)

    @property
    def gaps(self) -> int:
        """Gaps in the ticks of the file."""
        return sum(session.missing.gaps for session in self.sessions)

    @property
    def fused(self) -> int:
        """Ticks whose scan was fused from recorded images."""
        return sum(session.fused for session in self.sessions)

    @property
    def unfused(self) -> Counter[str]:
        """Decisions whose scan was not compared, by reason."""
        return sum((session.unfused for session in self.sessions), Counter[str]())

    @property
    def decisions(self) -> int:
        """Compared decisions."""
        return sum(session.decisions for session in self.sessions)

    @property
    def same(self) -> int:
        """Compared decisions with the same action."""
        return sum(session.same for session in self.sessions)

    @property
    def recorded_s(self) -> float:
        """Duration of the compared ticks on the robot [s]."""
        return sum(session.recorded_s for session in self.sessions)

    @property
    def identical(self) -> bool:
        """Whether nothing differs and all was compared."""
        return all(session.identical for session in self.sessions)

    @property
    def within_tolerance(self) -> bool:
        """Whether all differences are within their tolerances."""
        missed = sum(
            session.decisions - session.same for session in self.sessions if session.measure.same_actions < 1.0
        )
        allowed = sum(session.decisions * (1.0 - session.measure.same_actions) for session in self.sessions)
        return all(one.outside == 0 for one in self.fields.values()) and missed <= allowed

    @property
    def too_little(self) -> bool:
        """Whether too few ticks or scans were compared for a result."""
        parts = (self.ticks, self.skipped), (self.fused, self.unfused[NO_IMAGES])
        return any(done < LEAST_COMPARED * (done + left) for done, left in parts)

    @property
    def outcome(self) -> str:
        """The result in words."""
        if not self.within_tolerance:
            return "differs"
        if self.too_little:
            return "too little compared"
        if self.first is not None:
            return "within tolerance"
        return "identical" if self.identical else "no difference in what was compared"

    def add(self, session: Session, recorded: TickRecord, replayed: TickRecord, t_s: float) -> None:
        """Add a tick of one of the sessions."""
        count = next(one for one in self.sessions if one.session.name == session.name)
        count.ticks += 1
        count.from_s = t_s if count.from_s is None else count.from_s
        count.recorded_s = t_s - count.from_s
        unfused = unfused_reason(session.config, recorded)
        count.fused += unfused == ""
        if unfused:
            count.unfused[unfused] += 1
        if action_of(replayed) != NO_ACTION:
            count.decisions += 1
            count.same += action_of(replayed) == action_of(recorded)
        for difference in differences(recorded, replayed):
            allowed = count.measure.allows(difference)
            own = difference.stage in ("limits_scan", "moved_scan") and getattr(replayed, difference.stage) is not None
            name = difference.stage if own else "scan"
            scans = getattr(recorded, name), getattr(replayed, name)
            found = Mismatch(recorded.slot.number, t_s, difference, scans, allowed)
            count.first, self.first = _graver(count.first, found), _graver(self.first, found)
            of_field = self.fields.setdefault(difference.field, FieldCount())
            of_field.values += 1
            of_field.worst = max(of_field.worst, difference.by)
            of_field.outside += not allowed

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "file": self.source,
            "sessions": [session.as_json() for session in self.sessions],
            "cut_off": self.cut_off,
            "ticks": self.ticks,
            "identical": self.identical,
            "within_tolerance": self.within_tolerance,
            "first_difference": None if self.first is None else _plain(self.first),
            "fields": {
                name: {"values": one.values, "worst": in_json(one.worst), "outside": one.outside}
                for name, one in self.fields.items()
            },
            "speed_x_realtime": round(self.recorded_s / self.took_s, 2) if self.took_s > 0.0 else None,
        }


def joined(parts: Sequence[Comparison]) -> Comparison:
    """Return the combined result of the files of one session."""
    whole = Comparison(parts[0].source, [count for one in parts for count in one.sessions])
    for part in parts:
        whole.first = whole.first if part.first is None else _graver(whole.first, part.first)
    whole.cut_off = any(one.cut_off for one in parts)
    whole.took_s = sum(one.took_s for one in parts)
    for part in parts:
        for name, one in part.fields.items():
            count = whole.fields.setdefault(name, FieldCount())
            count.values += one.values
            count.worst = max(count.worst, one.worst)
            count.outside += one.outside
    return whole


def _graver(first: Mismatch | None, later: Mismatch) -> Mismatch:
    """Return the earlier difference, or the later one if only that is outside the tolerance."""
    return later if first is None or (first.allowed and not later.allowed) else first


def in_json(value: Value) -> Value:
    """Return a value for JSON: infinity and NaN as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(found: Mismatch) -> dict[str, Any]:
    one = found.difference
    return {
        "tick": found.tick,
        "t_s": round(found.t_s, 3),
        "stage": one.stage,
        "field": one.field + one.place,
        "recorded": in_json(one.recorded),
        "replayed": in_json(one.replayed),
    }
