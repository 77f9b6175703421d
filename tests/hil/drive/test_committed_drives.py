"""The first committed starts and goals of three maps: `reactive` reaches at least 7 of 10 a map without contact.

Minutes of driving: `make test-long ARGS="-s tests/hil/drive/test_committed_drives.py"` prints a line a drive.
"""

from __future__ import annotations

import math
import os

import pytest

from hil.drive.episodes import load_episodes
from hil.drive.robot import Senses, SimulatedRobot
from hil.physics.collision_world import Body
from onboard.config.config import Config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.policy.dwa.dynamic_window import ReactivePolicy
from onboard.values.messages import Pose
from tests.rigs.in_process import InProcess

MAPS = ("gdc1", "ghc7", "willow")
COUNT, ENOUGH = 10, 7
TOLERANCE_M = 0.2


def show(line: str) -> None:
    os.write(2, f"{line}\n".encode())


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MAPS)
def test_on_the_simulated_clock(name: str) -> None:
    known = load_episodes(name)
    config = Config()
    mounts, plant = load_mounts(config.robot.mounts), load_plant(config.robot.plant)
    world, episodes = known.world, known.episodes[:COUNT]
    good = 0
    for number, episode in enumerate(episodes):
        robot = SimulatedRobot(world, plant, Body(), mounts, episode.start, Senses(seed=number))
        policy = ReactivePolicy(plant, config.robot, config.rates, config.goal)
        goal = Pose(*episode.goal_xy_m, 0.0)
        drive = InProcess(config, mounts, plant, robot, policy).drive_to(goal)
        away_m = math.hypot(robot.state.pose.x_m - goal.x_m, robot.state.pose.y_m - goal.y_m)
        reached = drive.state == "reached" and away_m <= TOLERANCE_M and robot.state.contacts == 0
        good += reached
        show(f"{name} {number}: {drive.state}, {away_m:.2f} m, {drive.time_s:.1f} s, {robot.state.contacts} contacts")
    show(f"{name}: {good} of {len(episodes)}")
    assert good >= ENOUGH
