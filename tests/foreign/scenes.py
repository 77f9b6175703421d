"""Two small scenes by seed, as boxes: for MuJoCo, and for the project's own world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode, free_space, path_length, shortest_path
from onboard.values.messages import Pose
from tests.rigs.rooms import room, with_box

BODY = Body(0.25, 0.85)
WALL_M, WALL_HEIGHT_M = 0.1, 2.0
TABLE_M = 0.72
LEG_M = 0.05
APART_M = 0.9
"""Least free distance between two pieces."""
FARTHEST_TRIES = 300
LEAST_WAY_M = 3.0

Box = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
"""x, y and z from and to [m]."""


@dataclass(frozen=True)
class Scene:
    """A walled floor of size_m with boxes, and drives from a start to a goal in it."""

    name: str
    size_m: tuple[float, float]
    boxes: tuple[Box, ...]
    episodes: tuple[Episode, ...]

    @property
    def world(self) -> World:
        """The scene as a grid of the project's own world."""
        world = room(*self.size_m)
        for box in self.boxes:
            world = with_box(world, *box)
        return world


def table(x: float, y: float, length: float, width: float) -> list[Box]:
    """Return a table: a top on four legs."""
    top: list[Box] = [((x, x + length), (y, y + width), (TABLE_M - 0.05, TABLE_M))]
    legs: list[Box] = [
        ((at_x, at_x + LEG_M), (at_y, at_y + LEG_M), (0.0, TABLE_M))
        for at_x in (x + 0.05, x + length - 0.1)
        for at_y in (y + 0.05, y + width - 0.1)
    ]
    return top + legs


def office(rng: np.random.Generator) -> tuple[tuple[float, float], list[Box], list[tuple[float, float, str]]]:
    """Return size, walls and the pieces to place of two rooms with a door of 0.95 m."""
    door = float(rng.uniform(1.5, 4.5))
    walls: list[Box] = [
        ((4.5, 4.6), (0.0, door), (0.0, WALL_HEIGHT_M)),
        ((4.5, 4.6), (door + 0.95, 6.5), (0.0, WALL_HEIGHT_M)),
    ]
    return (9.0, 6.5), walls, [(1.4, 0.7, "table"), (0.7, 1.4, "table"), (0.5, 0.5, "chair"), (0.45, 0.35, "box")] * 2


def workshop(rng: np.random.Generator) -> tuple[tuple[float, float], list[Box], list[tuple[float, float, str]]]:
    """Return the same of a hall with a row of shelves, pallets, a trestle and posts."""
    gap = float(rng.uniform(1.0, 4.0))
    walls: list[Box] = [
        ((3.5, 4.0), (0.0, gap), (0.0, 1.8)),
        ((3.5, 4.0), (gap + 1.1, 6.0), (0.0, 1.8)),
    ]
    return (10.0, 6.0), walls, [(1.2, 0.8, "pallet"), (1.5, 0.6, "table"), (0.1, 0.1, "post"), (0.8, 1.2, "pallet")] * 2


KINDS = {"office": office, "workshop": workshop}
HEIGHTS = {"box": (0.0, 0.35), "pallet": (0.0, 0.14), "post": (0.0, 1.5)}


def scene(kind: str, seed: int, drives: int) -> Scene:
    """Return a scene with `drives` episodes. The same seed gives the same scene."""
    rng = np.random.default_rng((seed, sorted(KINDS).index(kind)))
    size_m, boxes, pieces = KINDS[kind](rng)
    taken = [(x, y) for x, y, _ in boxes]
    for length, width, what in pieces:
        for _ in range(FARTHEST_TRIES):
            x, y = (
                round(float(rng.uniform(0.3, side - 0.3 - own)) / 0.05) * 0.05
                for side, own in zip(size_m, (length, width), strict=True)
            )
            if all(_apart(((x, x + length), (y, y + width)), other) for other in taken):
                taken.append(((x, x + length), (y, y + width)))
                boxes += _piece(what, x, y, length, width)
                break
    empty = Scene(f"{kind}-{seed}", size_m, tuple(boxes), ())
    return Scene(empty.name, size_m, empty.boxes, _episodes(empty, rng, drives))


def _piece(what: str, x: float, y: float, length: float, width: float) -> list[Box]:
    if what == "table":
        return table(x, y, length, width)
    if what == "chair":
        seat: list[Box] = [((x, x + length), (y, y + width), (0.42, 0.5))]
        middle = (x + 0.2, x + 0.3), (y + 0.2, y + 0.3)
        return [*seat, (*middle, (0.0, 0.42)), ((x, x + 0.05), (y, y + width), (0.5, 0.95))]
    return [((x, x + length), (y, y + width), HEIGHTS[what])]


def _apart(one: tuple[tuple[float, float], ...], other: tuple[tuple[float, float], ...]) -> bool:
    gaps = [
        max(low - high_other, low_other - high) for (low, high), (low_other, high_other) in zip(one, other, strict=True)
    ]
    return max(gaps) >= APART_M


def _episodes(empty: Scene, rng: np.random.Generator, count: int) -> tuple[Episode, ...]:
    space = free_space(empty.world, BODY)
    cells, found = np.argwhere(space.standing), list[Episode]()
    while len(found) < count:
        start, goal = (space.world.centre_of(tuple(cells[rng.integers(len(cells))])) for _ in range(2))
        way = shortest_path(space, start, goal)
        if way is not None and (length_m := path_length(way)) >= LEAST_WAY_M:
            found.append(Episode(Pose(*start, float(rng.uniform(-np.pi, np.pi))), goal, length_m))
    return tuple(found)
