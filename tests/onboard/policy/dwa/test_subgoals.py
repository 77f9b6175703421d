"""Subgoals: points ahead on the map's path for a policy without a map."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from onboard.policy.dwa.subgoals import AHEAD_M, WithSubgoals
from onboard.values.messages import Pose
from tests.onboard.policy.dwa.test_mapped import HIGH_DOOR, LOW_DOOR, NEXT_DOOR, grid, unseeing
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import Puppet


@pytest.mark.parametrize(("known", "side"), [(LOW_DOOR, -1), (HIGH_DOOR, 1)])
def test_the_subgoal_is_where_the_map_leads(known, side):
    puppet = Puppet()
    policy = WithSubgoals(puppet, grid(known), 0.25)
    far = replace(NEXT_DOOR, start=Pose(1.0, 2.0, 0.0), goal_xy_m=(8.0, 2.0))
    policy.decide(unseeing(far), policy.initial_memory())
    x_m, y_m = puppet.seen[-1].goal_xy_m
    assert math.hypot(x_m, y_m) < AHEAD_M
    assert (x_m, y_m) != unseeing(far).goal_xy_m
    assert side * y_m > -0.3


def test_near_the_goal_and_without_a_place_it_is_the_goal_itself():
    puppet = Puppet()
    policy = WithSubgoals(puppet, grid(room(8.0, 6.0)), 0.25)
    seen = unseeing(NEXT_DOOR)
    for observation in (seen, replace(seen, map_from_start=None, goal_xy_m=(50.0, 0.0))):
        policy.decide(observation, policy.initial_memory())
        assert puppet.seen[-1].goal_xy_m == observation.goal_xy_m
    policy.close()
    assert puppet.closed == 1
