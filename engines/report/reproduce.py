"""The commands that made the files of a card, as far as the files tell; what they do not tell is left out."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.network.lineage import POLICY, Step, steps_to_make
from engines.report.results.result_files import ABLATIONS, CEILING, ENCODER, EVALUATE, Evaluated, Gathered
from engines.report.results.training_history import Made
from engines.report.sections.ablations import encoders_of
from engines.report.sections.lineage import base_of, began_with, has_foreign_encoder, recipe_of
from engines.report.sections.realtime import demo_commands
from onboard.config.config import MODEL_SUFFIX
from onboard.policy.manifest import Manifest

LAST_STAGE = "reinforce"
RESULTS, RECIPE = "RESULTS", "RECIPE"
"""Placeholders: the folder of the results, and a recipe with the values that the card shows."""
ENCODER_FOLDER, TRAINING_FOLDER, BEFORE_FOLDER = "encoder", "training", "before"
WEIGHTS = "encoder.pt"
LOOP_OPTIONS: dict[str, list[str]] = {"fast": [], "runtime": ["--runtime"], "rendered": ["--runtime", "--rendered"]}
STORED = {"float32": "fp32", "float16": "fp16"}
FURNITURE = 5
"""Where in the row of a set its density stands, of one that is not furnished as usual."""


def commands(found: Gathered, manifest: Manifest, model: Path) -> list[str]:
    """Return one line for each file that says how it was made, in the order in which they are made."""
    lines = _encoder(manifest) if found.encoder is not None else []
    lines += _making(manifest, model.name, TRAINING_FOLDER, found.made)
    for made in found.made:
        lines += _making_beside(made, found.made)
    lines = list(dict.fromkeys(lines))  # several may have begun with one
    for folder, evaluations in found.folders.items():
        files = list(dict.fromkeys(one.file for one in evaluations))
        policy = model.name if folder == EVALUATE else None
        lines += [_evaluate([one for one in evaluations if one.file == file], policy) for file in files]
    lines += demo_commands(found, RESULTS, model.name)
    if found.ceiling is not None and "sets" in found.ceiling:
        told = [f"--{name}={found.ceiling[name]}" for name in ("draws", "seed") if name in found.ceiling]
        lines.append(_line("onboard-hil", "ceiling", *_sets(found.ceiling["sets"]), *told,
                           "--json", f"{RESULTS}/{CEILING}"))  # fmt: skip
    if found.ablations is not None:
        lines += _ablations(found.ablations, manifest, model)
    if found.trajectories is not None:
        driver = Path(str(found.trajectories.get("policy", model.name))).name
        lines.append(_line("onboard-engines", "report", RESULTS, "--drive", driver, "--map",
                           str(found.trajectories.get("map"))))  # fmt: skip
    return [*lines, _line("onboard-engines", "report", RESULTS, "--card", "FILE", "--model", model.name)]


def _encoder(manifest: Manifest) -> list[str]:
    """Return how the colour encoder was trained, of which the results tell."""
    recipe = _recipe(steps_to_make(manifest.extra.get("training", {}))[0].training)
    return [f"{_line('onboard-engines', 'encoder', *recipe[:2], '--out', ENCODER_FOLDER)} && "
            f"cp {ENCODER_FOLDER}/report.json {RESULTS}/{ENCODER}"]  # fmt: skip


def _ablations(board: Mapping[str, Any], manifest: Manifest, model: Path) -> list[str]:
    """Return how a board was made: by one call for each colour encoder that its agents see with."""
    own = {manifest.sha256: model.name}
    given = [["--encoder", own.get(digest, f"{ENCODER_FOLDER}/{WEIGHTS}")] for digest in encoders_of(board)] or [[]]
    called = [_line("onboard-engines", "ablations", *encoder, "--out", "ablations") for encoder in given]
    return [" && ".join([*called, f"cp ablations/{ABLATIONS} {RESULTS}/"])]


def _making_beside(one: Made, made: Sequence[Made]) -> list[str]:
    """Return how a model was made whose manifest lies beside the results."""
    folder = one.model.removesuffix(MODEL_SUFFIX)
    return _making(one.manifest, one.model, folder, [other for other in made if other is not one], f"{folder}-")


def _making(manifest: Manifest, model: str, into: str, made: Sequence[Made], before: str = "") -> list[str]:
    """Return how a model was trained and exported; nothing where its manifest does not state a training.

    Also how what it began with was made, where that does not ship.

    into: folder of its training; made: other manifests beside the results; before: how the names of the folders of
    those before it begin, of which no manifest is there
    """
    training, judged = manifest.extra.get("training", {}), manifest.extra.get("agreement")
    if not training.get("config"):
        return []
    *earlier, last = steps_to_make(training)
    lines, init = list[str](), ""
    first = began_with(training, made)
    if earlier and first is not None and first.made is not None:
        lines, init, earlier = _making_beside(first.made, made), first.made.model, []
    for number, (step, then) in enumerate(itertools.pairwise([*earlier, last]), start=1):
        folder = f"{before}{BEFORE_FOLDER}-{number}"
        lines.append(_train(step, init or step.init, folder))
        init = f"{folder}/{then.init_file}"
        if then.init_file != POLICY:
            lines.append(_export(folder, init, str(step.training.get("weights", "float32"))))
    drives = [f"--drives={judged['drives']}"] if judged else []
    return [*lines, _train(last, init or last.init, into), _export(into, model, manifest.weights, *drives)]


def _train(step: Step, init: str, folder: str) -> str:
    begins = ["--init", init] if init else []
    sees = ["--encoder", f"{ENCODER_FOLDER}/{WEIGHTS}"] if has_foreign_encoder(step.training) else []
    until = str(step.training.get("until", LAST_STAGE))
    ends = [] if until == LAST_STAGE else ["--until", until]
    return _line("onboard-engines", "train", *_recipe(step.training), *begins, *sees, *ends, "--out", folder)


def _export(folder: str, out: str, stored: str, *more: str) -> str:
    return _line("onboard-engines", "export", "--checkpoint", f"{folder}/{POLICY}", "--out", out,
                 "--weights", STORED[stored], *more)  # fmt: skip


def _recipe(training: Mapping[str, Any]) -> list[str]:
    """Return the recipe's options: one that ships where it has the same values, else a file of one's own."""
    recipe = recipe_of(training)
    if recipe is None:
        return ["--config", RECIPE]
    return ["--config", f"engines/train/{recipe.name}", "--seed", str(recipe.seed), *recipe.options]


def _evaluate(evaluations: Sequence[Evaluated], policy: str | None) -> str:
    """Return the command of one file, which holds one or several evaluations of one run."""
    first = evaluations[0].configuration
    if len({one.configuration.get("policy") for one in evaluations}) > 1:
        committed = [word for word in _sets(first["sets"]) if not word.startswith("--set=")]
        return _line("onboard-hil", "baselines", *committed, *_seed(first), "--json", _target(evaluations[0]))
    driven = policy or Path(str(first.get("policy", "POLICY"))).name
    conditions = [f"--condition={one.condition}" for one in evaluations]
    more = [f"--{name.replace('_', '-')}={value}" for name, value in evaluations[0].unusual.items()]
    blind = [] if evaluations[0].color else ["--no-color"]
    base = base_of(evaluations[0])
    plant = ["--plant", base] if base else []
    as_driven = [*LOOP_OPTIONS[evaluations[0].loop], *blind, *plant, *more, *_seed(first)]
    return _line("onboard-hil", "evaluate", "--policy", driven, *_sets(first["sets"]), *dict.fromkeys(conditions),
                 *as_driven, "--json", _target(evaluations[0]))  # fmt: skip


def _seed(configuration: Mapping[str, Any]) -> list[str]:
    return [f"--seed={configuration['seed']}"] if "seed" in configuration else []


def _target(one: Evaluated) -> str:
    return f"{RESULTS}/{one.file.parent.name}/{one.file.name}"


def _sets(sets: Sequence[Sequence[Any]]) -> list[str]:
    """Return the options that mean these rows of name, count, digest, seed and set (and density of furniture)."""
    names = [str(one[4]) for one in sets if one[4]]
    counts = {int(one[1]) for one in sets}
    chosen = [f"--set={names[0]}"] if names else []
    if len(counts) == 1:  # one number cannot mean several, here and below
        chosen.append(f"--episodes={counts.pop()}")
    densities = {one[FURNITURE] if len(one) > FURNITURE else None for one in sets}
    if len(densities) == 1 and None not in densities:
        chosen.append(f"--furniture={densities.pop():g}")
    return [*chosen, "--maps", *(Path(str(one[0])).name for one in sets)]


def _line(*words: str) -> str:
    return shlex.join(words)
