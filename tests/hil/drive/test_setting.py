"""What counts as reached: a stop within `REACHED_M` of the goal, in both kinds of drive."""

from __future__ import annotations

import pytest

from hil.drive.fast.drive import drive_fast
from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from onboard.config.config import Config
from onboard.policy.contract import ACTIONS
from onboard.values.messages import STOP, Pose
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT, Puppet

START = Pose(2.0, 2.0, 0.0)


@pytest.mark.parametrize("drive", [drive_fast, drive_runtime])
@pytest.mark.parametrize(("away_m", "reached"), [(0.199, True), (0.201, False)])
def test_a_stop_within_0_2_m_of_the_goal_is_a_success(drive, away_m: float, reached: bool) -> None:
    setting = Setting(room(5.0, 4.0), PLANT, Body(), MOUNTS, Config(), Senses(drift_scale=0.0))
    episode = Episode(START, (START.x_m + away_m, START.y_m), away_m)
    outcome = drive(setting, episode, Puppet(ACTIONS.index(STOP)), 1)
    assert (outcome.ended, outcome.reached) == ("stop", reached)
    assert outcome.distance_m == pytest.approx(away_m)
