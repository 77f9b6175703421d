"""The committed sets of episodes by name, for `onboard-hil evaluate --set NAME`.

A policy trained on maps of the train split has seen no map of the test split. Each set draws furniture, starts and
goals from its own seed. So two sets share none of them, and a training with other seeds shares none either.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hil.drive.episodes import (
    COMMITTED,
    DRAWS,
    EPISODES_FOLDER,
    ORDINARY_DRAW,
    Draw,
    Part,
    Plan,
    Split,
    make_episodes,
)
from onboard.values.errors import InputError, naming

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
UNSEEN_SEED, VALIDATION_SEED, HABITAT_SEED, HARD_SEED = 3026, 4026, 5026, 6026
SECOND_SEEDS = {"habitat": 7026, "hard": 8026}
"""Of sealed episodes that were not driven yet when the first sealed halves were."""
RESERVED_SEEDS = frozenset(
    {plan.seed for plan in COMMITTED} | {UNSEEN_SEED, VALIDATION_SEED, HABITAT_SEED, HARD_SEED, *SECOND_SEEDS.values()}
)
"""Seeds of furniture that no training may use."""
UNSEEN_COUNT, UNSEEN_DETOURS = 105, 36
VALIDATION_COUNT, VALIDATION_DETOURS = 20, 9
HABITAT_COUNT, HARD_COUNT = 100, 50
"""Numbers of episodes of a map in both halves together."""
TOO_OPEN = ("depot",)
"""Open halls with hardly any detour: their plans ask for no detours."""


@dataclass(frozen=True, slots=True)
class NamedSet:
    """Episodes of several maps, in `folder/<map>.json`; `make(name)` draws the files from the plans.

    draw:   name of the rule in `episodes.DRAWS`
    part:   half of the drawn episodes that the files hold; None for all
    sealed: driven for a release alone
    digest: of the files of a benchmark; "" for other sets
    """

    folder: Path
    plans: tuple[Plan, ...]
    draw: str = ORDINARY_DRAW
    part: Part | None = None
    sealed: bool = False
    digest: str = ""

    @property
    def maps(self) -> list[str]:
        """Names of the maps, sorted."""
        return sorted(plan.map_name for plan in self.plans)

    @property
    def rule(self) -> Draw:
        """The rule by which the episodes were drawn and are driven."""
        return DRAWS[self.draw]

    def check(self, name: str) -> None:
        """Raise InputError if the files of a benchmark are not those that were committed."""
        if self.digest and digest_of(self) != self.digest:
            raise InputError(
                f"--set {name}: not the benchmark: the episodes in {self.folder} are not the committed ones"
            )


def digest_of(chosen: NamedSet) -> str:
    """Return a digest of a set's files. Raises InputError."""
    with naming(chosen.folder):
        texts = [(chosen.folder / f"{name}.json").read_bytes() for name in chosen.maps]
    return hashlib.blake2b(b"".join(texts), digest_size=DIGEST_BYTES).hexdigest()


def _planned(split: str, seed: int, count: int, detours: int) -> tuple[Plan, ...]:
    """Return a plan for each map of a split."""
    return tuple(
        Plan(plan.map_name, plan.building, plan.split, seed, count, 0 if plan.map_name in TOO_OPEN else detours)
        for plan in COMMITTED
        if plan.split == split
    )


SEALED = "-sealed"
"""Suffix of the name of a sealed half."""
DIGEST_BYTES = 8
DIGESTS = {
    "habitat": "ef52b55ebd17182c",
    "habitat-sealed": "9e827c6fa9054008",
    "hard": "f296069eb5fed386",
    "hard-sealed": "effbc0e622d0e72a",
    "habitat-sealed-2": "230595f72406f84c",
    "hard-sealed-2": "edba5f2afbe86805",
}
"""Digests of the benchmark's files (`digest_of`)."""


def _second(name: str, count: int) -> dict[str, NamedSet]:
    """Return the second sealed set of a benchmark, of the size of a half."""
    plans, second = _planned("test", SECOND_SEEDS[name], count // 2, 0), name + SEALED + "-2"
    return {second: NamedSet(EPISODES_FOLDER.with_name(second), plans, name, None, True, DIGESTS[second])}


def _halves(name: str, seed: int, count: int) -> dict[str, NamedSet]:
    """Return the open and the sealed half of a benchmark: every second of the episodes that its rule drew."""
    plans = _planned("test", seed, count, 0)
    halves: dict[str, Part] = {name: "even", name + SEALED: "odd"}
    return {
        half: NamedSet(EPISODES_FOLDER.with_name(half), plans, name, part, part == "odd", DIGESTS[half])
        for half, part in halves.items()
    }


SETS: dict[str, NamedSet] = {
    COMMITTED_SET: NamedSet(EPISODES_FOLDER, COMMITTED),
    "unseen": NamedSet(
        EPISODES_FOLDER.with_name("unseen"), _planned("test", UNSEEN_SEED, UNSEEN_COUNT, UNSEEN_DETOURS)
    ),
    "validation": NamedSet(
        EPISODES_FOLDER.with_name("validation"),
        _planned("train", VALIDATION_SEED, VALIDATION_COUNT, VALIDATION_DETOURS),
    ),
    **_halves("habitat", HABITAT_SEED, HABITAT_COUNT),
    **_halves("hard", HARD_SEED, HARD_COUNT),
    **_second("habitat", HABITAT_COUNT),
    **_second("hard", HARD_COUNT),
}
"""`unseen` judges a policy in buildings outside the training; at least a third of its episodes are detours.
`validation` chooses between checkpoints: training buildings, other furniture. `habitat` and `hard` are the benchmark;
their sealed sets are driven for a release alone. No drive had a part in drawing any set."""


def make(name: str) -> None:
    """Draw a set again and write its files. Raises InputError."""
    chosen = SETS[name]
    chosen.folder.mkdir(exist_ok=True)
    for plan in chosen.plans:
        make_episodes(
            plan.map_name, plan.seed, plan.count, chosen.folder, plan.building, plan.split, plan.detours,
            chosen.draw, chosen.part,
        )  # fmt: skip
