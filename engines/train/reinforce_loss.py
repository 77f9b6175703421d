"""The loss of PPO with a tie to the policy that it began with (Schulman et al., 2017), as a function of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from engines.train.reinforce_config import ReinforceSection
from engines.train.rollouts import ACTION, ADVANTAGE, LOG_PROBABILITY, REFERENCE


class PolicyTerms(NamedTuple):
    """Means over a batch.

    policy:    the clipped loss; entropy [nats] of the policy
    imitation: divergence [nats] of the policy from the one that the stage began with
    moved:     divergence [nats] from the policy that drove, by the estimate r - 1 - log r of the drawn actions
    clipped:   share of decisions whose probability has changed by more than the clip
    """

    policy: Tensor
    entropy: Tensor
    imitation: Tensor
    moved: Tensor
    clipped: Tensor

    def loss(self, section: ReinforceSection) -> Tensor:
        """Return what is minimised."""
        return self.policy - section.entropy * self.entropy + section.imitation * self.imitation


def policy_terms(logits: Tensor, rows: Mapping[str, Tensor], clip: float) -> PolicyTerms:
    """Return the terms of a batch: logits (N, 28) over the temperature, and what was recorded, by name, (N, ...)."""
    now = torch.log_softmax(logits, dim=1)
    chosen = now.gather(1, rows[ACTION][:, None])[:, 0]
    change = chosen - rows[LOG_PROBABILITY]
    ratio, gain = change.exp(), rows[ADVANTAGE]
    least = torch.minimum(ratio * gain, ratio.clamp(1.0 - clip, 1.0 + clip) * gain)
    began = torch.log_softmax(rows[REFERENCE], dim=1)
    return PolicyTerms(
        policy=-least.mean(),
        entropy=-(now.exp() * now).sum(dim=1).mean(),
        imitation=(began.exp() * (began - now)).sum(dim=1).mean(),
        moved=(ratio - 1.0 - change).mean().detach(),
        clipped=((ratio - 1.0).abs() > clip).float().mean(),
    )


def value_loss(values: Tensor, returns: Tensor, section: ReinforceSection) -> Tensor:
    """Return the mean error of what was expected, (N,) each: square where small, then linear."""
    return huber_loss(values, returns, delta=section.value_m)


def leaned(states: Tensor, share: float) -> Tensor:
    """Return the same states, through which only a share of a gradient passes."""
    return states.detach() + share * (states - states.detach())
