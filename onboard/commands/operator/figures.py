"""What `onboard top` shows of a running robot, from two messages of `/diagnostics`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onboard.commands.operator.robot import LEVELS, Status
from onboard.counters import STAGES
from onboard.service.publisher import AGE, LATENESS, REASON

ABSENT = "-"
DECISION = "decision"
"""The policy's whole decision, in its own thread, next to the ticks."""


@dataclass(frozen=True, slots=True)
class DiagnosticsSample:
    """One message of `/diagnostics`. at_s: monotonic time at which it came [s]"""

    status: Status
    at_s: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What the screen shows of a robot, as text; ABSENT where the robot does not state it.

    counts:  name -> count of the run
    rates:   name -> events a second since the message before
    times:   lateness and stages -> median and 99th percentile of the run, slowest since the message before [ms]
    ages_ms: input -> age at the start of the newest tick
    reasons: reason of commands -> count since the message before; most frequent first
    parts:   (name, level, message) of each part
    """

    state: str
    counts: Mapping[str, str]
    rates: Mapping[str, float]
    times: Mapping[str, tuple[str, str, str]]
    ages_ms: Mapping[str, str]
    reasons: Mapping[str, int]
    parts: tuple[tuple[str, str, str], ...]


COUNTS = ("missed_slots", "decisions", "deadline_misses", "over_budget", "memory_resets")


def figures(now: DiagnosticsSample, before: DiagnosticsSample | None) -> Figures:
    """Return the figures of a message. before: the message before it, None for the first"""
    status = now.status
    return Figures(
        state=status.state,
        counts={name: status.value(name) for name in COUNTS},
        rates={name: _rate(name, now, before) for name in ("ticks", "decisions")},
        times={name: _times(status, name) for name in (LATENESS, *STAGES, DECISION)},
        ages_ms={name.removesuffix(AGE): value for name, value in _values(status) if name.endswith(AGE)},
        reasons=_reasons(now, before),
        parts=tuple((part.name, part.level, part.message) for part in status.parts),
    )


def _times(status: Status, name: str) -> tuple[str, str, str]:
    return status.value(f"{name}_p50_ms"), status.value(f"{name}_p99_ms"), status.value(f"{name}_max_ms")


def _values(status: Status) -> list[tuple[str, str]]:
    return [pair for part in status.parts for pair in part.values.items()]


def _count(seen: DiagnosticsSample | None, name: str) -> int:
    value = ABSENT if seen is None else seen.status.value(name)
    return int(value) if value.isdigit() else 0


def _rate(name: str, now: DiagnosticsSample, before: DiagnosticsSample | None) -> float:
    """Return the events a second between two messages; 0 for the first message and after a new start of the robot."""
    if before is None or now.at_s <= before.at_s:
        return 0.0
    return max(0, _count(now, name) - _count(before, name)) / (now.at_s - before.at_s)


def _reasons(now: DiagnosticsSample, before: DiagnosticsSample | None) -> dict[str, int]:
    names = [name for name, _ in _values(now.status) if name.startswith(REASON)]
    since = {name.removeprefix(REASON): _count(now, name) - _count(before, name) for name in names}
    ordered = sorted(since.items(), key=lambda row: -row[1])
    return {name: count for name, count in ordered if count > 0}


def is_bad(level: str) -> bool:
    """Return whether a part's level is not ok."""
    return level != LEVELS[0]
