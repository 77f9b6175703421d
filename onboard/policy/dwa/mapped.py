"""`mapped`: the dynamic window along the path of a building's map, corrected by what the scan shows.

The cost to go comes from two layers:

- the map, without obstacles that the scan has seen through (`floor.py`);
- obstacles that the scan shows and the map lacks (`costmap.py`). A ray's end marks an obstacle, a passing ray clears
  it, and the policy forgets it after two minutes.

So the policy drives with a map whose furniture is missing or has moved. Its collision check uses the scan alone. Where
`Observation.map_from_start` is None, as without localisation, it decides as `reactive` does, without the map.

It plans in each decision, in the thread of the inference. Its logits are minus the seconds left after each action.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from onboard.config.config import GoalSection, RatesSection, RobotSection
from onboard.config.plant_model import Plant
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.policy.dwa.cost_to_go import LETHAL_PRICE, CostField, sample, solve
from onboard.policy.dwa.costmap import (
    CELL_M,
    COARSE,
    EMPTY,
    LocalMap,
    WayFinder,
    blind_ahead,
    near_robot,
    observed,
    obstacle_points,
    passage_prices,
)
from onboard.policy.dwa.dynamic_window import Course, DynamicWindow, Floats, pack
from onboard.policy.dwa.dynamic_window import unpack as unpack_layer
from onboard.policy.dwa.floor import CAPACITY, Floats32, Floor, floor_in, refuted
from onboard.values.geometry import IDENTITY, apply, compose, inverse
from onboard.values.messages import BINS, Decision, Memory, Motion, Observation, Pose, Scan

ROOM_M = 0.05
"""Addition to the footprint's half width for the path search: the dynamic window does not enter narrower passages."""
KNOWN_M = 0.4
KNOWN_NEARNESS = round((2.0 * KNOWN_M / CELL_M) ** 2)
"""An obstacle of the scan this near to an obstacle of the map is the same obstacle. Nearness as in `Prices`."""
NONE_GONE: Floats32 = np.empty((0, 2), np.float32)


class MapPlanner:
    """Plans over a map, corrected by what the scan shows. All geometry is in the frame of the map's grid."""

    def __init__(self, grid: OccupancyGrid, half_width_m: float) -> None:
        """half_width_m: of the passage that the footprint needs"""
        self.prices = passage_prices(half_width_m + ROOM_M)
        self.grid_from_map = inverse(grid.map_from_grid)
        self.floor = floor_in(grid, self.prices, half_width_m)

    def around(
        self, layer: LocalMap, gone: Floats32, pose: Pose, goal_xy_m: tuple[float, float]
    ) -> tuple[Floor, CostField]:
        """Return the floor and the cost to go on its coarse cells: the map, corrected where the scan contradicts it."""
        floor, robot = self.floor, (pose.x_m, pose.y_m)
        new = floor.unknown(layer.cells, gone, KNOWN_NEARNESS)
        if len(new) or len(gone) or len(layer.failures.gaps):
            floor = floor.changed(gone, new, robot, self.prices)
            layer.failures.close_in(floor.fine, floor.fine_corner_xy_m, CELL_M, self.prices)
            layer.failures.close_in(floor.coarse, floor.corner_xy_m, COARSE * CELL_M, self.prices)
        return floor, solve(floor.coarse, self.prices, floor.corner_xy_m, COARSE * CELL_M, goal_xy_m, robot)


