"""Learned dynamics (paper 3, D4W) at simulation speed: the model file, and its compiled step.

A step takes the commands of the last 200 ms, sampled at times relative to now, and returns the motion in the frame of
the pose before it (egocentric). Four models:

    linear, mlp       motion = DM(commands)                                     pure data-driven
    hybrid-dynamic    motion = AM(late command + DM(commands, state of AM))     dynamical hybrid
    hybrid-kinematic  motion = DM(motion of AM, commands)                       kinematic hybrid

AM is the second-order plant (paper 1). The state of AM that DM sees is that of a plant without correction.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.config.plant_model import AXIS_NUMBERS, step_axis
from onboard.values.errors import InputError, naming
from onboard.values.kernel import kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MODELS = ("linear", "mlp", "hybrid-dynamic", "hybrid-kinematic")
TRANSFORMS = ("egocentric", "translational", "none")
DYNAMIC, KINEMATIC = MODELS.index("hybrid-dynamic"), MODELS.index("hybrid-kinematic")
STATE = 4
"""v, w, dv, dw of a plant."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedModel:
    """A model ready to run.

    model:    one of `MODELS`
    period_s: duration of a step [s]
    lags:     the command window holds the commands of now and of 1 to `lags` periods ago
    delay_s:  latency of the analytic part [s]
    linear, angular: (8,) axes of the analytic part, as `Axis.as_array`
    sizes:    (layers + 1,) widths of DM, from input to output; ReLU stands between layers
    weights:  flat; of each layer the matrix (in, out), then the bias (out,)
    transform: "egocentric"; "translational" and "none" are for comparison, and no simulated base takes them
    own:      (3, 3) motion by the seen pose; only of a model that is not egocentric
    """

    model: str
    period_s: float
    lags: int
    delay_s: float
    linear: Floats
    angular: Floats
    sizes: Ints
    weights: Floats
    transform: str = TRANSFORMS[0]
    own: Floats = field(default_factory=lambda: np.zeros((3, 3)))

    @property
    def kind(self) -> int:
        """Place in `MODELS`."""
        return MODELS.index(self.model)

    def numbers(self) -> Floats:
        """Return (19,) for `advance_learned`: period [s], latency [periods], lags, and both axes of AM."""
        head = [self.period_s, self.delay_s / self.period_s, float(self.lags)]
        return np.concatenate([head, self.linear, self.angular])

    def memory(self) -> Floats:
        """Return the memory of a base at rest: state of the corrected plant, then commands, newest first."""
        return np.zeros(STATE + 2 * history_rows(self.lags, self.delay_s / self.period_s))


def history_rows(lags: int, late: float) -> int:
    """Return how many commands a step needs. late: latency [periods]"""
    return max(lags + 1, math.floor(late) + 2)


def inputs_of(model: str, lags: int) -> int:
    """Return the number of inputs of DM."""
    return 2 * (lags + 1) + {"hybrid-dynamic": STATE, "hybrid-kinematic": 3}.get(model, 0)


def outputs_of(model: str) -> int:
    """Return the number of outputs of DM: a correction of the command (v, w), or the motion (x, y, yaw)."""
    return 2 if model == "hybrid-dynamic" else 3


# ---- The file: arrays and one line of JSON, without pickled objects


