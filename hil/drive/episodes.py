"""Sets of starts and goals in furnished buildings, drawn by seed. Files: `episodes_data/<folder>/<map>.json`.

A set of the ordinary draw, without a demanded number of detours, keeps every drawn episode.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from hil.drive.setting import MAX_S
from hil.maps.load import load_map, without_as_is
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode, FreeSpace, find_episode, free_space
from hil.scene.furniture import DENSEST, furnish
from onboard.values.errors import InputError
from onboard.values.messages import Pose

EPISODES_FOLDER = Path(__file__).parent / "episodes_data" / "train"
MIN_M, MAX_M = 2.0, 15.0
"""Limits of an episode's geodesic length in the ordinary draw."""
LENGTH_WIDTH_M = 0.5
"""A goal is drawn among cells whose geodesic distance differs from the target length by at most this."""
TARGETS, STARTS = 50, 40
"""Largest number of target lengths for an episode, and of starts for a length: small buildings have no long paths."""
DEFAULT_BODY = Body()
DENSITY = 1.0
DRAWN_BY = (
    "hil.episode_files.make_episodes(map, seed, count): the map with hil.furniture.furnish(map, seed); drawn by seed "
    "and name of the map: start uniform over indoor cells with room to stand, heading uniform, a target length uniform "
    "in {least_m:g} to {most_m:g} m, the goal uniform over the cells whose geodesic distance is within 0.5 m of it. In "
    "the order drawn; the seed was set before any drive"
)
WITH_DETOURS = (
    "; ordinary ones were left out once no more of them had room beside {detours} detours, whose shortest way is more "
    "than {detour:g} times the straight line, and no others."
)
DETOUR = 1.15
"""An episode is a detour if the shortest path is longer than this factor times the straight line."""
MOST_DRAWN = 100
"""Largest number of draws per kept episode: an open hall has hardly any detours."""


def all_kept(ratio: float) -> float:
    """Return 1."""
    return 1.0


@dataclass(frozen=True, slots=True)
class Draw:
    """A rule by which episodes are drawn and driven.

    least_m, most_m: limits of the geodesic length; a target length is drawn uniformly between them
    least_ratio: the goal is drawn among cells of at least this detour ratio (shortest path over straight line)
    kept:        probability of keeping an episode, by its detour ratio
    rule:        `kept` in words, for the files
    limit_s:     time limit of a drive
    noise_seeds: number of noise seeds with which each episode is driven
    """

    least_m: float = MIN_M
    most_m: float = MAX_M
    least_ratio: float = 0.0
    kept: Callable[[float], float] = all_kept
    rule: str = ", and none was left out or replaced."
    limit_s: float = MAX_S
    noise_seeds: int = 1


NOT_STRAIGHT, HARD_RATIO = 1.1, 1.5


def habitat_share(ratio: float) -> float:
    """Return Habitat's probability of keeping an episode of a detour ratio (`pointnav_generator.py` of habitat-lab)."""
    return 1.0 if ratio >= NOT_STRAIGHT else min(1.0, 20.0 * (ratio - 0.98) ** 2)


def hard_share(ratio: float) -> float:
    """Return 1 for a detour ratio of at least `HARD_RATIO`, else 0: the distance field is up to 3 % too long."""
    return float(ratio >= HARD_RATIO)


ORDINARY_DRAW = ""
DRAWS: dict[str, Draw] = {
    ORDINARY_DRAW: Draw(),
    "habitat": Draw(
        1.0, 30.0, 0.0, habitat_share, "; of a ratio r of shortest way to straight line below 1.1 it was kept with "
        "probability 20 (r - 0.98)^2, else always.", 180.0, 3,
    ),
    "hard": Draw(
        10.0, 30.0, HARD_RATIO, hard_share, "; the goal only where the shortest way is at least 1.5 times the straight "
        "line.", 180.0, 3,
    ),
}  # fmt: skip
"""Rules by name, for `onboard-hil evaluate --draw NAME` and the sets of these names."""
DIGITS = 4
"""Decimals in a file: 0.1 mm for lengths."""

Part = Literal["even", "odd"]
PARTS: dict[Part | None, slice] = {None: slice(None), "even": slice(0, None, 2), "odd": slice(1, None, 2)}
Split = Literal["train", "test"]
SPLITS = get_args(Split)


