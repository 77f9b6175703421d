"""What a replay came to: what was compared, what differs by how much, and what first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hil.replay.fields import SAME_ACTIONS, Difference, differences
from hil.replay.player import Played
from onboard.messages import Scan


@dataclass(frozen=True, slots=True)
class Found:
    """A difference and when it was: the tick's slot, and seconds since the session's first tick.

    scans: of that tick, as recorded and as it came out again; those of the limits where theirs differ
    """

    tick: int
    t_s: float
    difference: Difference
    scans: tuple[Scan, Scan] | None = None


@dataclass(slots=True)
class FieldCount:
    """How a field differed: in so many values, by at most so much, and in how many by more than it may."""

    values: int = 0
    worst: float = 0.0
    outside: int = 0


@dataclass(slots=True)
class Compared:
    """What a replay came to.

    ticks:     compared; `skipped` could not be: before the first whole state, or after a gap until the next
    gaps:      places where ticks are missing in the file
    fused:     ticks in which the scan was fused from recorded images
    decisions: compared, `same` of them with the same action
    first:     the first value that differs
    from_s, recorded_s: when the first tick was, and how long those compared took on the robot; took_s: here
    """

    path: Path
    session: Mapping[str, str]
    ticks: int = 0
    skipped: int = 0
    gaps: int = 0
    fused: int = 0
    decisions: int = 0
    same: int = 0
    first: Found | None = None
    fields: dict[str, FieldCount] = field(default_factory=dict)
    from_s: float | None = None
    recorded_s: float = 0.0
    took_s: float = 0.0

    @property
    def identical(self) -> bool:
        """Return whether nothing differs at all."""
        return self.first is None

    @property
    def within_tolerance(self) -> bool:
        """Return whether all that differs may, and as far."""
        others = all(count.outside == 0 for name, count in self.fields.items() if name != "action")
        return others and self.same >= SAME_ACTIONS * self.decisions

    def add(self, played: Played, t_s: float) -> None:
        """Count a tick."""
        self.ticks += 1
        self.from_s = t_s if self.from_s is None else self.from_s
        self.recorded_s = t_s - self.from_s
        self.fused += played.recorded.with_images
        if played.decided is not None:
            self.decisions += 1
            self.same += played.decided.action == played.recorded.told.action
        for one in differences(played):
            self.first = self.first or Found(played.recorded.told.slot, t_s, one, _scans(played, one))
            count = self.fields.setdefault(one.field, FieldCount())
            count.values += 1
            count.worst = max(count.worst, one.by)
            count.outside += not one.within

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "file": str(self.path),
            "session": self.session.get("wall_minus_monotonic_ns", ""),
            "robot": self.session.get("robot", ""),
            "ticks": self.ticks,
            "skipped_ticks": self.skipped,
            "gaps": self.gaps,
            "fused_scans": self.fused,
            "decisions": self.decisions,
            "same_actions": self.same,
            "identical": self.identical,
            "within_tolerance": self.within_tolerance,
            "first_difference": None if self.first is None else _plain(self.first),
            "fields": {
                name: {"values": one.values, "worst": one.worst, "outside": one.outside}
                for name, one in self.fields.items()
            },
            "recorded_s": round(self.recorded_s, 3),
            "speed_x_realtime": round(self.recorded_s / self.took_s, 2) if self.took_s > 0.0 else None,
        }


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
        "recorded": one.recorded,
        "replayed": one.replayed,
    }
