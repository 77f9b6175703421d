"""A step of learning: gradients are shortened wherever the network is, and no step is made without numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from engines.train.rollout.optimizer_step import clipped_norm, make_step
from onboard.values.errors import OnboardError


def optimizer_of(device, gradients):
    """Return an optimizer with one group for each gradient (3,), None for a group that has none."""
    groups = []
    for gradient in gradients:
        parameter = nn.Parameter(torch.zeros(3, device=device))
        parameter.grad = None if gradient is None else torch.tensor(gradient, device=device)
        groups.append({"params": [parameter]})
    return torch.optim.AdamW(groups)


def test_each_group_is_shortened_on_its_own():
    optimizer = optimizer_of("cpu", [[3.0, 0.0, 4.0], [0.3, 0.0, 0.4]])
    assert float(clipped_norm(optimizer, 1.0, torch.device("cpu"))) == pytest.approx(5.5)
    lengths = [float(group["params"][0].grad.norm()) for group in optimizer.param_groups]
    assert lengths == pytest.approx([1.0, 0.5], rel=1e-4)


def test_a_group_without_gradients_counts_as_none_on_another_device_too():
    # Stands for a GPU: PyTorch refuses to stack a number of the CPU with one of another device, of whatever kind.
    meta = torch.device("meta")
    assert clipped_norm(optimizer_of(meta, [None, [1.0, 2.0, 3.0]]), 0.5, meta).device == meta
    assert float(clipped_norm(optimizer_of("cpu", [None, [0.0, 2.0, 0.0]]), 0.5, torch.device("cpu"))) == 2.0


@pytest.mark.parametrize(("factor", "expected"), [(math.nan, "the loss is nan"), (math.inf, "the loss is inf")])
def test_without_numbers_no_weight_is_changed(tmp_path, factor, expected):
    weights = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weights], lr=0.1)
    line = f"^imitation: {expected}, its gradient .* in update 7; there is no checkpoint yet$"
    with pytest.raises(OnboardError, match=line):
        make_step((weights * factor).sum(), optimizer, 1.0, "update 7", tmp_path / "imitation.ckpt")
    assert weights.detach().tolist() == [1.0, 1.0, 1.0]
    make_step(weights.sum(), optimizer, 1.0, "update 7", tmp_path / "imitation.ckpt")
    assert max(weights.detach().tolist()) < 1.0


def test_a_gradient_that_is_no_number_changes_no_weight_though_the_loss_is_one(tmp_path):
    """The square root of 0 is 0, and has no slope there."""
    weights = nn.Parameter(torch.ones(3))
    loss = torch.sqrt(weights - weights.detach()).sum()
    assert float(loss.detach()) == 0.0
    line = r"^imitation: the loss is 0\.0, its gradient inf in update 7; there is no checkpoint yet$"
    with pytest.raises(OnboardError, match=line):
        make_step(loss, torch.optim.AdamW([weights], lr=0.1), 1.0, "update 7", tmp_path / "imitation.ckpt")
    assert weights.detach().tolist() == [1.0, 1.0, 1.0]
