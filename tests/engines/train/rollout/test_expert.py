"""The teacher knows the truth; its scores become targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.train.rollout import expert
from engines.train.rollout.expert import Expert, goal_compass, soft_targets
from engines.train.rollout.places import draw_drives
from hil.drive.conditions import scaled_plant
from onboard.policy.contract import STOP_ACTION
from onboard.policy.dwa.dynamic_window import STAND, UNSAFE
from onboard.values.messages import Pose
from tests.rigs.train_rig import depot


def scores(**by_action: float):
    table = np.full(28, -9.0, np.float32)
    for name, value in by_action.items():
        table[int(name[1:])] = value
    return table


def test_a_second_lost_is_less_likely_by_the_temperature():
    targets, weight = soft_targets(scores(a5=-4.0, a6=-4.1), 0.1)
    assert weight == 1.0
    assert targets.sum() == pytest.approx(1.0)
    assert targets[5] / targets[6] == pytest.approx(np.e, rel=1e-4)


def test_what_is_not_safe_is_never_right():
    table = scores(a5=-4.0)
    table[6], table[7] = UNSAFE, 2.0 * UNSAFE
    targets, _ = soft_targets(table, 100.0)
    assert targets[6] == targets[7] == 0.0
    assert targets[8] > 0.0


def test_at_the_goal_only_standing_is_right():
    targets, weight = soft_targets(scores(**{f"a{STOP_ACTION}": STAND}), 0.08)
    assert (targets[STOP_ACTION], weight) == (pytest.approx(1.0), 1.0)


def test_where_nothing_is_safe_there_is_nothing_to_learn():
    _, weight = soft_targets(np.full(28, 2.0 * UNSAFE, np.float32), 0.08)
    assert weight == 0.0


def test_the_expert_is_told_the_true_plant(monkeypatch):
    expected = []
    made = expert.make_policy
    monkeypatch.setattr(expert, "make_policy", lambda name, *rest: expected.append(rest[0]) or made(name, *rest))
    rules, building = depot()
    setting = replace(building.setting, true_plant=scaled_plant(building.setting.plant, 1.3))
    Expert(setting, draw_drives(rules.places, building, np.random.default_rng(0))[0][0], "map")
    assert expected[0].plant is setting.true_plant


#   goal, as seen from (1, 2) looking to the left
COMPASS = [((1.0, 5.0), (3.0, 1.0, 0.0)), ((-1.0, 2.0), (2.0, 0.0, 1.0))]


@pytest.mark.parametrize(("goal_xy_m", "expected"), COMPASS)
def test_the_compass_points_to_the_goal(goal_xy_m, expected):
    assert goal_compass(Pose(1.0, 2.0, np.pi / 2), goal_xy_m) == pytest.approx(expected, abs=1e-6)


def test_at_the_goal_the_compass_points_ahead():
    assert goal_compass(Pose(1.0, 2.0, 0.0), (1.0, 2.0)).tolist() == [0.0, 1.0, 0.0]
