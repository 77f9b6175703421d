"""Imitation learning by DAgger: the student drives, the expert labels, the student learns from runs of decisions.

Each chapter ends with a checkpoint and draws new furniture and drives, so a resumed training equals an uninterrupted
training.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engines.network import policy_checkpoint
from engines.network.network import PolicyNetwork
from engines.runs.resume import require_finite_step, take_steps, take_weights, taken_count
from engines.train.config import ImitationSection, TrainConfig, rules_of
from engines.train.rollout.collector import CollectedRound, Collector, plain_robot
from engines.train.rollout.optimizer_step import (
    last_good,
    learned_weights,
    make_step,
    products_in,
    trainable,
    weights_of,
)
from engines.train.rollout.sequences import COMPASS, TARGETS, WEIGHT, Batch, Run, batch_of, unroll
from engines.train.rollout.validation import validated
from engines.train.rollout.workers import Collectors, make_collectors
from engines.train.training_log import Journal
from onboard.values.clock import NS_PER_S

STAGE = "imitation"
LAST_RATE = 0.05
"""Last learning rate, as a share of the largest."""
RHO_SCALE_M = 5.0
"""Distance error of the goal compass that counts as much as a direction error of 1."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses of one update. agreement: weighted share of decisions whose best action is the expert's."""

    action: float
    compass: float
    agreement: float


