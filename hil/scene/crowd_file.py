"""Crowds by options or from a TOML file. The file has one table per character:

    [[character]]
    kind = "pedestrian"      # or "robot"
    speed_mps = 1.2
    waypoints_m = [[1.0, 2.0], [5.0, 2.0]]

A character walks the shortest paths between its waypoints, back and forth.
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
from onboard.config.toml_file import Finite, Positive, Section, read_toml, validation_lines
from onboard.values.errors import InputError

MOST_CHARACTERS = 200
"""Upper limit of the drawn characters of each kind."""


@dataclass(frozen=True, slots=True)
class CrowdOptions:
    """Crowd options of a command: numbers of characters drawn by seed, or a crowd file."""

    pedestrians: int = 0
    robots: int = 0
    file: Path | None = None

    def arguments(self) -> list[str]:
        """Return the command-line arguments for these options; the file's path is absolute."""
        numbers = ["--pedestrians", str(self.pedestrians), "--robots", str(self.robots)]
        return numbers if self.file is None else [*numbers, "--crowd", str(self.file.resolve())]


class CharacterTable(Section):
    """One character in a crowd file."""

    kind: Literal["pedestrian", "robot"]
    speed_mps: Positive
    waypoints_m: tuple[tuple[Finite, Finite], ...] = Field(min_length=2)


class CrowdTable(Section):
    """The content of a crowd file."""

    character: tuple[CharacterTable, ...]


def crowd_near(space: FreeSpace, episode: Episode, seed: int, pedestrians: int, robots: int = 0) -> Crowd:
    """Return a crowd drawn near the start and the goal of an episode, but clear of the start. Raises InputError.

    space: from `walking_space`
    """
    start = episode.start.x_m, episode.start.y_m
    return make_crowd(space, seed, pedestrians, robots, (start,), (start, episode.goal_xy_m))


def requested_crowd(options: CrowdOptions, world: World, episode: Episode, seed: int) -> Crowd | None:
    """Return the crowd of an episode, drawn near its start and goal or read from a file; None without characters.

    Raises InputError, and ConfigError for an invalid file.
    """
    numbers = options.pedestrians + options.robots
    if options.file is None:
        if not numbers:
            return None
        return crowd_near(walking_space(world), episode, seed, options.pedestrians, options.robots)
    if numbers:
        raise InputError("--crowd names all characters; --pedestrians and --robots cannot add any")
    crowd = load_crowd(options.file, walking_space(world))
    for index, (x, y) in enumerate(crowd.state[:, :2]):
        if (apart_m := math.dist((episode.start.x_m, episode.start.y_m), (x, y))) < CLEAR_M:
            raise InputError(
                f"{options.file}: character {index} is {apart_m:.2f} m from the robot, the limit is {CLEAR_M:g} m"
            )
    return crowd


def load_crowd(path: Path, space: FreeSpace) -> Crowd:
    """Return the crowd of a file, in a space of `walking_space`.

    Raises ConfigError for an invalid file, InputError if a character does not fit or has no path.
    """
    try:
        characters = CrowdTable.model_validate(read_toml(path)).character
    except ValidationError as error:
        raise InputError(validation_lines(path, error)) from error
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
        raise InputError(f"{path}: character {index}: no path from {_text(start)} to {_text(end)}")
    return leg


def _text(point: Sequence[float]) -> str:
    return f"({point[0]:.2f}, {point[1]:.2f})"
