"""Images of unequal age, of a robot that turns: its heading and the obstacles about it stay in place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.evaluate.baselines.registry import grid_seen
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.sensors.direct_scan import direct_scan
from hil.sensors.flawed_scan import Flaws
from onboard.config.config import load_config
from onboard.config.plant_model import load_plant
from onboard.perception.building.reach import reach_in
from onboard.policy.contract import ACTIONS
from onboard.values.geometry import wrap
from onboard.values.messages import Decision, Memory, Observation, Pose, Twist
from tests.rigs.fusion.table_tops import DEFAULT, Straight, looking
from tests.rigs.rooms import room, with_box

SIDES = {"front": 0.0, "left": 75.0, "right": -75.0, "rear": 180.0}
LATE = Flaws(camera_hz=(7.5, 7.5), camera_age_s=(0.1, 0.1))
START = Pose(1.5, 2.0, 0.3)
TICK_S = 1.0 / 30.0
"""The trace has the state before the tick's motion."""
BESIDE, NEARER_M, NEAR_M = 3, 0.2, 2.5
"""A return is false if it is so much nearer than all that is truly within so many bins, and no farther than this."""


class Turning(Straight):
    """Turns in place for some decisions to the left, then to the right, and keeps what it is given."""

    def __init__(self, decisions: int) -> None:
        self.given: list[Observation] = []
        self._decisions = decisions

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the turn, and the memory one decision older."""
        self.given.append(observation)
        turn = Twist(0.0, 2.0 if int(memory[0]) // self._decisions % 2 == 0 else -2.0)
        return Decision(ACTIONS.index(turn), np.zeros(len(ACTIONS), np.float32)), memory + 1.0


Turned = tuple[Setting, list[Observation], list[Pose]]


def drive(policy: Turning, *, tracker: bool) -> Turned:
    """Return the setting, what the policy was given, and the true poses then. tracker: by it alone"""
    config, mounts = load_config(None), {name: looking(name, deg, 15.0, 58.0, 0.5) for name, deg in SIDES.items()}
    world = with_box(room(5.0, 4.0), (3.5, 4.2), (0.5, 1.2), (0.0, 1.5))
    senses, plant = Senses(depth_noise=True, flaws=LATE, depth_every=1), load_plant(config.robot.plant)
    setting = Setting(world, plant, Body(0.25, 0.9), replace(DEFAULT, depth=mounts, color={}), config, senses)
    if tracker:
        sections = {"map": config.map, "odometry": config.odometry}
        changes = {"map": {"tracker": True}, "odometry": {"scan_matching": False}}
        config = config.model_copy(update={n: sections[n].model_copy(update=new) for n, new in changes.items()})
        setting = replace(
            setting, config=config, senses=replace(senses, fix_sd=(0.0, 0.0, 0.0), fix_period_s=(1e5, 1e5))
        )
        setting = replace(setting, reach=reach_in(grid_seen(setting, world), setting.body.inner_m))
    trace = drive_runtime(setting, Episode(START, (4.0, 2.0), 2.5), policy, 1, rendered=True, max_s=9.0).trace
    trace[:, 3] = np.unwrap(trace[:, 3])
    times_s = [(one.stamp_ns - policy.given[0].stamp_ns) / 1e9 + TICK_S for one in policy.given]
    poses = zip(*(np.interp(times_s, trace[:, 0] - trace[0, 0], trace[:, column]) for column in (1, 2, 3)), strict=True)
    return setting, policy.given, [Pose(*pose) for pose in poses]


@pytest.fixture(scope="module")
def turned() -> Turned:
    return drive(Turning(3), tracker=False)


def headings_off_deg(given: list[Observation], true: list[Pose]) -> list[float]:
    return [
        math.degrees(wrap(one.filtered.pose.yaw_rad - pose.yaw_rad + true[0].yaw_rad))
        for one, pose in zip(given, true, strict=True)
    ]


def test_the_heading_stays_within_five_degrees(turned: Turned) -> None:
    _, given, true = turned
    assert np.ptp([pose.yaw_rad for pose in true]) > 1.0
    assert max(np.abs(headings_off_deg(given, true))) < 5.0


def test_the_tracker_does_not_lead_or_lag_while_the_robot_turns_on() -> None:
    """Images that were compared with the map as captured turned the heading by 4 deg."""
    _, given, true = drive(Turning(1000), tracker=True)
    assert np.ptp([pose.yaw_rad for pose in true]) > 10.0
    assert abs(np.mean(headings_off_deg(given, true)[3:])) < 2.0


def test_no_obstacle_is_remembered_beside_its_place(turned: Turned) -> None:
    """An image that entered the memory at several headings left obstacles nearer than all true ones: 143 bins."""
    setting, given, true = turned
    direct, false = direct_scan(setting.world, setting.mounts, setting.config.scan, "lidar"), 0
    for one, pose in zip(given, true, strict=True):
        ranges_m = direct.ranges(pose)
        nearest_m = np.min([np.roll(ranges_m, side) for side in range(-BESIDE, BESIDE + 1)], axis=0)
        scan_m = one.scan.ranges_m
        false += int((one.scan.seen & (scan_m < nearest_m - NEARER_M) & (scan_m < NEAR_M)).sum())
    assert false < 40
