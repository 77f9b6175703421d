"""A person who crosses at 1 m/s and walks on: the robot, at 0.7 m/s, stops before his path or passes before him."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hil.drive.fast.drive import drive_fast
from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses
from hil.drive.setting import Outcome, Setting
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.scene.walkers import KINDS, crowd_of
from onboard.config.config import Config
from onboard.policy.contract import ACTIONS
from onboard.safety import moving
from onboard.values.messages import Pose, Twist
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT, Puppet

WORLD = room(9.0, 14.0)
V_MPS, AT_M, BEGINS_S = 0.7, 3.5, 2.9
"""Speed of the robot, where the person crosses, and when the robot starts: the goal comes after 2.5 s."""
EPISODE = Episode(Pose(1.0, 6.5, 0.0), (8.0, 6.5), 7.0)
STRAIGHT_ON = ACTIONS.index(Twist(1.0, 0.0))


def driven(late_s: float, noise: bool = False, whole: bool = False) -> Outcome:
    """Return the drive of a policy that heeds nothing. late_s: the person crosses so long after the robot could."""
    before_m = BEGINS_S + (AT_M - 1.0) / V_MPS + late_s
    person = crowd_of([KINDS["pedestrian"]], [1.0], [np.array([[AT_M, 6.5 + before_m], [AT_M, 0.5]])])
    config = Config.model_validate({"limits": {"v_max_mps": V_MPS}})
    crowd, senses = replace(person, heedless=True), Senses(depth_noise=noise)
    setting = Setting(WORLD, PLANT, Body(), MOUNTS, config, senses=senses, crowd=crowd)
    drive = drive_runtime if whole else drive_fast
    return drive(setting, EPISODE, Puppet(lambda _: STRAIGHT_ON), 1, max_s=(AT_M - 1.0) / V_MPS + 3.0)


@pytest.mark.parametrize("late_s", [-0.8, -0.4, 0.0, 0.4, 0.8])
def test_it_does_not_touch_a_person_who_crosses(late_s: float) -> None:
    outcome = driven(late_s)
    assert (outcome.contacts, outcome.bumps) == (0, 0)
    assert outcome.trace[-1, 1] > AT_M, "it drives on behind him"


def test_without_the_rule_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "advance", lambda before, *_: before)
    assert sum(driven(late_s).contacts for late_s in (-0.4, 0.0, 0.4)) == 3


def test_the_whole_runtime_stops_as_the_fast_loop() -> None:
    fast, whole = driven(0.0, noise=True), driven(0.0, noise=True, whole=True)
    np.testing.assert_allclose(fast.trace, whole.trace, atol=1e-9)
