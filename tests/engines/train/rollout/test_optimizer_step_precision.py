"""Products of less precision: where they are allowed, and how far off they may be."""

from __future__ import annotations

import pytest
import torch

from engines.train.dagger import Imitation
from engines.train.ppo_update import Learner
from engines.train.rollout.optimizer_step import products_in
from tests.rigs.train_rig import network_of, small

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
