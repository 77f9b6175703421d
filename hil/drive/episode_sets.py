"""The committed sets of episodes by name: what `onboard-hil evaluate --set NAME` means.

Maps of one split are unseen for a policy that was trained in those of the other. Furniture, starts and goals of every
set follow from a seed of its own, so that no set shares them with another or with a training that keeps to other seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hil.drive.episodes import COMMITTED, EPISODES_FOLDER, Plan, Split, make_committed

# ---- In which building each shipped map is, whether or not it has committed episodes, and in which split that

FLOORS: dict[str, tuple[str, ...]] = {
    "UT Austin, Gates Dell Complex": ("gdc2", "gdc4", "gdc5", "gdc6"),
    "Carnegie Mellon, Gates Hillman Center": ("ghc1", "ghc2", "ghc3", "ghc4", "ghc5", "ghc6", "ghc8", "ghc9"),
    "UT Austin, ASE building": ("ase1",),
    "UT Austin, Anna Hiss Gymnasium": ("ahg1",),
    "Joydeepb-Home": ("home",),
}
"""Of shipped maps without committed episodes, by the name that their building has in `COMMITTED` where it is there."""
BUILDINGS: dict[str, str] = {
    **{plan.map_name: plan.building for plan in COMMITTED},
    **{name: building for building, names in FLOORS.items() for name in names},
}
"""Of all shipped maps."""
SPLITS: dict[str, Split] = {plan.building: plan.split for plan in COMMITTED}
"""Of the buildings with committed episodes."""


def building_of(place: str) -> str | None:
    """Return the building of a shipped map, given by name or file; None of a map of one's own."""
    return BUILDINGS.get(Path(place).stem)


def split_of(place: str) -> Split | None:
    """Return the split of the building of a map, given by name or file; None where nothing is evaluated in it."""
    building = building_of(place)
    return None if building is None else SPLITS.get(building)


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
        EPISODES_FOLDER.with_name("unseen"), _planned("test", UNSEEN_SEED, UNSEEN_COUNT, UNSEEN_DETOURS)
    ),
    "validation": NamedSet(
        EPISODES_FOLDER.with_name("validation"),
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