class Imitation:
    """The trainer. network: learns in place; to resume, give the network that the stage began with."""

    def __init__(self, config: TrainConfig, network: PolicyNetwork, folder: Path, device: torch.device) -> None:
        self._config, self._section = config, config.imitation
        self._network, self._device, self._folder = network.to(device), device, folder
        learning = trainable(network)
        self._optimizer = torch.optim.AdamW(learning, lr=self._section.rate, weight_decay=0.0, fused=True)
        self._updates, self._began_ns = 0, time.monotonic_ns()
        self._began = policy_checkpoint.digest_of(network)
        self.chapter = self._resume()

    @property
    def checkpoint(self) -> Path:
        """File from which the training resumes."""
        return self._folder / f"{STAGE}.ckpt"

    def run(self, until: int | None = None) -> None:
        """Train to chapter `until`, or to the last chapter. Raises OnboardError; the last checkpoint stays."""
        chapters = self._section.chapters if until is None else min(until, self._section.chapters)
        rounds = self._section.rounds
        if self.chapter >= chapters:
            return
        with Journal(self._folder, STAGE, chapters * rounds, self.chapter * rounds) as journal:
            while self.chapter < chapters and self._time_share() < 1.0:
                self._run_chapter(journal)

    def _run_chapter(self, journal: Journal) -> None:
        config, section, chapter = self._config, self._section, self.chapter
        seed = [config.seed, _STREAM, chapter]
        rng = np.random.default_rng([*seed, _DRAWS])
        first = config.first_coloured
        if chapter == first:
            self._begin_colour()
        colour = 0.0 if first is None or chapter < first else section.colour
        collectors = self._collectors(colour)
        known: list[Run] = []
        try:
            collectors.open(seed)
            collectors.request(weights_of(self._network))
            for number in range(section.rounds):
                rounds = collectors.result()
                last = number + 1 == section.rounds or self._time_share() >= 1.0
                if not last:
                    collectors.request(weights_of(self._network))
                self._learn(rounds, known, rng, journal, chapter * section.rounds + number + 1)
                if last:
                    break
        finally:
            collectors.close()
        self.chapter += 1
        rules = plain_robot(rules_of(config, colour))
        numbers = validated(rules, self._network, section.validate_drives, config.seed)
        if numbers:
            journal.note(self.chapter * section.rounds, {"chapter": float(self.chapter), **numbers}, echo=True)
        self._save()

    def _collectors(self, colour: float) -> Collectors[CollectedRound]:
        section, rules = self._section, rules_of(self._config, colour)
        return make_collectors(Collector, rules, self._network, section.collectors, self._device)

    def _begin_colour(self) -> None:
        """Reset Adam's moments of the GRU's input weights.

        The columns of the colour features had no gradient so far, so their second moment is 0. Without the reset the
        first steps would be several times too long, because Adam's bias correction is already near 1.
        """
        self._optimizer.state.pop(self._network.gru.get_parameter("weight_ih_l0"), None)

    def _learn(
        self, rounds: Sequence[CollectedRound], known: list[Run], rng: np.random.Generator, journal: Journal, step: int
    ) -> None:
        """Make the updates of round `step`. Raises InputError for weights that are not finite after it."""
        section = self._section
        fresh = [run for one in rounds for run in one.runs]
        known += fresh
        batches = [self._draw(fresh, known, rng) for _ in range(section.updates)]
        begun_ns = time.monotonic_ns()
        with products_in(section.precision):
            losses = [self._update(batch, f"round {step}") for batch in batches]
        where = f"{STAGE}: after update {self._updates - 1} (round {step})"
        require_finite_step(where, self._network, self._optimizer, last_good(self.checkpoint))
        numbers = {
            "learned": float(sum(len(batch) for batch in batches)),
            "learning_s": (time.monotonic_ns() - begun_ns) / NS_PER_S,
            "loss": float(np.mean([loss.action for loss in losses])),
            "compass": float(np.mean([loss.compass for loss in losses])),
            "agreement": float(np.mean([loss.agreement for loss in losses])),
            "rate": self._rate(),
            "decisions": float(sum(one.decisions for one in rounds)),
            "drives": float(sum(one.drives for one in rounds)),
            "reached": float(sum(one.reached for one in rounds)),
            "contacts": float(sum(one.contacts for one in rounds)),
        }
        journal.note(step, numbers)
        journal.advance(f"loss {numbers['loss']:.3f} agreement {numbers['agreement']:.3f}")

    def _draw(self, fresh: Sequence[Run], known: Sequence[Run], rng: np.random.Generator) -> Batch:
        """Return runs of at least `batch` decisions, some from the newest round, others from the whole chapter."""
        section = self._section
        chosen: list[Run] = []
        count = 0
        while count < section.batch:
            source = fresh if rng.random() < section.fresh else known
            run = source[int(rng.integers(len(source)))]
            chosen.append(run)
            count += len(run)
        return batch_of(chosen, self._network.memory_shape, self._device)

    def _update(self, batch: Batch, where: str) -> Losses:
        """Make one step. Raises OnboardError, before any change, for a loss or gradient that is not finite."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate()
        states = unroll(self._network, batch)
        logits, weight, targets = self._network.actor(states), batch.rows[WEIGHT], batch.rows[TARGETS]
        total = weight.sum().clamp(min=1.0)
        action = -((targets * torch.log_softmax(logits, dim=1)).sum(dim=1) * weight).sum() / total
        compass = compass_error(self._network.auxiliary(states), batch.rows[COMPASS])
        auxiliary = self._section.auxiliary if self._network.variant.auxiliary else 0.0
        loss = action + auxiliary * compass
        update = f"update {self._updates} ({where}, {len(batch)} decisions)"
        make_step(loss, self._optimizer, self._section.clip, update, self.checkpoint)
        self._updates += 1
        same = (logits.argmax(dim=1) == targets.argmax(dim=1)).float()
        return Losses(float(action.detach()), float(compass.detach()), float((same * weight).sum() / total))

    def _rate(self) -> float:
        return learning_rate(self._section, self._updates, self._time_share())

    def _time_share(self) -> float:
        """Return the share of `within_s` that has passed since this call began; 0 without it."""
        within_s = self._section.within_s
        return 0.0 if within_s is None else (time.monotonic_ns() - self._began_ns) / (within_s * NS_PER_S)

    def _save(self) -> None:
        content = {
            "chapter": self.chapter,
            "updates": self._updates,
            "network": learned_weights(self._network),
            "optimizer": self._optimizer.state_dict(),
        }
        policy_checkpoint.save_training(self.checkpoint, STAGE, self._config.digest(STAGE), self._began, content)

    def _resume(self) -> int:
        """Load the last checkpoint; return the next chapter. Raises InputError for a damaged checkpoint."""
        content = policy_checkpoint.load_training(self.checkpoint, self._config.digest(STAGE), self._began)
        if content is None:
            return 0
        file = self.checkpoint
        take_weights(file, "network", self._network, learned_weights(self._network), content.get("network"))
        take_steps(file, "optimizer", self._optimizer, content.get("optimizer"))
        self._updates = taken_count(file, "updates", content.get("updates"))
        return taken_count(file, "chapter", content.get("chapter"))


_STREAM, _DRAWS = 1, 7
"""Numbers of random streams of one seed."""


def learning_rate(section: ImitationSection, update: int, share: float = 0.0) -> float:
    """Return the learning rate of an update: linear warm-up, then cosine decay.

    share: of the training that has passed by the clock, if that is more than by the count of updates
    """
    total = section.chapters * section.rounds * section.updates
    if update < section.warm_up:
        return section.rate * (update + 1) / section.warm_up
    left = 0.5 * (1.0 + math.cos(math.pi * min(1.0, max(update / total, share))))
    return section.rate * (LAST_RATE + (1.0 - LAST_RATE) * left)


def compass_error(predicted: Tensor, truth: Tensor) -> Tensor:
    """Return the mean error of a goal compass (N, 3), distance and direction together."""
    scale = predicted.new_tensor([1.0 / RHO_SCALE_M, 1.0, 1.0])
    return torch.nn.functional.smooth_l1_loss(predicted * scale, truth * scale)
