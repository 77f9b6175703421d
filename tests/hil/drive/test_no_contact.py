"""A policy that steers at obstacles on purpose: with rendered cameras, the limits keep the robot from touching any.

The scan that is cast directly sees the whole height band at every distance. Only rendered cameras lose a table's top as
the robot comes near, so only these drives try the memory of obstacles near by.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from hil.drive.episodes import load_episodes
from hil.drive.full_runtime import drive_runtime
from hil.drive.setting import Setting
from hil.physics.collision_world import Simulation, body_of
from onboard.config.config import Config
from onboard.perception.collision import BIN_CENTERS_RAD
from onboard.values.messages import Decision, Memory, Observation, Twist
from tests.rigs.runtime_bench import MOUNTS, PLANT

CONFIG = Config()
FAR_M = 10.0
OPEN_M = 0.5
"""A table this far from the footprint has its top in view."""


class Ram:
    """Drives at the nearest obstacle ahead or beside, past it, along arcs and to the goal, each for a few seconds."""

    name = "ram"
    memory_reset_s: float | None = None

    def __init__(self, seed: int) -> None:
        self._rng, self._left = np.random.default_rng(seed), 0
        self._mode, self._arc, self._beside_rad = "near", Twist(0.0, 0.0), 0.0

    def initial_memory(self) -> Memory:
        return np.zeros(1, np.float32)

    def close(self) -> None:
        pass

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        rng, self._left = self._rng, self._left - 1
        if self._left <= 0:
            self._left, self._beside_rad = int(rng.integers(6, 50)), rng.uniform(-0.6, 0.6)
            self._mode = str(rng.choice(["near", "near", "arc", "beside", "goal"]))
            self._arc = Twist(float(rng.choice([0.2, 0.6, 1.0])), float(rng.uniform(-2.0, 2.0)))
        twist = self._arc if self._mode == "arc" else self._towards(self._bearing_rad(observation))
        return Decision(0, np.zeros(28, np.float32), twist), memory

    def _bearing_rad(self, observation: Observation) -> float:
        if self._mode == "goal":
            pose, (x, y) = observation.filtered.pose, observation.goal_xy_m
            return math.remainder(math.atan2(y - pose.y_m, x - pose.x_m) - pose.yaw_rad, 2.0 * math.pi)
        off = np.abs(BIN_CENTERS_RAD)
        ranges = np.where(np.isfinite(observation.scan.ranges_m), observation.scan.ranges_m, FAR_M) + 0.2 * off
        ranges[off > (2.6 if self._mode == "beside" else 2.0)] = np.inf
        return float(BIN_CENTERS_RAD[np.argmin(ranges)]) + self._beside_rad

    def _towards(self, bearing_rad: float) -> Twist:
        return Twist(self._arc.v_mps if abs(bearing_rad) < 1.2 else 0.0, float(np.clip(2.0 * bearing_rad, -2.0, 2.0)))


def contacts(map_name: str, seed: int, max_s: float) -> int:
    """Return the contacts of a drive from a start in the open: an edge that no camera has seen yet is not known."""
    known = load_episodes(map_name)
    setting = Setting(known.world, PLANT, body_of(CONFIG.robot), MOUNTS, CONFIG)
    simulation = Simulation(known.world, PLANT, setting.body)
    turned = (known.episodes[(seed + n) % len(known.episodes)] for n in range(len(known.episodes)))
    episode = next(one for one in turned if simulation.clearance_m(simulation.start(one.start)) >= OPEN_M)
    return drive_runtime(setting, episode, Ram(seed), seed, rendered=True, max_s=max_s).contacts


@pytest.mark.parametrize(("map_name", "seed", "within_s"), [("apartment", 0, 4.0), ("gdc1", 103, 12.0)])
def test_it_does_not_touch_a_table_whose_top_went_out_of_view(map_name: str, seed: int, within_s: float) -> None:
    """With a memory that an empty bin clears, each of these drives ended at the edge of a table."""
    assert contacts(map_name, seed, within_s) == 0


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("map_name", ["apartment", "gdc1", "ahg2", "willow", "depot"])
def test_no_contact_in_40_drives_of_a_building(map_name: str) -> None:
    assert [(seed, hits) for seed in range(200, 240) if (hits := contacts(map_name, seed, 40.0))] == []
