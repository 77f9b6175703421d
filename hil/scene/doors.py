"""A door on the shortest path. It closes once when the robot comes near, and opens again after some time.

The door stands at the narrowest place of the path where closing it leaves no path, or a path longer by `DETOUR_M`.
A row of upright cylinders from wall to wall models the closed door. Some paths have no such place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hil.maps.materials import MATERIALS
from hil.maps.world_grid import World
from hil.physics.contact import NO_BODIES, Bodies
from hil.physics.free_space import Episode, FreeSpace, is_within, path_length, shortest_path
from onboard.values.errors import InputError

NEAR_M = 1.5
"""The door closes when the distance between the centres of robot and door is at most this."""
CLEAR_M = 0.3
"""The door does not close while the gap between robot and door is smaller than this."""
KEPT_M = 1.0
"""Least distance of a door from start and goal along the path; half the path if the path is shorter than twice this."""
WIDEST_M = 4.0
DETOUR_M = 10.0
"""A path around the closed door must be longer than the shortest path by this."""
APART_M = 0.5
"""Least distance along the path between candidate places."""
LEAF_RADIUS_M, LEAF_HEIGHT_M = 0.1, 2.0
STEP_M = 0.05
"""Step along and across the path for measuring the width."""
WOOD = MATERIALS.index("wood")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Blocking:
    """A door that blocks the path once.

    leaves: (n, 6) `contact.Bodies` of the closed door
    shut_s: duration of the closure
    left_s: time until the door opens; None before it has closed
    """

    leaves: Bodies
    shut_s: float
    left_s: float | None = None

    @property
    def closed(self) -> bool:
        """Whether the door is closed."""
        return self.left_s is not None and self.left_s > 0.0


def bodies_of_door(blocking: Blocking) -> Bodies:
    """Return the bodies of the door: none while it is open."""
    return blocking.leaves if blocking.closed else NO_BODIES


def advance(blocking: Blocking, dt_s: float, robot_xy_m: tuple[float, float] | None, robot_radius_m: float) -> Blocking:
    """Return the door after `dt_s` with the robot at this position."""
    if blocking.left_s is not None:
        return replace(blocking, left_s=max(0.0, blocking.left_s - dt_s)) if blocking.left_s > 0.0 else blocking
    if robot_xy_m is None:
        return blocking
    away_m = np.hypot(*(blocking.leaves[:, :2] - robot_xy_m).T)
    middle = blocking.leaves[:, :2].mean(axis=0)
    near = math.dist(middle, robot_xy_m) <= NEAR_M
    clear = away_m.min() >= LEAF_RADIUS_M + robot_radius_m + CLEAR_M
    return replace(blocking, left_s=blocking.shut_s) if near and clear else blocking


def door_on(space: FreeSpace, solid: npt.NDArray[np.bool_], episode: Episode, shut_s: float) -> Blocking | None:
    """Return an open door on an episode's shortest path; None if no place on the path qualifies.

    solid: (rows, columns) bool of `collision_world.blocked_cells`
    Raises InputError if the episode has no path.
    """
    way = shortest_path(space, (episode.start.x_m, episode.start.y_m), episode.goal_xy_m)
    if way is None:
        raise InputError(f"map {space.world.name}: there is no path on which a door could close")
    places, headings = places_along(way)
    widths = sides(space.world, solid, places, headings)
    too_long_m = path_length(way) + DETOUR_M
    for number in _candidates(widths.sum(axis=1)):
        across = np.array([-math.sin(headings[number]), math.cos(headings[number])])
        left_m, right_m = (float(side) for side in widths[number])
        ends = places[number] - right_m * across, places[number] + left_m * across
        if _closes(space, ends, episode, too_long_m):
            return Blocking(_leaves(*ends), shut_s)
    return None


def _candidates(widths_m: Floats) -> list[int]:
    """Return indices of places narrower than `WIDEST_M`, narrowest first, at least `APART_M` apart."""
    chosen: list[int] = []
    for number in np.argsort(widths_m, kind="stable"):
        if widths_m[number] < WIDEST_M and all(abs(number - one) * STEP_M >= APART_M for one in chosen):
            chosen.append(int(number))
    return chosen


def _closes(space: FreeSpace, ends: tuple[Floats, Floats], episode: Episode, too_long_m: float) -> bool:
    """Return whether a closed door leaves no path from start to goal within `too_long_m`."""
    world, (right, left) = space.world, ends
    steps = 2 + math.ceil(2.0 * math.dist(left, right) / world.cell_m)
    passable = space.passable.copy()
    for x, y in np.linspace(right, left, steps):
        passable[world.cell_of((float(x), float(y)))] = False
    start_xy, goal_xy = (episode.start.x_m, episode.start.y_m), episode.goal_xy_m
    if not (passable[world.cell_of(start_xy)] and passable[world.cell_of(goal_xy)]):
        return False
    return not is_within(replace(space, passable=passable), start_xy, goal_xy, too_long_m)


def _leaves(right: Floats, left: Floats) -> Bodies:
    """Return a row of cylinders from one end to the other."""
    count = 1 + math.ceil(math.dist(left, right) / (2.0 * LEAF_RADIUS_M))
    leaves = np.zeros((count, 6))
    leaves[:, :2] = np.linspace(right, left, count)
    leaves[:, 2], leaves[:, 4], leaves[:, 5] = LEAF_RADIUS_M, LEAF_HEIGHT_M, WOOD
    return leaves


def places_along(way: Floats) -> tuple[Floats, Floats]:
    """Return (n, 2) places along a path, without its ends, and (n,) headings there [rad]."""
    steps = np.diff(way, axis=0)
    lengths = np.hypot(*steps.T)
    ends = np.concatenate([[0.0], lengths.cumsum()])
    kept_m = min(KEPT_M, 0.5 * ends[-1])
    at = np.arange(kept_m, max(ends[-1] - kept_m, kept_m) + STEP_M / 2.0, STEP_M)
    leg = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(steps) - 1)
    places = way[leg] + ((at - ends[leg]) / lengths[leg])[:, None] * steps[leg]
    return places, np.arctan2(steps[leg, 1], steps[leg, 0])


def sides(world: World, solid: npt.NDArray[np.bool_], places: Floats, headings: Floats) -> Floats:
    """Return (n, 2) distance to a solid cell to the left and to the right of a path, at most half of `WIDEST_M` [m]."""
    left = np.stack([-np.sin(headings), np.cos(headings)], axis=1)
    return np.stack([_free_distances_m(world, solid, places, side) for side in (left, -left)], axis=1)


def _free_distances_m(world: World, solid: npt.NDArray[np.bool_], places: Floats, along: Floats) -> Floats:
    steps_m = np.arange(1, round(WIDEST_M / 2.0 / STEP_M)) * STEP_M
    rows, columns = world.cells_of(places[:, None] + steps_m[:, None] * along[:, None])
    # A border of solid cells represents everything outside the grid.
    inside = np.pad(solid, 1, constant_values=True)
    met = inside[np.clip(rows + 1, 0, solid.shape[0] + 1), np.clip(columns + 1, 0, solid.shape[1] + 1)]
    return np.where(met.any(axis=1), met.argmax(axis=1) * STEP_M, WIDEST_M / 2.0)
