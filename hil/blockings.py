"""A door on the shortest way that closes when the robot comes near, stays closed for a while, and stays open then.

What is closed is the narrowest place of the way between start and goal, wall to wall, by upright cylinders side by
side. Where the way is nowhere narrower than `WIDEST_M` they are a group of people, whom the robot may pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hil.bodies import NO_BODIES, Bodies
from hil.maps import World
from hil.routes import Episode, FreeSpace, shortest_path
from hil.textures import MATERIALS
from onboard.errors import InputError

NEAR_M = 1.5
"""The door closes when the robot's middle is so near to its middle."""
CLEAR_M = 0.3
"""It waits while the robot's side is nearer than this to any part of it."""
KEPT_M = 1.0
"""No door is nearer to start or goal along the way, unless the way is shorter than twice this."""
WIDEST_M = 4.0
LEAF_RADIUS_M, LEAF_HEIGHT_M = 0.1, 2.0
STEP_M = 0.05
"""Steps along the way, and across it, in which the width is measured."""
WOOD = MATERIALS.index("wood")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Blocking:
    """A door.

    leaves:  (n, 6) `bodies.Bodies` of the closed door
    shut_s:  how long it is closed; left_s: how much of that is left, None before it has closed
    """

    leaves: Bodies
    shut_s: float
    left_s: float | None = None

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self.left_s is not None and self.left_s > 0.0


def bodies_of_door(blocking: Blocking) -> Bodies:
    """Return what stands in the way now."""
    return blocking.leaves if blocking.closed else NO_BODIES


def advance(blocking: Blocking, dt_s: float, robot_xy_m: tuple[float, float] | None, robot_radius_m: float) -> Blocking:
    """Return the door after a time in which the robot stood where it is."""
    if blocking.left_s is not None:
        return replace(blocking, left_s=max(0.0, blocking.left_s - dt_s)) if blocking.left_s > 0.0 else blocking
    if robot_xy_m is None:
        return blocking
    away_m = np.hypot(*(blocking.leaves[:, :2] - robot_xy_m).T)
    middle = blocking.leaves[:, :2].mean(axis=0)
    near = math.dist(middle, robot_xy_m) <= NEAR_M
    clear = away_m.min() >= LEAF_RADIUS_M + robot_radius_m + CLEAR_M
    return replace(blocking, left_s=blocking.shut_s) if near and clear else blocking


def door_on(space: FreeSpace, solid: npt.NDArray[np.bool_], episode: Episode, shut_s: float) -> Blocking:
    """Return a door at the narrowest place of an episode's shortest way, open. Raises InputError where there is no way.

    solid: (rows, columns) what is in the way of the body (`world.blocked_cells`)
    """
    way = shortest_path(space, (episode.start.x_m, episode.start.y_m), episode.goal_xy_m)
    if way is None:
        raise InputError(f"map {space.world.name}: there is no way to close")
    places, headings = _along(way)
    widths = [_sides(space.world, solid, place, heading) for place, heading in zip(places, headings, strict=True)]
    narrowest = int(np.argmin([left + right for left, right in widths]))
    left_m, right_m = widths[narrowest]
    across = np.array([-math.sin(headings[narrowest]), math.cos(headings[narrowest])])
    count = 1 + math.ceil((left_m + right_m) / (2.0 * LEAF_RADIUS_M))
    offsets = np.linspace(-right_m, left_m, count)
    leaves = np.zeros((count, 6))
    leaves[:, :2] = places[narrowest] + offsets[:, None] * across
    leaves[:, 2], leaves[:, 4], leaves[:, 5] = LEAF_RADIUS_M, LEAF_HEIGHT_M, WOOD
    return Blocking(leaves, shut_s)


def _along(way: Floats) -> tuple[Floats, Floats]:
    """Return (n, 2) places along a way, its ends left out, and (n,) headings there."""
    steps = np.diff(way, axis=0)
    lengths = np.hypot(*steps.T)
    ends = np.concatenate([[0.0], lengths.cumsum()])
    kept_m = min(KEPT_M, 0.5 * ends[-1])
    at = np.arange(kept_m, max(ends[-1] - kept_m, kept_m) + STEP_M / 2.0, STEP_M)
    leg = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(steps) - 1)
    places = way[leg] + ((at - ends[leg]) / lengths[leg])[:, None] * steps[leg]
    return places, np.arctan2(steps[leg, 1], steps[leg, 0])


def _sides(world: World, solid: npt.NDArray[np.bool_], place: Floats, heading: float) -> tuple[float, float]:
    """Return how far it is to something solid to the left and to the right of a way, at most half of `WIDEST_M`."""
    left = np.array([-math.sin(heading), math.cos(heading)])
    return _free_m(world, solid, place, left), _free_m(world, solid, place, -left)


def _free_m(world: World, solid: npt.NDArray[np.bool_], place: Floats, along: Floats) -> float:
    rows, columns = solid.shape
    for step in range(1, round(WIDEST_M / 2.0 / STEP_M)):
        x, y = place + step * STEP_M * along
        row, column = world.cell_of((float(x), float(y)))
        if not (0 <= row < rows and 0 <= column < columns) or solid[row, column]:
            return (step - 1) * STEP_M
    return WIDEST_M / 2.0
