"""All trainings behind docs/reality-gap.md, one after the other: `make reality-gap TRAIN=1`.

The analytic model with parameters fitted to measured poses stands for the tuned hand formula of paper 3.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import least_squares

from calib.learned.compiled_rollouts import Floats, Ints
from calib.learned.evaluation import path_of, plant_motion
from calib.learned.experiment import (
    Data,
    ExperimentTable,
    identified,
    model_name,
    pack_file,
    read_pack,
    trained_lengths,
    write_pack,
)
from calib.learned.series import Series, longest_in, starts_in
from calib.learned.training import Recipe, Training, training_of
from hil.physics.motion.learned import MODELS, TRANSFORMS, LearnedModel
from onboard.config.plant_model import BaseTable, Plant
from onboard.config.toml_text import as_toml

PLANTS = {"plant": "by the wheels' speeds", "posed": "by the poses"}
MOST_LOOKS = 400


class Task(NamedTuple):
    """One training. name: in the pack; kept: training lengths whose model is kept; curve: whether its curve is"""

    name: str
    model: str
    transform: str
    recipe: Recipe
    kept: tuple[int, ...]
    curve: bool = False


def tasks_of(table: ExperimentTable, data: str, seed: int) -> Iterator[Task]:
    """Yield the trainings of a seed: models, then on the simulated robot the linear transforms and the losses."""
    longest = (table.hidden if data == "hidden" else table.husky).max_length
    recipe, kept = Recipe(max_length=longest, seed=seed), tuple(trained_lengths(table, longest))
    for model in MODELS:
        yield Task(model, model, TRANSFORMS[0], recipe, kept)
    if data != "hidden":
        return
    row = table.losses
    short = replace(recipe, max_length=row.max_length)
    losses = {"mse": replace(short, loss="mse"), "gapped": replace(short, loss="gapped", gap=row.gap)}
    for count in row.neighbours:
        losses[f"chamfer-{count}"] = replace(short, loss="chamfer", neighbours=count)
    for loss, one in losses.items():
        yield Task(f"loss-{loss}", "mlp", TRANSFORMS[0], one, (row.max_length,), curve=True)
    for transform in TRANSFORMS[1:]:
        yield Task(f"linear-{transform}", "linear", transform, recipe, kept[-1:])


def identify_plants(data: Data, folder: Path) -> Plant:
    """Write the plants by the wheels and by the poses; return the first, the analytic part of both hybrids."""
    folder.mkdir(parents=True, exist_ok=True)
    plant = identified(data)
    for name, one in (("plant", plant), ("posed", fitted_to_poses(data.series, plant, data.train))):
        head = f"# Identified {PLANTS[name]}, on rows that are not held out, by `onboard-calib learned-gap --train`.\n"
        (folder / f"{data.name}-{name}.toml").write_text(as_toml(one, head))
    return plant


def train_all(
    table: ExperimentTable, data: Data, plant: Plant, seed: int, folder: Path, report: Callable[[str, Training], None]
) -> None:
    """Train what a seed's pack does not hold yet. The pack is written after each training, so a killed run resumes."""
    torch.set_num_threads(1)
    file = pack_file(folder, data.name, seed)
    trainings: dict[str, Any] = {}
    models: dict[str, LearnedModel] = {}
    if file.exists():
        trainings, models = read_pack(file)
    for task in tasks_of(table, data.name, seed):
        if task.name in trainings:
            continue
        training = training_of(
            data.series, plant, data.train, data.validation, task.recipe, data.digest, task.model, task.transform
        )
        begun = time.process_time()
        found: dict[str, LearnedModel] = {}

        def finished(length: int, one: LearnedModel, task: Task = task, found: dict[str, LearnedModel] = found) -> None:
            if length in task.kept:
                found[model_name(task.name, TRANSFORMS[0], length)] = one

        training.run(report=lambda one, task=task: report(task.name, one), finished=finished)  # type: ignore[misc]
        said: dict[str, Any] = {"cpu_s": round(time.process_time() - begun, 1), "patient": training.patient}
        if task.curve:
            said["curve"] = training.curve[:MOST_LOOKS]
        trainings[task.name] = said
        models |= found
        write_pack(file, trainings, models)


LENGTH, WINDOWS, POINTS = 512, 200, 32
"""Steps of the roll-outs that are compared, how many begin in the rows, and points of each."""
LOWEST, HIGHEST = (1.0,) * 4 + (0.3,) * 4 + (0.0,), (30.0,) * 4 + (3.0,) * 4 + (0.4,)
"""Bounds of frequencies [1/s], dampings [1] and latency [s]; a step of 1/60 s is stable within them."""
NAMES = ("f_up", "f_down", "zeta_up", "zeta_down")


def fitted_to_poses(series: Series, plant: Plant, spans: Ints) -> Plant:
    """Return the plant whose roll-outs leave the least square error to the poses of `spans`, (k, 2) rows.

    Frequencies, dampings and latency are fitted; the limits of speed and acceleration stay those of `plant`.
    """
    length = min(LENGTH, longest_in(spans))
    starts = starts_in(spans, length)
    starts = starts[np.linspace(0, len(starts) - 1, min(WINDOWS, len(starts))).round().astype(np.int64)]
    offsets = np.linspace(1, length, min(POINTS, length)).round().astype(np.int64)
    measured = series.relative(starts, offsets)
    spread = np.sqrt(np.mean(measured**2, axis=(0, 1)))
    spread[:2] = np.hypot(*spread[:2])

    def away(parameters: Floats) -> Floats:
        path = path_of(plant_motion(series, _with(plant, parameters)))
        rolled = Series(series.period_s, series.commands, path[:-1], series.twists, series.first)
        return np.asarray(((rolled.relative(starts, offsets) - measured) / spread).ravel())

    axes = (plant.linear, plant.angular)
    begun = [getattr(axis, name) for name in NAMES for axis in axes] + [plant.base.command_delay_s]
    begun = np.clip(begun, np.array(LOWEST) + 1e-3, np.array(HIGHEST) - 1e-3)
    found = least_squares(away, begun, bounds=(LOWEST, HIGHEST), diff_step=1e-3, x_scale=np.array(HIGHEST), max_nfev=40)
    return _with(plant, found.x)


def _with(plant: Plant, parameters: Floats) -> Plant:
    own = [dict(zip(NAMES, parameters[side:8:2].tolist(), strict=True)) for side in (0, 1)]
    return plant.model_copy(
        update={
            "linear": plant.linear.model_copy(update=own[0]),
            "angular": plant.angular.model_copy(update=own[1]),
            "base": BaseTable(command_delay_s=float(parameters[8]), command_timeout_s=plant.base.command_timeout_s),
        }
    )
