"""A small training for tests: one map, few lanes, the tiny network."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engines.network.network import PolicyNetwork
from engines.train.command import DEFAULT_CONFIG
from engines.train.config import TrainConfig, load_train_config, rules_of
from engines.train.rollout.collector import Rules
from engines.train.rollout.optimizer_step import make_step
from engines.train.rollout.places import Building, make_building
from engines.train.stages import beginning

SMALL: dict[str, Any] = {
    "network.size": "tiny",
    "places.maps": ["depot"],
    "places.furniture": 0.0,
    "driving.lanes": 3,
    "driving.decisions": 12,
    "imitation.chapters": 2,
    "imitation.rounds": 2,
    "imitation.updates": 1,
    "imitation.batch": 16,
    "imitation.collectors": 0,
    "imitation.validate_drives": 0,
    "imitation.colour": 0.0,
}


def small(**changes: Any) -> TrainConfig:
    """Return the small training with further changes; `__` stands for the dot between table and key."""
    return load_train_config(DEFAULT_CONFIG, SMALL | {key.replace("__", "."): value for key, value in changes.items()})


BATCHED_RECIPE = DEFAULT_CONFIG.with_name("onboard-s.toml")
BATCHED: dict[str, Any] = {
    "places.maps": ["depot"],
    "places.furniture": 0.0,
    "places.most_m": 8.0,
    "places.detours": 0.0,
    "batched.lanes": 8,
    "batched.variants": 1,
    "batched.starts": 4,
    "batched.first_goals": 3,
    "batched.processes": 0,
    "batched.saved_s": 0.0,
    "batched.horizon": 8,
    "batched.minibatches": 2,
    "batched.critic_first": 0,
    "batched.bf16": False,
    "batched.mirrored": False,
    "batched.graded": 0.3,
    "batched.teacher.weight": 0.0,
}


def batched(**changes: Any) -> TrainConfig:
    """Return a small training in the batched world with further changes, as `small`."""
    more = {key.replace("__", "."): value for key, value in changes.items()}
    return load_train_config(BATCHED_RECIPE, BATCHED | more)


def network_of(config: TrainConfig) -> PolicyNetwork:
    """Return its network before training."""
    return beginning(config)


@cache
def depot() -> tuple[Rules, Building]:
    """Return the small training's rules, and its building as it is."""
    rules = rules_of(small())
    return rules, make_building(rules.places, "depot", 1, rules.robot)


def overflowing_step(loss: Tensor, optimizer: torch.optim.Optimizer, *rest: Any) -> None:
    """Make a step whose loss and gradient are numbers, and one of whose weights is none after it."""
    make_step(loss, optimizer, *rest)
    with torch.no_grad():
        optimizer.param_groups[0]["params"][0].view(-1)[0] = torch.inf


def journal_rows(folder: Path) -> list[str]:
    """Return the lines of a training's journal."""
    return (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
