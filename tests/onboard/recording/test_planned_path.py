"""The planned path of viewers: it ends at the goal, and goes round what the policy knows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from onboard.config.config import Config, MapSection, PolicySection
from onboard.drivers.dds.ros_types import Path as RosPath
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.policy.dwa.cost_to_go import CostField, descent
from onboard.policy.dwa.dynamic_window import ReactivePolicy
from onboard.policy.dwa.mapped import MapPolicy
from onboard.recording.planned_path import PlannedPath
from onboard.recording.scene import Scene
from onboard.state import TickRecord
from onboard.values.geometry import apply
from onboard.values.interfaces import Policy
from onboard.values.messages import Pose
from tests.rigs.runtime_bench import PLANT, Bench, Puppet, plain_config

WALL = np.zeros((120, 160), np.int8)
WALL[0], WALL[-1], WALL[:, 0], WALL[:, -1] = 100, 100, 100, 100
WALL[0:80, 80:83] = 100
BUILDING = OccupancyGrid(0.1, Pose(-3.0, -6.0, 0.0), WALL)
"""A hall of 16 m x 12 m; a wall at x = 5 m from y = -6 m to 2 m, with a gap beyond."""
COVARIANCE = np.diag([1e-3, 1e-3, 1e-4])
START = Pose(0.0, 0.0, 0.0)


def ticks(policy: Policy, goal: tuple[float, float], localised: bool = False, drift_m: float = 0.0) -> TickRecord:
    """Return a tick of a drive. drift_m: of the odometry, as the localisation finds during the drive"""
    bench = Bench(policy)
    bench.ticks(3)
    if localised:
        for _ in range(3):
            bench.fix(bench.pose, COVARIANCE)
            bench.ticks(2)
    bench.ask(*goal)
    record = bench.seconds(1.0)[-1]
    for _ in range(5 if drift_m else 0):
        bench.fix(replace(bench.pose, y_m=bench.pose.y_m + drift_m), COVARIANCE)
        record = bench.ticks(3)[-1]
    return record


def planned(model: str, building: OccupancyGrid | None = None, subgoals: bool = False) -> PlannedPath:
    config = Config(policy=PolicySection(model=model), map=MapSection(file="map.yaml", subgoals=subgoals))
    return PlannedPath(config, building)


def length_m(places: np.ndarray) -> float:
    return float(np.hypot(*np.diff(places, axis=0).T).sum())


@pytest.fixture(scope="module")
def in_hall() -> TickRecord:
    return ticks(MapPolicy(PLANT, BUILDING), (9.0, 0.0), localised=True)


def test_reactive_plans_straight_over_free_ground() -> None:
    record = ticks(ReactivePolicy(PLANT), (6.0, 2.0))
    places = np.array(planned("reactive").places(record))
    pose = record.odometry.pose
    assert places[0] == pytest.approx([pose.x_m, pose.y_m], abs=0.05)
    assert places[-1] == pytest.approx([6.0, 2.0], abs=0.05)
    assert length_m(places) < 1.05 * math.dist(places[0], places[-1])


def test_mapped_plans_round_the_wall_of_its_map(in_hall: TickRecord) -> None:
    places = np.array(planned("mapped", BUILDING).places(in_hall))
    assert places[-1] == pytest.approx([9.0, 0.0], abs=0.05)
    crossing = places[(places[:, 0] > 5.0) & (places[:, 0] < 5.3)]
    assert len(crossing) > 0
    assert (crossing[:, 1] > 2.0).all(), "through the gap"
    with_subgoals = np.array(planned("onboard-v2", BUILDING, subgoals=True).places(in_hall))
    assert with_subgoals[-1] == pytest.approx([9.0, 0.0], abs=0.05)


def test_it_begins_at_the_robot_though_the_odometry_drifts() -> None:
    record = ticks(MapPolicy(PLANT, BUILDING), (9.0, 0.0), localised=True, drift_m=0.4)
    map_from_odom = record.map_from_odom
    assert map_from_odom is not None
    assert map_from_odom.y_m == pytest.approx(0.4, abs=0.2)
    places, pose = planned("mapped", BUILDING).places(record), record.odometry.pose
    assert places[0] == pytest.approx((pose.x_m, pose.y_m), abs=0.05)
    assert apply(map_from_odom, places[-1]) == pytest.approx((9.0, 0.0), abs=0.05), "a goal in the map stays there"


def test_a_goal_outside_the_window_is_reached_by_a_straight_line() -> None:
    places = np.array(planned("reactive").places(ticks(ReactivePolicy(PLANT), (40.0, 0.0))))
    assert places[-1] == pytest.approx([40.0, 0.0], abs=0.05)
    assert length_m(places) < 41.0


def test_a_network_without_a_map_and_a_robot_without_a_goal_have_none(in_hall: TickRecord) -> None:
    assert planned("onboard-v2").places(in_hall) == []
    assert planned("onboard-v2", BUILDING).places(in_hall) == []
    idle = Bench(Puppet()).tick(3)
    assert planned("reactive").places(idle) == []
    empty = dict(Scene(plain_config(), planned=planned("reactive")).messages(idle, 1, {"plan"}))["plan"]()
    assert isinstance(empty, RosPath)
    assert empty.poses == []


def test_a_path_ends_where_the_cost_no_longer_falls() -> None:
    level = CostField(np.ones((50, 50), np.float32), (0.0, 0.0), 0.2, 1e5)
    assert len(descent(level, (5.0, 5.0), (9.0, 9.0), 9.0)) < 10
    pit = np.add.outer(np.abs(np.arange(50.0) - 25.0), np.abs(np.arange(50.0) - 25.0)).astype(np.float32)
    places = descent(CostField(pit, (0.0, 0.0), 0.2, 1e5), (1.0, 1.0), (9.0, 9.0), 1e9)
    assert len(places) < 200
    assert places[-1] == pytest.approx([5.1, 5.1], abs=0.5)
