"""Reinforcement learning by PPO after the imitation.

The trainer drives a round with the newest weights, then learns from it. Each chapter ends with a checkpoint and draws
new buildings, so a resumed training equals an uninterrupted training. At the end greedy drives compare the policy
before and after the stage, and the trainer keeps the better.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch

from engines.network import policy_checkpoint
from engines.network.network import PolicyNetwork
from engines.runs.resume import MEND, take_weights, taken_count
from engines.train.config import TrainConfig, rules_of
from engines.train.ppo_rollouts import Rollout, RolloutCollector
from engines.train.ppo_update import Learner
from engines.train.rollout.collector import Rules, plain_robot
from engines.train.rollout.optimizer_step import learned_weights, put_weights, weights_of
from engines.train.rollout.validation import validated
from engines.train.rollout.workers import Collectors, make_collectors
from engines.train.training_log import Journal
from onboard.values.errors import InputError

STAGE = "reinforce"
BEFORE, AFTER = "before", "after"


class Reinforce:
    """The trainer. network: learns in place; to resume, give the network that the stage began with.

    kept: the better policy at the end, "before" or "after" the stage; "" until that is known
    """

    def __init__(self, config: TrainConfig, network: PolicyNetwork, folder: Path, device: torch.device) -> None:
        self._config, self._section = config, config.reinforce
        self._network, self._device, self._folder = network.to(device), device, folder
        self._began, self._identity = weights_of(network), policy_checkpoint.digest_of(network)
        self._learner = Learner(self._section, network, device, self.checkpoint)
        self.kept = ""
        self.chapter = self._resume()

    @property
    def checkpoint(self) -> Path:
        """File from which the training resumes."""
        return self._folder / f"{STAGE}.ckpt"

    def run(self, until: int | None = None) -> None:
        """Train to chapter `until`, or to the last chapter; then keep the better policy of before and after.

        Raises OnboardError; the last checkpoint stays.
        """
        section = self._section
        chapters = section.chapters if until is None else min(until, section.chapters)
        choosing = chapters == section.chapters > 0 and not self.kept
        if self.chapter >= chapters and not choosing:
            return
        with Journal(self._folder, STAGE, chapters * section.rounds, self.chapter * section.rounds) as journal:
            while self.chapter < chapters:
                self._run_chapter(journal)
            if choosing:
                self._choose(journal)

    def _run_chapter(self, journal: Journal) -> None:
        section, chapter = self._section, self.chapter
        seed = [self._config.seed, _STREAM, chapter]
        rng = np.random.default_rng([*seed, _DRAWS])
        collectors = self._collectors()
        try:
            collectors.open(seed)
            for number in range(section.rounds):
                collectors.request(weights_of(self._network))
                step = chapter * section.rounds + number
                numbers = self._learner.learn(collectors.result(), rng, step)
                journal.note(step + 1, numbers)
                journal.advance(f"reward {numbers['reward']:.3f} moved {numbers['moved']:.4f}")
        finally:
            collectors.close()
        self._judge_chapter(journal)

    def _judge_chapter(self, journal: Journal) -> None:
        """End a chapter: validate, write the journal, save."""
        self.chapter += 1
        self._log_validation(journal, self._validated(self._section.validate_drives))
        self._save()

    def _choose(self, journal: Journal) -> None:
        """Keep the policy that drives better over the same greedy drives, before or after the stage."""
        drives, learned = self._section.choose_drives, weights_of(self._network)
        after = self._validated(drives)
        put_weights(self._network, self._began)
        before = self._validated(drives)
        put_weights(self._network, learned)
        self.kept = better(before, after)
        numbers = {f"{name}_{BEFORE}": value for name, value in before.items()}
        numbers |= {f"{name}_{AFTER}": value for name, value in after.items()}
        self._log_validation(journal, {**numbers, "kept_after": float(self.kept == AFTER)})
        self._save()
        if self.kept == BEFORE:
            put_weights(self._network, self._began)

    def _log_validation(self, journal: Journal, numbers: Mapping[str, float]) -> None:
        """Write the validation of a chapter to the journal, at the chapter's last round."""
        if numbers:
            values = {"chapter": float(self.chapter), **numbers}
            journal.note(self.chapter * self._section.rounds, values, echo=True)

    def _validated(self, drives: int) -> dict[str, float]:
        return validated(plain_robot(self._rules()), self._network, drives, self._config.seed)

    def _collectors(self) -> Collectors[Rollout]:
        section = self._section
        make = partial(RolloutCollector, section, self._began)
        return make_collectors(make, self._rules(), self._network, section.collectors, self._device)

    def _rules(self) -> Rules:
        """Return the rules of all drives; without images if the imitation had none."""
        return rules_of(self._config, 0.0 if self._config.first_coloured is None else self._section.colour)

    def _save(self) -> None:
        content = {
            "chapter": self.chapter,
            "kept": self.kept,
            "network": learned_weights(self._network),
            "learner": self._learner.state(),
        }
        policy_checkpoint.save_training(self.checkpoint, STAGE, self._config.digest(STAGE), self._identity, content)

    def _resume(self) -> int:
        """Load the last checkpoint; return the next chapter.

        Raises InputError for a checkpoint of other initial weights, and for a damaged checkpoint.
        """
        content = policy_checkpoint.load_training(self.checkpoint, self._config.digest(STAGE), self._identity)
        if content is None:
            return 0
        file, self.kept = self.checkpoint, str(content.get("kept"))
        if self.kept not in ("", BEFORE, AFTER):
            raise InputError(f"{file}: kept: expected {BEFORE}, {AFTER} or nothing, found {self.kept}; {MEND}")
        self._learner.resume(content.get("learner"))
        take_weights(file, "network", self._network, learned_weights(self._network), content.get("network"))
        if self.kept == BEFORE:
            put_weights(self._network, self._began)
        return taken_count(file, "chapter", content.get("chapter"))


_STREAM, _DRAWS = 2, 7
"""Numbers of random streams of one seed."""


def better(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Return the better of "before" and "after" by success, then contacts, then SPL; "after" if all are equal."""
    if not before or not after:
        return AFTER
    return AFTER if _merit(after) >= _merit(before) else BEFORE


def _merit(numbers: Mapping[str, float]) -> tuple[float, float, float]:
    return numbers["SR"], -numbers["contacts"], numbers["SPL"]
