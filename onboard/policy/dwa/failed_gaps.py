"""Places that the robot failed to pass: for a while they cost much, but less than a way through a wall.

The path search and the dynamic window judge a gap differently: noise of the scan can close a gap that the search takes.
Where the robot gets no farther for `STUCK_S`, the tightest place ahead on its path is closed, and the search
finds another path, or the same again if there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.policy.dwa.cost_to_go import PATH_STEP_M, STEEP, CostField, Nearness, Prices, descent, sample
from onboard.values.messages import Pose

LEFT_M, STUCK_S, SLOW = 0.8, 10.0, 4.0
"""The robot gets no farther if it stays within LEFT_M of a place for STUCK_S; a slow one for SLOW times as long as it
takes at its top speed."""
AHEAD_M, FROM_M = 1.5, 0.3
"""The failed place is so far ahead on the path, at most and at least."""
CLOSED_M, LIFE_S, MOST = 0.3, 120.0, 8
"""Radius of what is closed, time for which it is, and number of places kept."""
NUMBERS = 3 + 3 * MOST


@dataclass(frozen=True, slots=True)
class Patience:
    """Numbers of decisions: until a robot that gets no farther has failed, and for which a place stays closed."""

    stuck: int
    life: int


def patience_of(decision_s: float, top_mps: float) -> Patience:
    """Return the patience of a robot with this time between decisions and this top speed."""
    return Patience(round(max(STUCK_S, SLOW * LEFT_M / top_mps) / decision_s), round(LIFE_S / decision_s))


@dataclass(frozen=True, slots=True)
class Failures:
    """Failed places, and how long the robot has stayed about a place. All in the frame of the costmap.

    stayed: x, y [m], number of decisions
    gaps:   x, y [m], number of decisions left of each place
    """

    stayed: tuple[float, float, float] = (0.0, 0.0, 0.0)
    gaps: tuple[tuple[float, float, float], ...] = ()

    def after(
        self, pose: Pose, goal_xy_m: tuple[float, float], field: CostField, tolerance_m: float, patience: Patience
    ) -> Failures:
        """Return the failures after a decision. field: cost to go around the robot"""
        here, gaps = (pose.x_m, pose.y_m), tuple((x, y, left - 1.0) for x, y, left in self.gaps if left > 1.0)
        x, y, count = self.stayed
        if math.dist(here, (x, y)) > LEFT_M or math.dist(here, goal_xy_m) <= tolerance_m:
            return Failures((*here, 0.0), gaps)
        if count + 1 < patience.stuck:
            return Failures((x, y, count + 1.0), gaps)
        failed = _tightest(field, here, goal_xy_m)
        return Failures((*here, 0.0), gaps if failed is None else (*gaps, (*failed, float(patience.life)))[-MOST:])

    def close_in(self, near: Nearness, corner_xy_m: tuple[float, float], cell_m: float, prices: Prices) -> None:
        """Close the failed places in a grid of nearness, in place."""
        reach, lethal = math.ceil(CLOSED_M / cell_m), prices.solid + 1
        for x, y, _ in self.gaps:
            a, b = (math.floor((at - corner) / cell_m) for at, corner in zip((x, y), corner_xy_m, strict=True))
            for i in range(max(a - reach, 0), min(a + reach + 1, near.shape[0])):
                for j in range(max(b - reach, 0), min(b + reach + 1, near.shape[1])):
                    middle = (corner_xy_m[0] + (i + 0.5) * cell_m, corner_xy_m[1] + (j + 0.5) * cell_m)
                    if near[i, j] != prices.closed and math.dist(middle, (x, y)) <= CLOSED_M:
                        near[i, j] = min(near[i, j], lethal)

    def numbers(self) -> npt.NDArray[np.float32]:
        """Return (NUMBERS,) float32 for a policy's memory."""
        packed = np.zeros(NUMBERS, np.float32)
        numbers = [*self.stayed, *(number for gap in self.gaps for number in gap)]
        packed[: len(numbers)] = numbers
        return packed


NONE_FAILED = Failures()


def failures_of(numbers: npt.NDArray[np.float32]) -> Failures:
    """Return the failures in a policy's memory; none if it has no numbers of them."""
    if not numbers.size:
        return NONE_FAILED
    (x, y, count), *gaps = numbers.reshape(-1, 3).tolist()
    return Failures((x, y, count), tuple((x, y, left) for x, y, left in gaps if left > 0.0))


def _tightest(
    field: CostField, here: tuple[float, float], goal_xy_m: tuple[float, float]
) -> tuple[float, float] | None:
    """Return the dearest place ahead on the path, None at its end."""
    path = descent(field, here, goal_xy_m, STEEP)[round(FROM_M / PATH_STEP_M) : round(AHEAD_M / PATH_STEP_M)]
    cells = (path - field.corner_xy_m) / field.cell_m - 0.5
    left_m = [sample(field.cost, i, j, field.most_m)[0] for i, j in cells]
    if len(left_m) < 2:
        return None
    x, y = path[int(np.argmin(np.diff(left_m)))].tolist()
    return x, y
