"""A finding of the doctor about one part: level, text, remedy."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onboard.values.errors import OnboardError


class Level(enum.IntEnum):
    """Severity; larger is worse."""

    GREEN = 0
    AMBER = 1
    RED = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the report.

    part:   the checked part: "clock", "camera front"
    found:  one line for the operator
    remedy: what to do; "" only for green
    values: the same as plain JSON values
    """

    part: str
    level: Level
    found: str
    remedy: str = ""
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a part."""

    level: Level
    found: str
    remedy: str


def green(part: str, found: str, **values: object) -> Finding:
    """Return a finding without a problem."""
    return Finding(part, Level.GREEN, found, "", values)


def amber(part: str, found: str, remedy: str, **values: object) -> Finding:
    """Return a finding about a part that works but needs attention."""
    return Finding(part, Level.AMBER, found, remedy, values)


def red(part: str, found: str, remedy: str, **values: object) -> Finding:
    """Return a finding about a part that keeps the robot from driving, or from driving safely."""
    return Finding(part, Level.RED, found, remedy, values)


def combined(part: str, summary: str, problems: Sequence[Problem], **values: object) -> Finding:
    """Return one finding from all problems of a part, the worst first; green without problems."""
    if not problems:
        return green(part, summary, **values)
    ordered = sorted(problems, key=lambda one: -one.level)
    found = "; ".join([*(one.found for one in ordered), *filter(None, [summary])])
    return Finding(part, ordered[0].level, found, "; ".join(dict.fromkeys(one.remedy for one in ordered)), values)


def findings_of(part: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return the findings, or one finding about the error of `look`, so that the report continues."""
    try:
        return list(look())
    except OnboardError as error:
        return [red(part, str(error), "fix this, then run the check again")]
    except PermissionError as error:
        return [amber(part, f"this user may not check it: {_words(error)}", "run the check again with sudo")]
    except OSError as error:
        return [red(part, f"the check failed: {_words(error)}", "fix this, then run the check again")]


def _words(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)


def worst(findings: Sequence[Finding]) -> Level:
    """Return the worst level, green of nothing."""
    return max((finding.level for finding in findings), default=Level.GREEN)
