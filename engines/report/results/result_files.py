"""Reads the result files of a policy from a folder:

    evaluate/*.json       `onboard-hil evaluate --policy MODEL --set unseen --condition ... --json`, of one model
    seeds/NAME.json       the same of trainings by other seeds
    validation/NAME.json  the same of both on the set `validation`
    finetune/NAME.json    the same before and after fine-tuning, on its building: before*.json and after*.json with
                          the same rest of the name are a pair; reactive-home.json is compared with after-home.json
    others/NAME.json      the same of baselines
    demos/MAP-SEED.json   `onboard-hil demo --map MAP --seed SEED --json`
    ceiling.json          `onboard-hil upper-bound --set unseen --json`
    ablations.json        `onboard-engines ablations`
    encoder.json          `report.json` of the colour encoder's training
    training/             the folder of the training: journal.jsonl, of this or of folders in it
    training.json         figures of trainings whose journals are not kept
    trajectories.json     `onboard-engines report --drive NAME|FILE`
    hardware.txt          one line: what the training ran on

All of it may be packed (`engines/report/results/columns.py`). A report names tables without files.
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
from hil.evaluate.evaluation import STATED
from hil.evaluate.metrics import Summary
from hil.evaluate.result import Row, row_of_json
from onboard.config.pretrained import model_and_fallback
from onboard.values.errors import InputError

EVALUATE, SEEDS, VALIDATION, FINE, OTHERS = "evaluate", "seeds", "validation", "finetune", "others"
DEMOS = "demos"
CEILING, ABLATIONS, ENCODER, TRAJECTORIES = "ceiling.json", "ablations.json", "encoder.json", "trajectories.json"
TRAINING, TRAINING_FIGURES, HARDWARE = "training", "training.json", "hardware.txt"
THROUGHPUT = "throughput"
TRAINING_KEYS = {"training", "stage", "decisions", "drives", "hours"}
REFERENCE, REFERENCE_SET, FAST = "paper", "unseen", "fast"
"""Condition, set and loop of the headline."""
ORDINARY_RUN = {"scan": "fused", "known_map": "true", "pedestrians": 0}
"""Usual options of an evaluation; tables name other values."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation. name: of the file, and of the condition if the file holds several."""

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
        """Return the committed sets of the episodes; "" for a user's map."""
        return list(dict.fromkeys(str(one[4]) for one in self.configuration["sets"]))

    @property
    def unusual(self) -> dict[str, Any]:
        """Return the options that differ from `ORDINARY_RUN`."""
        settings = {name: self.configuration.get(name, usual) for name, usual in ORDINARY_RUN.items()}
        return {name: value for name, value in settings.items() if value != ORDINARY_RUN[name]}

    @property
    def episodes(self) -> list[list[Any]]:
        """Return name, count, digest, seed and set of its sets, sorted."""
        return episodes_of(self.configuration)

    def is_driven_as(self, other: Evaluated) -> bool:
        """Return whether both have the same episodes, robot, sensors, condition, noise and loop."""
        names = ("condition", "condition_values", "loop", "robot", "seed", "color")
        return (
            self.episodes == other.episodes
            and self.unusual == other.unusual
            and all(self.configuration.get(name) == other.configuration.get(name) for name in names)
        )

    def is_of_robot(self, other: Evaluated | None) -> bool:
        """Return whether both have the same robot; older results, which state none, count as the same."""
        robots = [each.configuration["robot"] for each in (self, other) if each and "robot" in each.configuration]
        return len(set(robots)) < 2

    @property
    def driver(self) -> str:
        """Return the name of the policy that drove, without folder."""
        return Path(str(self.configuration.get("policy", self.name))).name

    @property
    def fallback(self) -> str:
        """Return the policy's fallback, "none" without one."""
        return model_and_fallback(self.driver)[1]

    @property
    def is_plain(self) -> bool:
        """Return whether the loop is fast, colour is on, and no option is unusual."""
        return self.loop == FAST and self.color and not self.unusual

    @property
    def is_headline(self) -> bool:
        """Return whether it is plain, of the unseen set and in the paper's condition."""
        return self.condition == REFERENCE and self.sets == [REFERENCE_SET] and self.is_plain


