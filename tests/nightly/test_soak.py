"""A soak of minutes: nothing is broken, all is recorded and read; and what is broken on purpose is found.

The long test is the nightly soak: SOAK_MINUTES of the wall clock (10), or SOAK_HOURS of the robot, for each seed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hil.live.target.goals import Place
from hil.physics.collision_world import body_of
from hil.physics.free_space import Episode
from onboard.config.config import Config
from onboard.safety import limits
from onboard.values.interfaces import Policy
from onboard.values.messages import Pose
from tests.nightly import soak as soaking
from tests.nightly.ground import Building, load_buildings
from tests.nightly.growth import growth
from tests.nightly.soak import Soak, robot_config
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import FORWARD, Puppet

MINUTES = 3.0
QUICK_S = 30.0
"""Long enough for two faults, where they come as quickly as `only` has them come."""
CORNERS = [(1.5, 1.5), (10.5, 5.5), (1.5, 5.5), (10.5, 1.5)]
MAPS = ("gdc1", "ahg2", "willow", "ghc7", "ase4", "lgrc1")
"""Floor plans of real buildings. Furniture, goals and pedestrians are random by seed."""
PEDESTRIANS = 4
SOAK_WALL_S = 60.0 * float(os.environ.get("SOAK_MINUTES", "10"))
SOAK_ROBOT_S = 3600.0 * float(os.environ.get("SOAK_HOURS", "inf"))

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def soak(folder: Path, seed: int = 1, config: Config | None = None, policy: Policy | None = None) -> Soak:
    """Return a soak in a room with a box; the goals are its corners, one after another."""
    world = with_box(room(12.0, 7.0), (5.0, 7.0), (3.0, 4.0), (0.0, 1.5))
    ways = zip(CORNERS, [*CORNERS[1:], CORNERS[0]], strict=True)
    place = Place(world, tuple(Episode(Pose(*at, 0.5), to, 10.0) for at, to in ways))
    return Soak([Building("room", place, None)], folder, seed, config or robot_config(), policy)


@pytest.mark.timeout(4 * 3600 if math.isinf(SOAK_ROBOT_S) else 24 * 3600)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_night_of_faults_breaks_no_rule_and_nothing_grows(tmp_path: Path, seed: int) -> None:
    config = robot_config()
    one = Soak(load_buildings(MAPS, seed, PEDESTRIANS, body_of(config.robot)), tmp_path, seed, config)
    rules = one.run(SOAK_ROBOT_S, math.inf if math.isfinite(SOAK_ROBOT_S) else SOAK_WALL_S)
    read, grown = one.records.read, growth(one.samples)
    print(f"{one.robot_s / 3600.0:.2f} robot hours, {one.ground.path_m / 1e3:.1f} km, {one.goals} goals asked,")
    print(f"{one.reached} reached, {sum(one.faults.values())} faults of {len(one.faults)} kinds, {one.stuck} stuck,")
    print(f"{one.runtimes} runtimes, {read}\n", *(f"{row}\n" for row in grown or ["too short for growth"]))
    assert rules == {}, one.broken
    assert [row for row in grown if not row.held] == []


def test_minutes_of_faults_from_goal_to_goal_break_nothing(tmp_path: Path) -> None:
    one = soak(tmp_path)
    assert one.run(robot_s=60.0 * MINUTES) == {}, one.broken
    assert one.robot_s == pytest.approx(60.0 * MINUTES, abs=0.1)
    assert sum(one.faults.values()) == MINUTES * 60.0 / soaking.EVERY_S
    assert max(one.faults.values()) == one.runtimes == 1
    assert one.goals > one.reached >= 2
    assert one.moving / one.ticks > 0.4
    assert one.ground.path_m > 25.0


Patch = Callable[[pytest.MonkeyPatch], Any]


def only(*names: str) -> Patch:
    """Let these faults come alone, and quickly."""

    def patch(given: pytest.MonkeyPatch) -> None:
        kept = [fault for fault in soaking.FAULTS if fault.name in names]
        for name, value in {"FAULTS": kept, "EVERY_S": 12.0, "ONSET_S": 2.0, "CARRIED_S": 2.0, "LIFE_S": 0.0}.items():
            given.setattr(soaking, name, value)

    return patch


def test_every_tick_is_in_the_recordings_and_they_are_deleted_when_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only("e_stop")(monkeypatch)
    one = soak(tmp_path, config=robot_config(record={"max_file_mb": 0.2}))
    assert one.run(robot_s=QUICK_S) == {}
    assert one.records.read.files >= 2
    assert one.records.read.ticks == one.ticks == pytest.approx(30 * QUICK_S, abs=2)
    assert list(tmp_path.glob("**/*.mcap")) == []


@pytest.mark.parametrize("zones", [False, True])
def test_driving_into_something_is_a_broken_rule(zones: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that only wants ahead drives into the wall, unless the zones hold it back."""
    only("speed_limit_nan")(monkeypatch)
    if not zones:
        monkeypatch.setattr(limits, "_caps", lambda *arguments: [])
    one = soak(tmp_path, policy=Puppet(FORWARD))
    rules = one.run(robot_s=QUICK_S)
    assert one.ground.path_m > 2.0
    assert ("contact" in rules) is (one.ground.contacts > 0) is not zones


def test_a_full_disk_ends_a_recording_that_stays_readable_and_the_next_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only("disk_full")(monkeypatch)
    one = soak(tmp_path)
    assert one.run(robot_s=2 * QUICK_S) == {}
    assert one.records.read.full_disks >= 2
    assert one.records.read.files == one.records.read.full_disks + 1
    assert 0 < one.records.read.ticks < one.ticks


@pytest.mark.parametrize("excused", [True, False])
def test_a_runtime_that_ends_is_followed_by_another_and_only_its_fault_excuses_that(
    excused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only("drive_lost")(monkeypatch)
    if not excused:
        monkeypatch.setattr(soaking, "ENDS_RUNTIME", "another")
    one = soak(tmp_path)
    rules = one.run(robot_s=QUICK_S)
    assert one.runtimes == 1 + one.faults["drive_lost"] > 1
    assert rules == ({} if excused else {"ended": one.runtimes - 1})
