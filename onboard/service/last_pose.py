"""The robot's pose in the map at the last stop, for the tracker's next start. Never raises: a start does not need it.

The file is in the folder of the recordings. It names its map by digest: the pose of another map is not used. A robot
that was driving coasts on after the last command, so the pose is that at the end of this, by the plant.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import structlog

from onboard.config.config import Config
from onboard.config.plant_model import MotionState, Plant, step
from onboard.navigation.ekf import localised
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.state import RobotState
from onboard.values.clock import NS_PER_S, wall_ns
from onboard.values.interfaces import Inbox
from onboard.values.messages import STOP, Fix, Inputs, Pose, Twist

SD = (0.1, 0.1, 0.1)
"""Standard deviation of the saved pose: x, y [m], yaw [rad]. The robot may have been pushed a little."""
COAST_S, STEP_S = 3.0, 1.0 / 30.0
"""A base is at rest within this time; steps of it."""
log = structlog.get_logger("map")


def file_of(config: Config) -> Path:
    """Return the file of a robot's last pose."""
    return config.record.directory / f"{config.robot.name}.last_pose.json"


def save(config: Config, building: OccupancyGrid, state: RobotState, plant: Plant) -> None:
    """Write the pose at which the robot comes to rest, if it knows where it is."""
    pose, file = state.localization.map_from_base, file_of(config)
    if pose is None or not localised(state.localization) or state.tracking.lost:
        return
    pose = _at_rest(pose, state.wheels.twist, plant)
    table = {"map_sha256": building.digest, "wall_ns": wall_ns(), "pose": [pose.x_m, pose.y_m, pose.yaw_rad]}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(table), encoding="utf-8")
    except OSError as error:
        log.warning("last_pose_not_saved", file=str(file), error=error.strerror)


def _at_rest(pose: Pose, twist: Twist, plant: Plant) -> Pose:
    motion = MotionState(pose, twist)
    for _ in range(round(COAST_S / STEP_S)):
        motion = step(motion, STOP, plant, STEP_S)
    return motion.pose


def load(config: Config, building: OccupancyGrid) -> Pose | None:
    """Return the saved pose, None without one of this map; log which, and its age."""
    file = file_of(config)
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        x_m, y_m, yaw_rad = (float(value) for value in table["pose"])
        digest, age_s = str(table["map_sha256"]), (wall_ns() - int(table["wall_ns"])) / NS_PER_S
    except FileNotFoundError:
        log.info("no_last_pose", file=str(file), remedy="`onboard locate`, or /initialpose")
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("last_pose_not_read", file=str(file), error=str(error))
        return None
    if digest != building.digest:
        log.warning("last_pose_of_another_map", file=str(file), map=str(config.map.file), remedy="`onboard locate`")
        return None
    log.info("last_pose", x_m=x_m, y_m=y_m, yaw_rad=yaw_rad, age_s=round(age_s))
    return Pose(x_m, y_m, yaw_rad)


class Resumed:
    """An inbox that adds the pose of the last stop to the first odometry, as a message on `/initialpose` would."""

    def __init__(self, inbox: Inbox, pose: Pose | None) -> None:
        self._inbox, self._pose = inbox, pose

    def take(self, now_ns: int) -> Inputs:
        """See `interfaces.Inbox`."""
        inputs = self._inbox.take(now_ns)
        if self._pose is None or not inputs.odometry:
            return inputs
        newest, pose, self._pose = inputs.odometry[-1], self._pose, None
        fix = Fix(newest.stamp_ns, newest.arrival_ns, pose, np.diag(np.square(SD)))
        return replace(inputs, fixes=(fix, *inputs.fixes))

    def close(self) -> None:
        """See `interfaces.Inbox`."""
        self._inbox.close()
