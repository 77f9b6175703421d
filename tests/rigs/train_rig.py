"""A small training for tests: one map, few lanes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from engines.train.command import DEFAULT_CONFIG
from engines.train.config import TrainConfig, load_train_config, rules_of
from engines.train.drives.domain import Rules
from engines.train.drives.places import Building, make_building

BATCHED_RECIPE = DEFAULT_CONFIG.parents[1] / "onboard-s.toml"
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
    """Return a small training with further changes; `__` is the dot between table and key."""
    more = {key.replace("__", "."): value for key, value in changes.items()}
    return load_train_config(BATCHED_RECIPE, BATCHED | more)


@cache
def depot() -> tuple[Rules, Building]:
    """Return the small training's rules, and its building as it is."""
    rules = rules_of(batched())
    return rules, make_building(rules.places, "depot", 1, rules.robot)


def journal_rows(folder: Path) -> list[str]:
    """Return the lines of a training's journal."""
    return (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
