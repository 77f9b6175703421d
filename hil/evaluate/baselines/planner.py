"""The baseline `planner`: a map, the scan, and the dynamic window over the 28 actions.

It replaces the ROS 2 navigation stack of paper 1, Table 4. It computes the cost to go from two layers:

- the inflated known map, without obstacles that the scan has seen through (`map_costmap.py`);
- obstacles that the scan shows and the map lacks (`onboard/policy/dwa/costmap.py`). A ray's end marks an obstacle, a
  passing ray clears it, and the planner forgets it after two minutes.

So the planner can drive with a map whose furniture has moved. Its collision check uses the scan alone.

The planner is also the expert for training. Its logits are minus the seconds left after each action
(`onboard/policy/dwa/dynamic_window.py`).
"""

from __future__ import annotations

import numpy as np

from hil.evaluate.baselines.map_costmap import CAPACITY, Floats32, Floor, floor_about, refuted
from hil.maps.world_grid import World
from onboard.config.config import GoalSection, RatesSection, RobotSection
from onboard.config.plant_model import Plant
from onboard.policy.dwa.cost_to_go import CostField, make_prices, solve
from onboard.policy.dwa.costmap import (
    CELL_M,
    COARSE,
    EMPTY,
    LocalMap,
    blind_ahead,
    near_robot,
    observed,
    obstacle_points,
)
from onboard.policy.dwa.dynamic_window import Course, DynamicWindow, Floats
from onboard.policy.dwa.policy import pack, unpack
from onboard.values.geometry import apply, compose
from onboard.values.messages import Decision, Memory, Motion, Observation, Pose

ROOM_M = 0.05
"""Addition to the footprint radius for the path search: the dynamic window does not enter narrower passages."""
KNOWN_M = 0.4
KNOWN_NEARNESS = round((2.0 * KNOWN_M / CELL_M) ** 2)
"""An obstacle of the scan this near to an obstacle of the map is the same obstacle. Nearness as in `Prices`."""
NONE_GONE: Floats32 = np.empty((0, 2), np.float32)
SAME_GOAL_M = 0.01
"""The planner computes the cost to go of the map again if the goal moves by more than this."""


class MapPlanner:
    """Implements `onboard.values.interfaces.Policy` and `hil.drive.setting.MapPolicy`.

    All geometry is in the frame of the map's grid. Between calls the object keeps only the pose of the start frame, and
    the cost to go of the map alone.
    """

    name = "planner"
    memory_reset_s: float | None = None

    def __init__(
        self,
        plant: Plant,
        known: World,
        z_m: tuple[float, float],
        start: Pose,
        goal_xy_m: tuple[float, float],
        robot: RobotSection | None = None,
        rates: RatesSection | None = None,
        goal: GoalSection | None = None,
    ) -> None:
        """Prepare the planner for an episode in a map.

        known:     world of the known map
        z_m:       lowest and highest height; the planner knows the map's obstacles between them
        start:     start of the episode in the map frame; also the pose of the start frame until `locate` is called
        goal_xy_m: goal in the map frame. The planner knows the map around start and goal
        """
        self._window = DynamicWindow(plant, robot, rates, goal)
        self._prices = make_prices(self._window.inner_m + ROOM_M, CELL_M)
        self._grid_from_map = known.grid_from_map
        self._floor = floor_about(known, z_m, self._prices, [(start.x_m, start.y_m), goal_xy_m])
        self._goal_xy_m = apply(self._grid_from_map, goal_xy_m)
        self._by_map = self._solve(self._floor, self._goal_xy_m)
        self.locate(start)

    def locate(self, map_from_start: Pose) -> None:
        """Set the pose of the start frame in the map."""
        self._grid_from_start = compose(self._grid_from_map, map_from_start)

    def initial_memory(self) -> Memory:
        """Return the memory before the first scan."""
        return _pack(EMPTY, Course(), NONE_GONE)

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the best action, and the memory with this scan added. Logits are about minus the seconds left."""
        window, scan = self._window, observation.scan
        pose = compose(self._grid_from_start, observation.filtered.pose)
        goal, motion = apply(self._grid_from_start, observation.goal_xy_m), Motion(pose, observation.filtered.twist)
        past, course, gone = _unpack(memory)
        gone = refuted(self._floor, gone, pose, scan)
        layer = observed(past, pose, scan, window.inner_m)
        seen, unseen = obstacle_points(scan, pose, layer.centres(), window.look_m, window.reach_m)
        fan = window.look_ahead(motion, course, observation.previous_action, seen, unseen)
        field = self._cost_to_go(layer, gone, pose, goal, fan.places_m)
        decision, course = window.decide(fan, field, goal, motion, course, wait=blind_ahead(scan))
        return decision, _pack(layer, course, gone)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _cost_to_go(
        self, layer: LocalMap, gone: Floats32, pose: Pose, goal_xy_m: tuple[float, float], places_m: Floats
    ) -> CostField:
        """Return the cost to go around places (k, 2): from the map, corrected where the scan contradicts the map."""
        new = self._floor.unknown(layer.cells, gone, KNOWN_NEARNESS)
        if len(new) == 0 and len(gone) == 0:
            floor, around = self._floor, self._field_to(goal_xy_m)
        else:
            robot = pose.x_m, pose.y_m
            floor = self._floor.changed(gone, new, robot, self._prices)
            around = self._solve(floor, goal_xy_m, robot)
        return near_robot(floor.fine, self._prices, floor.fine_corner_xy_m, goal_xy_m, around, places_m)

    def _field_to(self, goal_xy_m: tuple[float, float]) -> CostField:
        """Return the cost to go of the map alone."""
        x, y = self._goal_xy_m
        if max(abs(goal_xy_m[0] - x), abs(goal_xy_m[1] - y)) > SAME_GOAL_M:
            self._goal_xy_m, self._by_map = goal_xy_m, self._solve(self._floor, goal_xy_m)
        return self._by_map

    def _solve(
        self, floor: Floor, goal_xy_m: tuple[float, float], robot_xy_m: tuple[float, float] | None = None
    ) -> CostField:
        return solve(floor.coarse, self._prices, floor.corner_xy_m, COARSE * CELL_M, goal_xy_m, robot_xy_m)


def _pack(layer: LocalMap, course: Course, gone: Floats32) -> Memory:
    """Return the memory: the number of gone cells, these cells, then the result of `onboard.policy.dwa.policy.pack`."""
    memory = np.zeros(1 + 2 * CAPACITY, np.float32)
    memory[0], memory[1 : 1 + gone.size] = len(gone), gone.ravel()
    return np.concatenate([memory, pack(layer, course)])


def _unpack(memory: Memory) -> tuple[LocalMap, Course, Floats32]:
    """Return the three arguments of `_pack` from a memory."""
    gone = memory[1 : 1 + 2 * int(memory[0])].reshape(-1, 2)
    return *unpack(memory[1 + 2 * CAPACITY :]), gone
