"""The results of a policy in a folder, all optional:

    evaluate/*.json       `onboard-hil evaluate --policy MODEL --set unseen --condition ... --json`, of one model
    seeds/NAME.json       the same of trainings by other seeds
    finetune/NAME.json    the same before and after fine-tuning, on its building: before*.json and after*.json with
                          the same rest of the name are a pair; reactive-home.json is compared with after-home.json
    others/NAME.json      the same of baselines
    hardware.txt          what the training ran on

`engines/report/files.py` reads them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.report.files import NO_RESULT, results_in, shaped
from hil.evaluate.evaluation import STATED
from hil.evaluate.metrics import Summary
from hil.evaluate.result import Row, row_of_json
from onboard.config.pretrained import model_and_fallback
from onboard.values.errors import InputError

KINDS = {"evaluations": "evaluate", "seeds": "seeds", "fine": "finetune", "others": "others"}
"""Field of `Gathered` -> its folder."""
HARDWARE = "hardware.txt"
REFERENCE, REFERENCE_SET, FAST = "paper", "unseen", "fast"
"""Condition, set and loop of the headline."""
ORDINARY_RUN = {"scan": "fused", "known_map": "true", "pedestrians": 0}
"""Usual options of an evaluation; tables name other values. Empty is usual: a policy without a map knows none."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """An evaluation. name: of the file, and of the condition if the file holds several.

    condition: row of hil/drive/conditions.toml; loop: "fast", "runtime" or "rendered"
    color: whether the policy was given colour images
    driver, fallback: the policy's name without folder, and its fallback, "none" without one
    sets: committed sets of the episodes; "" for a user's map
    episodes: name, count, digest, seed and set of its sets, sorted
    unusual: the options that differ from `ORDINARY_RUN`
    """

    name: str
    file: Path
    configuration: Mapping[str, Any]
    summary: Summary
    rows: tuple[Row, ...]
    per_map: Mapping[str, Summary]
    condition: str
    loop: str
    color: bool
    driver: str
    fallback: str
    sets: list[str]
    episodes: list[list[Any]]
    unusual: Mapping[str, Any]

    def is_driven_as(self, other: EvaluationResult) -> bool:
        """Return whether both have the same episodes, robot, sensors, condition, noise and loop."""
        names = ("condition", "condition_values", "loop", "robot", "seed")
        own, its = ([each.color, each.episodes, each.unusual] for each in (self, other))
        return own == its and all(self.configuration.get(name) == other.configuration.get(name) for name in names)

    def is_of_robot(self, other: EvaluationResult | None) -> bool:
        """Return whether both have the same robot; older results, which state none, count as the same."""
        robots = [each.configuration["robot"] for each in (self, other) if each and "robot" in each.configuration]
        return len(set(robots)) < 2

    def is_of_model(self, other: EvaluationResult | None) -> bool:
        """Return whether both have the same model, by its digests."""
        names = ("model", "manifest")
        return other is not None and all(self.configuration.get(n) == other.configuration.get(n) for n in names)

    def is_of_policy(self, other: EvaluationResult | None) -> bool:
        """Return whether both have the same model and the same fallback."""
        return other is not None and self.is_of_model(other) and self.fallback == other.fallback

    @property
    def is_plain(self) -> bool:
        """Return whether the loop is fast, colour is on, and no option is unusual."""
        return self.loop == FAST and self.color and not self.unusual

    @property
    def is_headline(self) -> bool:
        """Return whether it is plain, of the unseen set and in the paper's condition."""
        return self.condition == REFERENCE and self.sets == [REFERENCE_SET] and self.is_plain


@dataclass(frozen=True, slots=True)
class ResultFolder:
    """The content of a folder; missing parts are empty."""

    folder: Path
    evaluations: tuple[EvaluationResult, ...]
    seeds: tuple[EvaluationResult, ...]
    fine: tuple[EvaluationResult, ...]
    others: tuple[EvaluationResult, ...]
    hardware: str

    @property
    def headline(self) -> EvaluationResult | None:
        """Return the evaluation for the policy's quoted figures (`is_headline`), None without one.

        Of several, the evaluation with most episodes.
        """
        quoted = [evaluation for evaluation in self.evaluations if evaluation.is_headline]
        return max(quoted, key=lambda one: len(one.rows), default=None)


