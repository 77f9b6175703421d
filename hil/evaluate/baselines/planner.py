"""`planner`: drives by a map: the shortest way on it, the scan's obstacles, and the dynamic window over the 28 actions.

The stand-in for the ROS 2 navigation stack of paper 1, Table 4. The cost to go is that of the map it knows, inflated,
less what the scan has seen through since (`map_costmap.py`), and of a layer of obstacles that the scan has shown and
that
are not in the map (`onboard/policy/dwa/costmap.py`: marked where a ray ends, cleared where one passes, forgotten
after two
minutes). So a map with other furniture does not end the drive. What is hit or not is judged by the scan alone.

It also is the expert to learn from: its logits are minus the seconds left after each action (`dynamic_window`).
"""

from __future__ import annotations

import numpy as np

from hil.evaluate.baselines.map_costmap import CAPACITY, Floats32, Floor, floor_about, refuted
from hil.maps.world_grid import World
from onboard.config.config import GoalSection, RatesSection, RobotSection
from onboard.config.plant_model import Plant
from onboard.policy.dwa.cost_to_go import CostField, make_prices, solve
from onboard.policy.dwa.costmap import CELL_M, EMPTY, LocalMap, observed
from onboard.policy.dwa.dynamic_window import Course, DynamicWindow, Floats
from onboard.policy.dwa.inflation import COARSE, near_robot
from onboard.policy.dwa.obstacle_points import blind_ahead, obstacle_points
from onboard.policy.dwa.policy import pack, unpack
from onboard.values.geometry import apply, compose
from onboard.values.messages import Decision, Memory, Motion, Observation, Pose

ROOM_M = 0.05
"""The way is sought for a footprint so much wider: the dynamic window does not enter passages that are narrower."""
KNOWN_M = 0.4
KNOWN_NEARNESS = round((2.0 * KNOWN_M / CELL_M) ** 2)
"""What the scan shows so near to something in the map is that; the same as `cost_field.Prices` count it."""
NONE_GONE: Floats32 = np.empty((0, 2), np.float32)
SAME_GOAL_M = 0.01
"""The way to a goal nearer than this to the last one is the same."""


class MapPlanner:
    """Implements `interfaces.Policy` and `baselines.KnowsMap`; all its geometry is in the frame of the map's grid.

    What it keeps between calls, beside the start frame that it is told, is only the cost to go of the map alone.
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
        """Take a map.

        z_m:         heights in which what the map holds is known, lowest and highest
        start, goal: of the episode, in the map frame: the map is used about them; the start frame until it is told
        """
        self._window = DynamicWindow(plant, robot, rates, goal)
        self._prices = make_prices(self._window.radius_m + ROOM_M, CELL_M)
        self._grid_from_map = known.grid_from_map
        self._floor = floor_about(known, z_m, self._prices, [(start.x_m, start.y_m), goal_xy_m])
        self._goal_xy_m = apply(self._grid_from_map, goal_xy_m)
        self._by_map = self._solve(self._floor, self._goal_xy_m)
        self.locate(start)

    def locate(self, map_from_start: Pose) -> None:
        """Take the pose of the start frame in the map."""
        self._grid_from_start = compose(self._grid_from_map, map_from_start)

    def initial_memory(self) -> Memory:
        """Return the memory of one to whom the scan has shown nothing."""
        return _pack(EMPTY, Course(), NONE_GONE)

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the best action, and the memory with this scan in it. Logits are minus the seconds left, roughly."""
        window, scan = self._window, observation.scan
        pose = compose(self._grid_from_start, observation.filtered.pose)
        goal, motion = apply(self._grid_from_start, observation.goal_xy_m), Motion(pose, observation.filtered.twist)
        past, course, gone = _unpack(memory)
        gone = refuted(self._floor, gone, pose, scan)
        layer = observed(past, pose, scan, window.radius_m)
        seen, unseen = obstacle_points(scan, pose, layer.centres(), window.look_m, window.radius_m)
        fan = window.look_ahead(motion, course, observation.previous_action, seen, unseen)
        field = self._cost_to_go(layer, gone, pose, goal, fan.places_m)
        decision, course = window.decide(fan, field, goal, motion, course, wait=blind_ahead(scan))
        return decision, _pack(layer, course, gone)

    def close(self) -> None:
        """Nothing to release."""

    def _cost_to_go(
        self, layer: LocalMap, gone: Floats32, pose: Pose, goal_xy_m: tuple[float, float], places_m: Floats
    ) -> CostField:
        """Return the cost to go about places: by the map, and by where it is wrong, if it is anywhere."""
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
    """Return the memory: how many cells are gone and which, then what `recollection.pack` makes of the rest."""
    memory = np.zeros(1 + 2 * CAPACITY, np.float32)
    memory[0], memory[1 : 1 + gone.size] = len(gone), gone.ravel()
    return np.concatenate([memory, pack(layer, course)])


def _unpack(memory: Memory) -> tuple[LocalMap, Course, Floats32]:
    """Return what `_pack` packed."""
    gone = memory[1 : 1 + 2 * int(memory[0])].reshape(-1, 2)
    return *unpack(memory[1 + 2 * CAPACITY :]), gone
