"""How a drive without the runtime went, as far as it has come."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hil.fast_robot import FastRobot
from hil.outcome import REACHED_M, Outcome
from hil.plant import NS, STEP_NS


def outcome_of(
    robot: FastRobot, goal_xy_m: tuple[float, float], ended: str, ticks: int, actions: npt.NDArray[np.int64]
) -> Outcome:
    """Return the outcome of a drive.

    goal_xy_m: in the map frame
    ended:     how it has ended, "" while it goes on
    ticks:     since the goal came
    actions:   (28,) how often each was chosen; kept as it is, not copied
    """
    s = robot.state
    distance_m = math.hypot(s.x_m - goal_xy_m[0], s.y_m - goal_xy_m[1])
    return Outcome(
        reached=ended == "stop" and distance_m <= REACHED_M,
        ended=ended,
        contacts=int(s.contacts),
        time_s=ticks * STEP_NS / NS,
        path_m=s.path_m,
        distance_m=distance_m,
        min_clearance_m=s.clear_m,
        actions=actions,
        trace=robot.trace(ticks),
        bumps=int(s.bumps),
    )
