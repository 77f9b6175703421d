"""Reinforcement by PPO after the imitation: the policy drives by chance, and what went well becomes more likely.

A round is driven with the weights of now, never while it is learned from. Chapters are those of the imitation: each
ends with a checkpoint and begins anew, so that a training that was stopped goes on as if it had not been. At the end
greedy drives decide whether what came of it is kept or what it began with.
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
from engines.train.rollout.workers import Crew, crew_of
from engines.train.training_log import Journal
from onboard.values.errors import InputError

STAGE = "reinforce"
BEFORE, AFTER = "before", "after"


class Reinforce:
    """The trainer. network: what learns, in place; to go on, it must again be the one that the stage began with.

    kept: which was better in the end, "before" or "after" the stage; "" until that is known
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
        """Where the training goes on from."""
        return self._folder / f"{STAGE}.ckpt"

    def run(self, until: int | None = None) -> None:
        """Train to the last chapter, or to that one; after the last one keep the better of before and after.

        Raises OnboardError; the last checkpoint stays.
        """
        section = self._section
        chapters = section.chapters if until is None else min(until, section.chapters)
        choosing = chapters == section.chapters > 0 and not self.kept
        if self.chapter >= chapters and not choosing:
            return
        with Journal(self._folder, STAGE, chapters * section.rounds, self.chapter * section.rounds) as journal:
            while self.chapter < chapters:
                self._live_chapter(journal)
            if choosing:
                self._choose(journal)

    def _live_chapter(self, journal: Journal) -> None:
        section, chapter = self._section, self.chapter
        seed = [self._config.seed, _STREAM, chapter]
        rng = np.random.default_rng([*seed, _DRAWS])
        crew = self._crew()
        try:
            crew.open(seed)
            for number in range(section.rounds):
                crew.request(weights_of(self._network))
                step = chapter * section.rounds + number
                numbers = self._learner.learn(crew.result(), rng, step)
                journal.note(step + 1, numbers)
                journal.advance(f"reward {numbers['reward']:.3f} moved {numbers['moved']:.4f}")
        finally:
            crew.close()
        self._judge_chapter(journal)

    def _judge_chapter(self, journal: Journal) -> None:
        """End a chapter: tell how good it is now, and save."""
        self.chapter += 1
        self._tell(journal, self._validated(self._section.validate_drives))
        self._save()

    def _choose(self, journal: Journal) -> None:
        """Keep what drives better, before or after, over the same greedy drives."""
        drives, learned = self._section.choose_drives, weights_of(self._network)
        after = self._validated(drives)
        put_weights(self._network, self._began)
        before = self._validated(drives)
        put_weights(self._network, learned)
        self.kept = better(before, after)
        told = {f"{name}_{BEFORE}": value for name, value in before.items()}
        told |= {f"{name}_{AFTER}": value for name, value in after.items()}
        self._tell(journal, {**told, "kept_after": float(self.kept == AFTER)})
        self._save()
        if self.kept == BEFORE:
            put_weights(self._network, self._began)

    def _tell(self, journal: Journal, numbers: Mapping[str, float]) -> None:
        """Note how good it is after a chapter, beside that chapter's last round."""
        if numbers:
            told = {"chapter": float(self.chapter), **numbers}
            journal.note(self.chapter * self._section.rounds, told, say=True)

    def _validated(self, drives: int) -> dict[str, float]:
        return validated(plain_robot(self._rules()), self._network, drives, self._config.seed)

    def _crew(self) -> Crew[Rollout]:
        section = self._section
        make = partial(RolloutCollector, section, self._began)
        return crew_of(make, self._rules(), self._network, section.collectors, self._device)

    def _rules(self) -> Rules:
        """Return the rules of all drives; rendered images have only those of a policy that has learned to see."""
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
        """Take up the last checkpoint; return the chapter to live next.

        Raises InputError for that of other weights, and for one that is not whole.
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
"""Tell the random streams of one seed apart."""


def better(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Return "before" or "after", by success, then contacts, then path length; after where nothing tells them apart."""
    if not before or not after:
        return AFTER
    return AFTER if _merit(after) >= _merit(before) else BEFORE


def _merit(numbers: Mapping[str, float]) -> tuple[float, float, float]:
    return numbers["SR"], -numbers["contacts"], numbers["SPL"]
