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
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from hil.maps.world_grid import World
from hil.physics.free_space import Episode, FreeSpace, shortest_path
from hil.scene.walkers import CLEAR_M, KINDS, Crowd, Point, crowd_of, make_crowd, walking_space
from onboard.config.toml_file import Finite, Positive, Section, read_toml, validation_line
from onboard.values.errors import InputError

MOST_CHARACTERS = 200
"""Of each kind, drawn by seed."""


@dataclass(frozen=True, slots=True)
class CrowdOptions:
    """Who else is to move: so many drawn by seed, or those of a file."""

    pedestrians: int = 0
    robots: int = 0
    file: Path | None = None

    def arguments(self) -> list[str]:
        """Return the options of a command line that ask for the same; the file's path is absolute."""
        numbers = ["--pedestrians", str(self.pedestrians), "--robots", str(self.robots)]
        return numbers if self.file is None else [*numbers, "--crowd", str(self.file.resolve())]


class CharacterTable(Section):
    """One character."""

    kind: Literal["pedestrian", "robot"]
    speed_mps: Positive
    waypoints_m: tuple[tuple[Finite, Finite], ...] = Field(min_length=2)


class CrowdTable(Section):
    """A file of them."""

    character: tuple[CharacterTable, ...]


def asked_crowd(options: CrowdOptions, world: World, episode: Episode, seed: int) -> Crowd | None:
    """Return who else moves in an episode, drawn near its start and goal; None when nobody does.

    Raises InputError, and ConfigError for a file that is none.
    """
    start = episode.start.x_m, episode.start.y_m
    numbers = options.pedestrians + options.robots
    if options.file is None:
        if not numbers:
            return None
        near = start, episode.goal_xy_m
        return make_crowd(walking_space(world), seed, options.pedestrians, options.robots, (start,), near)
    if numbers:
        raise InputError("--crowd names all characters; --pedestrians and --robots cannot add any")
    crowd = load_crowd(options.file, walking_space(world))
    for index, (x, y) in enumerate(crowd.state[:, :2]):
        if (apart_m := math.dist(start, (x, y))) < CLEAR_M:
            raise InputError(
                f"{options.file}: character {index} is {apart_m:.2f} m from the robot, the limit is {CLEAR_M:g} m"
            )
    return crowd


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
