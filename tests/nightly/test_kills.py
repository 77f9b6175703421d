"""The runtime is killed (SIGKILL) at random times of a drive: the base rolls no farther than the stated bound."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hil.physics.simulated_base import most_rolled
from onboard.config.config import DEFAULT_ROBOT, load_config
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.topics import promised_commands
from tests.nightly.kills import Kill, Trial, run_trial
from tests.rigs.machine.processes import toml
from tests.rigs.network.loopback import free_domain

PATIENCE_S = 1800
"""A kill takes several seconds: a start, a drive, a stop."""
FAST_MPS = 0.3
"""A kill counts as fast at this speed or above. A kill of a standing robot proves nothing."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A number of kills. heeds: whether the base also uses DDS liveliness."""

    times: int
    seed: int
    heeds: bool


BATCHES = [Batch(50, seed, seed > 3) for seed in range(1, 5)]
"""200 kills in total."""


@pytest.mark.long
@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_the_base_rolls_no_farther_than_stated(tmp_path: Path, batch: Batch) -> None:
    robot = {"mounts": DEFAULT_ROBOT / "mounts.toml", "plant": DEFAULT_ROBOT / "plant.toml"}
    config = load_config(toml(tmp_path / "given.toml", robot=robot, dds={"domain": free_domain()}))
    kills = run_trial(Trial(config, tmp_path / "kills", batch.times, batch.seed, batch.heeds))
    lease_s = promised_commands(config.rates.control_hz).quality.lease_s if batch.heeds else None
    bound = most_rolled(load_plant(config.robot.plant), config.limits, lease_s)
    print("\n".join(map(_line, kills)), f"\nbound: {bound.way_m:.2f} m, {bound.turn_rad:.2f} rad, {bound.time_s:.2f} s")
    print("mean, p95, max:", *(f"{figure:.2f} m" for figure in figures([kill.way_m for kill in kills])))
    assert len(kills) == batch.times
    assert max(kill.way_m for kill in kills) <= bound.way_m
    assert max(kill.turned_rad for kill in kills) <= bound.turn_rad
    assert sum(abs(kill.v_mps) >= FAST_MPS for kill in kills) >= batch.times // 4, "the robot hardly drove"
    assert max(kill.way_m for kill in kills) > 0.3 * bound.way_m


def _line(kill: Kill) -> str:
    return f"at {kill.v_mps:+.2f} m/s, {kill.w_radps:+.2f} rad/s: rolled {kill.way_m:.2f} m, {kill.time_s:.2f} s"


def figures(values: list[float]) -> tuple[float, float, float]:
    """Return mean, 95th percentile and maximum."""
    return float(np.mean(values)), float(np.percentile(values, 95)), max(values)
