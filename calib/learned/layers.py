"""Compiled roll-outs as layers of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from calib.learned.compiled_rollouts import Floats, Ints, backward_axis, backward_posed, forward_axis, forward_posed


def _array(tensor: Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().numpy().astype(np.float64))


class PlantLayer(torch.autograd.Function):
    """Speeds (n, 2) of the plant under commands (n, 2); begun anew from `initial` (k, 4) in rows `starts`."""

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
