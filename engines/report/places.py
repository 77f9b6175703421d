"""Where a model was trained and where it was driven, from its manifest and its results: is a building in both?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.report.gathered import Gathered
from hil.episode_files import COMMITTED

BUILDINGS = {plan.map_name: plan.building for plan in COMMITTED}
"""Of the shipped maps. A file that is called as one of them is taken for it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Buildings by name.

    trained: None where the manifest does not state it
    driven:  of the evaluations of the model
    shared:  those of `driven` that are among `trained`; where a model was trained nowhere known, none
    """

    trained: tuple[str, ...] | None
    driven: tuple[str, ...]
    shared: tuple[str, ...]


def places_of(training: Mapping[str, Any], found: Gathered) -> Places:
    """Return where the training that a manifest states was, and where the evaluations were."""
    maps = training.get("config", {}).get("places", {}).get("maps")
    trained = None if not maps else _buildings(maps)
    driven = _buildings(row[0] for one in found.evaluations for row in one.configuration["sets"])
    return Places(trained, driven, tuple(one for one in driven if one in (trained or ())))


def _buildings(maps: Iterable[str]) -> tuple[str, ...]:
    """Return the buildings of maps by name or file, each once; a map that is not shipped is its own building."""
    names = [Path(str(one)).stem for one in maps]
    return tuple(dict.fromkeys(BUILDINGS.get(name, f"{name} (not shipped)") for name in names))
