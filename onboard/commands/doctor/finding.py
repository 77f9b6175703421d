"""What the doctor says of one part: how bad, what was found, what to do."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onboard.values.errors import OnboardError


class Level(enum.IntEnum):
    """How bad a thing is; the larger the worse."""

    GREEN = 0
    AMBER = 1
    RED = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the report.

    part:   what was looked at: "clock", "camera front"
    found:  one line for a person
    remedy: what to do; "" only where nothing has to be done
    values: the same for a machine, plain JSON values
    """

    part: str
    level: Level
    found: str
    remedy: str = ""
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong with a part."""

    level: Level
    found: str
    remedy: str


def green(part: str, found: str, **values: object) -> Finding:
    """Return that a part is as it should be."""
    return Finding(part, Level.GREEN, found, "", values)


def amber(part: str, found: str, remedy: str, **values: object) -> Finding:
    """Return that a part works and should be looked after."""
    return Finding(part, Level.AMBER, found, remedy, values)


def red(part: str, found: str, remedy: str, **values: object) -> Finding:
    """Return that the robot will not drive, or not safely, with this part as it is."""
    return Finding(part, Level.RED, found, remedy, values)


def judged(part: str, summary: str, complaints: Sequence[Complaint], **values: object) -> Finding:
    """Return one finding of everything that is wrong with a part, the worst first; green when nothing is."""
    if not complaints:
        return green(part, summary, **values)
    ordered = sorted(complaints, key=lambda one: -one.level)
    found = "; ".join([*(one.found for one in ordered), *filter(None, [summary])])
    return Finding(part, ordered[0].level, found, "; ".join(dict.fromkeys(one.remedy for one in ordered)), values)


def looked(part: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return what was found, or that looking itself failed: what is wrong with one part ends no report."""
    try:
        return list(look())
    except OnboardError as error:
        return [red(part, str(error), "do what the line says, then ask again")]
    except PermissionError as error:
        return [amber(part, f"cannot be looked at by this user: {_words(error)}", "ask again with sudo")]
    except OSError as error:
        return [red(part, f"cannot be looked at: {_words(error)}", "do what the line says, then ask again")]


def _words(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)


def worst(findings: Sequence[Finding]) -> Level:
    """Return the worst level, green of nothing."""
    return max((one.level for one in findings), default=Level.GREEN)
