"""What a table of a report is, and how an evaluation is named in each of them."""

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
    """One table with its notes. missing: which files it needs, "" where they are there."""

    name: str
    title: str
    markdown: str
    missing: str = ""


def driven(one: Evaluated) -> str:
    """Return how an evaluation was driven."""
    more = [f", {name.replace('_', ' ')} {value}" for name, value in one.unusual.items()]
    return LOOPS[one.loop] + ("" if one.color else ", without colour images") + "".join(more)


def whole(one: Evaluated) -> str:
    """Return what an evaluation is of: its sets or maps, its condition unless that is the paper's, and its loop."""
    sets = " and ".join(f"set `{name}`" for name in one.sets if name)
    maps = ", ".join(Path(str(row[0])).stem for row in one.episodes)
    condition = "" if one.condition == REFERENCE else f", `{one.condition}`"
    return f"{sets or f'map {maps}'}{condition}, {driven(one)}"


def rate(successes: int, episodes: int) -> str:
    """Return a success rate with its interval."""
    return share(successes / episodes if episodes else None, wilson(successes, episodes))


def share(value: float | None, interval: Interval | None) -> str:
    """Return a share with its interval, as far as there are any."""
    return percent(value) + ("" if interval is None else f" ({percent(interval[0])} to {percent(interval[1])})")
