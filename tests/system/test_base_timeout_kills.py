"""The runtime is killed (SIGKILL) at random times of a drive: the base rolls no farther than the stated bound.

`onboard-hil kills` does the same and prints the distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from hil.commands.judge.kills import as_json, stated_bound
from hil.physics.simulated_base import Rolled
from hil.reliability.kills.trial import Kill, Trial, run_trial
from onboard.config.config import DEFAULT_ROBOT, load_config
from tests.rigs.machine.processes import toml
from tests.rigs.network.loopback import free_domain

HELD = Rolled(0.9, 2.5, 2.2)
PATIENCE_S = 1800
"""A kill takes several seconds: a start, a drive, a stop."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A number of kills. heeds: whether the base also uses DDS liveliness."""

    times: int
    seed: int
    heeds: bool


SHORT = [Batch(4, 1, False)]
LONG = [Batch(50, seed, seed > 3) for seed in range(1, 5)]
"""200 kills in total."""
long = [pytest.param(batch, marks=pytest.mark.long) for batch in LONG]


@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("batch", [*SHORT, *long], ids=str)
def test_the_base_rolls_no_farther_than_stated(tmp_path: Path, batch: Batch) -> None:
    robot = {"mounts": DEFAULT_ROBOT / "mounts.toml", "plant": DEFAULT_ROBOT / "plant.toml"}
    config = load_config(toml(tmp_path / "given.toml", robot=robot, dds={"domain": free_domain()}))
    seen: list[Kill] = []
    kills = run_trial(
        Trial(config, tmp_path / "kills", batch.times, batch.seed, batch.heeds), lambda _, kill: seen.append(kill)
    )
    result = as_json(kills, stated_bound(config, batch.heeds))
    assert kills == seen
    assert len(kills) == batch.times
    assert result["held"], result
    assert result["fast"] >= batch.times // 4, "the robot hardly drove"
    assert max(kill.way_m for kill in kills) > 0.3 * result["bound"]["way_m"]


#   rolled [m]  turned [rad]  holds
JUDGED = [(0.89, 2.4, True), (0.91, 0.0, False), (0.0, 2.6, False)]


@pytest.mark.parametrize(("way_m", "turned_rad", "holds"), JUDGED)
def test_one_kill_beyond_the_bound_is_enough(way_m: float, turned_rad: float, holds: bool) -> None:
    harmless = Kill(1.0, 0.0, 0.5, 0.0, 1.0)
    assert as_json([harmless, Kill(1.0, 0.0, way_m, turned_rad, 1.0)], HELD)["held"] == holds