@dataclass(frozen=True, slots=True)
class EpisodeSet:
    """Starts and goals in one furnished building.

    name:     name of the file, or of the map if there is no file
    building: all floors of a building are in the same split
    split:    "train" or "test"; None if the set has no split
    seed:     seed of furniture, starts and goals
    """

    name: str
    map_name: str
    building: str
    split: Split | None
    seed: int
    world: World
    episodes: tuple[Episode, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A row of `COMMITTED`: number of episodes (`count`), seed, and least number of detours for a shipped map."""

    map_name: str
    building: str
    split: Split
    seed: int
    count: int = 25
    detours: int = 0


COMMITTED = (
    Plan("gdc1", "UT Austin, Gates Dell Complex", "train", 2026),
    Plan("gdc3", "UT Austin, Gates Dell Complex", "train", 2026),
    Plan("ghc7", "Carnegie Mellon, Gates Hillman Center", "train", 2026),
    Plan("ase4", "UT Austin, ASE building", "train", 2026),
    Plan("depot", "depot (simulated)", "train", 2026),
    Plan("ahg2", "UT Austin, Anna Hiss Gymnasium", "test", 2026),
    Plan("apartment", "UT Austin, Anna Hiss Gymnasium", "test", 2026),
    Plan("lgrc1", "UMass Amherst, Lederle Graduate Research Center", "test", 2026),
    Plan("warehouse", "warehouse (simulated)", "test", 2026),
    Plan("willow", "Willow Garage", "test", 2026),
)
"""Plans of `episodes_data/train/`. No building is in both splits. `episode_sets.make` drew all episodes, once."""


def make_episodes(
    map_name: str,
    seed: int,
    count: int,
    folder: Path = EPISODES_FOLDER,
    building: str | None = None,
    split: Split | None = None,
    detours: int = 0,
    draw: str = ORDINARY_DRAW,
    part: Part | None = None,
) -> Path:
    """Write `count` episodes of a map, drawn by seed, as `folder/<map>.json` and return the file. Raises InputError.

    part: part of the drawn episodes that the file holds; None for all
    """
    drawn, by = make_set(map_name, seed, count, detours=detours, draw=draw), DRAWS[draw]
    file = folder / f"{drawn.name}.json"
    made_by = DRAWN_BY.format(least_m=by.least_m, most_m=by.most_m)
    made_by += WITH_DETOURS.format(detours=detours, detour=DETOUR) if detours else by.rule
    made_by += "" if part is None else f" The file holds every second of {count}: the {part} ones, from 0."
    head: dict[str, Any] = {"made_by": made_by, "map": str(map_name), "building": building or drawn.building}
    head |= {"split": split, "seed": seed, "furniture": {"seed": seed, "density": DENSITY}}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = ",\n".join(f"    {json.dumps(_row(episode))}" for episode in drawn.episodes[PARTS[part]])
    file.write_text("\n".join(["{", *lines, '  "episodes": [', body, "  ]", "}"]) + "\n", encoding="utf-8")
    return file


def make_set(
    map_name: str | Path,
    seed: int,
    count: int,
    body: Body = DEFAULT_BODY,
    detours: int = 0,
    density: float = DENSITY,
    draw: str = ORDINARY_DRAW,
) -> EpisodeSet:
    """Return `count` episodes of any map with furniture, drawn by seed, with at least `detours` detours.

    density: density of the furniture; 0 adds no furniture
    draw:    name of a rule in `DRAWS`
    Raises InputError, also if the map has too few detours, or too few episodes of the rule.
    """
    world = furnish(load_map(map_name), seed, density)
    space = free_space(world, body)
    # Without the name, the first episodes of all maps would have the same length and heading.
    rng = np.random.default_rng([seed, zlib.crc32(world.name.encode())])
    by = None if draw == ORDINARY_DRAW else DRAWS[draw]
    episodes = _with_detours(space, rng, count, detours) if by is None else _by_ratio(space, rng, count, by)
    return EpisodeSet(world.name, str(map_name), world.name, None, seed, world, episodes)


def load_episodes(file_or_map: str | Path, folder: Path = EPISODES_FOLDER) -> EpisodeSet:
    """Return the committed set of a map, given by name, or the set of a .json file. Raises InputError."""
    file = Path(file_or_map)
    if file.suffix == "":
        file = folder / f"{file.name}.json"
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        furniture, split = table["furniture"], table.get("split")
        if split is not None and split not in SPLITS:
            raise ValueError(f"split {split!r} must be one of {', '.join(SPLITS)}")
        episodes = tuple(_episode(row) for row in table["episodes"])
        map_name, building, seed = str(table["map"]), str(table["building"]), int(table["seed"])
        placed_by, density = int(furniture["seed"]), float(furniture["density"])
        if not 0.0 <= density <= DENSEST:
            raise ValueError(f"furniture.density {density:g} must be 0 to {DENSEST:g}")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{file}: not a file of episodes: {error!r}") from error
    if not episodes:
        raise InputError(f"{file}: holds no episode")
    beside = file.parent / map_name
    world = load_map(beside if beside.suffix and without_as_is(beside).exists() else map_name)
    return EpisodeSet(file.stem, map_name, building, split, seed, furnish(world, placed_by, density), episodes)


def straight_m(episode: Episode) -> float:
    """Return the straight distance from start to goal, obstacles ignored [m]."""
    return math.dist((episode.start.x_m, episode.start.y_m), episode.goal_xy_m)


def is_detour(episode: Episode) -> bool:
    """Return whether the shortest path is more than `DETOUR` times the straight line."""
    return episode.geodesic_m > DETOUR * straight_m(episode)


def _by_ratio(space: FreeSpace, rng: np.random.Generator, count: int, by: Draw) -> tuple[Episode, ...]:
    """Return the drawn episodes that a rule keeps, in order."""
    kept: list[Episode] = []
    most = MOST_DRAWN * count
    for _ in range(most):
        episode = _drawn(space, rng, by)
        away_m = straight_m(episode)
        if rng.random() < by.kept(episode.geodesic_m / away_m if away_m > 0.0 else math.inf):
            kept.append(episode)
        if len(kept) == count:
            return tuple(kept)
    raise InputError(f"map {space.world.name}: of {most} episodes {len(kept)} fit the draw, {count} were asked for")


def _with_detours(space: FreeSpace, rng: np.random.Generator, count: int, detours: int) -> tuple[Episode, ...]:
    """Return the drawn episodes in order. Ordinary episodes beyond `count` - `detours` are left out."""
    kept: list[Episode] = []
    ordinary = 0
    for _ in range(MOST_DRAWN * count):
        if len(kept) == count:
            break
        episode = _drawn(space, rng, DRAWS[ORDINARY_DRAW])
        if is_detour(episode):
            kept.append(episode)
        elif ordinary < count - detours:
            kept.append(episode)
            ordinary += 1
    if len(kept) < count:
        raise InputError(
            f"map {space.world.name}: of {MOST_DRAWN * count} episodes {len(kept) - ordinary} are detours, "
            f"{detours} were asked for"
        )
    return tuple(kept)


def _drawn(space: FreeSpace, rng: np.random.Generator, by: Draw) -> Episode:
    for _ in range(TARGETS):
        target_m = by.least_m + rng.random() * (by.most_m - by.least_m)
        least_m, most_m = max(by.least_m, target_m - LENGTH_WIDTH_M), min(by.most_m, target_m + LENGTH_WIDTH_M)
        episode = find_episode(space, rng, least_m, most_m, STARTS, by.least_ratio)
        if episode is not None:
            return episode
    world = space.world
    raise InputError(
        f"map {world.name}: found no start and goal {by.least_m:g} to {by.most_m:g} m apart{world.read_as}"
    )


def _row(episode: Episode) -> dict[str, list[float] | float]:
    start, goal = episode.start, episode.goal_xy_m
    return {
        "start_x_y_yaw": [round(value, DIGITS) for value in (start.x_m, start.y_m, start.yaw_rad)],
        "goal_x_y": [round(value, DIGITS) for value in goal],
        "geodesic_m": round(episode.geodesic_m, DIGITS),
        "straight_m": round(straight_m(episode), DIGITS),
    }


def _episode(row: dict[str, Any]) -> Episode:
    x, y, yaw = (float(value) for value in row["start_x_y_yaw"])
    goal_x, goal_y = (float(value) for value in row["goal_x_y"])
    geodesic_m = float(row["geodesic_m"])
    if not all(map(math.isfinite, (x, y, yaw, goal_x, goal_y, geodesic_m))):
        raise ValueError("an episode's numbers must be finite")
    return Episode(Pose(x, y, yaw), (goal_x, goal_y), geodesic_m)


# ---- Building, start and goal of a drive, from (map, seed) or from the committed set


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world and an episode in it. label: base of the names of output files."""

    label: str
    world: World
    episode: Episode


def choose(map_name: str, seed: int, number: int | None, body: Body) -> Scenario:
    """Return committed episode `number` of a shipped map, or draw an episode by seed in any map. Raises InputError."""
    if number is None:
        drawn = make_set(map_name, seed, 1, body)
        return Scenario(f"{drawn.world.name}-seed{seed}", drawn.world, drawn.episodes[0])
    known = load_episodes(map_name)
    if number >= len(known.episodes):
        raise InputError(f"--episode {number}: map {map_name} has episodes 0 to {len(known.episodes) - 1}")
    return Scenario(f"{known.world.name}-episode{number}", known.world, known.episodes[number])