class MapPolicy:
    """Implements `onboard.values.interfaces.Policy`. With the map, all geometry is in the frame of its grid."""

    memory_reset_s: float | None = None

    def __init__(
        self,
        plant: Plant,
        grid: OccupancyGrid,
        robot: RobotSection | None = None,
        rates: RatesSection | None = None,
        goal: GoalSection | None = None,
        name: str = "mapped",
    ) -> None:
        self.name = name
        self._window = DynamicWindow(plant, robot, rates, goal)
        self._alone = WayFinder(self._window.half_width_m)
        self._planner = MapPlanner(grid, self._window.half_width_m)
        self._warm_up()

    def initial_memory(self) -> Memory:
        """Return the memory before the first scan."""
        return _pack(EMPTY, Course(), NONE_GONE, mapped=False)

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the best action, and the memory with this scan added. Logits are about minus the seconds left."""
        window, scan, map_from_start = self._window, observation.scan, observation.map_from_start
        known = map_from_start is not None
        frame = IDENTITY if map_from_start is None else compose(self._planner.grid_from_map, map_from_start)
        pose = compose(frame, observation.filtered.pose)
        goal, motion = apply(frame, observation.goal_xy_m), Motion(pose, observation.filtered.twist)
        past, course, gone, was_known = unpack(memory)
        if known != was_known:  # the cells of the memory are in the other frame
            past, gone = EMPTY, NONE_GONE
        gone = refuted(self._planner.floor, gone, pose, scan) if known else NONE_GONE
        layer = observed(past, pose, scan, window.inner_m)
        seen, unseen = obstacle_points(scan, pose, layer.centres(), window.look_m, window.reach_m)
        fan = window.look_ahead(motion, course, observation.previous_action, seen, unseen, window.allowed(scan))
        if known:
            field, left_m = self._cost_to_go(layer, gone, pose, goal, fan.places_m)
        else:
            left_m = math.inf
            field = self._alone.cost_to_go(layer, pose, goal, fan.places_m)
        decision, course = window.decide(
            fan, field, goal, motion, course, blind_ahead(scan), observation.previous_action
        )
        layer = replace(layer, failures=layer.failures.after(pose, goal, field, window.tolerance_m, window.patience))
        return replace(decision, left_m=left_m), _pack(layer, course, gone, mapped=known)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _cost_to_go(
        self, layer: LocalMap, gone: Floats32, pose: Pose, goal_xy_m: tuple[float, float], places_m: Floats
    ) -> tuple[CostField, float]:
        """Return the cost to go around places (k, 2), and that of the first: from the map, corrected where the scan
        contradicts the map.

        Costs far above that of the first place are cut, so that a wall of the map counts as one of the scan.
        """
        floor, around = self._planner.around(layer, gone, pose, goal_xy_m)
        field = near_robot(floor.fine, self._planner.prices, floor.fine_corner_xy_m, goal_xy_m, around, places_m)
        i, j = ((place - corner) / CELL_M - 0.5 for place, corner in zip(places_m[0], field.corner_xy_m, strict=True))
        here_m, _, _ = sample(field.cost, i, j, field.most_m)
        return replace(field, most_m=here_m + LETHAL_PRICE * CELL_M), here_m

    def _warm_up(self) -> None:
        """Compile the kernels of the map, before the first decision."""
        floor = self._planner.floor
        cell = np.array([floor.first], np.float32)
        (x_m, y_m), scan = floor.corner_xy_m, Scan(0, np.ones(BINS, np.float32), np.ones(BINS, np.bool_))
        pose, goal, place = Pose(x_m, y_m, 0.0), (x_m + CELL_M, y_m), np.array([[x_m, y_m]])
        refuted(floor, NONE_GONE, pose, scan)
        layer = LocalMap(np.concatenate([cell, np.ones((1, 1), np.float32)], axis=1))
        for known, gone in ((layer, cell), (EMPTY, NONE_GONE)):
            self._cost_to_go(known, gone, pose, goal, place)


HEADER = 2 + 2 * CAPACITY


def _pack(layer: LocalMap, course: Course, gone: Floats32, *, mapped: bool) -> Memory:
    """Return the memory: whether it is in the map's grid, the number of gone cells, these cells, then `policy.pack`."""
    memory = np.zeros(HEADER, np.float32)
    memory[0], memory[1], memory[2 : 2 + gone.size] = mapped, len(gone), gone.ravel()
    return np.concatenate([memory, pack(layer, course)])


def unpack(memory: Memory) -> tuple[LocalMap, Course, Floats32, bool]:
    """Return the arguments of `_pack` from a memory."""
    gone = memory[2 : 2 + 2 * int(memory[1])].reshape(-1, 2)
    return *unpack_layer(memory[HEADER:]), gone, bool(memory[0])
