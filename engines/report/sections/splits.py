"""Where a model was trained and where it was driven, from its manifest and its results: is a building in both?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.network.lineage import lineage
from engines.report.results.result_files import Evaluated, Gathered
from engines.report.sections.lineage import has_foreign_encoder
from hil.drive.episode_sets import SPLITS, building_of


@dataclass(frozen=True, slots=True)
class Places:
    """Buildings by name.

    trained:         of the model's own training, its colour encoder's views included; None where that is not stated
    began_with:      name of the policy that the training began with, "" for none
    began_trained:   where that one was trained, and what it began with itself; None where none of it is known
    foreign_encoder: whether the colour encoder came from another training, which may have been anywhere
    driven:          of the evaluations of the model
    shared:          those of `driven` in which it, or what it began with, is known to have been trained
    complete:        whether all buildings are known in which weights of it were trained
    """

    trained: tuple[str, ...] | None
    began_with: str
    began_trained: tuple[str, ...] | None
    foreign_encoder: bool
    driven: tuple[str, ...]
    shared: tuple[str, ...]
    complete: bool


def places_of(training: Mapping[str, Any], found: Gathered) -> Places:
    """Return where the training that a manifest states was, and where the evaluations were.

    Raises ConfigError where the manifest of a policy that ships is damaged.
    """
    steps = lineage(training)
    trained, before = _trained(training), [_trained(step.training) for step in steps[:-1]]
    began_trained = tuple(dict.fromkeys(one for buildings in before for one in buildings or ()))
    driven = tuple(dict.fromkeys(place for one in found.evaluations for place in _driven_in(one)))
    anywhere = {*(trained or ()), *began_trained}
    return Places(
        trained=trained,
        began_with=steps[-1].init,
        began_trained=began_trained or None,
        foreign_encoder=has_foreign_encoder(training),
        driven=driven,
        shared=tuple(one for one in driven if one in anywhere),
        complete=not steps[0].init and all(_is_complete(step.training) for step in steps),
    )


def _driven_in(one: Evaluated) -> list[str]:
    """Return the buildings of an evaluation. An episode names its own, which the name of a file need not tell."""
    told = {row.map: row.building for row in one.rows if row.building in SPLITS}
    names = [str(row[0]) for row in one.configuration["sets"]]
    return [told.get(name) or _buildings([name])[0] for name in names]


def _trained(training: Mapping[str, Any]) -> tuple[str, ...] | None:
    config = training.get("config", {})
    maps = config.get("places", {}).get("maps")
    seen = config.get("encoder", {}).get("views", {}).get("maps", ())
    return _buildings([*maps, *seen]) if maps else None


def _is_complete(training: Mapping[str, Any]) -> bool:
    return "init" in training and _trained(training) is not None and not has_foreign_encoder(training)


def _buildings(maps: Iterable[str]) -> tuple[str, ...]:
    """Return the buildings of maps by name or file, each once; a map that is not shipped is its own building."""
    names = [str(one) for one in maps]
    return tuple(dict.fromkeys(building_of(name) or f"{Path(name).stem} (not shipped)" for name in names))
