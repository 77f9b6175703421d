"""What drives share: made once for a setting, and only where the rates fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hil.drive.fast.course import course_of, make_course
from hil.drive.robot import Senses
from hil.drive.setting import Setting, goal_tick
from hil.physics.collision_world import Body
from hil.physics.simulated_base import STEP_NS
from onboard.config.config import Config
from onboard.values.errors import InputError
from onboard.values.messages import BINS
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT

SETTING = Setting(room(3.0, 2.0), PLANT, Body(), MOUNTS, Config())


@pytest.mark.parametrize("ticks_per_decision", [1, 2, 7, 10, 30])
def test_the_goal_comes_one_tick_before_a_decision_when_the_robot_has_settled(ticks_per_decision):
    tick = goal_tick(ticks_per_decision)
    assert (tick + 1) % ticks_per_decision == 0
    assert 2.5e9 <= tick * STEP_NS < 2.5e9 + (ticks_per_decision + 1) * STEP_NS


def test_a_course_is_kept_while_only_senses_crowd_and_look_differ():
    course = course_of(SETTING)
    assert course_of(replace(SETTING, senses=Senses(drift_scale=0.0))) is course
    assert course_of(SETTING) is course
    for other in (replace(SETTING, scan="lidar"), replace(SETTING, world=replace(SETTING.world))):
        assert course_of(other) is not course
        assert course_of(SETTING) is not course
        course = course_of(SETTING)


def test_the_limits_may_look_elsewhere():
    course = make_course(replace(SETTING, config=Config(limits_scan={"cameras": ["front"]})))
    assert 0 < course.limits_scan.seen.sum() < course.scan.seen.sum() < BINS


def test_limits_that_ramp_are_known_as_such():
    ramping = Config(limits={"acceleration_mps2": 1.0})
    assert make_course(replace(SETTING, config=ramping)).ramped
    assert not make_course(replace(SETTING, config=ramping, limits=False)).ramped


#  name                 setting                                                      message
REFUSED = [
    ("another rate", replace(SETTING, config=Config(rates={"control_hz": 50})), "rates.control_hz is 50"),
    ("stale scans", replace(SETTING, senses=Senses(depth_every=13)), "a scan comes every 13 ticks"),
]


@pytest.mark.parametrize(("setting", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_rates_that_do_not_fit_are_refused_by_name(setting, message):
    course_of(SETTING)
    with pytest.raises(InputError, match=message):
        course_of(setting)


@pytest.mark.parametrize("name", ["keep_out", "speed"])
def test_zones_of_a_map_are_refused_where_nothing_would_heed_them(name):
    setting = replace(SETTING, config=Config(zones={name: "mask.yaml"}))
    with pytest.raises(InputError, match=r"\[zones\]"):
        course_of(setting)
