"""A person who crosses at 1 m/s and walks on: the robot, at 0.7 m/s, stops before his path or passes before him."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hil.drive.fast.drive import drive_fast
from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses
from hil.drive.setting import Outcome, Setting
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.scene.walkers import KINDS, crowd_of
from hil.sensors.flawed_scan import Flaws
from onboard.config.config import Config
from onboard.policy.contract import ACTIONS
from onboard.safety import moving
from onboard.values.messages import Pose, Twist
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT, Puppet

WORLD = room(9.0, 14.0)
V_MPS, AT_M, BEGINS_S = 0.7, 3.5, 2.9
"""Speed of the robot, where the person crosses, and when the robot starts: the goal comes after 2.5 s."""
EPISODE = Episode(Pose(1.0, 6.5, 0.0), (8.0, 6.5), 7.0)
STRAIGHT_ON = ACTIONS.index(Twist(1.0, 0.0))
PLAIN = Senses()


def driven(
    late_s: float, senses: Senses = PLAIN, whole: bool = False, mps: float = 1.0, world: World = WORLD, seed: int = 1
) -> Outcome:
    """Return the drive of a policy that heeds nothing. late_s: the person crosses so long after the robot could."""
    before_m = mps * (BEGINS_S + (AT_M - 1.0) / V_MPS + late_s)
    person = crowd_of([KINDS["pedestrian"]], [mps], [np.array([[AT_M, 6.5 + before_m], [AT_M, 0.5]])])
    config = Config.model_validate({"limits": {"v_max_mps": V_MPS}})
    crowd = replace(person, heedless=True)
    setting = Setting(world, PLANT, Body(), MOUNTS, config, senses=senses, crowd=crowd)
    drive = drive_runtime if whole else drive_fast
    return drive(setting, EPISODE, Puppet(lambda _: STRAIGHT_ON), seed, max_s=(AT_M - 1.0) / V_MPS + 3.0)


@pytest.mark.parametrize("late_s", [-0.8, -0.4, 0.0, 0.4, 0.8])
def test_it_does_not_touch_a_person_who_crosses(late_s: float) -> None:
    outcome = driven(late_s)
    assert (outcome.contacts, outcome.bumps) == (0, 0)
    assert outcome.trace[-1, 1] > AT_M, "it drives on behind him"


@pytest.mark.parametrize(("late_s", "seed"), [(0.3, 0), (0.5, 2), (0.7, 1)])
def test_nor_one_who_steps_out_of_a_door_slowly(late_s: float, seed: int) -> None:
    """At 0.7 m/s, 0.9 m beside the robot's line: too little of him moved between two images, and the wall is near."""
    beside = ((1.5, AT_M - 0.3), (AT_M + 0.3, 8.5))
    wall = with_box(with_box(WORLD, beside[0], (7.4, 7.6), (0.0, 1.5)), beside[1], (7.4, 7.6), (0.0, 1.5))
    real = Senses(depth_noise=True, flaws=Flaws((5.0, 30.0), (0.03, 0.09)), depth_every=1)
    assert driven(late_s, real, mps=0.7, world=wall, seed=seed).contacts == 0


def test_without_the_rule_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "advance", lambda before, *_: before)
    assert sum(driven(late_s).contacts for late_s in (-0.4, 0.0, 0.4)) == 3


def test_the_whole_runtime_stops_as_the_fast_loop() -> None:
    fast, whole = (driven(0.0, Senses(depth_noise=True), whole) for whole in (False, True))
    np.testing.assert_allclose(fast.trace, whole.trace, atol=1e-9)
