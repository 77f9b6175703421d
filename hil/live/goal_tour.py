"""Several goals one after another, each drawn from where the last one lies, and what the true trace says of each."""

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
from onboard.navigation.mission import State
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.messages import Pose

REST_MPS = 0.02
REST_RADPS = 0.05
MOST_GOALS = 1000
STREAM = 3
"""Tells this draw apart from others by the same seed."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One goal that was sent: the runtime's last state, the seconds until then, and CLOCK_MONOTONIC a look later."""

    episode: Episode
    state: str
    time_s: float
    ended_ns: int


def tour(space: FreeSpace, first: Episode, goals: int, seed: int) -> list[Episode]:
    """Return so many episodes, each from the goal before it. Raises InputError where there is no way on."""
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


def judged(legs: Sequence[Leg], trace: npt.NDArray[np.float64], lived_ns: int) -> list[dict[str, Any]]:
    """Return of every leg how near to its goal the robot truly stood when the leg ended, and whether that will do.

    trace:    (n, 6) time [s], x, y, yaw in the map frame, v, w
    lived_ns: CLOCK_MONOTONIC of its last row
    """
    return [_judged(leg, trace[_row_at(trace, leg.ended_ns - lived_ns)]) for leg in legs]


def _row_at(trace: npt.NDArray[np.float64], after_last_ns: int) -> int:
    """Return the last row that is no later than so long after the last one."""
    rows = int(np.searchsorted(trace[:, 0], trace[-1, 0] + after_last_ns / NS_PER_S, side="right"))
    return max(rows - 1, 0)


def _judged(leg: Leg, row: npt.NDArray[np.float64]) -> dict[str, Any]:
    _, x_m, y_m, _, v_mps, w_radps = (float(value) for value in row)
    goal = leg.episode.goal_xy_m
    distance_m = math.hypot(x_m - goal[0], y_m - goal[1])
    resting = abs(v_mps) <= REST_MPS and abs(w_radps) <= REST_RADPS
    return {
        "goal_m": [round(value, 3) for value in goal],
        "reached": leg.state == State.REACHED.value and resting and distance_m <= REACHED_M,
        "state": leg.state,
        "distance_to_goal_m": round(distance_m, 3),
        "time_s": round(leg.time_s, 2),
        "shortest_path_m": round(leg.episode.geodesic_m, 3),
    }
