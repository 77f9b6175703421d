"""The motion model of a plant: the second order, hidden effects or learned dynamics, behind one compiled step."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hil.physics.motion.hidden_effects import HIDDEN_EFFECTS_FILE, advance_hidden, load_hidden_effects
from hil.physics.motion.learned import MODELS, TRANSFORMS, advance_learned, read_learned
from onboard.config.plant_model import HIDDEN_EFFECTS, Plant
from onboard.values.errors import InputError
from onboard.values.kernel import kernel

Floats = npt.NDArray[np.float64]

SECOND_ORDER, HIDDEN = -2, -1
"""Kinds in addition to those in `MODELS`."""
TICK_S = 1.0 / 30.0
WHOLE = 1e-6


class MotionModel(NamedTuple):
    """A model as the compiled ticks take it.

    kind:    `SECOND_ORDER`, `HIDDEN`, or a place in `MODELS`
    numbers, weights, sizes: as of `HiddenEffects` or `LearnedModel`; empty for the second order
    """

    kind: int
    numbers: Floats
    weights: Floats
    sizes: npt.NDArray[np.int64]


PLAIN = MotionModel(SECOND_ORDER, np.zeros(0), np.zeros(0), np.zeros(0, np.int64))


def motion_of(plant: Plant) -> MotionModel:
    """Return the motion model of a plant. Raises InputError or ConfigError for a file that does not fit."""
    return PLAIN if plant.motion is None else _loaded(plant.motion.model, plant.motion.file)[0]


def memory_of(plant: Plant) -> Floats:
    """Return the memory of a base at rest; empty for the second order."""
    return np.zeros(0) if plant.motion is None else _loaded(plant.motion.model, plant.motion.file)[1].copy()


@functools.cache
def _loaded(model: str, file: str) -> tuple[MotionModel, Floats]:
    empty = np.zeros(0), np.zeros(0, np.int64)
    if model == HIDDEN_EFFECTS:
        effects = load_hidden_effects(Path(file) if file else HIDDEN_EFFECTS_FILE)
        return MotionModel(HIDDEN, effects.as_array(), *empty), effects.memory()
    if not file:
        raise InputError(f"plant.toml: motion.file: missing; a {model} needs the file of its weights")
    learned = read_learned(Path(file), model)
    if learned.transform != TRANSFORMS[0]:
        raise InputError(f"{file}: transform is {learned.transform}, a simulated base takes {TRANSFORMS[0]} only")
    ticks = TICK_S / learned.period_s
    if abs(ticks - round(ticks)) > WHOLE * ticks or round(ticks) < 1:
        raise InputError(
            f"{file}: period_s is {learned.period_s:g}, a simulated tick of 1/30 s must be a whole number of it"
        )
    return MotionModel(MODELS.index(model), learned.numbers(), learned.weights, learned.sizes), learned.memory()


@kernel
def advance_motion(
    model: MotionModel, memory: Floats, state: Floats, v_command: float, w_command: float, dt_s: float
) -> tuple[float, float, float]:
    """Return the motion (x, y [m], yaw [rad]) over `dt_s` in the frame of its begin. Changes `memory` and `state`.

    For models other than the second order. state: (4,) v, w [m/s, rad/s] and their rates
    """
    if model.kind == HIDDEN:
        return advance_hidden(model.numbers, memory, state, v_command, w_command, dt_s)
    return advance_learned(
        model.kind, model.numbers, model.weights, model.sizes, memory, state, v_command, w_command, dt_s
    )
