"""Draws a sequence of goals, each from the position of the previous goal, and judges each by the true trace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.drive.episodes import MAX_M, MIN_M
from hil.drive.setting import REACHED_M
from hil.physics.free_space import TRIES, Episode, FreeSpace, find_goal
from onboard.navigation.mission import State, state_word
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.messages import Pose

REST_MPS = 0.02
REST_RADPS = 0.05
MOST_GOALS = 1000
STREAM = 3
"""Separates this random stream from other streams of the same seed."""


@dataclass(frozen=True, slots=True)
class Leg:
    """Result of a sent goal.

    state:    last state of the runtime
    time_s:   duration of the drive
    ended_ns: CLOCK_MONOTONIC after the last look at the runtime's messages
    """

    episode: Episode
    state: str
    time_s: float
    ended_ns: int


def tour(space: FreeSpace, first: Episode, goals: int, seed: int) -> list[Episode]:
    """Return `goals` episodes. Each starts at the goal of the previous episode.

    Raises InputError if no goal is reachable from the previous goal within the permitted distances.
    """
    rng = np.random.default_rng([seed, STREAM])
    episodes = [first]
    while len(episodes) < goals:
        at = episodes[-1].goal_xy_m
        cell = space.world.cell_of(at)
        found = next(filter(None, (find_goal(space, rng, cell, MIN_M, MAX_M) for _ in range(TRIES))), None)
        if found is None:
            raise InputError(
                f"--goals {goals}: map {space.world.name}: goal {len(episodes)} at ({at[0]:.2f}, {at[1]:.2f}) has no "
                f"other {MIN_M:g} to {MAX_M:g} m away"
            )
        episodes.append(Episode(Pose(*at, 0.0), *found))
    return episodes


def leg_results(legs: Sequence[Leg], trace: npt.NDArray[np.float64], lived_ns: int) -> list[dict[str, Any]]:
    """Return a result for each leg: the robot's true distance to its goal at the end, and whether it reached the goal.

    trace:    (n, 6) time [s], x [m], y [m], yaw [rad] in the map frame, v [m/s], w [rad/s]
    lived_ns: CLOCK_MONOTONIC of the last row of the trace
    """
    return [_judged(leg, trace[row_at(trace, leg.ended_ns - lived_ns)]) for leg in legs]


def row_at(trace: npt.NDArray[np.float64], after_last_ns: int) -> int:
    """Return the index of the last row that is not later than the end of the trace plus `after_last_ns`."""
    rows = int(np.searchsorted(trace[:, 0], trace[-1, 0] + after_last_ns / NS_PER_S, side="right"))
    return max(rows - 1, 0)


def _judged(leg: Leg, row: npt.NDArray[np.float64]) -> dict[str, Any]:
    _, x_m, y_m, _, v_mps, w_radps = (float(value) for value in row)
    goal = leg.episode.goal_xy_m
    distance_m = math.hypot(x_m - goal[0], y_m - goal[1])
    resting = abs(v_mps) <= REST_MPS and abs(w_radps) <= REST_RADPS
    return {
        "goal_m": [round(value, 3) for value in goal],
        "reached": state_word(leg.state) == State.REACHED.value and resting and distance_m <= REACHED_M,
        "state": leg.state,
        "distance_to_goal_m": round(distance_m, 3),
        "time_s": round(leg.time_s, 2),
        "shortest_path_m": round(leg.episode.geodesic_m, 3),
    }
