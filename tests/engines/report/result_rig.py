"""Results of one made-up policy in a folder, as `onboard-engines report` reads them."""

from __future__ import annotations

import json
from collections.abc import Container
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from engines.__main__ import main
from hil.evaluate.metrics import summarise, summarise_by
from hil.evaluate.result import row_of_json
from onboard.policy.contract import ACTIONS
from tests.rigs.evaluate_rows import row

COUNTS = tuple(range(len(ACTIONS)))
SETS = [["ahg2", 6, "", None, "unseen"], ["willow", 6, "", None, "unseen"]]


def rows(lost: int) -> list[Any]:
    """Return twelve episodes on two maps, a third of them detours, of which some are lost."""
    return [
        row(number, map="ahg2" if number % 2 else "willow", success=number >= lost, ended="stop" if number else "time",
            straight_m=10.0 if number % 3 else 8.0, distance_m=0.1 if number >= lost else 2.0 + number, actions=COUNTS)
        for number in range(12)
    ]  # fmt: skip


def evaluated(lost: int = 2, **changes: Any) -> dict[str, Any]:
    """Return what `onboard-hil evaluate --json` writes."""
    episodes = rows(lost)
    configuration = {
        "condition": "paper", "loop": "fast", "color": True, "model": "m", "code": "c", "seed": 1, "robot": "r",
        "sets": SETS, **changes,
    }  # fmt: skip
    return {
        **summarise(episodes).as_json(),
        "complete": True,
        "configuration": configuration,
        "per_map": {name: one.as_json() for name, one in summarise_by("map", episodes).items()},
        "per_episode": [episode.as_json() for episode in episodes],
    }


def part_of(whole: dict[str, Any], indices: Container[int]) -> dict[str, Any]:
    """Return a result as it is of the episodes of some indices alone."""
    kept = [one for one in whole["per_episode"] if one["index"] in indices]
    return {**whole, **summarise([row_of_json(one) for one in kept]).as_json(), "per_episode": kept}


def put(file: Path, value: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))
    return file


def results_in(found: Path) -> Path:
    """Write some results of one model into a folder and return it."""
    conditions = {"paper": evaluated(), "no_front": evaluated(4, condition="no_front")}
    put(found / "evaluate" / "all.json", {"conditions": conditions})
    put(found / "evaluate" / "rendered.json", evaluated(3, loop="rendered"))
    put(found / "seeds" / "seed1.json", evaluated(1, model="n"))
    return found


def report(*arguments: str | Path):
    """Return click's result of `onboard-engines report`."""
    return CliRunner().invoke(main, ["report", *map(str, arguments)], catch_exceptions=False)
