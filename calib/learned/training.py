"""Progressive training (paper 3): roll-outs become longer, and each stage begins with the best of the last.

All errors of the losses are in the frame of the measured pose at the window's begin. Poses come divided by the spread
of the measured motion, so position and yaw count alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calib.learned.compiled_rollouts import Ints
from calib.learned.networks import LEAST_SPREAD, Dynamics, Material, Roller, architecture, material_of
from calib.learned.series import Series, longest_in, starts_in
from hil.physics.motion.learned import LearnedModel, read_arrays, write_arrays
from onboard.config.plant_model import Plant
from onboard.values.errors import InputError

GROWTH = 8
"""Each stage has roll-outs this many times longer than the stage before."""
JUDGED_EVERY = 10
"""Steps between two looks at the validation rows."""
LEAST_POINTS = 8192
"""Short roll-outs get more windows a step than `batch`, until they hold this many points: one step is mostly noise."""
LONG = 64
"""Stages of longer roll-outs cost most of the time, and get a quarter of the steps."""
SCALED_BY = 4096
"""The spread of the measured motion is taken from at most this many windows."""
GREATEST_GRADIENT = 1.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is trained. Ours are `steps`, `alpha`, `neighbours` and `learning_rate` (paper: 5e-4); the other
    defaults are the paper's.

    Errors are divided by the spread of the measured motion over windows of the stage's length, position and yaw apart.
    So `l2` weighs the same in every stage, and a stage can end by `patience`.

    max_length: longest roll-out [steps]; loss: one of `LOSSES`; alpha, neighbours: of the Chamfer loss
    gap:        steps between two points that count; None for about 64 points a window
    steps:      most optimizer steps of a stage, of one beyond `LONG` a quarter
    batch:      least windows a step (`LEAST_POINTS`)
    learning_rate, decay: at the begin, and its factor from step to step; l2: weight of the squared weights
    patience:   looks at the validation rows without progress, after which a stage ends
    """

    max_length: int = 4096
    loss: str = "gapped"
    alpha: float = 0.5
    neighbours: int = 3
    gap: int | None = None
    steps: int = 1200
    batch: int = 200
    learning_rate: float = 2e-3
    decay: float = 0.99999
    l2: float = 1e-4
    patience: int = 32
    seed: int = 1


def lengths_of(longest: int) -> list[int]:
    """Return the lengths of all stages: 1, 8, 64, and so on to `longest`."""
    lengths = [1]
    while lengths[-1] < longest:
        lengths.append(min(lengths[-1] * GROWTH, longest))
    return lengths


