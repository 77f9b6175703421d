"""The closed loop in one process: when it senses, acts and ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rooms import room

from hil.fast import REACHED_M, drive
from hil.maps import load_map
from hil.routes import Episode
from onboard.config import DEFAULT_ROBOT
from onboard.contract import ACTIONS, STOP_ACTION
from onboard.messages import BINS, Motion, Pose, Scan, Twist
from onboard.motion import load_plant

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
ROOM = room(8.0, 6.0)
EVERYWHERE = np.ones(BINS, np.bool_)
AHEAD, FAST = ACTIONS.index(Twist(0.3, 0.0)), ACTIONS.index(Twist(1.0, 0.0))
EPISODE = Episode(Pose(2.0, 3.0, math.pi / 2), (2.0, 5.0), 2.0)


def until(distance_m: float, seen: list[tuple[Scan, Motion, tuple[float, float]]]):
    def choose(scan: Scan, motion: Motion, goal: tuple[float, float]) -> int:
        seen.append((scan, motion, goal))
        return AHEAD if motion.pose.x_m < distance_m else STOP_ACTION

    return choose


def test_it_ends_when_the_body_has_come_to_rest_by_its_own_stop():
    seen: list[tuple[Scan, Motion, tuple[float, float]]] = []
    outcome = drive(ROOM, EPISODE, until(1.85, seen), PLANT, EVERYWHERE)
    assert (outcome.reached, outcome.ended, outcome.contacts) == (True, "stop", 0)
    assert outcome.distance_m <= REACHED_M
    assert outcome.path_m == pytest.approx(2.0 - outcome.distance_m, abs=1e-3)
    assert (seen[0][1].pose.x_m, seen[0][1].pose.y_m, seen[0][1].pose.yaw_rad) == pytest.approx((0.0, 0.0, 0.0))
    assert seen[0][1].twist == Twist(0.0, 0.0)
    assert seen[0][2] == pytest.approx((2.0, 0.0))
    assert seen[-1][1].pose.y_m == pytest.approx(0.0, abs=1e-9)
    assert [scan.stamp_ns for scan, _, _ in seen[:3]] == [0, 333_333_330, 666_666_660]
    assert outcome.trace[-1, 0] == outcome.time_s
    assert outcome.trace.shape == (round(outcome.time_s * 30) + 1, 6)


def test_a_stop_far_from_the_goal_is_not_reached():
    outcome = drive(ROOM, EPISODE, until(1.0, []), PLANT, EVERYWHERE)
    assert (outcome.reached, outcome.ended) == (False, "stop")


@pytest.mark.parametrize("delay_ticks", [0, 3, 9])
def test_an_action_takes_effect_after_the_delay(delay_ticks):
    outcome = drive(ROOM, EPISODE, until(1.0, []), PLANT, EVERYWHERE, delay_ticks=delay_ticks, max_s=1.0)
    assert np.flatnonzero(outcome.trace[:, 4])[0] == delay_ticks + 1


def test_a_contact_is_counted_and_may_end_it():
    outcome = drive(ROOM, EPISODE, lambda *_: FAST, PLANT, EVERYWHERE, end_at_contact=True)
    assert (outcome.ended, outcome.contacts, outcome.reached) == ("contact", 1, False)
    outcome = drive(ROOM, EPISODE, lambda *_: FAST, PLANT, EVERYWHERE, max_s=5.0)
    assert (outcome.ended, outcome.contacts, outcome.time_s) == ("time", 1, pytest.approx(5.0, abs=0.04))


def test_blind_bins_are_told_apart_from_free_ones():
    looks = EVERYWHERE.copy()
    looks[:20] = False
    seen: list[tuple[Scan, Motion, tuple[float, float]]] = []
    drive(ROOM, EPISODE, until(-1.0, seen), PLANT, looks)
    scan = seen[0][0]
    assert np.isinf(scan.ranges_m[:20]).all()
    assert np.isfinite(scan.ranges_m[20:]).all()
    np.testing.assert_array_equal(scan.seen, looks)


def test_the_same_choices_give_the_same_drive():
    world = load_map("gdc1")
    episode = Episode(Pose(0.0, -25.0, 0.3), (2.0, -25.0), 2.0)
    first, again = (drive(world, episode, until(1.5, []), PLANT, EVERYWHERE, max_s=20.0) for _ in range(2))
    np.testing.assert_array_equal(first.trace, again.trace)
