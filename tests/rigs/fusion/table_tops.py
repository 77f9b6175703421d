"""A robot with cameras at a random place that drives straight at a table's top, in our own world."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses
from hil.drive.setting import Outcome, Setting
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from onboard.config.config import Config, load_config
from onboard.config.mounts import BODY_FROM_OPTICAL_XYZW, Mount, Mounts, load_mounts
from onboard.config.plant_model import load_plant
from onboard.policy.contract import ACTIONS
from onboard.values.geometry import quaternion_from_rpy, quaternion_product, rotation_from_quaternion
from onboard.values.messages import Decision, Memory, Observation, Pose, Twist
from tests.rigs.rooms import room, with_box

CONFIG = load_config(None)
DEFAULT = load_mounts(CONFIG.robot.mounts)
WIDTH, HEIGHT, ACROSS_DEG = 108, 80, 87.0
DEPTH_EVERY = 4
"""Images at 7.5 Hz."""


def looking(name: str, left_deg: float, down_deg: float, fov_deg: float, z_m: float) -> Mount:
    """Return a camera 0.15 m from the base's axis that looks to a side and down. fov_deg: its upright view"""
    rpy = quaternion_from_rpy(0.0, math.radians(down_deg), math.radians(left_deg))
    pose = np.eye(4)
    pose[:3, :3] = rotation_from_quaternion(quaternion_product(rpy, BODY_FROM_OPTICAL_XYZW))
    pose[:3, 3] = 0.15 * math.cos(math.radians(left_deg)), 0.15 * math.sin(math.radians(left_deg)), z_m
    return replace(
        DEFAULT.depth["front"],
        name=name, width=WIDTH, height=HEIGHT, cx=(WIDTH - 1) / 2, cy=(HEIGHT - 1) / 2,
        fx=WIDTH / 2 / math.tan(math.radians(ACROSS_DEG / 2)), fy=HEIGHT / 2 / math.tan(math.radians(fov_deg / 2)),
        least_m=0.15, base_from_camera=pose,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A robot with four cameras, and the top of a table whose board is 4 cm thick."""

    config: Config
    mounts: Mounts
    top_m: float


def case_of(seed: int) -> Case:
    """Return a random robot and table."""
    rng = np.random.default_rng(seed)
    z_m, down_deg, fov_deg = rng.uniform(0.15, 0.9), rng.uniform(-10.0, 35.0), rng.uniform(42.0, 60.0)
    height_m = rng.uniform(max(0.4, z_m + 0.02), 1.2)
    top_m = rng.uniform(0.3, height_m)
    sides = {"front": 0.0, "left": 75.0, "right": -75.0, "rear": 180.0}
    views = {name: looking(name, left_deg, down_deg, fov_deg, z_m) for name, left_deg in sides.items()}
    robot = CONFIG.robot.model_copy(update={"height_m": height_m})
    return Case(CONFIG.model_copy(update={"robot": robot}), replace(DEFAULT, depth=views), top_m)


class Straight:
    """Always drives straight ahead at full speed."""

    name = "straight"
    memory_reset_s = None

    def initial_memory(self) -> Memory:
        """Return an empty memory."""
        return np.zeros(1, np.float32)

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the fastest way ahead."""
        return Decision(ACTIONS.index(Twist(1.0, 0.0)), np.zeros(len(ACTIONS), np.float32)), memory

    def close(self) -> None:
        """Do nothing."""


def drive_at_table(case: Case, seed: int, max_s: float = 20.0) -> Outcome:
    """Return the outcome of a drive at the table: brakes, backs off, and comes again."""
    world = with_box(room(8.0, 4.0), (4.0, 4.6), (1.2, 2.8), (case.top_m - 0.04, case.top_m))
    plant = load_plant(case.config.robot.plant)
    senses = Senses(depth_noise=True, depth_every=DEPTH_EVERY)
    setting = Setting(world, plant, Body(0.25, case.config.robot.height_m), case.mounts, case.config, senses)
    episode = Episode(Pose(1.0, 2.0, 0.0), (7.0, 2.0), 6.0)
    return drive_runtime(setting, episode, Straight(), seed, rendered=True, max_s=max_s)
