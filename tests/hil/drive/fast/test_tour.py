"""A tour: the same robot drives from goal to goal without a reset, up to the first that it does not reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hil.drive.fast.drive import drive_fast, drive_tour
from hil.drive.setting import Setting
from hil.evaluate.baselines.registry import make_policy
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from onboard.config.config import Config
from onboard.values.messages import Pose
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT

SETTING = Setting(with_box(room(7.0, 5.0), (3.0, 3.3), (2.0, 3.0), (0.0, 1.0)), PLANT, Body(), MOUNTS, Config())
FIRST = Episode(Pose(1.0, 2.0, 0.3), (2.0, 1.0), 1.4)
TOUR = [FIRST, Episode(Pose(2.0, 1.0, 0.0), (5.0, 1.2), 3.0), Episode(Pose(5.0, 1.2, 0.0), (5.0, 3.8), 2.6)]


def test_a_tour_begins_as_its_first_drive_and_goes_on() -> None:
    policy = make_policy("reactive", SETTING, FIRST)
    alone = drive_fast(SETTING, FIRST, policy, seed=1, max_s=60.0)
    whole = drive_tour(SETTING, TOUR, policy, 1, 60.0)
    assert alone.reached
    assert whole.reached
    assert (whole.ended, whole.contacts) == ("stop", 0)
    assert whole.trace[: len(alone.trace)] == pytest.approx(alone.trace)
    assert whole.trace[-1, 1:3] == pytest.approx((5.0, 3.8), abs=0.2)
    assert whole.time_s == pytest.approx(whole.trace[-1, 0])
    assert whole.path_m > 6.0


def test_a_tour_ends_at_a_goal_that_is_not_reached() -> None:
    blocked = replace(TOUR[1], goal_xy_m=(3.15, 2.5))
    ended = drive_tour(SETTING, [FIRST, blocked, TOUR[2]], make_policy("reactive", SETTING, FIRST), 1, 30.0)
    assert not ended.reached
    assert ended.ended.endswith("after 1 of 3 places")
