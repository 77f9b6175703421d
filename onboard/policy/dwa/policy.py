"""`reactive`: a dynamic-window choice among the 28 actions, for driving without a trained network.

Each decision rolls out the dynamic window (`onboard/policy/dwa/dynamic_window.py`). Actions that cannot stop clear of
the scan are unsafe. The others are ranked by the time to the goal after their best sequel. The cost to go comes from a
24 m costmap of obstacles remembered for at most two minutes (`onboard/policy/dwa/costmap.py`). Unknown space counts as
free, and the policy turns back when that proves wrong.

A polygon chooses only actions that lead where a camera looks, as the limits leave the turn of others (R12), and the
corners of a polygon need room to turn. Where it can only stand, it asks for the turn to its path.

Limits: the policy has no map, does not explore, sees no colour and does not learn. It may wander if the path leads away
from the goal for long, or if a dead end is larger than the window. It waits for people who cross its path, and
plans no path around them. It takes the scan as current: the clearances cover 70 ms of age.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onboard.config.config import GoalSection, RatesSection, RobotSection
from onboard.config.plant_model import Plant
from onboard.policy.dwa.costmap import CAPACITY, EMPTY, LocalMap, WayFinder, blind_ahead, observed, obstacle_points
from onboard.policy.dwa.dynamic_window import COURSE_NUMBERS, Course, DynamicWindow, course_of
from onboard.policy.dwa.failed_gaps import NUMBERS, failures_of
from onboard.policy.dwa.people import ahead, own_bins
from onboard.values.messages import Decision, Memory, Observation

# ---- The policy's memory, packed into the array that the runtime keeps

HEADER = 1 + COURSE_NUMBERS
"""Numbers before the cells: their count, and the course."""
CELL = 3
FAILED = HEADER + CELL * CAPACITY
"""The failures are behind the cells; memories in older recordings have none."""


def pack(known: LocalMap, course: Course) -> Memory:
    """Return (FAILED + NUMBERS,) float32."""
    memory = np.zeros(FAILED + NUMBERS, np.float32)
    count = len(known.cells)
    memory[0], memory[1:HEADER], memory[FAILED:] = count, course.numbers(), known.failures.numbers()
    memory[HEADER : HEADER + CELL * count] = known.cells.ravel()
    return memory


def unpack(memory: Memory) -> tuple[LocalMap, Course]:
    """Return what `pack` packed."""
    cells = memory[HEADER : HEADER + CELL * int(memory[0])].reshape(-1, CELL)
    return LocalMap(cells, failures_of(memory[FAILED:])), course_of(memory[1:HEADER])


class ReactivePolicy:
    """Drives to the goal by the scan and a short memory; implements `interfaces.Policy`.

    memory_reset_s: None, as the memory ages by itself and needs no reset
    """

    name = "reactive"
    memory_reset_s: float | None = None

    def __init__(
        self,
        plant: Plant,
        robot: RobotSection | None = None,
        rates: RatesSection | None = None,
        goal: GoalSection | None = None,
    ) -> None:
        self._window = DynamicWindow(plant, robot, rates, goal)
        self._way = WayFinder(self._window.half_width_m)

    def initial_memory(self) -> Memory:
        """Return an empty memory."""
        return pack(EMPTY, Course())

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the best action and the memory with this scan. Logits are about minus the remaining time [s]."""
        window, motion, goal = self._window, observation.filtered, observation.goal_xy_m
        scan, pose = observation.scan, motion.pose
        past, course = unpack(memory)
        known = observed(past, pose, scan, window.inner_m, own_bins(scan, observation.moving))
        seen, unseen = obstacle_points(scan, pose, known.centres(), window.look_m, window.reach_m)
        unseen = np.concatenate([unseen, ahead(observation.moving, pose, window.clear_m)])
        fan = window.look_ahead(motion, course, observation.previous_action, seen, unseen, window.allowed(scan))
        field = self._way.cost_to_go(known, pose, goal, fan.places_m)
        decision, course = window.decide(
            fan, field, goal, motion, course, blind_ahead(scan), observation.previous_action
        )
        failures = known.failures.after(pose, goal, field, window.tolerance_m, window.patience)
        return decision, pack(replace(known, failures=failures), course)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
