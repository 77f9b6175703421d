"""Losses over rolled-out windows (paper 3). All errors are in the frame of the measured pose at the window's begin.

Poses come divided by the spread of the measured motion, so position and yaw count alike.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from calib.learned.compiled_rollouts import Ints

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
