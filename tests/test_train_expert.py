"""The teacher knows the truth; its scores become targets."""

from __future__ import annotations

import numpy as np
import pytest

from engines.train.expert import soft_targets
from onboard.contract import STOP_ACTION
from onboard.dynamic_window import STAND, UNSAFE


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
