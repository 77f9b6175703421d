"""How much a training drove and learned, and how long it took, from its journal."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engines.report.results.checks import shaped
from engines.report.results.columns import MANIFESTS, is_there, read_bytes
from hil.jobs.code_digest import file_digest
from onboard.config.toml_file import validation_line
from onboard.policy.manifest import MANIFEST_SUFFIX, Manifest
from onboard.values.errors import InputError

ROWS = "journal.jsonl"
"""Of `engines.train.journal`."""
S_PER_H = 3600.0
CHOSE = "kept_after"
"""In the row that tells between which weights a training chose."""
NEEDED = ("stage", "step")


def training_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of each stage in a training's folder, by name; nothing where there is no journal.

    decisions, drives: driven, those of rounds that were driven again after a stop counted once
    hours:             wall time of all calls, those rounds included, furnishing and validation too
    decisions_per_s:   of the rounds, from one to the next in one call
    last:              the last row that tells how good the student was, with its step and its chapter
    chosen:            the row that tells how good the weights were between which it chose, None where it did not
    A last line that was cut off as it was written is not a row. Raises InputError for a file that is no journal.
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
    judged, chose = ([row for row in rows if name in row] for name in ("SR", CHOSE))
    return {
        "rounds": len(rounds),
        "decisions": int(sum(row["decisions"] for row in rounds.values())),
        "drives": int(sum(row.get("drives", 0.0) for row in rounds.values())),
        "hours": _hours(rows),
        "decisions_per_s": _rate(rows),
        "last": judged[-1] if judged else None,
        "chosen": chose[-1] if chose else None,
    }


def _hours(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return the sum of the calls' times. None of rows without a time."""
    timed = [row for row in rows if "at_s" in row]
    if not timed:
        return None
    ends = [float(before["at_s"]) for before, after in itertools.pairwise(timed) if not _one_call(before, after)]
    return (sum(ends) + float(timed[-1]["at_s"])) / S_PER_H


def _one_call(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether a row is of the same call as the one before it.

    Rows of older journals have no number of the call: a call that was stopped sooner than it took the next to write its
    first row is not seen there.
    """
    return bool(before.get("call") == after.get("call") and before["at_s"] <= after["at_s"])


def _rate(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return decisions to the second over rounds that follow one another without anything between them."""
    decisions, seconds = 0.0, 0.0
    for before, after in itertools.pairwise(rows):
        timed = all("decisions" in row and "at_s" in row for row in (before, after))
        if timed and _one_call(before, after):
            decisions, seconds = decisions + after["decisions"], seconds + after["at_s"] - before["at_s"]
    return decisions / seconds if seconds > 0.0 else None


# ---- Policies that were driven and do not ship: the manifest of each lies beside its results, without its model


@dataclass(frozen=True, slots=True)
class Made:
    """One manifest. model: name of the file that it is of; digest: as evaluations tell it."""

    file: Path
    model: str
    digest: str
    manifest: Manifest

    @property
    def training(self) -> Mapping[str, Any]:
        """Return what it says of its training; nothing where it does not."""
        training: Mapping[str, Any] = self.manifest.extra.get("training", {})
        return training

    def is_manifest_of(self, configuration: Mapping[str, Any]) -> bool:
        """Return whether nothing tells that an evaluation was of another; older results tell of none."""
        return bool(configuration.get("manifest", self.digest) == self.digest)


def made_in(folder: Path) -> tuple[Made, ...]:
    """Return the manifests in a folder. Raises InputError for one that is none."""
    return tuple(_made(file) for file in sorted(folder.glob(MANIFESTS)))


def _made(file: Path) -> Made:
    try:
        manifest = Manifest.model_validate_json(file.read_bytes())
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise InputError(validation_line(file, error)) from error
    return Made(file, file.name.removesuffix(MANIFEST_SUFFIX), file_digest(file), manifest)
