"""The compiled roll-outs and their gradients equal plain loops in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from calib.learned.networks import PlantLayer, PosedLayer
from calib.learned.series import axes_of
from tests.rigs.learned_models import PLANT

H = 1.0 / 60.0
AXES = axes_of(PLANT)


def plain_plant(commands: Tensor, starts: list[int], initial: np.ndarray) -> Tensor:
    """Return (n, 2) the speeds by PyTorch's own gradient."""
    axes = torch.from_numpy(AXES)
    rows, state = [], (torch.zeros(2), torch.zeros(2))
    for row, command in enumerate(commands):
        if row in starts:
            begin = torch.from_numpy(initial[starts.index(row)])
            state = begin[:2], begin[2:]
        speed, rate = state
        delta = command - speed
        up = delta * speed > 0.0
        f, zeta = torch.where(up, axes[:, 0], axes[:, 1]), torch.where(up, axes[:, 2], axes[:, 3])
        rate = torch.clamp(rate + H * (f * f * delta - 2.0 * zeta * f * rate), -axes[:, 6], axes[:, 6])
        speed = torch.clamp(speed + H * rate, axes[:, 4], axes[:, 5])
        state = speed, rate
        rows.append(speed)
    return torch.stack(rows)


def test_the_plant_and_its_gradient_equal_the_plain_loop() -> None:
    rng = np.random.default_rng(3)
    commands = np.repeat(rng.uniform((-2.0, -6.0), (3.0, 6.0), (8, 2)), 30, axis=0)
    starts, initial = [0, 100], np.array([[0.2, 0.5, 0.1, -0.4], [-0.1, 1.0, 0.0, 2.0]])
    weights = torch.from_numpy(rng.normal(size=commands.shape))
    results = []
    for roll in (
        lambda c: PlantLayer.apply(c, np.array(starts), initial, AXES, H),
        lambda c: plain_plant(c, starts, initial),
    ):
        given = torch.from_numpy(commands.copy()).requires_grad_()
        speeds = roll(given)
        (speeds * weights).sum().backward()
        results.append((speeds.detach().numpy(), given.grad.numpy()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)
    assert np.abs(results[0][0][:, 0]).max() == PLANT.linear.speed_max, "the clip of the speed is part of it"


@pytest.mark.parametrize("first", [0, 2])
def test_a_model_that_sees_its_pose_equals_the_plain_loop(first: int) -> None:
    rng = np.random.default_rng(4)
    length, begins = 20, np.array([0, 7, 15])
    own, moved = rng.normal(0.0, 0.05, (3, 3)), rng.normal(0.0, 0.1, (40, 3))
    begin = rng.normal(0.0, 3.0, (3, 3))
    weights = torch.from_numpy(rng.normal(size=(3, length + 1, 3)))

    def compiled(a: Tensor, b: Tensor) -> Tensor:
        path = np.empty((3, length + 1, 3))
        path[:, 0] = begin
        return PosedLayer.apply(a, b, begins, path, first)

    def plain(a: Tensor, b: Tensor) -> Tensor:
        q = torch.from_numpy(begin)
        poses, shown = [q], torch.tensor([float(i >= first) for i in range(3)], dtype=torch.float64)
        for k in range(length):
            turns = torch.round(q[:, 2:].detach() / (2.0 * np.pi)) * 2.0 * np.pi
            seen = torch.cat([q[:, :2], q[:, 2:] - turns], 1) * shown
            q = q + b[torch.from_numpy(begins + k)] + seen @ a.T
            poses.append(q)
        return torch.stack(poses, 1)

    results = []
    for roll in (compiled, plain):
        a, b = (torch.from_numpy(one.copy()).requires_grad_() for one in (own, moved))
        poses = roll(a, b)
        (poses * weights).sum().backward()
        results.append((poses.detach().numpy(), a.grad.numpy(), b.grad.numpy()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
