"""The models of paper 3 in PyTorch: what they see, what they predict, and their export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calib.learned.compiled_rollouts import Floats, Ints, backward_axis, backward_posed, forward_axis, forward_posed
from calib.learned.series import Seen, Series, axes_of, lags_of, motion_by, seen_of
from hil.physics.motion.learned import LearnedModel, outputs_of
from onboard.config.plant_model import Plant

HIDDEN_SIZES = (32, 16, 8)
"""Of the paper's MLP."""
WARM_UP = 60
"""Steps of the plant before a window, in which its state forgets how it began."""
LEAST_SPREAD = 1e-3
"""An input that hardly changes is not magnified beyond this."""


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """A series with all that the models see of it. plant: the analytic part"""

    series: Series
    seen: Seen
    plant: Plant

    def features(self, model: str) -> Floats:
        """Return (n, inputs) the inputs of DM."""
        parts = [self.seen.window]
        if model == "hybrid-dynamic":
            parts.append(self.seen.nominal)
        if model == "hybrid-kinematic":
            parts.append(motion_by(self.seen.nominal[:, :2], self.series.period_s))
        return np.concatenate(parts, axis=1)


def material_of(series: Series, plant: Plant) -> Material:
    """Return a series with what models see of it."""
    return Material(series, seen_of(series, plant), plant)


