"""Decisions, drives and wall time of a training, from its journal."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engines.report.results.checks import shaped
from engines.report.results.columns import is_there, read_bytes
from onboard.values.errors import InputError

ROWS = "journal.jsonl"
"""The journal of `engines.train.training_log`."""
S_PER_H = 3600.0
NEEDED = ("stage", "step")


def training_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of each stage in a training's folder by name; empty without a journal.

    decisions, drives: rounds repeated after a stop count once
    hours:             wall time of all calls, with repeated rounds, furnishing and validation
    A torn last line is ignored. Raises InputError for a file that is no journal.
    """
    file = folder / ROWS
    if not is_there(file):
        return {}
    rows = _rows(file)
    with shaped(file, "not a training's journal"):
        return {stage: _figures([row for row in rows if row["stage"] == stage]) for stage in _stages(rows)}


def _rows(file: Path) -> list[dict[str, Any]]:
    rows = []
    lines = read_bytes(file).splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            if number == len(lines) and not line.endswith(b"\n"):
                break
            raise InputError(f"{file}: line {number}: not valid JSON: {error}") from error
        if not isinstance(row, dict) or not all(name in row for name in NEEDED):
            raise InputError(f"{file}: line {number}: not a row of a training's journal")
        rows.append(row)
    return rows


def _stages(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row["stage"]) for row in rows))


def _figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rounds = {row["step"]: row for row in rows if "decisions" in row}
    return {
        "rounds": len(rounds),
        "decisions": int(sum(row["decisions"] for row in rounds.values())),
        "drives": int(sum(row.get("drives", 0.0) for row in rounds.values())),
        "hours": _hours(rows),
    }


def _hours(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return the sum of the calls' times, None without times."""
    timed = [row for row in rows if "at_s" in row]
    if not timed:
        return None
    ends = [float(before["at_s"]) for before, after in itertools.pairwise(timed) if not _one_call(before, after)]
    return (sum(ends) + float(timed[-1]["at_s"])) / S_PER_H


def _one_call(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether two consecutive rows are of the same call.

    Older journals do not number calls. There a call is only noticed if the time falls.
    """
    return bool(before.get("call") == after.get("call") and before["at_s"] <= after["at_s"])
