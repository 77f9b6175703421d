"""The baseline `blind`: drives straight to the goal and stops there. It ignores all obstacles.

The policy is the dynamic window on open ground: it turns to the goal, drives straight and brakes in time, without a
scan. Its success rate shows how many episodes of a set need no sensors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onboard.config.config import GoalSection, RatesSection, RobotSection
from onboard.config.plant_model import Plant
from onboard.policy.dwa.cost_to_go import UNREACHED_M, CostField
from onboard.policy.dwa.dynamic_window import COURSE_NUMBERS, DynamicWindow, course_of
from onboard.values.messages import Decision, Memory, Observation

Floats = npt.NDArray[np.float64]

NOTHING: Floats = np.empty((0, 2))
CELL_M = 0.2


class BlindPolicy:
    """Implements `onboard.values.interfaces.Policy`. The memory holds only the prediction of the last decision."""

    name = "blind"
    memory_reset_s: float | None = None

    def __init__(
        self,
        plant: Plant,
        robot: RobotSection | None = None,
        rates: RatesSection | None = None,
        goal: GoalSection | None = None,
    ) -> None:
        self._window = DynamicWindow(plant, robot, rates, goal)

    def initial_memory(self) -> Memory:
        """Return the memory at the start of a drive."""
        return np.zeros(COURSE_NUMBERS, np.float32)

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the action after which the straight path takes the least time, and the next memory."""
        motion, goal, course = observation.filtered, observation.goal_xy_m, course_of(memory)
        fan = self._window.look_ahead(motion, course, observation.previous_action, NOTHING, NOTHING)
        field = straight(goal, fan.places_m)
        decision, course = self._window.decide(fan, field, goal, motion, course)
        return decision, np.array(course.numbers(), np.float32)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def straight(goal_xy_m: tuple[float, float], places_m: Floats) -> CostField:
    """Return the straight distance to the goal, on a grid around places (k, 2) [m]."""
    first, last = np.floor(places_m.min(axis=0) / CELL_M) - 1, np.ceil(places_m.max(axis=0) / CELL_M) + 1
    x, y = (CELL_M * (np.arange(a, b) + 0.5) for a, b in zip(first, last, strict=True))
    cost = np.hypot(x[:, None] - goal_xy_m[0], y[None, :] - goal_xy_m[1]).astype(np.float32)
    return CostField(cost, (float(first[0]) * CELL_M, float(first[1]) * CELL_M), CELL_M, UNREACHED_M)
