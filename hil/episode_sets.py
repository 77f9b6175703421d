"""The committed sets of episodes by name: what `onboard-hil evaluate --set NAME` means.

Maps of one split are unseen for a policy that was trained in those of the other. Furniture, starts and goals of every
set follow from a seed of its own, so that no set shares them with another or with a training that keeps to other seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hil.episode_files import COMMITTED, EPISODES_FOLDER, Plan, make_committed

COMMITTED_SET = "committed"
UNSEEN_SEED, VALIDATION_SEED = 3026, 4026
RESERVED_SEEDS = frozenset({plan.seed for plan in COMMITTED} | {UNSEEN_SEED, VALIDATION_SEED})
"""Seeds of furniture that no training may use."""
UNSEEN_COUNT, UNSEEN_DETOURS = 105, 36
VALIDATION_COUNT, VALIDATION_DETOURS = 20, 9
TOO_OPEN = ("depot",)
"""Halls in which hardly any way is a detour: none are asked of them."""


@dataclass(frozen=True, slots=True)
class NamedSet:
    """Episodes of several maps: `folder/<map>.json`, made by `make(name)` from the plans."""

    folder: Path
    plans: tuple[Plan, ...]

    @property
    def maps(self) -> list[str]:
        """Names of the maps, sorted."""
        return sorted(plan.map_name for plan in self.plans)


def _planned(split: str, seed: int, count: int, detours: int) -> tuple[Plan, ...]:
    """Return plans for the maps of one split."""
    return tuple(
        Plan(plan.map_name, plan.building, plan.split, seed, count, 0 if plan.map_name in TOO_OPEN else detours)
        for plan in COMMITTED
        if plan.split == split
    )


SETS: dict[str, NamedSet] = {
    COMMITTED_SET: NamedSet(EPISODES_FOLDER, COMMITTED),
    "unseen": NamedSet(
        EPISODES_FOLDER.with_name("episodes_unseen"), _planned("test", UNSEEN_SEED, UNSEEN_COUNT, UNSEEN_DETOURS)
    ),
    "validation": NamedSet(
        EPISODES_FOLDER.with_name("episodes_validation"),
        _planned("train", VALIDATION_SEED, VALIDATION_COUNT, VALIDATION_DETOURS),
    ),
}
"""`unseen` judges a policy, in buildings that none was trained in, a third of it detours; `validation` chooses between
checkpoints, in the buildings of the training with other furniture. No drive was looked at when they were drawn."""


def make(name: str) -> None:
    """Draw one set anew and write its files. Raises InputError."""
    chosen = SETS[name]
    chosen.folder.mkdir(exist_ok=True)
    make_committed(chosen.folder, chosen.plans)
