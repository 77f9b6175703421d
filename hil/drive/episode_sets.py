"""The committed sets of episodes by name, for `onboard-hil evaluate --set NAME`.

A policy trained on maps of the train split has seen no map of the test split. Each set draws furniture, starts and
goals from its own seed. So two sets share none of them, and a training with other seeds shares none either.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hil.drive.episodes import COMMITTED, EPISODES_FOLDER, Plan, Split, make_committed

# ---- Building and split of each shipped map

FLOORS: dict[str, tuple[str, ...]] = {
    "UT Austin, Gates Dell Complex": ("gdc2", "gdc4", "gdc5", "gdc6"),
    "Carnegie Mellon, Gates Hillman Center": ("ghc1", "ghc2", "ghc3", "ghc4", "ghc5", "ghc6", "ghc8", "ghc9"),
    "UT Austin, ASE building": ("ase1",),
    "UT Austin, Anna Hiss Gymnasium": ("ahg1",),
    "Joydeepb-Home": ("home",),
}
"""Building -> shipped maps without committed episodes. The building's name is the same as in `COMMITTED`, if there."""
BUILDINGS: dict[str, str] = {
    **{plan.map_name: plan.building for plan in COMMITTED},
    **{name: building for building, names in FLOORS.items() for name in names},
}
"""Map -> building, for all shipped maps."""
SPLITS: dict[str, Split] = {plan.building: plan.split for plan in COMMITTED}
"""Building -> split, for the buildings with committed episodes."""


def building_of(place: str) -> str | None:
    """Return the building of a shipped map, given by name or file; None for any other map."""
    return BUILDINGS.get(Path(place).stem)


def split_of(place: str) -> Split | None:
    """Return the split of a map's building; None if the building has no committed episodes. place: name or file."""
    building = building_of(place)
    return None if building is None else SPLITS.get(building)


COMMITTED_SET = "committed"
UNSEEN_SEED, VALIDATION_SEED = 3026, 4026
RESERVED_SEEDS = frozenset({plan.seed for plan in COMMITTED} | {UNSEEN_SEED, VALIDATION_SEED})
"""Seeds of furniture that no training may use."""
UNSEEN_COUNT, UNSEEN_DETOURS = 105, 36
VALIDATION_COUNT, VALIDATION_DETOURS = 20, 9
TOO_OPEN = ("depot",)
"""Open halls with hardly any detour: their plans ask for no detours."""


@dataclass(frozen=True, slots=True)
class NamedSet:
    """Episodes of several maps, in `folder/<map>.json`; `make(name)` draws the files from the plans."""

    folder: Path
    plans: tuple[Plan, ...]

    @property
    def maps(self) -> list[str]:
        """Names of the maps, sorted."""
        return sorted(plan.map_name for plan in self.plans)


def _planned(split: str, seed: int, count: int, detours: int) -> tuple[Plan, ...]:
    """Return a plan for each map of a split."""
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
"""`unseen` judges a policy in buildings outside the training; at least a third of its episodes are detours.
`validation` chooses between checkpoints: training buildings, other furniture. No drive had a part in drawing them."""


def make(name: str) -> None:
    """Draw a set again and write its files. Raises InputError."""
    chosen = SETS[name]
    chosen.folder.mkdir(exist_ok=True)
    make_committed(chosen.folder, chosen.plans)
