"""Moving things in the costmap and the dynamic window of `reactive`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.policy.dwa.people import AHEAD_S, ahead, own_bins
from onboard.values.messages import Pose
from tests.onboard.policy.dwa.test_costmap import AHEAD, HOME, scan_of

WALKS = np.array([[2.0, 0.0, 0.0, 1.0]])


def test_the_returns_of_a_person_are_his_own_and_the_wall_behind_is_not():
    own = own_bins(scan_of({AHEAD: 1.9, AHEAD + 4: 2.9}), WALKS)
    assert np.flatnonzero(own).tolist() == [AHEAD]
    assert not own_bins(scan_of({AHEAD: 1.9}), np.empty((0, 4))).any()


def test_a_person_reaches_what_lies_on_his_path():
    places = ahead(WALKS, Pose(1.0, 1.0, math.pi / 2.0), 0.4)
    assert places[-1] == pytest.approx([1.0 - AHEAD_S, 3.0])
    assert places[:, 1] == pytest.approx(np.full(len(places), 3.0))


def test_the_path_of_a_person_who_walks_up_to_the_robot_ends_before_it():
    places = ahead(np.array([[1.0, 0.0, -1.0, 0.0]]), HOME, 0.4)
    assert np.hypot(*places.T).min() > 0.4
    assert len(places) == 5
