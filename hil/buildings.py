"""In which building each shipped map is, whether or not it has committed episodes, and in which split that building is.

All floors of a building are in one split. A file of one's own that is called as a shipped map is taken for that one.
"""

from __future__ import annotations

from pathlib import Path

from hil.episode_files import COMMITTED, Split

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
