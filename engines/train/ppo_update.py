"""PPO updates from one round of drives, with an early stop by the KL divergence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from engines.network.network import PolicyNetwork
from engines.runs.resume import require_finite_step, table_in, take_steps, taken_count
from engines.train.dagger import compass_error
from engines.train.ppo_config import ReinforceSection
from engines.train.ppo_rollouts import ACTION, ADVANTAGE, LOG_PROBABILITY, REFERENCE, RETURN, Rollout
from engines.train.rollout.optimizer_step import last_good, make_step, products_in, trainable
from engines.train.rollout.sequences import COMPASS, Batch, Run, batch_of, decisions_in, unroll

# ---- The loss of PPO (Schulman et al., 2017) with a divergence penalty to the reference policy


class PolicyTerms(NamedTuple):
    """Means over a batch.

    policy:    the clipped loss; entropy [nats] of the policy
    imitation: divergence [nats] from the reference policy, the policy at the start of the stage
    moved:     divergence [nats] from the policy that drove, by the estimate r - 1 - log r of the drawn actions
    clipped:   share of decisions whose probability has changed by more than the clip
    """

    policy: Tensor
    entropy: Tensor
    imitation: Tensor
    moved: Tensor
    clipped: Tensor

    def loss(self, section: ReinforceSection) -> Tensor:
        """Return the loss without the critic and the goal compass."""
        return self.policy - section.entropy * self.entropy + section.imitation * self.imitation


def policy_terms(logits: Tensor, rows: Mapping[str, Tensor], clip: float) -> PolicyTerms:
    """Return the terms of a batch. logits: (N, 28) over the temperature; rows: recorded values by name, (N, ...)."""
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
    """Return the Huber loss of the critic's values (N,) against the returns (N,)."""
    return huber_loss(values, returns, delta=section.value_m)


def scaled_gradient(states: Tensor, share: float) -> Tensor:
    """Return the states unchanged; only a share of the gradient passes through them."""
    return states.detach() + share * (states - states.detach())


LAST_RATE = 0.1
"""Last learning rate, as a share of the first."""
PATIENCE = 1.5
"""A round ends early when the estimated divergence exceeds its target by this factor; the estimate is noisy."""
LEAST_SPREAD = 1e-6
"""Added to the standard deviation of the advantages before the division."""


class Update(NamedTuple):
    """Losses of one update; the policy's terms are 0 while only the critic learns."""

    value: float
    policy: float = 0.0
    entropy: float = 0.0
    imitation: float = 0.0
    moved: float = 0.0
    clipped: float = 0.0
    compass: float = 0.0


