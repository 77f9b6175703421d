"""The loss makes better actions likelier, not by too much at once, and holds on to where it began."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engines.train.ppo_config import ReinforceSection
from engines.train.ppo_rollouts import ACTION, ADVANTAGE, LOG_PROBABILITY, REFERENCE
from engines.train.ppo_update import policy_terms, scaled_gradient, value_loss
from engines.train.rollout.collector import drawn

GOOD, ACTIONS = 3, 28
SECTION = ReinforceSection()


def recorded(logits, actions, gains, reference=None):
    """Return rows as of decisions that a policy with some logits (N, 28) has made."""
    return {
        ACTION: actions,
        LOG_PROBABILITY: torch.log_softmax(logits, dim=1).gather(1, actions[:, None])[:, 0].detach(),
        ADVANTAGE: gains,
        REFERENCE: torch.zeros_like(logits) if reference is None else reference,
    }


def plays(section, rounds=25, rate=0.15, seed=0):
    """Return how likely the one rewarded action of many is after rounds of drawing and learning."""
    logits = torch.zeros(ACTIONS, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=rate)
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        actions, chances = zip(*(drawn(logits.detach().numpy(), rng) for _ in range(64)), strict=True)
        rows = recorded(logits.expand(64, -1), torch.tensor(actions), torch.tensor(actions).eq(GOOD).float())
        torch.testing.assert_close(rows[LOG_PROBABILITY], torch.tensor(chances, dtype=torch.float32))
        rows[ADVANTAGE] -= rows[ADVANTAGE].mean()
        for _ in range(2):
            optimizer.zero_grad()
            policy_terms(logits.expand(64, -1), rows, section.clip).loss(section).backward()
            optimizer.step()
    return float(torch.softmax(logits.detach(), dim=0)[GOOD])


def test_the_better_action_is_found():
    free = plays(SECTION.model_copy(update={"imitation": 0.0, "entropy": 0.0}))
    assert free > 0.8


def test_the_tie_to_the_beginning_holds_back():
    free, tied = (plays(SECTION.model_copy(update={"imitation": weight})) for weight in (0.0, 20.0))
    assert 1.0 / ACTIONS < tied < 0.5 * free


def test_the_policy_that_drove_has_not_moved():
    logits = torch.randn(16, ACTIONS, generator=torch.Generator().manual_seed(0))
    rows = recorded(logits, torch.arange(16), torch.linspace(-1.0, 1.0, 16), reference=logits)
    terms = policy_terms(logits, rows, 0.2)
    assert float(terms.moved) == pytest.approx(0.0, abs=1e-6)
    assert float(terms.imitation) == pytest.approx(0.0, abs=1e-6)
    assert float(terms.clipped) == 0.0


#   gain   change of the logarithm of the probability   whether anything is left to gain
CLIPS = [
    (1.0, 0.1, True),
    (1.0, 0.3, False),
    (1.0, -0.3, True),
    (-1.0, -0.1, True),
    (-1.0, -0.3, False),
    (-1.0, 0.3, True),
]


@pytest.mark.parametrize(("gain", "change", "pulls"), CLIPS)
def test_nothing_is_gained_beyond_the_clip(gain, change, pulls):
    logits = torch.zeros(1, ACTIONS, requires_grad=True)
    rows = recorded(logits, torch.tensor([GOOD]), torch.tensor([gain]))
    rows[LOG_PROBABILITY] -= change
    policy_terms(logits, rows, 0.2).policy.backward()
    assert (logits.grad.abs().max() > 0.0) == pulls


def test_divergence_and_entropy_are_those_of_the_definition():
    logits = torch.tensor([[0.0, 1.0, 2.0]]).repeat(2, 1)
    began = torch.tensor([[0.0, 0.0, 0.0]]).repeat(2, 1)
    terms = policy_terms(logits, recorded(logits, torch.tensor([0, 1]), torch.zeros(2), began), 0.2)
    now = torch.softmax(logits[0], dim=0)
    assert float(terms.entropy) == pytest.approx(float(-(now * now.log()).sum()))
    assert float(terms.imitation) == pytest.approx(float((torch.log(1 / 3 / now) / 3).sum()))


def test_a_large_error_of_the_critic_pulls_no_more_than_a_metre():
    values = torch.tensor([0.5, 100.0], requires_grad=True)
    value_loss(values, torch.zeros(2), SECTION).backward()
    np.testing.assert_allclose(values.grad.numpy(), [0.25, 0.5])


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_share_of_the_gradient_passes(share):
    states = torch.tensor([1.0, -2.0], requires_grad=True)
    passed = scaled_gradient(states, share)
    torch.testing.assert_close(passed, states)
    passed.sum().backward()
    np.testing.assert_allclose(states.grad.numpy(), share)
