"""Things on the robot's path, drawn by seed: pallets beside it, and people who cross it and do not stop for a robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hil.physics.contact import NO_BODIES, Bodies
from hil.physics.free_space import Episode, FreeSpace, is_within, path_length, shortest_path
from hil.scene.doors import DETOUR_M, WOOD, places_along, sides
from hil.scene.walkers import KINDS, Crowd, crowd_of
from onboard.values.errors import InputError

Floats = npt.NDArray[np.float64]

PALLET_M, PALLET_HEIGHT_M = 0.4, 0.14
OFF_M = 0.1
"""Distance between a pallet's edge and the shortest path."""
PASSAGE_M = 0.9
"""Least free width on the other side of the path."""
CROSSING_MPS = 1.0
SHORTEST_M = 1.5
"""Least way of a crossing person."""
WALL_M = 0.35
"""A crossing person's centre turns this far before a wall."""


def pallets_beside(space: FreeSpace, solid: npt.NDArray[np.bool_], episode: Episode, seed: int, count: int) -> Bodies:
    """Return (n, 6) up to `count` pallets beside the shortest path; fewer where they would close it.

    solid: (rows, columns) bool of `collision_world.blocked_cells`
    """
    places, headings, way = _way(space, episode)
    rng, found = np.random.default_rng(seed), list[Floats]()
    widths, passable = sides(space.world, solid, places, headings), space.passable.copy()
    for number in rng.permutation(len(places)):
        if len(found) == count:
            break
        left = bool(rng.integers(2))
        if widths[number, int(left)] < PASSAGE_M or any(np.hypot(*(places[number] - row[:2])) < 2.0 for row in found):
            continue
        off_m = (PALLET_M + OFF_M) * (1.0 if left else -1.0)
        x, y = places[number] + off_m * np.array([-np.sin(headings[number]), np.cos(headings[number])])
        tried = passable & ~_disc(space, x, y)
        start, goal = (episode.start.x_m, episode.start.y_m), episode.goal_xy_m
        ends_free = all(tried[space.world.cell_of(point)] for point in (start, goal))
        if ends_free and is_within(replace(space, passable=tried), start, goal, path_length(way) + DETOUR_M):
            passable = tried
            found.append(np.array([x, y, PALLET_M, 0.0, PALLET_HEIGHT_M, WOOD]))
    return np.array(found) if found else NO_BODIES


def crossing_people(space: FreeSpace, solid: npt.NDArray[np.bool_], episode: Episode, seed: int, count: int) -> Crowd:
    """Return up to `count` people who walk back and forth across the shortest path, and ignore everybody."""
    places, headings, _ = _way(space, episode)
    rng, ways = np.random.default_rng(seed), list[Floats]()
    widths = np.maximum(sides(space.world, solid, places, headings) - WALL_M, 0.0)
    for number in rng.permutation(np.flatnonzero(widths.sum(axis=1) >= SHORTEST_M)):
        if len(ways) == count:
            break
        across = np.array([-np.sin(headings[number]), np.cos(headings[number])])
        ends = [places[number] + widths[number, 0] * across, places[number] - widths[number, 1] * across]
        apart = [np.hypot(*(places[number] - way.mean(axis=0))) for way in ways]
        if min(apart, default=np.inf) >= 2.0:
            ways.append(np.array(ends[:: 1 if rng.integers(2) else -1]))
    people = crowd_of([KINDS["pedestrian"]] * len(ways), [CROSSING_MPS] * len(ways), ways)
    return replace(people, heedless=True)


def _way(space: FreeSpace, episode: Episode) -> tuple[Floats, Floats, Floats]:
    way = shortest_path(space, (episode.start.x_m, episode.start.y_m), episode.goal_xy_m)
    if way is None:
        raise InputError(f"map {space.world.name}: there is no path for people and pallets")
    places, headings = places_along(way)
    return places, headings, way


def _disc(space: FreeSpace, x: float, y: float) -> npt.NDArray[np.bool_]:
    """Return (rows, columns) bool: where the robot's centre cannot be beside a pallet, by its circle."""
    world, (height, width) = space.world, space.passable.shape
    row, column = world.cell_of((float(x), float(y)))
    reach = int(np.ceil((PALLET_M + 0.3) / world.cell_m))
    rows, columns = np.arange(height).reshape(-1, 1), np.arange(width)
    disc: npt.NDArray[np.bool_] = (rows - row) ** 2 + (columns - column) ** 2 <= reach**2
    return disc