class Learner:
    """A network, its optimizer and the update rule. checkpoint: named in messages about losses that are not finite."""

    def __init__(
        self, section: ReinforceSection, network: PolicyNetwork, device: torch.device, checkpoint: Path
    ) -> None:
        self._section, self._network, self._device, self._checkpoint = section, network, device, checkpoint
        critic = list(network.critic.parameters())
        heads = {id(parameter) for parameter in critic}
        others = [parameter for parameter in trainable(network) if id(parameter) not in heads]
        groups = [{"params": others, "lr": section.rate}, {"params": critic, "lr": section.critic_rate}]
        self._optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
        self._updates = 0

    def state(self) -> dict[str, Any]:
        """Return the state that a checkpoint keeps in addition to the network."""
        return {"updates": self._updates, "optimizer": self._optimizer.state_dict()}

    def resume(self, found: object) -> None:
        """Resume from a result of `state`. Raises InputError for anything else."""
        file, state = self._checkpoint, table_in(self._checkpoint, "learner", found)
        self._updates = taken_count(file, "learner.updates", state.get("updates"))
        take_steps(file, "learner.optimizer", self._optimizer, state.get("optimizer"))

    def learn(self, rollouts: Sequence[Rollout], rng: np.random.Generator, step: int) -> dict[str, float]:
        """Make the updates of a round, the `step`th of the whole stage; return numbers for the journal.

        Raises OnboardError, before the update, for a loss or gradient that is not finite.
        Raises InputError for weights that are not finite after the round.
        """
        runs = normalised([run for rollout in rollouts for run in rollout.runs])
        learn = self._learn_critic if step < self._section.critic_rounds else self._learn_all
        with products_in(self._section.precision):
            updates = learn(runs, rng, step)
        where = f"{self._checkpoint.stem}: after update {self._updates - 1} (round {step})"
        require_finite_step(where, self._network, self._optimizer, last_good(self._checkpoint))
        return _numbers(rollouts, updates)

    def _learn_all(self, runs: Sequence[Run], rng: np.random.Generator, step: int) -> list[Update]:
        """Make the updates of a round until the policy has moved too far."""
        updates: list[Update] = []
        for minibatch in minibatches(runs, self._section.epochs, self._section.batch, rng):
            updates.append(self._update(self._batch(minibatch), f"round {step}, batch {len(updates)}", step))
            if self._too_far(updates[-1].moved):
                break
        return updates

    def _learn_critic(self, runs: Sequence[Run], rng: np.random.Generator, step: int) -> list[Update]:
        """Train the critic's head alone. The layers below stay fixed, so each run is unrolled once."""
        batches = [self._batch(minibatch) for minibatch in minibatches(runs, 1, self._section.batch, rng)]
        with torch.no_grad():
            states = [unroll(self._network, batch) for batch in batches]
        updates: list[Update] = []
        for _ in range(self._section.critic_epochs):
            for number in rng.permutation(len(batches)):
                batch, where = batches[number], f"round {step}, batch {len(updates)}"
                value = value_loss(self._network.critic(states[number])[:, 0], batch.rows[RETURN], self._section)
                self._step(value, batch, where)
                updates.append(Update(float(value.detach())))
        return updates

    def _batch(self, minibatch: Sequence[Run]) -> Batch:
        return batch_of(minibatch, self._network.memory_shape, self._device)

    def _update(self, batch: Batch, where: str, step: int) -> Update:
        """Make an optimizer step, unless the policy has moved too far already."""
        section, network = self._section, self._network
        states = unroll(network, batch)
        terms = policy_terms(network.actor(states) / section.temperature, batch.rows, section.clip)
        value = value_loss(network.critic(scaled_gradient(states, section.value))[:, 0], batch.rows[RETURN], section)
        compass = compass_error(network.auxiliary(states), batch.rows[COMPASS])
        auxiliary = section.auxiliary if network.variant.auxiliary else 0.0
        if not self._too_far(float(terms.moved)):
            self._optimizer.param_groups[0]["lr"] = learning_rate(section, step)
            self._step(terms.loss(section) + value + auxiliary * compass, batch, where)
        values = (value, terms.policy, terms.entropy, terms.imitation, terms.moved, terms.clipped, compass)
        return Update(*(float(one.detach()) for one in values))

    def _too_far(self, moved: float) -> bool:
        return moved > PATIENCE * self._section.target_kl

    def _step(self, loss: Tensor, batch: Batch, where: str) -> None:
        update = f"update {self._updates} ({where}, {len(batch)} decisions)"
        make_step(loss, self._optimizer, self._section.gradient, update, self._checkpoint)
        self._updates += 1


def learning_rate(section: ReinforceSection, step: int) -> float:
    """Return the learning rate of a round: linear decay."""
    gone = min(1.0, step / (section.chapters * section.rounds))
    return section.rate * (1.0 - (1.0 - LAST_RATE) * gone)


def normalised(runs: Sequence[Run]) -> list[Run]:
    """Return runs whose advantages have mean 0 and standard deviation 1 over all of them."""
    gains = np.concatenate([run.rows[ADVANTAGE] for run in runs]).astype(np.float64)
    mean, spread = gains.mean(), gains.std() + LEAST_SPREAD
    return [
        Run({**run.rows, ADVANTAGE: np.asarray((run.rows[ADVANTAGE] - mean) / spread, np.float32)}, run.memory)
        for run in runs
    ]


def minibatches(runs: Sequence[Run], epochs: int, size: int, rng: np.random.Generator) -> Iterator[list[Run]]:
    """Yield minibatches of runs with about equal numbers of decisions: all runs in each epoch, in another order.

    A minibatch has at least `size` decisions, up to the length of a run, if there are as many.
    """
    count = max(1, decisions_in(runs) // size)
    for _ in range(epochs):
        order = rng.permutation(len(runs))
        ends = np.cumsum([len(runs[index]) for index in order])
        which = (ends - 1) * count // ends[-1]
        for number in range(count):
            minibatch = [runs[index] for index in order[which == number]]
            if minibatch:
                yield minibatch


def _numbers(rollouts: Sequence[Rollout], updates: Sequence[Update]) -> dict[str, float]:
    """Return the numbers of a round for the journal."""
    means = {name: float(np.mean([getattr(update, name) for update in updates])) for name in Update._fields}
    counted = ("decisions", "drives", "reached", "false_stops", "contacts")
    sums = {name: float(sum(getattr(rollout, name) for rollout in rollouts)) for name in counted}
    earned = sum(rollout.reward * rollout.decisions for rollout in rollouts) / sums["decisions"]
    runs = [run for rollout in rollouts for run in rollout.runs]
    return {"reward": earned, "explained": explained(runs), **means, "updates": float(len(updates)), **sums}


def explained(runs: Sequence[Run]) -> float:
    """Return the explained variance of the critic; below 0 the mean return predicts better.

    runs: with advantages as driven, before `normalised`
    """
    gains, returns = (np.concatenate([run.rows[name] for run in runs]).astype(float) for name in (ADVANTAGE, RETURN))
    return float(1.0 - gains.var() / max(returns.var(), LEAST_SPREAD))
