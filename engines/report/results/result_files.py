"""The result files of one policy in a folder: which are there, and what they hold.

    evaluate/*.json       `onboard-hil evaluate --policy MODEL --set unseen --condition ... --json`, of one model
    seeds/NAME.json       the same of trainings by other seeds
    validation/NAME.json  the same of both on the set `validation`
    finetune/NAME.json    the same before and after fine-tuning, on its building: before*.json and after*.json whose
                          names go on alike are a pair
    others/NAME.json      the same of what it is compared with
    demos/MAP-SEED.json   `onboard-hil demo --map MAP --seed SEED --json`
    ceiling.json          `onboard-hil upper-bound --set unseen --json`
    ablations.json        `onboard-engines ablations`
    encoder.json          `report.json` of the colour encoder's training
    training/             the folder of the training: journal.jsonl, of this or of folders in it
    training.json         figures of trainings whose journals are not kept
    trajectories.json     `onboard-engines report --drive NAME|FILE`
    hardware.txt          one line: what the training ran on

All of it may be packed into columns (`engines/report/results/columns.py`).
What is missing is left out of a report and said to be missing.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.report.results.checks import require_of_episodes, shaped
from engines.report.results.columns import NO_RESULT, is_there, read_table, results_in
from engines.report.results.markdown import summary_of_json
from engines.report.results.training_history import ROWS, training_of
from hil.evaluate.metrics import Summary
from hil.evaluate.result import Row, row_of_json
from onboard.values.errors import InputError

EVALUATE, SEEDS, VALIDATION, FINE, OTHERS = "evaluate", "seeds", "validation", "finetune", "others"
DEMOS = "demos"
CEILING, ABLATIONS, ENCODER, TRAJECTORIES = "ceiling.json", "ablations.json", "encoder.json", "trajectories.json"
TRAINING, TRAINING_FIGURES, HARDWARE = "training", "training.json", "hardware.txt"
THROUGHPUT = "throughput"
TOLD = {"training", "stage", "decisions", "drives", "hours"}
REFERENCE, REFERENCE_SET, FAST = "paper", "unseen", "fast"
"""Condition, set and loop of what is quoted."""
ORDINARY_RUN = {"scan": "fused", "known_map": "true", "pedestrians": 0}
"""Options of an evaluation that are named where they differ, as they are usually."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One evaluation. name: of the file, and of the condition where the file holds several."""

    name: str
    file: Path
    configuration: Mapping[str, Any]
    summary: Summary
    rows: tuple[Row, ...]
    per_map: Mapping[str, Summary]

    @property
    def condition(self) -> str:
        """Return the row of hil/drive/conditions.toml."""
        return str(self.configuration["condition"])

    @property
    def loop(self) -> str:
        """Return "fast", "runtime" or "rendered"."""
        return str(self.configuration["loop"])

    @property
    def color(self) -> bool:
        """Return whether the policy was given colour images."""
        return bool(self.configuration["color"])

    @property
    def sets(self) -> list[str]:
        """Return the committed sets that were driven; "" is of one's own."""
        return list(dict.fromkeys(str(one[4]) for one in self.configuration["sets"]))

    @property
    def unusual(self) -> dict[str, Any]:
        """Return those options of `ORDINARY_RUN` that are not as usual."""
        told = {name: self.configuration.get(name, usual) for name, usual in ORDINARY_RUN.items()}
        return {name: value for name, value in told.items() if value != ORDINARY_RUN[name]}

    @property
    def episodes(self) -> list[list[Any]]:
        """Return name, count, digest, seed and set of its sets, sorted."""
        return episodes_of(self.configuration)

    def is_driven_as(self, other: Evaluated) -> bool:
        """Return whether both drove the same episodes with the same robot, senses, condition, noise and loop."""
        told = ("condition", "condition_values", "loop", "robot", "seed", "color")
        return (
            self.episodes == other.episodes
            and self.unusual == other.unusual
            and all(self.configuration.get(name) == other.configuration.get(name) for name in told)
        )

    def is_of_robot(self, other: Evaluated | None) -> bool:
        """Return whether nothing tells of two robots; older results tell of none."""
        robots = [each.configuration["robot"] for each in (self, other) if each and "robot" in each.configuration]
        return len(set(robots)) < 2

    @property
    def driver(self) -> str:
        """Return the name of what drove, without its folder."""
        return Path(str(self.configuration.get("policy", self.name))).name

    @property
    def is_plain(self) -> bool:
        """Return whether it is in the fast loop, with all senses, and with nothing but what its condition says."""
        return self.loop == FAST and self.color and not self.unusual

    @property
    def is_headline(self) -> bool:
        """Return whether it is of the kind that is quoted: unseen set, the paper's noise, and plain."""
        return self.condition == REFERENCE and self.sets == [REFERENCE_SET] and self.is_plain


