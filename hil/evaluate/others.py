"""Who and what else is in the robot's way in the drives of one building: people who walk about, and a door."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hil.blockings import door_on
from hil.evaluate.campaign import noise_seed
from hil.maps import World
from hil.routes import Episode, FreeSpace, free_space
from hil.walkers import Crowd, crowd_of, make_crowd, walking_space
from hil.world import Body, blocked_cells


@dataclass(frozen=True, slots=True)
class Others:
    """What is needed to draw them for an episode.

    pedestrians: how many; walkable: where they can walk, None without any
    blocked_s:   how long the door is closed, 0 without one; space, solid: of the robot's body, None without a door
    """

    pedestrians: int
    blocked_s: float
    walkable: FreeSpace | None
    space: FreeSpace | None
    solid: npt.NDArray[np.bool_] | None

    def crowd(self, episode: Episode, seed: int) -> Crowd | None:
        """Return them at the beginning of an episode, drawn by its seed; None where there is nobody and no door.

        Raises InputError where there is no room for so many.
        """
        crowd = self._pedestrians(episode, seed)
        if self.space is None or self.solid is None:
            return crowd
        door = door_on(self.space, self.solid, episode, self.blocked_s)
        return crowd if door is None else replace(crowd or crowd_of([], [], []), blocking=door)

    def _pedestrians(self, episode: Episode, seed: int) -> Crowd | None:
        """Return pedestrians who walk where the robot is to drive."""
        if self.walkable is None:
            return None
        start = (episode.start.x_m, episode.start.y_m)
        ends = (start, episode.goal_xy_m)
        return make_crowd(self.walkable, noise_seed(seed, "crowd", 0), self.pedestrians, keep_clear=(start,), near=ends)


def others_in(world: World, body: Body, pedestrians: int, blocked_s: float) -> Others:
    """Return what is needed of a building."""
    space, solid = (free_space(world, body), blocked_cells(world, body)) if blocked_s > 0.0 else (None, None)
    return Others(pedestrians, blocked_s, walking_space(world) if pedestrians else None, space, solid)
