"""Characters whose ways somebody wrote down: a TOML file with one table each.

    [[character]]
    kind = "pedestrian"      # or "robot"
    speed_mps = 1.2
    waypoints_m = [[1.0, 2.0], [5.0, 2.0]]

Each walks the shortest ways between its waypoints, to and fro.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from hil.routes import FreeSpace, shortest_path
from hil.walkers import KINDS, Crowd, Point, crowd_of
from onboard.config import Finite, Positive, Section, read_toml, validation_line
from onboard.errors import InputError


class CharacterTable(Section):
    """One character."""

    kind: Literal["pedestrian", "robot"]
    speed_mps: Positive
    waypoints_m: tuple[tuple[Finite, Finite], ...] = Field(min_length=2)


class CrowdTable(Section):
    """A file of them."""

    character: tuple[CharacterTable, ...]


def load_crowd(path: Path, space: FreeSpace) -> Crowd:
    """Return the crowd of a file, in a space of `walking_space`.

    Raises ConfigError for a file that is none, InputError where a character does not fit or finds no way.
    """
    try:
        characters = CrowdTable.model_validate(read_toml(path)).character
    except ValidationError as error:
        raise InputError(validation_line(path, error)) from error
    ways = [_way(path, index, character, space) for index, character in enumerate(characters)]
    kinds = [KINDS[character.kind] for character in characters]
    for later in range(len(ways)):
        for earlier in range(later):
            apart_m = math.dist(ways[later][0], ways[earlier][0])
            if apart_m <= kinds[later].radius_m + kinds[earlier].radius_m:
                raise InputError(f"{path}: character {later} starts in character {earlier}, {apart_m:.2f} m apart")
    return crowd_of(kinds, [character.speed_mps for character in characters], ways)


def _way(path: Path, index: int, character: CharacterTable, space: FreeSpace) -> npt.NDArray[np.float64]:
    points = character.waypoints_m
    legs = [_leg(path, index, points[k], points[k + 1], space) for k in range(len(points) - 1)]
    return np.concatenate([legs[0], *(leg[1:] for leg in legs[1:])])


def _leg(path: Path, index: int, start: Point, end: Point, space: FreeSpace) -> npt.NDArray[np.float64]:
    try:
        leg = shortest_path(space, start, end)
    except InputError as error:
        raise InputError(f"{path}: character {index}: {error}") from error
    if leg is None:
        raise InputError(f"{path}: character {index}: no way from {_text(start)} to {_text(end)}")
    return leg


def _text(point: Sequence[float]) -> str:
    return f"({point[0]:.2f}, {point[1]:.2f})"
