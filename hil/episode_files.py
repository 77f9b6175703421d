"""Committed starts and goals: `episodes/<map>.json`, drawn by seed in a map with seeded boxes, none left out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from hil.boxes import add_boxes
from hil.maps import World, load_map
from hil.routes import Episode, free_space, pick_episode
from hil.world import Body
from onboard.errors import InputError
from onboard.messages import Pose

EPISODES_FOLDER = Path(__file__).parent / "episodes"
MIN_M, MAX_M = 5.0, 15.0
BOXES = 60
MADE_BY = (
    "hil.episode_files.make_episodes(map, seed, count): the map with boxes of the same seed; start uniform over indoor "
    "cells with room to stand, heading uniform, goal uniform over cells at 5 to 15 m geodesic. In the order drawn; "
    "the seed was set before any drive, and none was left out or replaced."
)
DIGITS = 4
"""Decimals that a file keeps, 0.1 mm."""


def make_episodes(map_name: str, seed: int, count: int, folder: Path = EPISODES_FOLDER) -> Path:
    """Write `count` episodes of a shipped map, drawn by seed, and return the file. Raises InputError."""
    world = add_boxes(load_map(map_name), seed, BOXES)
    space = free_space(world, Body())
    rng = np.random.default_rng(seed)
    rows = [_row(pick_episode(space, rng, MIN_M, MAX_M)) for _ in range(count)]
    file = folder / f"{map_name}.json"
    head = {"made_by": MADE_BY, "map": map_name, "seed": seed, "boxes": BOXES}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    file.write_text("\n".join(["{", *lines, '  "episodes": [', body, "  ]", "}"]) + "\n", encoding="utf-8")
    return file


def load_episodes(map_name: str, folder: Path = EPISODES_FOLDER) -> tuple[World, list[Episode]]:
    """Return the committed episodes of a map and the world that they were drawn in. Raises InputError."""
    file = folder / f"{map_name}.json"
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        episodes = [_episode(row) for row in table["episodes"]]
        name, seed, boxes = str(table["map"]), int(table["seed"]), int(table["boxes"])
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: not a file of episodes: {error!r}") from error
    return add_boxes(load_map(name), seed, boxes), episodes


def _row(episode: Episode) -> dict[str, list[float] | float]:
    start, goal = episode.start, episode.goal_xy_m
    return {
        "start_x_y_yaw": [round(value, DIGITS) for value in (start.x_m, start.y_m, start.yaw_rad)],
        "goal_x_y": [round(value, DIGITS) for value in goal],
        "geodesic_m": round(episode.geodesic_m, DIGITS),
    }


def _episode(row: dict[str, list[float]]) -> Episode:
    x, y, yaw = (float(value) for value in row["start_x_y_yaw"])
    goal_x, goal_y = (float(value) for value in row["goal_x_y"])
    return Episode(Pose(x, y, yaw), (goal_x, goal_y), float(row["geodesic_m"]))  # type: ignore[arg-type]