def write_arrays(file: Path, about: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a file of arrays and plain values. Raises InputError if it cannot be written."""
    part = file.with_name(file.name + ".part")
    with naming(file, "written"):
        with part.open("wb") as stream:
            whole: dict[str, Any] = {"about": np.array(json.dumps(about)), **arrays}
            np.savez_compressed(stream, **whole)
        part.replace(file)


def read_arrays(file: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return plain values and arrays of a file. Raises InputError for any other file."""
    try:
        with np.load(file, allow_pickle=False) as held:
            arrays = {name: np.asarray(held[name]) for name in held.files}
        about = json.loads(str(arrays.pop("about")))
    except FileNotFoundError as error:
        raise InputError(f"{file}: there is no such file") from error
    except (OSError, ValueError, KeyError, AttributeError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{file}: not a model of `onboard-calib learn-dynamics`") from error
    return dict(about), arrays


def model_arrays(one: LearnedModel) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return a model as plain values and arrays."""
    about = {"model": one.model, "period_s": one.period_s, "lags": one.lags, "delay_s": one.delay_s}
    return {**about, "transform": one.transform}, {
        "linear": one.linear, "angular": one.angular, "sizes": one.sizes, "weights": one.weights.astype(np.float32),
        "own": one.own,
    }  # fmt: skip


def read_learned(file: Path, model: str | None = None) -> LearnedModel:
    """Return the model of a file. model: the one that plant.toml names

    Raises InputError naming file, what is wrong and what is expected.
    """
    return learned_of(file, *read_arrays(file), model)


def learned_of(
    file: Path, about: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], model: str | None = None
) -> LearnedModel:
    """Return the model that `model_arrays` gave as plain values and arrays. file: for messages. Raises InputError."""
    try:
        found = LearnedModel(
            model=str(about["model"]),
            period_s=float(about["period_s"]),
            lags=int(about["lags"]),
            delay_s=float(about["delay_s"]),
            linear=_axis(arrays["linear"]),
            angular=_axis(arrays["angular"]),
            sizes=arrays["sizes"].astype(np.int64),
            weights=arrays["weights"].astype(np.float64),
            transform=str(about["transform"]),
            own=arrays["own"].astype(np.float64),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: not a model of `onboard-calib learn-dynamics`: no {error}") from error
    _check(file, found, model)
    return found


def _axis(numbers: Floats) -> Floats:
    """Return an axis; a file of an older version has one limit of the acceleration, which held in both phases."""
    return np.append(numbers, numbers[-1:])[:AXIS_NUMBERS].astype(np.float64)


def _check(file: Path, found: LearnedModel, model: str | None) -> None:
    if found.model not in MODELS:
        raise InputError(f"{file}: model {found.model!r}, must be one of {', '.join(MODELS)}")
    if found.transform not in TRANSFORMS:
        raise InputError(f"{file}: transform {found.transform!r}, must be one of {', '.join(TRANSFORMS)}")
    if model is not None and found.model != model:
        raise InputError(f"{file}: holds a {found.model}, but {model} is expected")
    if not (found.period_s > 0.0 and found.lags >= 0 and found.delay_s >= 0.0):
        raise InputError(f"{file}: period_s, lags and delay_s must not be negative, and period_s not 0")
    sizes = found.sizes
    wanted = (inputs_of(found.model, found.lags), outputs_of(found.model))
    ends = (int(sizes[0]), int(sizes[-1])) if len(sizes) > 1 else (0, 0)
    if ends != wanted:
        raise InputError(
            f"{file}: {ends[0]} inputs and {ends[1]} outputs, a {found.model} has {wanted[0]}, {wanted[1]}"
        )
    count = int(np.sum((sizes[:-1] + 1) * sizes[1:]))
    if len(found.weights) != count:
        raise InputError(f"{file}: {len(found.weights)} weights, its layers have {count}")
    for name in ("linear", "angular", "weights"):
        if not np.isfinite(getattr(found, name)).all():
            raise InputError(f"{file}: {name}: not all numbers are finite")
    if found.linear.shape != (AXIS_NUMBERS,) or found.angular.shape != (AXIS_NUMBERS,):
        raise InputError(f"{file}: linear and angular must have {AXIS_NUMBERS} numbers each")


# ---- The step


@kernel
def dense(weights: Floats, sizes: Ints, inputs: Floats) -> Floats:
    """Return the outputs of DM. inputs: (sizes[0],)"""
    x = inputs
    at = 0
    for layer in range(len(sizes) - 1):
        rows, columns = sizes[layer], sizes[layer + 1]
        end = at + rows * columns
        y = weights[end : end + columns].copy()
        for i in range(rows):
            row = weights[at : at + columns]
            for j in range(len(row)):
                y[j] += x[i] * row[j]
            at += columns
        if layer < len(sizes) - 2:
            for j in range(columns):
                y[j] = max(y[j], 0.0)
        x = y
        at = end + columns
    return x


@kernel
def advance_learned(
    kind: int, numbers: Floats, weights: Floats, sizes: Ints, memory: Floats, state: Floats, v_command: float,
    w_command: float, dt_s: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the motion (x, y [m], yaw [rad]) over `dt_s` in the frame of its begin. Changes `memory` and `state`.

    kind: place in `MODELS`; numbers, memory: as of `LearnedModel`
    state: (4,) v, w and their rates of the plant without correction: those of the wheels, against which the body slips
    """
    h, late, lags = numbers[0], numbers[1], int(numbers[2])
    linear, angular = numbers[3 : 3 + AXIS_NUMBERS], numbers[3 + AXIS_NUMBERS :]
    window = 2 * (lags + 1)
    older = STATE + 2 * math.floor(late)
    part = late - math.floor(late)
    inputs = np.empty(sizes[0])
    x = y = yaw = 0.0
    for _ in range(max(round(dt_s / h), 1)):
        for i in range(len(memory) - 1, STATE + 1, -1):
            memory[i] = memory[i - 2]
        memory[STATE], memory[STATE + 1] = v_command, w_command
        v_late = (1.0 - part) * memory[older] + part * memory[older + 2]
        w_late = (1.0 - part) * memory[older + 1] + part * memory[older + 3]
        inputs[:window] = memory[STATE : STATE + window]
        state[0], state[2] = step_axis(v_late, state[0], state[2], linear, h)
        state[1], state[3] = step_axis(w_late, state[1], state[3], angular, h)
        if kind == DYNAMIC:
            inputs[window:] = state
            out = dense(weights, sizes, inputs)
            memory[0], memory[2] = step_axis(v_late + out[0], memory[0], memory[2], linear, h)
            memory[1], memory[3] = step_axis(w_late + out[1], memory[1], memory[3], angular, h)
            turned = h * memory[1]
            dx, dy = h * memory[0] * math.cos(turned), h * memory[0] * math.sin(turned)
        else:
            if kind == KINEMATIC:
                turned = h * state[1]
                inputs[window] = h * state[0] * math.cos(turned)
                inputs[window + 1] = h * state[0] * math.sin(turned)
                inputs[window + 2] = turned
            out = dense(weights, sizes, inputs)
            dx, dy, turned = out[0], out[1], out[2]
        c, s = math.cos(yaw), math.sin(yaw)
        x, y, yaw = x + c * dx - s * dy, y + s * dx + c * dy, yaw + turned
    return x, y, yaw
