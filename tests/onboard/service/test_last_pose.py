"""The pose of the last stop: saved, of this map only, and given to the tracker with the first odometry."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from onboard.config.config import Config, MapSection, RecordSection
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.map_tracking import MapTracking
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.service import last_pose
from onboard.state import RobotState
from onboard.values.geometry import IDENTITY, between
from onboard.values.messages import STOP, Inputs, OdometryMessage, Pose, Twist
from tests.rigs.runtime_bench import PLANT

GRID = OccupancyGrid(0.05, IDENTITY, np.zeros((4, 4), np.int8))
OTHER = OccupancyGrid(0.1, IDENTITY, np.zeros((4, 4), np.int8))
PLACE = Pose(1.0, 2.0, 0.5)
KNOWN = RobotState(localization=LocalizationState(map_from_base=PLACE, covariance=1e-4 * np.eye(5)))


class Source:
    def __init__(self, *odometry: OdometryMessage) -> None:
        self.odometry, self.closed = odometry, 0

    def take(self, now_ns: int) -> Inputs:
        return Inputs(now_ns, odometry=self.odometry)

    def close(self) -> None:
        self.closed += 1


def config(folder: Path) -> Config:
    return Config(map=MapSection(file=folder / "map.yaml"), record=RecordSection(directory=folder / "recordings"))


def test_a_pose_is_taken_up_again_in_the_same_map_only(tmp_path: Path) -> None:
    robot = config(tmp_path)
    assert last_pose.load(robot, GRID) is None
    last_pose.save(robot, GRID, KNOWN, PLANT)
    assert last_pose.load(robot, GRID) == PLACE
    assert last_pose.load(robot, OTHER) is None


def test_a_robot_that_was_driving_is_saved_where_it_comes_to_rest(tmp_path: Path) -> None:
    robot = config(tmp_path)
    wheels = replace(KNOWN.wheels, twist=Twist(1.0, 0.0))
    last_pose.save(robot, GRID, replace(KNOWN, wheels=wheels), PLANT)
    saved = last_pose.load(robot, GRID)
    assert saved is not None
    ahead = between(PLACE, saved)
    assert 0.1 < ahead.x_m < 0.4
    assert (abs(ahead.y_m) < 1e-9, abs(ahead.yaw_rad) < 1e-9) == (True, True)


def test_a_lost_robot_saves_nothing_and_damage_is_no_pose(tmp_path: Path) -> None:
    robot = config(tmp_path)
    for state in (RobotState(), RobotState(localization=KNOWN.localization, tracking=MapTracking(lost=True))):
        last_pose.save(robot, GRID, state, PLANT)
        assert not last_pose.file_of(robot).exists()
    last_pose.save(robot, GRID, KNOWN, PLANT)
    for text in ("", "{}", json.dumps({"pose": [1], "map_sha256": GRID.digest, "wall_ns": 0})):
        last_pose.file_of(robot).write_text(text)
        assert last_pose.load(robot, GRID) is None


def test_the_first_odometry_brings_it_once() -> None:
    source = Source()
    inbox = last_pose.Resumed(source, PLACE)
    assert inbox.take(1).fixes == ()
    source.odometry = (OdometryMessage(5, 6, None, STOP),)
    (fix,) = inbox.take(2).fixes
    assert (fix.pose, fix.stamp_ns) == (PLACE, 5)
    assert inbox.take(3).fixes == ()
    inbox.close()
    assert source.closed == 1
