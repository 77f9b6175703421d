"""Subgoals for policies without a map: a point some metres ahead on the map's path, in place of the goal.

The point moves along the path with the robot, so the policy never reaches it before the goal. Without a place in the
map (`Observation.map_from_start`), and within `AHEAD_M` of the goal along the path, the goal itself is given.
"""

from __future__ import annotations

import math
from dataclasses import replace

from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.policy.dwa.cost_to_go import sample, solve
from onboard.policy.dwa.costmap import CELL_M, COARSE, passage_prices
from onboard.policy.dwa.floor import floor_in
from onboard.policy.dwa.mapped import ROOM_M
from onboard.values.geometry import apply, compose, inverse
from onboard.values.interfaces import Policy
from onboard.values.messages import Decision, Memory, Observation

AHEAD_M, STEP_M = 6.0, 0.1


class WithSubgoals:
    """Implements `interfaces.Policy` with another policy. half_width_m: of the passage that it needs"""

    def __init__(self, policy: Policy, grid: OccupancyGrid, half_width_m: float) -> None:
        self.name, self.memory_reset_s, self._policy = policy.name, policy.memory_reset_s, policy
        self._prices = passage_prices(half_width_m + ROOM_M)
        self._floor, self._grid_from_map = floor_in(grid, self._prices, half_width_m), inverse(grid.map_from_grid)
        self._ahead(self._floor.corner_xy_m, self._floor.corner_xy_m)  # compiles

    def initial_memory(self) -> Memory:
        """Return the policy's memory."""
        return self._policy.initial_memory()

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the policy's decision for the subgoal. Raises EngineError."""
        if observation.map_from_start is None:
            return self._policy.decide(observation, memory)
        frame = compose(self._grid_from_map, observation.map_from_start)
        pose, goal = observation.filtered.pose, apply(frame, observation.goal_xy_m)
        ahead, left_m = self._ahead(apply(frame, (pose.x_m, pose.y_m)), goal)
        subgoal = observation.goal_xy_m if ahead == goal else apply(inverse(frame), ahead)
        decision, memory = self._policy.decide(replace(observation, goal_xy_m=subgoal), memory)
        return replace(decision, left_m=left_m), memory

    def close(self) -> None:
        """Close the policy."""
        self._policy.close()

    def _ahead(self, place: tuple[float, float], goal: tuple[float, float]) -> tuple[tuple[float, float], float]:
        """Return the point `AHEAD_M` from a place along the path to the goal, or the goal; and the path left from the
        place [m]. In the grid's frame."""
        floor = self._floor
        field = solve(floor.coarse, self._prices, floor.corner_xy_m, COARSE * CELL_M, goal, place)
        (x_m, y_m), corner, left_m = place, field.corner_xy_m, math.inf
        for _ in range(round(AHEAD_M / STEP_M)):
            i, j = ((at - first) / field.cell_m - 0.5 for at, first in zip((x_m, y_m), corner, strict=True))
            cost_m, di, dj = sample(field.cost, i, j, field.most_m)
            steep, left_m = math.hypot(di, dj), cost_m if math.isinf(left_m) else left_m
            if math.dist((x_m, y_m), goal) < 2.0 * field.cell_m or steep == 0.0:
                return goal, left_m
            x_m, y_m = x_m - STEP_M * di / steep, y_m - STEP_M * dj / steep
        return (x_m, y_m), left_m
