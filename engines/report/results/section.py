"""A table of a report, and the names of evaluations in tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engines.report.results.result_files import FAST, REFERENCE, Evaluated
from hil.evaluate.metrics import Interval, wilson
from hil.evaluate.tables import percent

OURS = "this policy"
LOOPS = {
    FAST: "fast simulation",
    "runtime": "whole runtime, scan by ray casting",
    "rendered": "whole runtime, rendered cameras",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A table with its notes. missing: the files that it lacks, "" if complete."""

    title: str
    markdown: str
    missing: str = ""


def driven(one: Evaluated) -> str:
    """Return the loop and unusual options of an evaluation, in words."""
    more = [f", {name.replace('_', ' ')} {value}" for name, value in one.unusual.items()]
    return LOOPS[one.loop] + ("" if one.color else ", without colour images") + "".join(more)


def whole(one: Evaluated) -> str:
    """Return sets or maps of an evaluation, its condition unless the paper's, and its loop, in words."""
    sets = " and ".join(f"set `{name}`" for name in one.sets if name)
    maps = ", ".join(Path(str(row[0])).stem for row in one.episodes)
    condition = "" if one.condition == REFERENCE else f", `{one.condition}`"
    return f"{sets or f'map {maps}'}{condition}, {driven(one)}"


def rate(successes: int, episodes: int) -> str:
    """Return a success rate with its interval."""
    return share(successes / episodes if episodes else None, wilson(successes, episodes))


def share(value: float | None, interval: Interval | None) -> str:
    """Return a share with its interval, if known."""
    return percent(value) + ("" if interval is None else f" ({percent(interval[0])} to {percent(interval[1])})")