@dataclass(frozen=True, slots=True)
class Gathered:
    """The content of a folder; missing parts are empty or None. demos: tables by file name."""

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
        """Return the evaluation for the policy's quoted figures (`is_headline`), None without one.

        Of several, the evaluation with most episodes.
        """
        quoted = [one for one in self.evaluations if one.is_headline]
        return max(quoted, key=lambda one: len(one.rows), default=None)


def episodes_of(table: Mapping[str, Any]) -> list[list[Any]]:
    """Return name, count, digest, seed and set of a result's sets, sorted; empty if not stated."""
    return sorted((list(one) for one in table.get("sets", ())), key=str)


def same_set(place: Sequence[Any]) -> Hashable:
    """Return the identity of a set from its row of name, count, digest, seed, set (and furniture)."""
    return (place[0], *place[2:])


def gather(folder: Path) -> Gathered:
    """Return the content of a folder. Raises InputError for a malformed or incomplete file."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    evaluations = _evaluations(folder / EVALUATE)
    _require_one_model(evaluations)
    seeds, validation, fine, others = (_evaluations(folder / name) for name in (SEEDS, VALIDATION, FINE, OTHERS))
    _require_same_rules((*evaluations, *seeds, *validation, *fine, *others))
    return Gathered(
        folder=folder,
        evaluations=evaluations,
        seeds=seeds,
        validation=validation,
        fine=fine,
        others=others,
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
        stating = [one for one in evaluations if name in one.configuration]  # older results do not state the manifest
        for one in stating[1:]:
            if one.configuration[name] != stating[0].configuration[name]:
                raise InputError(
                    f"{one.file}: is of another {name} than {stating[0].file}: {EVALUATE}/ is of one policy"
                )
    for one in evaluations[1:]:
        if one.fallback != evaluations[0].fallback:
            raise InputError(
                f"{one.file}: has another fallback than {evaluations[0].file}: {EVALUATE}/ is of one policy"
            )


def _require_same_rules(evaluations: tuple[Evaluated, ...]) -> None:
    for key, (table, usual) in STATED.items():
        rules = [one.configuration.get(key, usual) for one in evaluations]
        for one, rule in zip(evaluations, rules, strict=True):
            if rule != rules[0]:
                first = f"{evaluations[0].file} with {_plain(rules[0])}"
                raise InputError(f"{one.file}: driven with {table}.{key} {_plain(rule)}, {first}: they share no table")


def _plain(rule: float) -> str:
    """Return a value as in TOML."""
    return str(rule).lower() if isinstance(rule, bool) else f"{rule:g}"


def _table(file: Path, key: str) -> dict[str, Any] | None:
    """Return a file's table, None without a file. Raises InputError if it lacks a key."""
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
    """Return the stored figures of trainings without journals, by place and stage. Raises InputError."""
    trainings: dict[str, dict[str, Any]] = {}
    rows = (_table(file, THROUGHPUT) or {THROUGHPUT: []})[THROUGHPUT]
    for row in rows if isinstance(rows, list) else [rows]:
        if not isinstance(row, dict) or not row.keys() >= TRAINING_KEYS:
            raise InputError(f"{file}: {THROUGHPUT}: not what a report tells of trainings: {row!r}")
        trainings.setdefault(str(row["training"]), {})[str(row["stage"])] = row
    return trainings


def _trainings(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of all journals in a folder, by place."""
    files = sorted(folder.rglob(f"{ROWS}*")) if folder.is_dir() else []
    return {str(file.parent.relative_to(folder.parent)): training_of(file.parent) for file in files}
