"""Goals during the measurement of round trips: a sequence in the same building, so that the robot always drives."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

from hil.drive.episodes import choose
from hil.live.goal_tour import tour
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode, free_space
from onboard.navigation.mission import State, drives
from onboard.values.clock import NS_PER_S

GOALS = 60
"""Number of goals. Each is drawn from the previous goal, at the distances of training. Then the sequence repeats."""
AGAIN_S = 2.0
"""Timeout for the robot to start towards a goal. After it, the next goal is sent."""


@dataclass(frozen=True, slots=True)
class Place:
    """A furnished building and episodes in it. The robot starts at the start of the first episode."""

    world: World
    episodes: tuple[Episode, ...]


def choose_place(map_name: str, seed: int, body: Body) -> Place:
    """Return the furnished map and a sequence of `GOALS` episodes, drawn by `seed`. Raises InputError."""
    scenario = choose(map_name, seed, None, body)
    space = free_space(scenario.world, body)
    return Place(scenario.world, tuple(tour(space, scenario.episode, GOALS, seed)))


class GoalSequence:
    """Decides from the robot's published state when the next goal is due. It has a state, but no clock and no DDS."""

    def __init__(self, place: Place) -> None:
        self._goals = cycle(episode.goal_xy_m for episode in place.episodes)
        self._sent_ns: int | None = None
        self._state = ""
        self.sent = 0
        self.reached = 0

    def next_goal(self, state: str, now_ns: int) -> tuple[float, float] | None:
        """Return a goal to send now (x, y in the map frame [m]), or None.

        None while the state is unknown, while the robot drives, and for `AGAIN_S` seconds after the last goal.
        """
        came = state.startswith(State.REACHED.value) and not self._state.startswith(State.REACHED.value)
        self.reached += came and self.sent > 0
        self._state = state
        if not state or drives(state):
            return None
        if self._sent_ns is not None and now_ns - self._sent_ns < AGAIN_S * NS_PER_S:
            return None
        self._sent_ns = now_ns
        self.sent += 1
        return next(self._goals)
