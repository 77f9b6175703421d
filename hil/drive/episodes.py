"""Sets of starts and goals in furnished buildings, drawn by seed. Files: `episodes_data/<folder>/<map>.json`.

A set without a demanded number of detours keeps every drawn episode.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from hil.maps.load import load_map
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode, FreeSpace, find_episode, free_space
from hil.scene.furniture import furnish
from onboard.values.errors import InputError
from onboard.values.messages import Pose

EPISODES_FOLDER = Path(__file__).parent / "episodes_data" / "train"
MIN_M, MAX_M = 2.0, 15.0
"""Limits of an episode's geodesic length."""
LENGTH_WIDTH_M = 0.5
"""A goal is drawn among cells whose geodesic distance differs from the target length by at most this."""
TARGETS, STARTS = 50, 40
"""Largest number of target lengths for an episode, and of starts for a length: small buildings have no long paths."""
DEFAULT_BODY = Body()
DENSITY = 1.0
DRAWN_BY = (
    "hil.episode_files.make_episodes(map, seed, count): the map with hil.furniture.furnish(map, seed); drawn by seed "
    "and name of the map: start uniform over indoor cells with room to stand, heading uniform, a target length uniform "
    "in 2 to 15 m, the goal uniform over the cells whose geodesic distance is within 0.5 m of it. In the order drawn; "
    "the seed was set before any drive"
)
ALL_KEPT = ", and none was left out or replaced."
WITH_DETOURS = (
    "; ordinary ones were left out once no more of them had room beside {detours} detours, whose shortest way is more "
    "than {detour:g} times the straight line, and no others."
)
DETOUR = 1.15
"""An episode is a detour if the shortest path is longer than this factor times the straight line."""
MOST_DRAWN = 100
"""Largest number of draws per kept episode: an open hall has hardly any detours."""
DIGITS = 4
"""Decimals in a file: 0.1 mm for lengths."""

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
"""Plans of `episodes_data/train/`. No building is in both splits. `make_committed` drew all episodes, once."""


def make_committed(folder: Path = EPISODES_FOLDER, plans: Sequence[Plan] = COMMITTED) -> None:
    """Write all committed sets. Raises InputError."""
    for plan in plans:
        make_episodes(plan.map_name, plan.seed, plan.count, folder, plan.building, plan.split, plan.detours)


def make_episodes(
    map_name: str,
    seed: int,
    count: int,
    folder: Path = EPISODES_FOLDER,
    building: str | None = None,
    split: Split | None = None,
    detours: int = 0,
) -> Path:
    """Write `count` episodes of a map, drawn by seed, as `folder/<map>.json` and return the file. Raises InputError."""
    drawn = make_set(map_name, seed, count, detours=detours)
    file = folder / f"{drawn.name}.json"
    made_by = DRAWN_BY + (WITH_DETOURS.format(detours=detours, detour=DETOUR) if detours else ALL_KEPT)
    head: dict[str, Any] = {"made_by": made_by, "map": str(map_name), "building": building or drawn.building}
    head |= {"split": split, "seed": seed, "furniture": {"seed": seed, "density": DENSITY}}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = ",\n".join(f"    {json.dumps(_row(episode))}" for episode in drawn.episodes)
    file.write_text("\n".join(["{", *lines, '  "episodes": [', body, "  ]", "}"]) + "\n", encoding="utf-8")
    return file


def make_set(
    map_name: str | Path,
    seed: int,
    count: int,
    body: Body = DEFAULT_BODY,
    detours: int = 0,
    density: float = DENSITY,
) -> EpisodeSet:
    """Return `count` episodes of any map with furniture, drawn by seed, with at least `detours` detours.

    density: density of the furniture; 0 adds no furniture
    Raises InputError, also if the map has too few detours.
    """
    world = furnish(load_map(map_name), seed, density)
    space = free_space(world, body)
    # Without the name, the first episodes of all maps would have the same length and heading.
    rng = np.random.default_rng([seed, zlib.crc32(world.name.encode())])
    episodes = _with_detours(space, rng, count, detours)
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
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{file}: not a file of episodes: {error!r}") from error
    if not episodes:
        raise InputError(f"{file}: holds no episode")
    beside = file.parent / map_name
    world = load_map(beside if beside.suffix and beside.exists() else map_name)
    return EpisodeSet(file.stem, map_name, building, split, seed, furnish(world, placed_by, density), episodes)


def straight_m(episode: Episode) -> float:
    """Return the straight distance from start to goal, obstacles ignored [m]."""
    return math.dist((episode.start.x_m, episode.start.y_m), episode.goal_xy_m)


def is_detour(episode: Episode) -> bool:
    """Return whether the shortest path is more than `DETOUR` times the straight line."""
    return episode.geodesic_m > DETOUR * straight_m(episode)


def _with_detours(space: FreeSpace, rng: np.random.Generator, count: int, detours: int) -> tuple[Episode, ...]:
    """Return the drawn episodes in order. Ordinary episodes beyond `count` - `detours` are left out."""
    kept: list[Episode] = []
    ordinary = 0
    for _ in range(MOST_DRAWN * count):
        if len(kept) == count:
            break
        episode = _drawn(space, rng)
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


def _drawn(space: FreeSpace, rng: np.random.Generator) -> Episode:
    for _ in range(TARGETS):
        target_m = MIN_M + rng.random() * (MAX_M - MIN_M)
        least_m, most_m = max(MIN_M, target_m - LENGTH_WIDTH_M), min(MAX_M, target_m + LENGTH_WIDTH_M)
        episode = find_episode(space, rng, least_m, most_m, STARTS)
        if episode is not None:
            return episode
    raise InputError(f"map {space.world.name}: found no start and goal {MIN_M:g} to {MAX_M:g} m apart")


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