def dense_network(inputs: int, outputs: int, hidden: tuple[int, ...]) -> nn.Sequential:
    """Return layers with batch normalisation and ReLU; the last begins at zero."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU()]
        inputs = width
    last = nn.Linear(inputs, outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


class Dynamics(nn.Module):
    """A model that learns. Inputs and outputs are scaled by what the training rows show."""

    def __init__(self, model: str, transform: str, material: Material, rows: Ints) -> None:
        """rows: rows of the material that the scales are taken from"""
        super().__init__()
        self.mean: Tensor
        self.spread: Tensor
        self.scale: Tensor
        self.model, self.transform = model, transform
        inputs = material.features(model)[rows]
        self.period_s, self.lags = material.series.period_s, lags_of(material.series.period_s)
        self.plant = material.plant
        for name, value in (
            ("mean", inputs.mean(axis=0)),
            ("spread", np.maximum(inputs.std(axis=0), LEAST_SPREAD)),
            ("scale", _scale(model, material, rows)),
        ):
            self.register_buffer(name, torch.from_numpy(value).float())
        hidden = () if model == "linear" else HIDDEN_SIZES
        self.net = dense_network(inputs.shape[1], outputs_of(model), hidden)
        if transform != "egocentric":
            self.own = nn.Parameter(torch.zeros(3, 3))

    def outputs(self, features: Tensor) -> Tensor:
        """Return (n, outputs) of DM."""
        scaled: Tensor = self.net((features - self.mean) / self.spread) * self.scale
        return scaled

    def as_learned(self) -> LearnedModel:
        """Return the model as the simulator runs it: scales and batch normalisation folded into its layers."""
        weights, sizes = _folded(self)
        linear, angular = axes_of(self.plant)
        own = np.zeros((3, 3)) if self.transform == "egocentric" else self.own_motion().detach().numpy()
        delay_s = self.plant.base.command_delay_s
        return LearnedModel(
            self.model, self.period_s, self.lags, delay_s, linear, angular, sizes, weights, self.transform, own
        )

    def own_motion(self) -> Tensor:
        """Return (3, 3) the motion by the seen pose, of a model without the egocentric transform."""
        return self.own.double() * self.scale.double()[:, None]


def _scale(model: str, material: Material, rows: Ints) -> Floats:
    if model == "hybrid-dynamic":
        return np.asarray(np.maximum(material.series.commands[rows].std(axis=0), LEAST_SPREAD))
    speeds = material.seen.nominal[rows, :2].std(axis=0)
    way, turn = np.maximum(speeds * material.series.period_s, LEAST_SPREAD * material.series.period_s)
    return np.array([way, way, turn])


def _folded(dynamics: Dynamics) -> tuple[Floats, Ints]:
    mean, spread, scale = (getattr(dynamics, name).double() for name in ("mean", "spread", "scale"))
    parts: list[Tensor] = []
    sizes = [len(mean)]
    layers = list(dynamics.net)
    for place, layer in enumerate(layers):
        if not isinstance(layer, nn.Linear):
            continue
        matrix, bias = layer.weight.detach().double().T.clone(), layer.bias.detach().double().clone()
        if place == 0:
            matrix = matrix / spread[:, None]
            bias = bias - mean @ matrix
        following = layers[place + 1] if place + 1 < len(layers) else None
        if isinstance(following, nn.BatchNorm1d):
            assert following.running_var is not None
            assert following.running_mean is not None
            factor = following.weight.detach().double() / torch.sqrt(following.running_var.double() + following.eps)
            matrix = matrix * factor
            bias = (bias - following.running_mean.double()) * factor + following.bias.detach().double()
        elif following is None:
            matrix, bias = matrix * scale, bias * scale
        parts += [matrix.flatten(), bias]
        sizes.append(matrix.shape[1])
    return torch.cat(parts).numpy(), np.array(sizes)


# ---- Roll-outs


class Roller:
    """Roll-outs of a model over a material."""

    def __init__(self, dynamics: Dynamics, material: Material) -> None:
        self._dynamics, self._material = dynamics, material
        self._features = torch.from_numpy(material.features(dynamics.model)).float()
        self._late = torch.from_numpy(material.seen.late)
        self._axes = axes_of(material.plant)

    def poses(self, starts: Ints, offsets: Ints) -> Tensor:
        """Return (starts, offsets, 3) predicted poses in the frame of the measured pose at each start."""
        length = int(offsets.max())
        if self._dynamics.transform != "egocentric":
            return self._posed(starts, offsets, length)
        rows, begins, restarts = self._rows(starts, length)
        motion = self._motion(rows, restarts)
        yaw = torch.cumsum(motion[:, 2], 0)
        heading = yaw - motion[:, 2]
        c, s = torch.cos(heading), torch.sin(heading)
        x = torch.cumsum(c * motion[:, 0] - s * motion[:, 1], 0)
        y = torch.cumsum(s * motion[:, 0] + c * motion[:, 1], 0)
        path = nn.functional.pad(torch.stack([x, y, yaw], 1), (0, 0, 1, 0))
        origin = path[torch.from_numpy(begins)][:, None]
        away = path[torch.from_numpy(begins[:, None] + offsets)] - origin
        return _turned(away, origin[..., 2])

    def _rows(self, starts: Ints, length: int) -> tuple[Ints, Ints, Ints]:
        """Return rows to compute, the place of each start among them, and the places where the plant is reset."""
        first = self._material.series.first
        log_first = first[np.searchsorted(first, starts, side="right") - 1]
        most = WARM_UP if self._dynamics.model == "hybrid-dynamic" else 0
        warm = np.minimum(most, starts - log_first)
        counts = warm + length
        whole = np.arange(int(log_first.min()), int(starts.max()) + length)
        if counts.sum() >= len(whole):
            begun = first[(first >= whole[0]) & (first <= whole[-1])]
            return whole, starts - whole[0], begun - whole[0]
        ends = np.cumsum(counts)
        restarts = ends - counts
        rows = np.arange(ends[-1]) - np.repeat(restarts, counts) + np.repeat(starts - warm, counts)
        return rows, restarts + warm, restarts

    def _motion(self, rows: Ints, restarts: Ints) -> Tensor:
        """Return (rows, 3) the predicted motion of each step in the frame of its begin."""
        chosen = torch.from_numpy(rows)
        out = self._dynamics.outputs(self._features[chosen]).double()
        if self._dynamics.model != "hybrid-dynamic":
            return out
        h = self._material.series.period_s
        initial = self._material.seen.before[rows[restarts]]
        speeds = PlantLayer.apply(self._late[chosen] + out, restarts, initial, self._axes, h)  # type: ignore[no-untyped-call]
        turned, way = h * speeds[:, 1], h * speeds[:, 0]
        return torch.stack([way * torch.cos(turned), way * torch.sin(turned), turned], 1)

    def _posed(self, starts: Ints, offsets: Ints, length: int) -> Tensor:
        """Roll out a model that sees its own pose."""
        translational = self._dynamics.transform == "translational"
        rows = np.arange(int(starts.min()), int(starts.max()) + length)
        moved = self._dynamics.outputs(self._features[torch.from_numpy(rows)]).double()
        path = np.empty((len(starts), length + 1, 3))
        path[:, 0] = self._material.series.poses[starts]
        begins = starts - rows[0]
        own = self._dynamics.own_motion()
        poses = PosedLayer.apply(own, moved, begins, path, 2 if translational else 0)  # type: ignore[no-untyped-call]
        origin = poses[:, :1]
        return _turned(poses[:, torch.from_numpy(offsets)] - origin, origin[..., 2])


def _turned(away: Tensor, yaw: Tensor) -> Tensor:
    c, s = torch.cos(yaw), torch.sin(yaw)
    x, y = c * away[..., 0] + s * away[..., 1], c * away[..., 1] - s * away[..., 0]
    return torch.stack([x, y, away[..., 2]], -1)


def architecture(dynamics: Dynamics) -> Mapping[str, Any]:
    """Return what a checkpoint must share with a model to be loaded."""
    return {
        "model": dynamics.model, "transform": dynamics.transform, "period_s": dynamics.period_s,
        "lags": dynamics.lags, "layers": [list(parameter.shape) for parameter in dynamics.parameters()],
    }  # fmt: skip


# ---- Compiled roll-outs as layers of PyTorch


def _array(tensor: Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().numpy().astype(np.float64))


class PlantLayer(torch.autograd.Function):
    """Speeds (n, 2) of the plant under commands (n, 2); begun again from `initial` (k, 4) in rows `starts`."""

    @staticmethod
    def forward(ctx: Any, commands: Tensor, starts: Ints, initial: Floats, axes: Floats, h: float) -> Tensor:
        """Return the speeds after each step."""
        given = _array(commands.T)
        speeds, slopes = np.empty((2, given.shape[1])), np.empty((2, given.shape[1], 4))
        for one in range(2):
            begin = np.ascontiguousarray(initial[:, one::2])
            forward_axis(given[one], starts, begin, axes[one], h, speeds[one], slopes[one])
        ctx.kept = (starts, h, slopes)
        return torch.from_numpy(np.ascontiguousarray(speeds.T))

    @staticmethod
    def backward(ctx: Any, *wanted: Tensor) -> Any:
        """Return the gradient of the commands."""
        starts, h, slopes = ctx.kept
        given = _array(wanted[0].T)
        gradient = np.empty_like(given)
        for one in range(2):
            backward_axis(given[one], starts, h, slopes[one], gradient[one])
        return torch.from_numpy(np.ascontiguousarray(gradient.T)), None, None, None, None


class PosedLayer(torch.autograd.Function):
    """Poses (windows, length + 1, 3) of a linear model without the egocentric transform, rolled out."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, moved: Tensor, begins: Ints, path: Floats, first: int) -> Tensor:
        """Return the poses. path: (windows, length + 1, 3) room for them; path[:, 0] is given"""
        weights = _array(own)
        forward_posed(weights, _array(moved), begins, first, path)
        ctx.kept = (weights, begins, path, first, len(moved))
        return torch.from_numpy(path)

    @staticmethod
    def backward(ctx: Any, *wanted: Tensor) -> Any:
        """Return the gradients of `own` and `moved`."""
        weights, begins, path, first, count = ctx.kept
        g_own, g_moved = np.zeros((3, 3)), np.zeros((count, 3))
        backward_posed(weights, path, begins, first, _array(wanted[0]), g_own, g_moved)
        return torch.from_numpy(g_own), torch.from_numpy(g_moved), None, None, None
