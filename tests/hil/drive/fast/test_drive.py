"""A drive without the runtime: when it senses, acts and ends, and that a seed is a drive. Against the whole runtime see
test_modes_agree.py.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hil.drive.fast.drive import drive_fast
from hil.drive.fast.robot import time_ns
from hil.drive.robot import Senses
from hil.drive.setting import REACHED_M, Outcome, Setting, goal_tick
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.physics.simulated_base import STEP_NS
from onboard.config.config import Config
from onboard.policy.contract import ACTIONS, NO_ACTION, STOP_ACTION
from onboard.values.errors import EngineError
from onboard.values.messages import Decision, Memory, Observation, Pose, Twist
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT, Puppet

PERFECT = Senses(drift_scale=0.0, localization_scale=0.0)
SETTING = Setting(room(8.0, 6.0), PLANT, Body(), MOUNTS, Config(), PERFECT)
EPISODE = Episode(Pose(2.0, 3.0, math.pi / 2), (2.0, 5.0), 2.0)
AHEAD, FAST = ACTIONS.index(Twist(0.3, 0.0)), ACTIONS.index(Twist(1.0, 0.0))
LEFT, RIGHT = ACTIONS.index(Twist(0.3, 1.0)), ACTIONS.index(Twist(0.3, -1.0))
NOISY = replace(SETTING, senses=Senses())
BEGAN = goal_tick(10)


def until(distance_m: float) -> Callable[[Observation], int]:
    return lambda observation: AHEAD if observation.filtered.pose.x_m < distance_m else STOP_ACTION


def weaving(observation: Observation) -> int:
    """Steer back to the line by what is believed of the place, so that every error shows in the way."""
    pose = observation.filtered.pose
    return LEFT if pose.y_m < 0.0 else RIGHT if pose.x_m < 1.8 else STOP_ACTION


def same(one: Outcome, other: Outcome) -> bool:
    return digest(one) == digest(other)


def digest(outcome: Outcome) -> str:
    numbers = (outcome.reached, outcome.ended, outcome.contacts, outcome.time_s, outcome.path_m, outcome.distance_m)
    text = repr((*numbers, outcome.min_clearance_m, outcome.bumps)).encode()
    return hashlib.sha256(text + outcome.trace.tobytes() + outcome.actions.tobytes()).hexdigest()


def test_it_ends_when_the_body_has_come_to_rest_by_its_own_stop():
    policy = Puppet(until(1.85))
    outcome = drive_fast(SETTING, EPISODE, policy, seed=1)
    assert (outcome.reached, outcome.ended, outcome.contacts) == (True, "stop", 0)
    assert outcome.distance_m <= REACHED_M
    assert outcome.path_m == pytest.approx(2.0 - outcome.distance_m, abs=1e-3)
    first = policy.seen[0]
    assert (first.filtered.pose.x_m, first.filtered.pose.y_m) == pytest.approx((0.0, 0.0), abs=1e-9)
    assert first.goal_xy_m == pytest.approx((2.0, 0.0), abs=1e-9)
    assert (first.previous_action, policy.seen[1].previous_action) == (NO_ACTION, AHEAD)
    assert outcome.actions.sum() == len(policy.seen)
    assert set(np.flatnonzero(outcome.actions)) == {AHEAD, STOP_ACTION}


def test_it_senses_every_tenth_tick_what_was_seen_a_tick_before():
    policy = Puppet(until(0.5))
    drive_fast(SETTING, EPISODE, policy, seed=1)
    assert [seen.stamp_ns for seen in policy.seen[:3]] == [time_ns(BEGAN + 1 + 10 * i) for i in range(3)]
    assert [seen.stamp_ns - seen.scan.stamp_ns for seen in policy.seen] == [STEP_NS] * len(policy.seen)
    assert policy.remembered == list(range(len(policy.seen)))


def test_a_stop_far_from_the_goal_is_not_reached():
    outcome = drive_fast(SETTING, EPISODE, Puppet(until(1.0)), seed=1)
    assert (outcome.reached, outcome.ended) == (False, "stop")
    assert outcome.distance_m == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("delay_ticks", [1, 3, 9])
def test_an_action_takes_effect_after_the_delay(delay_ticks):
    setting = replace(SETTING, config=Config(rates={"delay_ticks": delay_ticks}))
    outcome = drive_fast(setting, EPISODE, Puppet(AHEAD), seed=1, max_s=1.0)
    assert np.flatnonzero(outcome.trace[:, 4])[0] == 1 + delay_ticks + 1


def test_the_wires_delay_comes_on_top():
    plant = PLANT.model_copy(update={"base": PLANT.base.model_copy(update={"command_delay_s": 0.05})})
    outcome = drive_fast(replace(SETTING, plant=plant), EPISODE, Puppet(AHEAD), seed=1, max_s=1.0)
    assert np.flatnonzero(outcome.trace[:, 4])[0] == 1 + 3 + 2 + 1


def test_without_limits_nothing_holds_it_before_a_wall():
    held = drive_fast(SETTING, EPISODE, Puppet(FAST), seed=1, max_s=5.0)
    alone = drive_fast(replace(SETTING, limits=False), EPISODE, Puppet(FAST), seed=1, max_s=5.0)
    assert (held.contacts, alone.contacts) == (0, 1)
    assert held.min_clearance_m > 0.04
    assert alone.min_clearance_m < 0.04
    assert (held.ended, alone.ended) == ("time", "time")
    assert alone.time_s == pytest.approx(5.0, abs=0.04)


def test_a_policy_that_pushes_against_a_wall_is_blocked_for_good():
    outcome = drive_fast(SETTING, EPISODE, Puppet(FAST), seed=1)
    assert outcome.ended.startswith("blocked: 3 recoveries")
    assert (outcome.trace[:, 4] < -0.15).any(), "it backed off"


def test_a_failed_policy_ends_it_by_name():
    class Failing(Puppet):
        def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
            raise EngineError("no more")

    assert drive_fast(SETTING, EPISODE, Failing(), seed=1).ended == "engine failed: no more"


def test_a_goal_too_far_away_is_refused_by_name():
    far = replace(EPISODE, goal_xy_m=(2.0, 500.0))
    outcome = drive_fast(SETTING, far, Puppet(FAST), seed=1)
    assert outcome.ended.startswith("goal refused: ")
    assert (outcome.time_s, outcome.trace.shape) == (0.0, (1, 6))


def test_a_lidar_does_not_see_what_hangs_above_its_plane():
    shelf = with_box(room(8.0, 6.0), (1.0, 3.0), (4.0, 4.3), (0.4, 0.8))
    fused, lidar = Puppet(FAST), Puppet(FAST)
    cameras = drive_fast(replace(SETTING, world=shelf), EPISODE, fused, seed=1, max_s=6.0)
    plane = drive_fast(replace(SETTING, world=shelf, scan="lidar"), EPISODE, lidar, seed=1, max_s=6.0)
    assert (cameras.contacts, plane.contacts) == (0, 1)
    assert lidar.seen[0].scan.seen.all()
    assert not fused.seen[0].scan.seen.all()


def test_colour_is_rendered_only_for_who_looks_at_it(monkeypatch):
    blind, looking = Puppet(STOP_ACTION), Puppet(STOP_ACTION)
    drive_fast(SETTING, EPISODE, blind, seed=1)
    monkeypatch.setattr("hil.drive.fast.sensing.wants_color", lambda policy: True)
    drive_fast(SETTING, EPISODE, looking, seed=1)
    assert all(seen.color is None for seen in blind.seen)
    images = [seen.color for seen in looking.seen if seen.color is not None]
    assert len(images) == len(looking.seen) > 0
    assert images[0].image.shape == (144, 256, 3)


def test_who_knows_the_map_is_told_where_the_robot_believes_to_have_started():
    for senses, off_m in ((PERFECT, 1e-9), (Senses(), 0.1), (Senses(localization=False), None)):
        policy = Puppet(until(0.5))
        drive_fast(replace(SETTING, senses=senses), EPISODE, policy, seed=1)
        (told,) = {seen.map_from_start for seen in policy.seen}
        start = EPISODE.start
        if off_m is None:
            assert told is None
        else:
            assert (told.x_m, told.y_m) == pytest.approx((start.x_m, start.y_m), abs=off_m)


def test_the_same_seed_is_the_same_drive_and_another_is_not():
    first, again, other = (drive_fast(NOISY, EPISODE, Puppet(weaving), seed) for seed in (7, 7, 8))
    assert same(first, again)
    assert not same(first, other)


PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[4])!r})
from tests.hil.drive.fast.test_drive import EPISODE, NOISY, Puppet, digest, drive_fast, weaving
print(digest(drive_fast(NOISY, EPISODE, Puppet(weaving), 7)))
"""
