"""The tables and charts of learned dynamics in docs/reality-gap.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calib.learned.evaluation import (
    LENGTHS,
    commanded_motion,
    learned_motion,
    plant_motion,
    posed_rmse_m,
    rmse_m,
)
from calib.learned.experiment import Data, ExperimentTable, model_name, pack_file, read_pack, trained_lengths
from calib.learned.series import longest_in
from hil.physics.motion.learned import MODELS, TRANSFORMS
from onboard.commands.cli import markdown_table, new_figure
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import load_plant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AT_ONCE, HAND, IDENTIFIED, POSED = "commands at once", "hand formula", "identified plant", "plant fitted to poses"
MOST_OF_PLANT = 0.54
"""Paper 3's table of errors: the dynamical hybrid's error by the hand formula's at 32,768 steps, 72.1 to 133 mm."""
NEAR = 1.1
"""A loss has converged when its validation error is within this factor of the least of the step error."""

ONE_SEED = "One seed of weights and batches, so their spread is not known."

Errors = dict[str, dict[int, list[float]]]
"""Errors [m] by model and length of roll-outs: one of a formula, else one of each seed."""


@dataclass(frozen=True, slots=True)
class Found:
    """All of one robot's data. trainings: what each seed's pack says of them, by name"""

    models: Errors
    transforms: Errors
    losses: Errors
    trainings: list[dict[str, Any]]


def found_of(table: ExperimentTable, data: Data, folder: Path) -> Found:
    """Return the roll-out errors on held-out rows, and the trainings. Raises InputError."""
    series, test = data.series, data.test
    longest = longest_in(test)
    lengths = [length for length in LENGTHS if length <= longest]
    if longest < LENGTHS[3]:
        lengths.append(longest)

    def once(motion: Any) -> dict[int, list[float]]:
        return {length: [error] for length, error in rmse_m(series, motion, test, lengths).items()}

    models: Errors = {AT_ONCE: once(commanded_motion(series))}
    own = {name: folder / f"{data.name}-{part}.toml" for name, part in ((IDENTIFIED, "plant"), (POSED, "posed"))}
    for name, file in {HAND: DEFAULT_ROBOT / "plant.toml", **own}.items():
        models[name] = once(plant_motion(series, load_plant(file)))
    packs = [read_pack(pack_file(folder, data.name, seed)) for seed in table.seeds]
    row = table.hidden if data.name == "hidden" else table.husky
    kept = trained_lengths(table, row.max_length)

    def of_seeds(name: str) -> dict[int, list[float]]:
        errors = []
        for _, pack in packs:
            one = pack[name]
            if one.transform == TRANSFORMS[0]:
                errors.append(rmse_m(series, learned_motion(series, one), test, lengths))
            else:
                errors.append(posed_rmse_m(series, one, test, lengths))
        return {length: [error[length] for error in errors] for length in errors[0]}

    models |= {name: of_seeds(name) for name in (f"{model} {length}" for model in MODELS for length in kept)}
    transforms = {name: of_seeds(model_name("linear", name, kept[-1])) for name in TRANSFORMS if data.name == "hidden"}
    names = [name for name in packs[0][1] if name.startswith("loss-")]
    losses = {name.removeprefix("loss-").rpartition(" ")[0]: of_seeds(name) for name in names}
    return Found(models, transforms, losses, [said for said, _ in packs])


def claims_of(table: ExperimentTable, found: Found) -> dict[str, tuple[bool, str]]:
    """Return the paper's claims on the simulated robot: whether each holds for the mean over seeds, and the figures."""
    models, transforms = found.models, found.transforms
    trained = trained_lengths(table, table.hidden.max_length)[-1]
    longest, hybrid = max(models[POSED]), models[f"hybrid-dynamic {trained}"]
    long = [length for length in models[POSED] if length >= LENGTHS[3]]
    longer = [length for length in long if length >= table.hidden.max_length]
    share = [one / models[POSED][longest][0] for one in hybrid[longest]]
    best = [min(models, key=lambda name: np.mean(models[name][n])) for n in long]
    order = {n: sorted(transforms, key=lambda name: np.mean(transforms[name][n])) for n in longer}
    kinematic = [one / models[POSED][longest][0] for one in models[f"hybrid-kinematic {trained}"][longest]]
    paper = ["egocentric", "translational", "none"]
    claims = {
        f"hybrid-dynamic {trained} at {longest} steps: at most {MOST_OF_PLANT} of the {POSED}'s error": (
            float(np.mean(share)) <= MOST_OF_PLANT, _spread(share, "{:.2f}")),
        f"hybrid-dynamic {trained} is best at {', '.join(map(str, long))} steps": (
            set(best) == {f"hybrid-dynamic {trained}"}, ", ".join(best)),
        f"hybrid-kinematic {trained} at {longest} steps is worse than the {POSED}": (
            float(np.mean(kinematic)) > 1.0, _spread(kinematic, "{:.2f}")),
        f"egocentric, translational, none: in this order at {', '.join(map(str, longer))} steps": (
            all(one == paper for one in order.values()), "; ".join(", ".join(one) for one in order.values())),
    }  # fmt: skip
    if found.losses:
        steps = {loss: steps_to_converge(found.trainings, loss) for loss in found.losses}
        chamfer = min(count for loss, count in steps.items() if loss.startswith("chamfer"))
        others = min(count for loss, count in steps.items() if not loss.startswith("chamfer"))
        counts = ", ".join(f"{loss} {count:.0f}" for loss, count in steps.items())
        claims["the Chamfer loss converges in at least a tenth fewer steps than the step errors"] = (
            chamfer <= 0.9 * others, counts)  # fmt: skip
    return claims