def steps_of(length: int, steps: int) -> int:
    """Return the most optimizer steps of a stage."""
    return steps if length <= LONG else max(steps // 4, 1)


def check_lengths(max_length: int, train: Ints, validation: Ints) -> None:
    """Raise InputError if no stretch of rows is as long as the longest roll-out."""
    longest = min(longest_in(spans) if len(spans) else 0 for spans in (train, validation))
    if longest < max_length:
        raise InputError(
            f"--max-length {max_length}: training and validation rows allow at most {longest} steps; lower it, or use "
            "longer logs"
        )


@dataclass
class Progress:
    """Where a training is. best: least validation loss of this stage; stale: looks since; seconds: so far"""

    stage: int = 0
    step: int = 0
    best: float = math.inf
    stale: int = 0


class Training:
    """One training of one model.

    curve:   (stage length, step of all, validation loss) at each look
    patient: whether each stage so far ended by `patience`, and not by `steps`
    """

    def __init__(
        self, dynamics: Dynamics, material: Material, train: Ints, validation: Ints, recipe: Recipe, data: str
    ) -> None:
        """train, validation: (spans, 2) rows; data: digest that a checkpoint must share

        Raises InputError if no span is as long as the longest roll-out.
        """
        check_lengths(recipe.max_length, train, validation)
        self.dynamics, self.recipe = dynamics, recipe
        self._material, self._spans = material, (train, validation)
        self._roller = Roller(dynamics, material)
        self._optimizer = torch.optim.Adam(dynamics.parameters(), lr=recipe.learning_rate, weight_decay=recipe.l2)
        self._best = _copied(dynamics)
        self._scale = torch.ones(3, dtype=torch.float64)
        self._data = data
        self.lengths = lengths_of(recipe.max_length)
        self.at = Progress()
        self.curve: list[tuple[int, int, float]] = []
        self.patient: list[bool] = []

    def run(
        self,
        checkpoint: Path | None = None,
        report: Callable[[Training], None] = lambda _: None,
        finished: Callable[[int, LearnedModel], None] = lambda *_: None,
    ) -> LearnedModel:
        """Train to the end and return the model.

        checkpoint: file that is written at each look, to resume from; report: called at each look
        finished:   called with the length and the best model of each stage
        """
        while self.at.stage < len(self.lengths):
            length = self.lengths[self.at.stage]
            starts = [starts_in(spans, length) for spans in self._spans]
            self._scale = self._spread(length, starts[0])
            most = steps_of(length, self.recipe.steps)
            while self.at.step < most and self.at.stale < self.recipe.patience:
                self._step(length, starts[0])
                self.at.step += 1
                if self.at.step % JUDGED_EVERY == 0 or self.at.step == most:
                    self._judge(length, starts[1])
                    if checkpoint is not None:
                        self.save(checkpoint)
                    report(self)
            self.patient.append(self.at.stale >= self.recipe.patience)
            self.dynamics.load_state_dict(self._best)
            self.dynamics.eval()
            finished(length, self.dynamics.as_learned())
            self.at = Progress(self.at.stage + 1)
        if checkpoint is not None:
            self.save(checkpoint)
        return self.dynamics.as_learned()

    @property
    def steps_done(self) -> int:
        """Return the number of steps, a stage that ended early counted whole."""
        return sum(steps_of(length, self.recipe.steps) for length in self.lengths[: self.at.stage]) + self.at.step

    @property
    def steps_in_all(self) -> int:
        """Return the number of steps if no stage ends early."""
        return sum(steps_of(length, self.recipe.steps) for length in self.lengths)

    def _step(self, length: int, starts: Ints) -> None:
        recipe = self.recipe
        rng = np.random.default_rng((recipe.seed, self.at.stage, self.at.step))
        chosen = np.sort(rng.choice(starts, self._windows(length)))
        self.dynamics.train()
        loss = self._loss(chosen, length)
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.dynamics.parameters(), GREATEST_GRADIENT)
        for group in self._optimizer.param_groups:
            group["lr"] = recipe.learning_rate * recipe.decay**self.steps_done
        self._optimizer.step()

    def _loss(self, starts: Ints, length: int) -> Tensor:
        recipe = self.recipe
        offsets = offsets_of(recipe.loss, length, recipe.gap)
        measured = torch.from_numpy(self._material.series.relative(starts, offsets))
        predicted = self._roller.poses(starts, offsets)
        scaled = (predicted / self._scale, measured / self._scale)
        return loss_of(recipe.loss, *scaled, recipe.alpha, recipe.neighbours)

    def _windows(self, length: int) -> int:
        return max(self.recipe.batch, LEAST_POINTS // length)

    def _spread(self, length: int, starts: Ints) -> Tensor:
        """Return (3,) root mean squares of the measured motion: of the distance for x and y [m], of the yaw [rad]."""
        motion = self._material.series.relative(_spaced(starts, SCALED_BY), offsets_of("gapped", length, None))
        squares = np.mean(motion**2, axis=(0, 1))
        distance, yaw = np.sqrt([squares[0] + squares[1], squares[2]])
        return torch.tensor([distance, distance, yaw]).clamp_min(LEAST_SPREAD)

    def _judge(self, length: int, starts: Ints) -> None:
        """Look at the validation rows, always by the gapped loss."""
        chosen = _spaced(starts, self._windows(length))
        self.dynamics.eval()
        offsets = offsets_of("gapped", length, None)
        measured = torch.from_numpy(self._material.series.relative(chosen, offsets))
        with torch.no_grad():
            predicted = self._roller.poses(chosen, offsets)
            value = float(loss_of("gapped", predicted / self._scale, measured / self._scale, 0.0, 0))
        self.curve.append((length, self.steps_done, value))
        if value < self.at.best:
            self.at.best, self.at.stale, self._best = value, 0, _copied(self.dynamics)
        else:
            self.at.stale += 1

    # ---- Checkpoints

    def _about(self) -> dict[str, Any]:
        recipe = {**asdict(self.recipe)}
        plant = self._material.plant.model_dump(mode="json", include={"linear", "angular", "base"})
        return {"architecture": dict(architecture(self.dynamics)), "recipe": recipe, "data": self._data, "plant": plant}

    def save(self, file: Path) -> None:
        """Write a checkpoint. Raises InputError if it cannot be written."""
        arrays = {f"weights.{name}": value.numpy() for name, value in self.dynamics.state_dict().items()}
        arrays |= {f"best.{name}": value.numpy() for name, value in self._best.items()}
        for number, state in enumerate(self._optimizer.state.values()):
            arrays |= {f"adam.{number}.{name}": np.asarray(value) for name, value in state.items()}
        about = {**self._about(), "at": asdict(self.at), "curve": self.curve, "patient": self.patient}
        write_arrays(file, about, arrays)

    def resume(self, file: Path) -> None:
        """Go on from a checkpoint. Raises InputError for that of another model, recipe or data, or a damaged one."""
        about, arrays = read_arrays(file)
        for name, mine in self._about().items():
            if about.get(name) != mine:
                raise InputError(f"{file}: a checkpoint of another {name}: {_difference(about.get(name), mine)}")
        try:
            for target, prefix in ((self.dynamics.state_dict(), "weights."), (self._best, "best.")):
                for name, value in target.items():
                    found = torch.from_numpy(arrays[prefix + name])
                    if found.shape != value.shape or not torch.isfinite(found).all():
                        raise ValueError(prefix + name)
                    value.copy_(found)
            for number, parameter in enumerate(self._optimizer.param_groups[0]["params"]):
                if (key := f"adam.{number}.") + "step" in arrays:
                    state = {name: arrays[key + name] for name in ("step", "exp_avg", "exp_avg_sq")}
                    self._optimizer.state[parameter] = {name: torch.from_numpy(one) for name, one in state.items()}
            self.at = Progress(**about["at"])
            self.curve, self.patient = [tuple(row) for row in about["curve"]], list(about["patient"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{file}: a damaged checkpoint: {error}") from error


def training_of(
    series: Series, plant: Plant, train: Ints, validation: Ints, recipe: Recipe, data: str, model: str, transform: str
) -> Training:
    """Return a training that has not begun; its weights are drawn by the recipe's seed. Raises InputError."""
    torch.manual_seed(recipe.seed)
    material = material_of(series, plant)
    rows = np.concatenate([np.arange(a, b) for a, b in train])
    return Training(Dynamics(model, transform, material, rows), material, train, validation, recipe, data)


def _spaced(starts: Ints, most: int) -> Ints:
    """Return at most `most` of the starts, evenly spaced."""
    return np.asarray(starts[np.linspace(0, len(starts) - 1, min(len(starts), most)).round().astype(np.int64)])


def _copied(dynamics: Dynamics) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in dynamics.state_dict().items()}


def _difference(found: object, wanted: object) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key, value in wanted.items():
            if found.get(key) != value:
                return f"{key} is {found.get(key)}, {value} is asked for"
    return f"{found}, not {wanted}"


LOSSES = ("mse", "gapped", "chamfer")
POINTS = 64
"""About this many points of a window count, unless all do."""


def offsets_of(loss: str, length: int, gap: int | None) -> Ints:
    """Return the steps of a window that count: all for "mse", else each `gap`; None for about `POINTS` of them."""
    step = 1 if loss == "mse" else max(length // POINTS, 1) if gap is None else min(gap, length)
    return np.asarray(np.arange(length, 0, -step)[::-1].copy())


def loss_of(loss: str, predicted: Tensor, measured: Tensor, alpha: float, neighbours: int) -> Tensor:
    """Return the loss. predicted, measured: (windows, points, 3) poses"""
    if loss == "chamfer":
        return chamfer(predicted, measured, alpha, neighbours)
    return ((predicted - measured) ** 2).sum(-1).mean()


def chamfer(predicted: Tensor, measured: Tensor, alpha: float, neighbours: int) -> Tensor:
    """Return (1 - a) mean_q min_p |q - p|^2 + a mean_p min_q |p - q|^2 over at most `neighbours` points to each side.

    p: predicted, q: measured. The distance counts the yaw as the other losses do.
    """
    points, p, q = predicted.shape[1], predicted, measured
    by_q, by_p = [], []
    for shift in range(-min(neighbours, points - 1), min(neighbours, points - 1) + 1):
        inside = slice(max(-shift, 0), points - max(shift, 0))
        beside = slice(max(shift, 0), points - max(-shift, 0))
        squared = ((q[:, inside] - p[:, beside]) ** 2).sum(-1)
        pad = (inside.start, points - inside.stop)
        by_q.append(torch.nn.functional.pad(squared, pad, value=float("inf")))
        by_p.append(torch.nn.functional.pad(squared, (beside.start, points - beside.stop), value=float("inf")))
    nearest_p, nearest_q = torch.stack(by_q).amin(0), torch.stack(by_p).amin(0)
    return (1.0 - alpha) * nearest_p.mean() + alpha * nearest_q.mean()
