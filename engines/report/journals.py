"""How much a training drove and learned, and how long it took, from its journal."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onboard.errors import InputError

ROWS = "journal.jsonl"
"""Of `engines.train.journal`."""
S_PER_H = 3600.0
NEEDED = ("stage", "step")


def training_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of each stage in a training's folder, by name; nothing where there is no journal.

    decisions, drives: driven, those of rounds that were driven again after a stop counted once
    hours:             wall time of all calls, those rounds included, furnishing and validation too
    decisions_per_s:   of the rounds, from one to the next in one call
    last:              the last row that tells how good the student was, with its step and its chapter
    Raises InputError for a file that is no journal.
    """
    file = folder / ROWS
    if not file.is_file():
        return {}
    rows = _rows(file)
    return {stage: _figures([row for row in rows if row["stage"] == stage]) for stage in _stages(rows)}


def _rows(file: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{file}: line {number}: not valid JSON: {error}") from error
        if not isinstance(row, dict) or not all(name in row for name in NEEDED):
            raise InputError(f"{file}: line {number}: not a row of a training's journal")
        rows.append(row)
    return rows


def _stages(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row["stage"]) for row in rows))


def _figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rounds = {row["step"]: row for row in rows if "decisions" in row}
    judged = [row for row in rows if "SR" in row]
    return {
        "rounds": len(rounds),
        "decisions": int(sum(row["decisions"] for row in rounds.values())),
        "drives": int(sum(row.get("drives", 0.0) for row in rounds.values())),
        "hours": _hours(rows),
        "decisions_per_s": _rate(rows),
        "last": judged[-1] if judged else None,
    }


def _hours(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return the sum of the calls' times; a call begins where the time falls back. None of rows without a time."""
    times = [float(row["at_s"]) for row in rows if "at_s" in row]
    if not times:
        return None
    ends = [before for before, after in itertools.pairwise(times) if after < before]
    return (sum(ends) + times[-1]) / S_PER_H


def _rate(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return decisions to the second over rounds that follow one another without anything between them."""
    decisions, seconds = 0.0, 0.0
    for before, after in itertools.pairwise(rows):
        timed = all("decisions" in row and "at_s" in row for row in (before, after))
        if timed and after["at_s"] > before["at_s"]:
            decisions, seconds = decisions + after["decisions"], seconds + after["at_s"] - before["at_s"]
    return decisions / seconds if seconds > 0.0 else None
