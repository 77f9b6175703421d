"""What a part of a report is, and what several parts say alike of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.report.results.result_files import FAST, REFERENCE, Evaluated
from hil.evaluate.metrics import Interval, Summary, wilson
from hil.evaluate.tables import percent

OURS = "this policy"
NOT_STATED = "not stated"
"""What the files do not tell."""
LOOPS = {
    FAST: "policy and base stepped directly",
    "runtime": "through the whole runtime, the scan cast directly",
    "rendered": "through the whole runtime, cameras rendered",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One part; `data` is for JSON. missing: what file there would have to be, "" where it is there."""

    name: str
    title: str
    markdown: str
    data: Any
    missing: str = ""


def lacks(there: Sequence[Any], place: str) -> str:
    """Return what a part without anything there is missing."""
    return "" if there else place


def driven(one: Evaluated) -> str:
    """Return how an evaluation was driven."""
    return LOOPS[one.loop] + driven_besides(one)


def driven_besides(one: Evaluated) -> str:
    """Return the same without its loop; "" of one with nothing unusual."""
    more = [f", {name.replace('_', ' ')} {value}" for name, value in one.unusual.items()]
    return ("" if one.color else ", without colour images") + "".join(more)


def of_sets(one: Evaluated) -> str:
    """Return whose episodes they are."""
    return " and ".join(f"set {name}" if name else "episodes of one's own" for name in one.sets)


def whole(one: Evaluated) -> str:
    """Return what an evaluation is of: its sets, its condition unless that is the paper's, and how it was driven."""
    condition = "" if one.condition == REFERENCE else f", `{one.condition}`"
    return f"{of_sets(one)}{condition}, {driven(one)}"


def count(summary: Summary) -> str:
    """Return how many episodes there are."""
    return str(summary.episodes)


def plain(one: Evaluated) -> dict[str, Any]:
    """Return an evaluation for JSON."""
    return {
        "name": one.name,
        "condition": one.condition,
        "loop": one.loop,
        "color": one.color,
        "sets": one.sets,
        **rates(one.summary),
    }


def rates(summary: Summary) -> dict[str, Any]:
    """Return the figures that are quoted."""
    names = ("episodes", "success_rate", "spl", "sct", "contacts_per_episode", "hard_success_rate", "ci95")
    told = summary.as_json()
    return {name: told[name] for name in names}


def rate(successes: int, episodes: int) -> str:
    """Return a success rate with its interval."""
    return share(successes / episodes if episodes else None, wilson(successes, episodes))


def share(value: float | None, interval: Interval | None) -> str:
    """Return a share with its interval, as far as there are any."""
    return percent(value) + ("" if interval is None else f" ({percent(interval[0])} to {percent(interval[1])})")


def reason(ended: str) -> str:
    """Return how an episode ended that did not arrive."""
    return {"stop": "stopped elsewhere", "time": "did not stop in time"}.get(ended, ended)


def of_maps(one: Evaluated) -> str:
    """Return the names of the maps."""
    return ", ".join(Path(str(row[0])).stem for row in one.episodes)
