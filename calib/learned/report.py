"""The tables and charts of learned dynamics in docs/reality-gap.md."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calib.learned.evaluation import (
    LENGTHS,
    commanded_motion,
    learned_motion,
    plant_motion,
    posed_rmse_m,
    rmse_m,
)
from calib.learned.experiment import Data, ExperimentTable, checkpoint_file, trained_lengths
from calib.learned.series import longest_in
from hil.physics.motion.learned import MODELS, TRANSFORMS, read_learned
from onboard.commands.cli import markdown_table, new_figure
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import load_plant
from onboard.values.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AT_ONCE, HAND, IDENTIFIED = "commands at once", "hand formula", "identified plant"
MOST_OF_PLANT = 0.6
"""The error of the dynamical hybrid at the longest roll-out, by the identified plant's, is to be at most this."""
CURVES, PLANT = "-curves.json", "plant.toml"

Errors = dict[str, dict[int, float]]


def errors_of(table: ExperimentTable, data: Data, folder: Path) -> dict[str, Errors]:
    """Return the roll-out errors [m] by model and length, "models" and "transforms". Raises InputError."""
    series, test = data.series, data.test
    longest = longest_in(test)
    lengths = [length for length in LENGTHS if length <= longest]
    if longest < LENGTHS[3]:
        lengths.append(longest)
    plant = load_plant(folder / data.name / PLANT)
    hand = load_plant(DEFAULT_ROBOT / PLANT)
    models: Errors = {
        AT_ONCE: rmse_m(series, commanded_motion(series), test, lengths),
        HAND: rmse_m(series, plant_motion(series, hand), test, lengths),
        IDENTIFIED: rmse_m(series, plant_motion(series, plant), test, lengths),
    }
    row = table.hidden if data.name == "hidden" else table.husky
    kept = trained_lengths(table, row.max_length)
    for model in MODELS:
        for length in kept:
            found = read_learned(checkpoint_file(folder, data.name, model, length), model)
            models[f"{model} {length}"] = rmse_m(series, learned_motion(series, found), test, lengths)
    transforms: Errors = {}
    if data.name == "hidden":
        for transform in TRANSFORMS:
            name = "linear" if transform == TRANSFORMS[0] else f"linear-{transform}"
            found = read_learned(checkpoint_file(folder, data.name, name, kept[-1]), "linear")
            if transform == TRANSFORMS[0]:
                transforms[transform] = rmse_m(series, learned_motion(series, found), test, lengths)
            else:
                transforms[transform] = posed_rmse_m(series, found, test, lengths)
    return {"models": models, "transforms": transforms}


def curves_of(data: str, folder: Path) -> dict[str, Any]:
    """Return the curves and times of the trainings. Raises InputError."""
    file = folder / f"{data}{CURVES}"
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error


def shown_of(table: ExperimentTable, errors: Mapping[str, Errors]) -> dict[str, tuple[bool, str]]:
    """Return what is to be shown on the hidden effects: whether it is, and by which figures."""
    models, transforms = errors["models"], errors["transforms"]
    trained = trained_lengths(table, table.hidden.max_length)[-1]
    longest = max(models[IDENTIFIED])
    hybrid, plant = models[f"hybrid-dynamic {trained}"], models[IDENTIFIED]
    share = hybrid[longest] / plant[longest]
    long = [length for length in plant if length >= table.hidden.max_length]
    ordered = all(transforms["egocentric"][n] < transforms["translational"][n] < transforms["none"][n] for n in long)
    best = [n for n in plant if n >= LENGTHS[3]]
    first = all(min(models, key=lambda name: models[name][n]) == f"hybrid-dynamic {trained}" for n in best)
    steps = " and ".join(str(n) for n in long)
    return {
        f"hybrid-dynamic {trained} at {longest} steps: at most {MOST_OF_PLANT} of the identified plant's error": (
            share <= MOST_OF_PLANT, f"{share:.2f}"),
        f"egocentric better than translational better than none at {steps} steps": (ordered, ""),
        f"hybrid-dynamic {trained} is best at {' and '.join(str(n) for n in best)} steps": (first, ""),
    }  # fmt: skip


def section(
    command: str, found: Mapping[str, Mapping[str, Errors]], shown: Mapping[str, tuple[bool, str]],
    curves: Mapping[str, Any], charts: Mapping[str, str],
) -> str:  # fmt: skip
    """Return the text of the section. charts: file names by chart"""
    hours = sum(sum(curve["cpu_s"].values()) for curve in curves.values()) / 3600.0
    losses = curves["hidden"]["losses"]
    hours += sum(one["cpu_s"] for one in losses.values()) / 3600.0
    held = [(text, "yes" if yes else "NO", figure) for text, (yes, figure) in shown.items()]
    looks = sorted({step for one in losses.values() for length, step, _ in one["curve"]})
    chosen = [looks[round(i * (len(looks) - 1) / 5)] for i in range(6)]
    rows = [
        (loss, *(f"{1e3 * math.sqrt(_at(one['curve'], step)):.1f}" for step in chosen)) for loss, one in losses.items()
    ]
    return "\n\n".join(
        (
            f"`{command}` prints the tables. Step-average position error on held-out rows [mm] by length of roll-outs "
            "[steps]. The number after a model is the length of the roll-outs that it was trained on.",
            "**Simulated robot with hidden effects**, 60 steps a second:",
            error_table(found["hidden"]["models"], "model"),
            f"![Error of the models by length of the roll-out]({charts['learned']})",
            markdown_table(("what is to be shown", "shown", "figure"), held, words=2),
            "The linear model by the frame in which it sees and predicts poses. `egocentric`: it sees no pose, and "
            "predicts the motion in the frame of the pose before. `translational`: it sees its yaw, and predicts in "
            "the frame of the world. `none`: it sees x, y and yaw there.",
            error_table(found["hidden"]["transforms"], "transform"),
            "**Recorded steps of a Husky**, 20 steps a second:",
            error_table(found["husky"]["models"], "model"),
            "Error on the validation rows [mm] of `hybrid-dynamic` by optimizer step, for each loss of the training. "
            "Roll-outs become longer on the way, so a row does not fall throughout:",
            markdown_table(("loss", *(str(step) for step in chosen)), rows),
            f"The trainings took {hours:.2f} hours of one core.",
        )
    )


def _at(curve: Sequence[Sequence[float]], step: int) -> float:
    return min((row for row in curve), key=lambda row: abs(row[1] - step))[2]


def error_table(errors: Errors, heading: str) -> str:
    """Return errors as a table in millimetres."""
    lengths = list(next(iter(errors.values())))
    rows = [(name, *(f"{1e3 * error[n]:.3g}" if error[n] < 1.0 else f"{1e3 * error[n]:.0f}" for n in lengths))
            for name, error in errors.items()]  # fmt: skip
    return markdown_table((heading, *(str(n) for n in lengths)), rows)


# ---- Chart: error by length, both logarithmic

WIDTH_PX, HEIGHT_PX = 640, 360


def chart(errors: Errors) -> Figure:
    """Return lines of the error by roll-out length: the formulas, and each model at its longest training."""
    last = {name.rpartition(" ")[0]: name for name in errors if name.rpartition(" ")[2].isdigit()}
    figure = new_figure(WIDTH_PX, HEIGHT_PX)
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="length of the roll-out [steps]", ylabel="error [m]")
    for name in (AT_ONCE, HAND, IDENTIFIED, *last.values()):
        axes.plot(list(errors[name]), list(errors[name].values()), label=name)
    lengths = list(errors[IDENTIFIED])
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.grid(axis="y")
    figure.legend(loc="outside right upper")
    return figure
