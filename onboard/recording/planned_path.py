"""The path that a policy plans, for viewers: down the cost to go that it plans by. No decision uses it.

`mapped` plans over the map and what the scan shows, `reactive` in its window, any policy with `map.subgoals` over the
map alone. Another network plans no path. The memory of the newest decision holds what the policy knows, so the path is
a function of a recorded tick.
"""

from __future__ import annotations

import threading

import numpy as np

from onboard.config.config import Config
from onboard.navigation import start_frame
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.policy.dwa import dynamic_window, mapped
from onboard.policy.dwa.cost_to_go import STEEP, CostField, Floats32, descent
from onboard.policy.dwa.costmap import EMPTY, WayFinder
from onboard.policy.dwa.mapped import NONE_GONE, MapPlanner
from onboard.state import TickRecord
from onboard.values.geometry import IDENTITY, apply, compose, inverse
from onboard.values.messages import Pose

Place = tuple[float, float]


class PlannedPath:
    """Plans again what the policy of a configuration planned. Any thread may use it, one at a time."""

    def __init__(self, config: Config, building: OccupancyGrid | None) -> None:
        """building: the map of `map.file`"""
        model, half_width_m = config.policy.model, config.robot.footprint.half_width_m
        self._mapped = model == "mapped"
        self._window = WayFinder(half_width_m) if model in ("mapped", "reactive") else None
        with_map = building is not None and (self._mapped or config.map.subgoals)
        self._planner = MapPlanner(building, half_width_m) if with_map and building is not None else None
        self._lock = threading.Lock()

    def places(self, record: TickRecord) -> list[Place]:
        """Return places of the odometry frame from the robot to its goal, 0.1 m apart; none without a drive."""
        after, filtered = record.after, record.filtered
        if after is None or after.start is None or filtered is None or not after.mission.driving:
            return []
        goal, memory = after.mission.goal_xy_m, after.pilot.memory
        in_map = None if after.tracking.lost else start_frame.map_from_start(after.start, after.localization)
        if goal is None:
            return []
        with self._lock:
            found = self._planned(filtered.pose, goal, memory, in_map)
        odom_from_start = inverse(after.start.start_from_odom)
        if (
            after.start.start_from_map is not None and record.map_from_odom is not None
        ):  # the odometry has drifted since
            odom_from_start = inverse(compose(after.start.start_from_map, record.map_from_odom))
        return [apply(odom_from_start, place) for place in found]

    def _planned(self, pose: Pose, goal: Place, memory: Floats32 | None, map_from_start: Pose | None) -> list[Place]:
        """Return the path in the start frame."""
        layer, gone, in_grid = EMPTY, NONE_GONE, False
        if memory is not None and self._mapped:
            layer, _, gone, in_grid = mapped.unpack(memory)
        elif memory is not None and self._planner is None and self._window is not None:
            layer, _ = dynamic_window.unpack(memory)
        if self._planner is not None and map_from_start is not None:
            frame = compose(self._planner.grid_from_map, map_from_start)
            here, there = compose(frame, pose), apply(frame, goal)
            if not in_grid:
                layer, gone = EMPTY, NONE_GONE
            _, field = self._planner.around(layer, gone, here, there)
        elif self._window is not None:
            frame, here, there = IDENTITY, pose, goal
            _, _, field = self._window.window(EMPTY if in_grid else layer, here, there)
        else:
            return []
        back = inverse(frame)
        return [apply(back, (float(x), float(y))) for x, y in descent(field, (here.x_m, here.y_m), there, STEEP)]


def warm_up() -> None:
    """Compile the kernel, before the first tick."""
    descent(CostField(np.ones((3, 3), np.float32), (0.0, 0.0), 1.0, 1e5), (1.0, 1.0), (2.0, 2.0), STEEP)
