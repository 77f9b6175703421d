"""Where a drive happens: a furnished building, a start and a goal, from (map, seed) or from the committed set."""

from __future__ import annotations

from dataclasses import dataclass

from hil.episode_files import load_episodes, make_set
from hil.maps import World
from hil.routes import Episode
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
    if number is None:
        drawn = make_set(map_name, seed, 1, body)
        return Scenario(f"{drawn.world.name}-seed{seed}", drawn.world, drawn.episodes[0])
    known = load_episodes(map_name)
    if number >= len(known.episodes):
        raise InputError(f"--episode {number}: map {map_name} has episodes 0 to {len(known.episodes) - 1}")
    return Scenario(f"{known.world.name}-episode{number}", known.world, known.episodes[number])
