"""All trainings behind docs/reality-gap.md, one after the other: `make reality-gap TRAIN=1`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from calib.learned.experiment import Data, ExperimentTable, checkpoint_file, identified, trained_lengths
from calib.learned.losses import LOSSES
from calib.learned.training import Recipe, Training, training_of
from hil.physics.motion.learned import MODELS, TRANSFORMS, LearnedModel, model_arrays, write_arrays
from onboard.config.plant_model import Plant
from onboard.config.toml_text import as_toml

CURVES = "-curves.json"
PLANT = "plant.toml"
COMPARED = "hybrid-dynamic"
"""Model of the comparison of losses."""


def train_all(table: ExperimentTable, data: Data, folder: Path, report: Callable[[str, Training], None]) -> None:
    """Identify the plant, train every model, and write the checkpoints and the curves of a robot's data."""
    torch.set_num_threads(1)
    own = folder / data.name
    own.mkdir(parents=True, exist_ok=True)
    plant = identified(data)
    (own / PLANT).write_text(
        as_toml(plant, "# Identified by `onboard-calib dynamics`' method, on the training rows.\n")
    )
    row = table.hidden if data.name == "hidden" else table.husky
    recipe = Recipe(max_length=row.max_length, seed=table.seed)
    kept = trained_lengths(table, row.max_length)
    seconds: dict[str, float] = {}
    for model in MODELS:
        seconds[model] = _train(plant, data, folder, recipe, model, TRANSFORMS[0], kept, report)
    curves: dict[str, Any] = {}
    if data.name == "hidden":
        for transform in TRANSFORMS[1:]:
            name = f"linear-{transform}"
            seconds[name] = _train(plant, data, folder, recipe, "linear", transform, kept[-1:], report)
        for loss in LOSSES:
            short = replace(recipe, max_length=table.losses.max_length, steps=table.losses.steps, loss=loss)
            training = _training(plant, data, short, COMPARED, TRANSFORMS[0])
            begun = time.process_time()
            training.run(report=lambda one, loss=loss: report(f"loss {loss}", one))  # type: ignore[misc]
            curves[loss] = {"curve": training.curve, "cpu_s": time.process_time() - begun}
    (folder / f"{data.name}{CURVES}").write_text(json.dumps({"cpu_s": seconds, "losses": curves}, indent=1) + "\n")


def _training(plant: Plant, data: Data, recipe: Recipe, model: str, transform: str) -> Training:
    return training_of(data.series, plant, data.train, data.validation, recipe, data.digest, model, transform)


def _train(
    plant: Plant, data: Data, folder: Path, recipe: Recipe, model: str, transform: str, kept: Any,
    report: Callable[[str, Training], None],
) -> float:  # fmt: skip
    name = model if transform == TRANSFORMS[0] else f"{model}-{transform}"
    training = _training(plant, data, recipe, model, transform)
    begun = time.process_time()

    def finished(length: int, found: LearnedModel) -> None:
        if length in kept:
            write_arrays(checkpoint_file(folder, data.name, name, length), *model_arrays(found))

    training.run(report=lambda one: report(name, one), finished=finished)
    return time.process_time() - begun
