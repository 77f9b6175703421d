"""Learned models with random weights, and plants whose simulated base runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hil.physics.motion.learned import LearnedModel, inputs_of, model_arrays, outputs_of, write_arrays
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import MotionTable, Plant, load_plant

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
LAGS = 12


def random_model(model: str, seed: int = 0, transform: str = "egocentric", scale: float = 0.1) -> LearnedModel:
    """Return a model whose weights mean nothing; pure models move little in a step."""
    rng = np.random.default_rng(seed)
    hidden = () if model == "linear" else (32, 16, 8)
    sizes = np.array([inputs_of(model, LAGS), *hidden, outputs_of(model)])
    weights = rng.normal(0.0, scale, int(np.sum((sizes[:-1] + 1) * sizes[1:])))
    if model != "hybrid-dynamic":
        weights[-3 * (sizes[-2] + 1) :] *= 0.02
    axes = PLANT.linear.as_array(), PLANT.angular.as_array()
    return LearnedModel(
        model, 1.0 / 60.0, LAGS, 0.12, *axes, sizes, weights.astype(np.float32).astype(float), transform
    )


def learned_plant(folder: Path, model: str, seed: int = 0) -> Plant:
    """Return the default plant with a random model of this name, whose file is in `folder`."""
    file = folder / f"{model}.npz"
    write_arrays(file, *model_arrays(random_model(model, seed)))
    return PLANT.model_copy(update={"motion": MotionTable(model=model, file=str(file))})