def steps_to_converge(trainings: Sequence[Mapping[str, Any]], loss: str) -> float:
    """Return the mean of steps until a training is near the least error of the step error's; inf if one never is."""
    counts = []
    for said in trainings:
        last = said["loss-mse"]["curve"][-1][0]
        least = min(value for length, _, value in said["loss-mse"]["curve"] if length == last)
        curve = said[f"loss-{loss}"]["curve"]
        counts.append(min((step for n, step, value in curve if n == last and value <= NEAR * least), default=math.inf))
    return float(np.mean(counts))


def section(
    command: str, hidden: Found, husky: Found, claims: Mapping[str, tuple[bool, str]], charts: Mapping[str, str]
) -> str:
    """Return the text of the section. charts: file names by chart"""
    trainings = [one for found in (hidden, husky) for said in found.trainings for one in said.values()]
    hours = sum(one["cpu_s"] for one in trainings) / 3600.0
    stages = [ended for one in trainings for ended in one["patient"]]
    held = [(text, "holds" if yes else "does not hold", figure) for text, (yes, figure) in claims.items()]
    count = len(hidden.trainings)
    spread = f"Mean ± standard deviation over {count} seeds of weights and batches." if count > 1 else ONE_SEED
    return "\n\n".join(
        (
            f"`{command}` prints the tables. Step-average position error on held-out rows [mm] by length of roll-outs "
            "[steps]. The number after a model is the length of the roll-outs that it was trained on. " + spread,
            "**Simulated robot with hidden effects**, 60 steps a second:",
            error_table(hidden.models, "model"),
            f"![Error of the models by length of the roll-out]({charts['learned']})",
            markdown_table(("claim of paper 3", "here", "figure"), held, words=3),
            "The linear model by the frame in which it sees and predicts poses. `egocentric`: it sees no pose, and "
            "predicts the motion in the frame of the pose before. `translational`: it sees its yaw, and predicts in "
            "the frame of the world. `none`: it sees x, y and yaw there.",
            error_table(hidden.transforms, "transform"),
            "`mlp` trained up to 64 steps by each loss; the number after `chamfer` is that of neighbours to each side:",
            error_table(hidden.losses, "loss"),
            "**Recorded steps of a Husky**, 20 steps a second:",
            error_table(husky.models, "model"),
            f"{sum(stages)} of {len(stages)} stages ended by patience, the others at their most steps. "
            f"The trainings took {hours:.2f} hours of one core.",
        )
    )


def _spread(values: Sequence[float], form: str) -> str:
    mean = form.format(float(np.mean(values)))
    return mean if len(values) == 1 else f"{mean} ± {form.format(float(np.std(values, ddof=1)))}"


def error_table(errors: Errors, heading: str) -> str:
    """Return errors as a table in millimetres."""
    lengths = list(next(iter(errors.values())))

    def cell(values: Sequence[float]) -> str:
        spaced = [1e3 * one for one in values]
        return _spread(spaced, "{:.3g}" if np.mean(spaced) < 1e3 else "{:.0f}")

    rows = [(name, *(cell(error[n]) for n in lengths)) for name, error in errors.items()]
    return markdown_table((heading, *(str(n) for n in lengths)), rows)


# ---- Chart: error by length, both logarithmic

WIDTH_PX, HEIGHT_PX = 640, 360


def chart(errors: Errors) -> Figure:
    """Return lines of the error by roll-out length: the formulas, and each model at its longest training."""
    last = {name.rpartition(" ")[0]: name for name in errors if name.rpartition(" ")[2].isdigit()}
    figure = new_figure(WIDTH_PX, HEIGHT_PX)
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="length of the roll-out [steps]", ylabel="error [m]")
    for name in (AT_ONCE, HAND, IDENTIFIED, POSED, *last.values()):
        axes.plot(list(errors[name]), [float(np.mean(values)) for values in errors[name].values()], label=name)
    lengths = list(errors[IDENTIFIED])
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.grid(axis="y")
    figure.legend(loc="outside right upper")
    return figure
