"""One step of a learned model as ONNX, for other simulators."""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from hil.physics.motion.learned import STATE, LearnedModel, history_rows
from onboard.values.errors import naming

INPUTS, OUTPUTS = ("commands", "nominal", "state"), ("motion", "next_nominal", "next_state")
OPSET = 17


class Step(nn.Module):
    """A step of `LearnedModel.period_s`, as `advance_learned` defines it.

    commands: (1, rows, 2) v, w of now and of earlier periods, newest first [m/s, rad/s]
    nominal, state: (1, 4) of the plant without and with correction: v, w and their rates; zeros at rest
    The exporter leaves out inputs that a model does not use.
    motion:   (1, 3) x, y [m], yaw [rad] in the frame of the pose before the step
    """

    def __init__(self, model: LearnedModel) -> None:
        super().__init__()
        self.model = model
        self.layers = nn.ModuleList()
        at = 0
        for rows, columns in zip(model.sizes[:-1].tolist(), model.sizes[1:].tolist(), strict=True):
            layer = nn.Linear(rows, columns)
            end = at + rows * columns
            matrix = torch.from_numpy(model.weights[at:end].reshape(rows, columns).T.copy())
            layer.weight = nn.Parameter(matrix.float())
            layer.bias = nn.Parameter(torch.from_numpy(model.weights[end : end + columns].copy()).float())
            self.layers.append(layer)
            at = end + columns

    def forward(self, commands: Tensor, nominal: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return motion, nominal and state after the step."""
        model, h = self.model, self.model.period_s
        late = model.delay_s / h
        older, share = math.floor(late), late - math.floor(late)
        command = (1.0 - share) * commands[:, older] + share * commands[:, older + 1]
        window = commands[:, : model.lags + 1].flatten(1)
        nominal = self._plant(command, nominal)
        if model.model == "hybrid-dynamic":
            state = self._plant(command + self._dense(torch.cat([window, nominal], 1)), state)
            return self._moved(state), nominal, state
        if model.model == "hybrid-kinematic":
            window = torch.cat([window, self._moved(nominal)], 1)
        motion = self._dense(window)
        state = torch.cat([motion[:, :1] / h, motion[:, 2:] / h, torch.zeros_like(motion[:, :2])], 1)
        return motion, nominal, state

    def _dense(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        last: Tensor = self.layers[-1](x)
        return last

    def _plant(self, command: Tensor, state: Tensor) -> Tensor:
        h, axes = self.model.period_s, torch.tensor([self.model.linear.tolist(), self.model.angular.tolist()])
        speed, rate = state[:, :2], state[:, 2:]
        delta = command - speed
        up = delta * speed > 0.0
        f, zeta = torch.where(up, axes[:, 0], axes[:, 1]), torch.where(up, axes[:, 2], axes[:, 3])
        rate = rate + h * (f * f * delta - 2.0 * zeta * f * rate)
        most = torch.where(up, axes[:, 6], axes[:, 7])
        rate = torch.minimum(torch.maximum(rate, -most), most)
        speed = torch.minimum(torch.maximum(speed + h * rate, axes[:, 4]), axes[:, 5])
        return torch.cat([speed, rate], 1)

    def _moved(self, state: Tensor) -> Tensor:
        h = self.model.period_s
        way, turned = h * state[:, :1], h * state[:, 1:2]
        return torch.cat([way * torch.cos(turned), way * torch.sin(turned), turned], 1)


def export_onnx(model: LearnedModel, file: Path) -> None:
    """Write a step of a model as ONNX. Raises InputError if the file cannot be written."""
    rows = history_rows(model.lags, model.delay_s / model.period_s)
    zeros = torch.zeros(1, rows, 2), torch.zeros(1, STATE), torch.zeros(1, STATE)
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the TorchScript exporter warns of its age
        torch.onnx.export(
            Step(model).eval(),
            zeros,
            content,  # type: ignore[arg-type]  # the exporter writes to streams; the types name files only
            dynamo=False,
            opset_version=OPSET,
            input_names=list(INPUTS),
            output_names=list(OUTPUTS),
        )
    with naming(file, "written"):
        file.write_bytes(content.getvalue())
