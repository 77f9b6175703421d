"""A step of learning: gradients are shortened wherever the network is, and no step is made without numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from engines.network.network import TINY, untrained
from engines.train.dagger import Imitation
from engines.train.ppo_update import Learner
from engines.train.rollout.optimizer_step import (
    clipped_norm,
    is_learned,
    make_step,
    products_in,
    put_weights,
    weights_of,
)
from onboard.values.errors import OnboardError
from tests.rigs.train_rig import network_of, small


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


# ---- Products of less precision: where they are allowed, and how far off they may be

CPU = torch.device("cpu")
BFLOAT16 = 2.0**-8
"""Of a number rounded to bfloat16, relative."""


def allowed() -> str:
    return torch.backends.mkldnn.matmul.fp32_precision


def test_it_ends_with_what_it_was_asked_for_whatever_ends_it():
    before, inside = allowed(), []

    @products_in("bfloat16")
    def fails():
        inside.append(allowed())
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert inside == ["bf16"]
    assert allowed() == before


def test_products_are_off_by_no_more_than_their_factors_rounding():
    generator = torch.manual_seed(1)
    one, other = torch.rand(16, 512, generator=generator), torch.rand(512, 256, generator=generator)
    with products_in("bfloat16"):
        rough = one @ other
    with products_in("float32"):
        exact = one @ other
    if torch.equal(rough, exact):
        pytest.skip("this processor multiplies in single precision all the same: nothing was rounded")
    assert torch.allclose(rough, exact, rtol=2 * BFLOAT16)


def test_imitation_learns_by_the_recipes(tmp_path, monkeypatch):
    seen = []
    update = Imitation._update
    monkeypatch.setattr(Imitation, "_update", lambda *one: (seen.append(allowed()), update(*one))[1])
    for precision in ("bfloat16", "float32"):
        config = small(imitation__chapters=1, imitation__precision=precision)
        Imitation(config, network_of(config), tmp_path / precision, CPU).run()
    half = len(seen) // 2
    assert seen == ["bf16"] * half + ["ieee"] * half
    assert half


def test_reinforcement_learns_by_the_recipes(tmp_path, monkeypatch):
    config = small(reinforce__precision="bfloat16", reinforce__critic_rounds=1)
    seen = []
    for name in ("_learn_all", "_learn_critic"):
        monkeypatch.setattr(Learner, name, lambda *_: seen.append(allowed()) or [])
    monkeypatch.setattr("engines.train.ppo_update.normalised", lambda runs: runs)
    monkeypatch.setattr("engines.train.ppo_update._numbers", lambda *_: {})
    learner = Learner(config.reinforce, network_of(config), CPU, tmp_path / "none")
    for step in (0, 1):
        learner.learn([], None, step)
    assert seen == ["bf16", "bf16"]


# ---- Weights on their way from the trainer to who drives


def test_what_is_learned_is_put_elsewhere_and_all_else_stays():
    network, other = untrained(1, TINY), untrained(2, TINY)
    before, learned = untrained(2, TINY).state_dict(), weights_of(network)
    put_weights(other, learned)
    for name, value in other.state_dict().items():
        assert torch.equal(value, (network.state_dict() if is_learned(name) else before)[name]), name
    # Neither network has what the other one's arrays are made of.
    for values in learned.values():
        values.fill(7.0)
    assert weights_of(other)["actor.weight"].max() < 7.0
    assert weights_of(network)["actor.weight"].max() < 7.0