def gather(folder: Path) -> ResultFolder:
    """Return the content of a folder. Raises InputError for a malformed or incomplete file."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    kinds = {kind: tuple(_evaluated(*result) for result in results_in(folder / name)) for kind, name in KINDS.items()}
    _require_one_policy(kinds["evaluations"])
    _require_same_rules([evaluation for evaluations in kinds.values() for evaluation in evaluations])
    text = (folder / HARDWARE).read_text(encoding="utf-8") if (folder / HARDWARE).is_file() else ""
    hardware = " ".join(text.split())
    return ResultFolder(folder, **kinds, hardware=hardware)


def episodes_of(table: Mapping[str, Any]) -> list[list[Any]]:
    """Return name, count, digest, seed and set of a result's sets, sorted; empty if not stated."""
    return sorted((list(one) for one in table.get("sets", ())), key=str)


def same_set(place: Sequence[Any]) -> Hashable:
    """Return the identity of a set from its row of name, count, digest, seed, set (and furniture)."""
    return (place[0], *place[2:])


def summary_of_json(found: Mapping[str, Any]) -> Summary:
    """Return the summary that `Summary.as_json` wrote. Raises KeyError for a missing key."""
    values = {name: found[name] for name in Summary.__slots__}
    values["actions"] = tuple(found["actions"])
    values["ci95"] = {name: (low, high) for name, (low, high) in found["ci95"].items()}
    return Summary(**values)


def _evaluated(file: Path, name: str, table: Mapping[str, Any]) -> EvaluationResult:
    with shaped(file, f"{name}: {NO_RESULT}"):
        if not table["complete"]:
            raise InputError(f"{file}: {name}: the evaluation was interrupted; run the same command again to finish it")
        stated = {**table["configuration"]}
        driver = Path(str(stated.get("policy", name))).name
        options = {option: stated.get(option) or usual for option, usual in ORDINARY_RUN.items()}
        return EvaluationResult(
            name, file, stated, summary_of_json(table), tuple(row_of_json(row) for row in table["per_episode"]),
            {place: summary_of_json(one) for place, one in table["per_map"].items()},
            condition=str(stated["condition"]), loop=str(stated["loop"]), color=bool(stated["color"]),
            driver=driver, fallback=model_and_fallback(driver)[1],
            sets=list(dict.fromkeys(str(one[4]) for one in stated["sets"])), episodes=episodes_of(stated),
            unusual={option: value for option, value in options.items() if value != ORDINARY_RUN[option]},
        )  # fmt: skip


def _require_one_policy(evaluations: Sequence[EvaluationResult]) -> None:
    for name in ("model", "manifest", "fallback"):  # older results do not state the manifest
        stated = [
            (evaluation, evaluation.fallback if name == "fallback" else evaluation.configuration.get(name))
            for evaluation in evaluations
        ]
        known = [(one, value) for one, value in stated if value is not None]
        for one, value in known[1:]:
            if value != known[0][1]:
                raise InputError(f"{one.file}: has another {name} than {known[0][0].file}: evaluate/ is of one policy")


def _require_same_rules(evaluations: Sequence[EvaluationResult]) -> None:
    for key, (table, usual) in STATED.items():
        rules = [evaluation.configuration.get(key, usual) for evaluation in evaluations]
        for evaluation, rule in zip(evaluations, rules, strict=True):
            if rule != rules[0]:
                first = f"{evaluations[0].file} with {_toml(rules[0])}"
                raise InputError(
                    f"{evaluation.file}: driven with {table}.{key} {_toml(rule)}, {first}: they share no table"
                )


def _toml(rule: float) -> str:
    return str(rule).lower() if isinstance(rule, bool) else f"{rule:g}"
