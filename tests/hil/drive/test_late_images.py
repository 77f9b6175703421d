"""Images of unequal age, of a robot that turns to and fro: scan matching leaves the heading as the wheels have it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.sensors.flawed_scan import Flaws
from onboard.config.config import load_config
from onboard.config.plant_model import load_plant
from onboard.policy.contract import ACTIONS
from onboard.values.geometry import wrap
from onboard.values.messages import Decision, Memory, Observation, Pose, Twist
from tests.rigs.fusion.table_tops import DEFAULT, Straight, looking
from tests.rigs.rooms import room, with_box

SIDES = {"front": 0.0, "left": 75.0, "right": -75.0, "rear": 180.0}
TICK_S = 1.0 / 30.0
"""The trace has the state before the tick's motion."""
LATE = Flaws(camera_hz=(7.5, 7.5), camera_age_s=(0.1, 0.1))


class ToAndFro(Straight):
    """Turns in place for three decisions to the left, then to the right, and notes the heading that it is given."""

    def __init__(self) -> None:
        self.yaw_rad: list[tuple[int, float]] = []

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the turn, and the memory one decision older."""
        self.yaw_rad.append((observation.stamp_ns, observation.filtered.pose.yaw_rad))
        turn = Twist(0.0, 2.0 if int(memory[0]) % 6 < 3 else -2.0)
        return Decision(ACTIONS.index(turn), np.zeros(len(ACTIONS), np.float32)), memory + 1.0


def test_the_heading_stays_within_five_degrees() -> None:
    config, mounts = load_config(None), {name: looking(name, deg, 15.0, 58.0, 0.5) for name, deg in SIDES.items()}
    world = with_box(room(5.0, 4.0), (3.5, 4.2), (0.5, 1.2), (0.0, 1.5))
    senses = Senses(depth_noise=True, flaws=LATE, depth_every=1)
    plant = load_plant(config.robot.plant)
    setting = Setting(world, plant, Body(0.25, 0.9), replace(DEFAULT, depth=mounts, color={}), config, senses)
    policy = ToAndFro()
    outcome = drive_runtime(setting, Episode(Pose(1.5, 2.0, 0.3), (4.0, 2.0), 2.5), policy, 1, rendered=True, max_s=9.0)
    began_ns = policy.yaw_rad[0][0]
    times_s = [(stamp_ns - began_ns) / 1e9 + TICK_S for stamp_ns, _ in policy.yaw_rad]
    true_rad = np.interp(times_s, outcome.trace[:, 0] - outcome.trace[0, 0], np.unwrap(outcome.trace[:, 3]))
    off_rad = [wrap(yaw - true + true_rad[0]) for (_, yaw), true in zip(policy.yaw_rad, true_rad, strict=True)]
    assert np.ptp(true_rad) > 1.0
    assert max(np.abs(off_rad)) < math.radians(5.0)