@dataclass(frozen=True, slots=True)
class Gathered:
    """All of a folder. What is not there is empty or None. demos: what each file holds, by its name."""

    folder: Path
    evaluations: tuple[Evaluated, ...]
    seeds: tuple[Evaluated, ...]
    validation: tuple[Evaluated, ...]
    fine: tuple[Evaluated, ...]
    others: tuple[Evaluated, ...]
    demos: Mapping[str, dict[str, Any]]
    ceiling: Mapping[str, Any] | None
    ablations: Mapping[str, Any] | None
    encoder: Mapping[str, Any] | None
    trainings: Mapping[str, Mapping[str, Any]]
    trajectories: Mapping[str, Any] | None
    hardware: str

    @property
    def headline(self) -> Evaluated | None:
        """Return the evaluation whose figures are quoted: of the unseen set, as the paper trains, in the fast loop.

        Of several the one of most episodes.
        """
        quoted = [one for one in self.evaluations if one.is_headline]
        return max(quoted, key=lambda one: len(one.rows), default=None)


def episodes_of(table: Mapping[str, Any]) -> list[list[Any]]:
    """Return name, count, digest, seed and set of the sets in a result, sorted; nothing where it does not tell them."""
    return sorted((list(one) for one in table.get("sets", ())), key=str)


def same_set(place: Sequence[Any]) -> Hashable:
    """Return what two rows of name, count, digest, seed, set (and furniture) of one set have in common."""
    return (place[0], *place[2:])


def gather(folder: Path) -> Gathered:
    """Return what a folder holds. Raises InputError for a file that is not what its place says, or is incomplete."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    evaluations = _evaluations(folder / EVALUATE)
    _require_one_model(evaluations)
    return Gathered(
        folder=folder,
        evaluations=evaluations,
        seeds=_evaluations(folder / SEEDS),
        validation=_evaluations(folder / VALIDATION),
        fine=_evaluations(folder / FINE),
        others=_evaluations(folder / OTHERS),
        demos={name: table for _, name, table in results_in(folder / DEMOS)},
        ceiling=_table(folder / CEILING, "ends"),
        ablations=_table(folder / ABLATIONS, "rows"),
        encoder=_table(folder / ENCODER, ""),
        trainings=_figures_before(folder / TRAINING_FIGURES) | _trainings(folder / TRAINING),
        trajectories=_table(folder / TRAJECTORIES, "drives"),
        hardware=_line(folder / HARDWARE),
    )


def _evaluations(folder: Path) -> tuple[Evaluated, ...]:
    return tuple(_evaluated(file, name, table) for file, name, table in results_in(folder))


def _evaluated(file: Path, name: str, table: Mapping[str, Any]) -> Evaluated:
    with shaped(file, f"{name}: {NO_RESULT}"):
        if not table["complete"]:
            raise InputError(f"{file}: {name}: the evaluation was interrupted; let the same command finish it")
        per_map = {place: summary_of_json(one) for place, one in table["per_map"].items()}
        rows = tuple(row_of_json(row) for row in table["per_episode"])
        summary = summary_of_json(table)
        require_of_episodes(file, name, summary, rows)
        return Evaluated(name, file, {**table["configuration"]}, summary, rows, per_map)


def _require_one_model(evaluations: tuple[Evaluated, ...]) -> None:
    for name in ("model", "manifest"):
        told = [one for one in evaluations if name in one.configuration]  # older results tell of no manifest
        for one in told[1:]:
            if one.configuration[name] != told[0].configuration[name]:
                raise InputError(f"{one.file}: is of another {name} than {told[0].file}: {EVALUATE}/ is of one policy")


def _table(file: Path, key: str) -> dict[str, Any] | None:
    """Return a file's table, None where there is no file. Raises InputError for one without a key."""
    if not is_there(file):
        return None
    table = read_table(file)
    if key and key not in table:
        raise InputError(f"{file}: has no {key}")
    return table


def _line(file: Path) -> str:
    with shaped(file, "not a line of text"):
        return " ".join(file.read_text(encoding="utf-8").split()) if file.is_file() else ""


def _figures_before(file: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of trainings that an earlier report told, by place and stage. Raises InputError."""
    trainings: dict[str, dict[str, Any]] = {}
    rows = (_table(file, THROUGHPUT) or {THROUGHPUT: []})[THROUGHPUT]
    for row in rows if isinstance(rows, list) else [rows]:
        if not isinstance(row, dict) or not row.keys() >= TOLD:
            raise InputError(f"{file}: {THROUGHPUT}: not what a report tells of trainings: {row!r}")
        trainings.setdefault(str(row["training"]), {})[str(row["stage"])] = row
    return trainings


def _trainings(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of every journal in a folder, by its place."""
    files = sorted(folder.rglob(f"{ROWS}*")) if folder.is_dir() else []
    return {str(file.parent.relative_to(folder.parent)): training_of(file.parent) for file in files}
