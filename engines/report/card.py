"""The model card: `card.md.j2` filled with a model's manifest and the parts of a report. No number of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from engines.network.lineage import steps_to_make
from engines.report.reproduce import RECIPE, RESULTS, commands
from engines.report.results.checks import shaped
from engines.report.results.result_files import Gathered
from engines.report.results.section import NOT_STATED, Part
from engines.report.sections.realtime import require_demos_of
from engines.report.sections.splits import places_of
from hil.jobs.code_digest import file_digest
from onboard.policy.manifest import Manifest, load_manifest, manifest_path
from onboard.values.errors import InputError

TEMPLATE = "card.md.j2"
MEGA = 1e6
SHOWN = ("robot", "network", "places", "domain", "driving", "encoder", "imitation", "reinforce")
"""Tables of the recipe that a card shows."""


def make_card(found: Gathered, parts: Sequence[Part], model: Path) -> str:
    """Return the card. Raises ConfigError for a model without its manifest, InputError for results of another model."""
    manifest = manifest_for(found, model)
    with shaped(manifest_path(model), "extra.training: not what an export states"):
        return _rendered(found, parts, model, manifest)


def manifest_for(found: Gathered, model: Path) -> Manifest:
    """Return the manifest of the model that results are of. Raises as `make_card` does."""
    manifest = load_manifest(model)
    _require_same(found, model)
    require_demos_of(manifest.policy, found)
    return manifest


def _rendered(found: Gathered, parts: Sequence[Part], model: Path, manifest: Manifest) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown
    )
    training = manifest.extra.get("training", {})
    steps = steps_to_make(training)
    return environment.get_template(TEMPLATE).render(
        model=model,
        megabytes=model.stat().st_size / MEGA,
        manifest=manifest,
        agreement=_agreement(manifest),
        training=training,
        recipe=_recipe([step.training for step in steps]),
        before=[(then.init, step.training) for step, then in itertools.pairwise(steps)],
        parts={part.name: part for part in parts},
        hardware=found.hardware,
        codes=_codes(found),
        places=places_of(training, found),
        commands=commands(found, manifest, model),
        placeholders=(RESULTS, RECIPE),
    )


def _codes(found: Gathered) -> list[str]:
    """Return the digests of the code that drove, as far as stated; where there are several, with what each drove.

    Of a folder that several codes drove, the one of most files drove "the rest of" it, and the others' files are named.
    """
    drove: dict[str, dict[str, set[str]]] = {}
    for one in itertools.chain(*found.folders.values()):
        by_code = drove.setdefault(one.file.parent.name, {})
        code = str(one.configuration.get("code", NOT_STATED))
        by_code.setdefault(code, set()).add(f"{one.file.parent.name}/{one.file.name}")
    told: dict[str, list[str]] = {}
    for folder, by_code in drove.items():
        most = max(by_code, key=lambda code: len(by_code[code]))
        for code, files in by_code.items():
            rest = [f"the rest of {folder}/"] if code == most and len(files) > 1 else sorted(files)
            told.setdefault(code, []).extend([f"{folder}/"] if len(by_code) == 1 else rest)
    return [code + (f" ({', '.join(places)})" if len(told) > 1 else "") for code, places in told.items()]


def _agreement(manifest: Manifest) -> str:
    """Return how often half weights decided as single ones when they were exported; "" of single ones."""
    if manifest.weights == "float32":
        return ""
    found = manifest.extra.get("agreement")
    if found is None:
        return NOT_STATED
    same, decisions, drives = found["same_action"], found["decisions"], found["drives"]
    return f"{same} of {decisions} ({same / decisions:.2%}), on {f'{drives} drives' if drives else 'random sequences'}"


def _recipe(trainings: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Return table, key and the values that the trainings' configurations have there, one of each training."""
    configs = [training.get("config", {}) for training in trainings]
    told = [{(table, key): _told(value) for table in SHOWN for key, value in _flat(config.get(table) or {})}
            for config in configs]  # fmt: skip
    keys = sorted(dict.fromkeys(key for one in told for key in one), key=lambda key: SHOWN.index(key[0]))
    return [(*key, [one.get(key, "-") for one in told]) for key in keys]


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Give keys and values, those of tables in a table by both their keys; a table of numbers alone stays whole."""
    for key, value in table.items():
        if isinstance(value, Mapping) and not all(isinstance(one, float) for one in value.values()):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _told(value: Any) -> str:
    if value is None:
        return "none"
    return (
        ", ".join(map(_told, value)) if isinstance(value, list) else Path(value).name if _is_file(value) else str(value)
    )


def _is_file(value: Any) -> bool:
    """Return whether a value is a path, of which a card says the name alone."""
    return isinstance(value, str) and Path(value).name != value and bool(Path(value).suffix)


def _require_same(found: Gathered, model: Path) -> None:
    for name, file in (("model", model), ("manifest", manifest_path(model))):
        digest = file_digest(file)
        for one in found.evaluations:
            told = one.configuration.get(name, digest)  # older results tell of no manifest
            if told != digest:
                raise InputError(f"{one.file}: is not of {file} (digest {told}, expected {digest})")
