"""Where the robot is sent while round trips are measured: goal after goal in one building, so that it always drives."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

from hil.drive.episodes import choose
from hil.live.goal_tour import tour
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode, free_space
from onboard.navigation.mission import DRIVING, State
from onboard.values.clock import NS_PER_S

GOALS = 60
"""Each from where the last one lies, as far as those that a policy is trained for; after them, the first again."""
AGAIN_S = 2.0
"""A goal that the robot has not begun to drive to by then is followed by the next one."""


@dataclass(frozen=True, slots=True)
class Place:
    """A furnished building, and episodes in it; the first one's start is where the robot is put down."""

    world: World
    episodes: tuple[Episode, ...]


def choose_place(map_name: str, seed: int, body: Body) -> Place:
    """Return a way from goal to goal by seed, in any map. Raises InputError."""
    scenario = choose(map_name, seed, None, body)
    space = free_space(scenario.world, body)
    return Place(scenario.world, tuple(tour(space, scenario.episode, GOALS, seed)))


class GoalSequence:
    """Decides, from what the robot says of itself, when the next goal is due. Pure but for its own memory."""

    def __init__(self, place: Place) -> None:
        self._goals = cycle(episode.goal_xy_m for episode in place.episodes)
        self._asked_ns: int | None = None
        self._state = ""
        self.sent = 0
        self.reached = 0

    def next_goal(self, state: str, now_ns: int) -> tuple[float, float] | None:
        """Return a goal to send now, in the map frame [m]; None while the robot drives or has just been asked."""
        came = state.startswith(State.REACHED.value) and not self._state.startswith(State.REACHED.value)
        self.reached += came and self.sent > 0
        self._state = state
        if not state or driving(state):
            return None
        if self._asked_ns is not None and now_ns - self._asked_ns < AGAIN_S * NS_PER_S:
            return None
        self._asked_ns = now_ns
        self.sent += 1
        return next(self._goals)


def driving(state: str) -> bool:
    """Return whether a state as the runtime publishes it is one in which it drives."""
    return state.startswith(tuple(one.value for one in DRIVING))
