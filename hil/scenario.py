"""Where a drive happens: a building with boxes, a start and a goal, all from (map, seed) or from the committed set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hil.boxes import add_boxes
from hil.episode_files import BOXES, MAX_M, MIN_M, load_episodes
from hil.maps import World, load_map
from hil.routes import Episode, free_space, pick_episode
from hil.world import Body
from onboard.errors import InputError


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world and one episode in it; `label` names files made of it."""

    label: str
    world: World
    episode: Episode


def choose(map_name: str, seed: int, number: int | None, body: Body) -> Scenario:
    """Return committed episode `number` of a shipped map, or one drawn by seed in any map. Raises InputError."""
    if number is not None:
        world, episodes = load_episodes(map_name)
        if number >= len(episodes):
            raise InputError(f"--episode {number}: map {map_name} has episodes 0 to {len(episodes) - 1}")
        return Scenario(f"{world.name}-episode{number}", world, episodes[number])
    world = add_boxes(load_map(map_name), seed, BOXES)
    episode = pick_episode(free_space(world, body), np.random.default_rng(seed), MIN_M, MAX_M)
    return Scenario(f"{world.name}-seed{seed}", world, episode)
