"""What a replay of a file came to: what was compared, what differs by how much, and what first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hil.recordings.recording import Session
from hil.replay.compared_fields import Difference, Value, differences
from hil.replay.player import NO_IMAGES, Played
from hil.replay.tick_selection import Missing
from hil.replay.tolerances import BIT_FOR_BIT, Measure
from onboard.recording.tick_message import action_of
from onboard.values.messages import Scan

LEAST_COMPARED = 0.5
"""A replay in which less than this share of the ticks, or of the scans of decisions, was compared shows too little."""


@dataclass(frozen=True, slots=True)
class Found:
    """A difference and when it was: the tick's slot, and seconds since the session's first tick.

    scans:   of that tick, as recorded and as it came out again; those of the limits where theirs differ
    allowed: it is within what may differ
    """

    tick: int
    t_s: float
    difference: Difference
    scans: tuple[Scan, Scan] | None = None
    allowed: bool = False


@dataclass(slots=True)
class FieldCount:
    """How a field differed: in so many values, by at most so much, and in how many by more than it may."""

    values: int = 0
    worst: float = 0.0
    outside: int = 0


@dataclass(slots=True)
class SessionCount:
    """What of one session stands in the file and was compared.

    ticks:     compared
    missing:   what of it could not be: before the first whole state, or after a gap until the next
    measure:   by what its differences are judged
    fused:     ticks in which the scan was fused from recorded images
    unfused:   decisions whose scan was not, so that it was not compared, by the reason
    decisions: compared, `same` of them with the same action
    first:     the first value that differs by more than it may; where none does, the first that differs
    from_s, recorded_s: when the first tick was, and how long those compared took on the robot
    """

    session: Session
    ticks: int = 0
    missing: Missing = field(default_factory=Missing)
    measure: Measure = BIT_FOR_BIT
    fused: int = 0
    unfused: Counter[str] = field(default_factory=Counter)
    decisions: int = 0
    same: int = 0
    first: Found | None = None
    from_s: float | None = None
    recorded_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
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
            "judged": self.measure.said,
            "decisions": self.decisions,
            "same_actions": self.same,
            "identical": self.identical,
        }

    @property
    def identical(self) -> bool:
        """Return whether nothing differs, and nothing was left uncompared."""
        return self.first is None and not self.missing.skipped and not self.unfused


@dataclass(slots=True)
class Compared:
    """What a replay of one file came to, by session and in all.

    source: path or URL of the file
    first:  the first value that differs by more than it may, else the first that differs; fields: all of them
    took_s: how long it took here
    cut_off: what was replayed is a repaired copy
    """

    source: str
    sessions: Sequence[SessionCount]
    first: Found | None = None
    fields: dict[str, FieldCount] = field(default_factory=dict)
    took_s: float = 0.0
    cut_off: bool = False

    @property
    def session(self) -> Mapping[str, str]:
        """What was recorded by whom, in the first session."""
        return self.sessions[0].session.record

    @property
    def ticks(self) -> int:
        """How many were compared."""
        return sum(one.ticks for one in self.sessions)

    @property
    def skipped(self) -> int:
        """How many could not be compared."""
        return sum(one.missing.skipped for one in self.sessions)

    @property
    def gaps(self) -> int:
        """Places where ticks are missing in the file."""
        return sum(one.missing.gaps for one in self.sessions)

    @property
    def fused(self) -> int:
        """Ticks in which the scan was fused from recorded images."""
        return sum(one.fused for one in self.sessions)

    @property
    def unfused(self) -> Counter[str]:
        """Decisions whose scan was not fused again, so that it was not compared, by the reason."""
        return sum((one.unfused for one in self.sessions), Counter[str]())

    @property
    def decisions(self) -> int:
        """How many were compared."""
        return sum(one.decisions for one in self.sessions)

    @property
    def same(self) -> int:
        """Decisions with the same action."""
        return sum(one.same for one in self.sessions)

    @property
    def from_s(self) -> float | None:
        """When the first tick was, in the first session that has any."""
        return next((one.from_s for one in self.sessions if one.from_s is not None), None)

    @property
    def recorded_s(self) -> float:
        """How long what was compared took on the robot."""
        return sum(one.recorded_s for one in self.sessions)

    @property
    def identical(self) -> bool:
        """Return whether nothing differs at all, and nothing was left uncompared."""
        return all(one.identical for one in self.sessions)

    @property
    def within_tolerance(self) -> bool:
        """Return whether all that differs may, and as far."""
        missed = sum(one.decisions - one.same for one in self.sessions if one.measure.same_actions < 1.0)
        allowed = sum(one.decisions * (1.0 - one.measure.same_actions) for one in self.sessions)
        return all(one.outside == 0 for one in self.fields.values()) and missed <= allowed

    @property
    def too_little(self) -> bool:
        """Return whether so little was compared that the replay shows nothing."""
        parts = (self.ticks, self.skipped), (self.fused, self.unfused[NO_IMAGES])
        return any(done < LEAST_COMPARED * (done + left) for done, left in parts)

    @property
    def outcome(self) -> str:
        """Return what it came to in words."""
        if not self.within_tolerance:
            return "differs"
        if self.too_little:
            return "too little compared"
        if self.first is not None:
            return "within tolerance"
        return "identical" if self.identical else "no difference in what was compared"

    def add(self, session: Session, played: Played, t_s: float) -> None:
        """Count a tick of a session that is in the file."""
        count = next(one for one in self.sessions if one.session.name == session.name)
        count.ticks += 1
        count.from_s = t_s if count.from_s is None else count.from_s
        count.recorded_s = t_s - count.from_s
        count.fused += played.fused
        if played.unfused:
            count.unfused[played.unfused] += 1
        if played.decided is not None:
            count.decisions += 1
            count.same += played.decided.action == action_of(played.recorded)
        for one in differences(played):
            allowed = count.measure.allows(one)
            found = Found(played.recorded.slot.number, t_s, one, _scans(played, one), allowed)
            count.first, self.first = _graver(count.first, found), _graver(self.first, found)
            of_field = self.fields.setdefault(one.field, FieldCount())
            of_field.values += 1
            of_field.worst = max(of_field.worst, one.by)
            of_field.outside += not allowed

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "file": self.source,
            "sessions": [one.as_json() for one in self.sessions],
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


def joined(parts: Sequence[Compared]) -> Compared:
    """Return what the files of one session came to together."""
    whole = Compared(parts[0].source, [count for one in parts for count in one.sessions])
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


def _graver(first: Found | None, later: Found) -> Found:
    """Return which of two differences is told: the first one, unless only the later one may not be."""
    return later if first is None or (first.allowed and not later.allowed) else first


def in_json(value: Value) -> Value:
    """Return a value as JSON can hold it: infinity and NaN as words."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _scans(played: Played, difference: Difference) -> tuple[Scan, Scan]:
    name = "limits_scan" if difference.stage == "limits_scan" else "scan"
    return getattr(played.recorded, name), getattr(played.replayed, name)


def _plain(found: Found) -> dict[str, Any]:
    one = found.difference
    return {
        "tick": found.tick,
        "t_s": round(found.t_s, 3),
        "stage": one.stage,
        "field": one.field + one.place,
        "recorded": in_json(one.recorded),
        "replayed": in_json(one.replayed),
    }
