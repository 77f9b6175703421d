"""The losses of paper 3 against their plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calib.learned.training import chamfer, offsets_of

RNG = np.random.default_rng(5)
P, Q = (torch.from_numpy(RNG.normal(size=(4, 12, 3))) for _ in range(2))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("neighbours", [0, 2, 20])
def test_chamfer_is_the_mean_distance_to_the_nearest_neighbour(alpha: float, neighbours: int) -> None:
    squared = ((Q[:, :, None] - P[:, None]) ** 2).sum(-1)
    away = torch.arange(12)[:, None] - torch.arange(12)
    squared = torch.where(away.abs() <= neighbours, squared, torch.inf)
    expected = (1.0 - alpha) * squared.amin(2).mean() + alpha * squared.amin(1).mean()
    assert float(chamfer(P, Q, alpha, neighbours)) == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("loss", "length", "gap", "offsets"),
    [
        ("mse", 5, None, [1, 2, 3, 4, 5]),
        ("gapped", 5, 2, [1, 3, 5]),
        ("gapped", 5, 100, [5]),
        ("gapped", 3, None, [1, 2, 3]),
        ("chamfer", 256, None, list(range(4, 257, 4))),
    ],
)
def test_which_steps_count(loss, length, gap, offsets) -> None:
    assert offsets_of(loss, length, gap).tolist() == offsets
