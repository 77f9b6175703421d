"""Weights on their way from the trainer to who drives."""

from __future__ import annotations

import torch

from engines.network.network import TINY, untrained
from engines.train.rollout.optimizer_step import is_learned, put_weights, weights_of


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
