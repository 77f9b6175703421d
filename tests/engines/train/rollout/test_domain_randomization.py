"""Every drive has another robot, within the bounds of the configuration, and the same one by the same seed."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from pydantic import ValidationError

from engines.train.config import rules_of
from engines.train.rollout.domain_randomization import (
    LATEST_FIX_S,
    NO_FAULTS,
    DomainSection,
    ScanFaults,
    draw_sample,
    with_faults,
)
from engines.train.rollout.places import Building, draw_drives
from hil.drive.fast.course import varied
from hil.physics.free_space import Episode
from hil.physics.odometry_noise import FIX_PERIOD_S, TRAINING_FIX_PERIOD_S
from hil.scene.walkers import NEAR_M
from onboard.config.config import RatesSection
from onboard.config.plant_model import step_axis
from onboard.values.errors import ConfigError
from tests.rigs.train_rig import depot, small

DRILLS = 80


@cache
def episode() -> Episode:
    rules, building = depot()
    return draw_drives(rules.places, building, np.random.default_rng(0))[0][0]


def drills(section: DomainSection, count: int = DRILLS, seed: int = 0, building: Building | None = None):
    rng, where = np.random.default_rng(seed), depot()[1] if building is None else building
    return where.setting, [draw_sample(section, where, episode(), rng) for _ in range(count)]


def test_robots_lie_within_the_bounds_and_reach_them():
    section = DomainSection(pedestrians=0.0)
    base, drawn = drills(section)
    for name in ("f_up", "f_down", "zeta_up", "zeta_down", "acceleration_max"):
        true = np.array([getattr(one.setting.true_plant.angular, name) for one in drawn])
        factors = true / getattr(base.plant.angular, name)
        assert 0.7 <= factors.min() < 1.0 / 1.3
        assert 1.15 < factors.max() <= 1.3
    assert {one.setting.config.rates.delay_ticks for one in drawn} == {2, 3, 4}
    drift = np.array([one.setting.senses.drift_scale for one in drawn])
    assert drift.min() < 0.5
    assert 2.5 < drift.max() <= 3.0
    assert {one.setting.senses.fix_period_s for one in drawn} == {FIX_PERIOD_S, TRAINING_FIX_PERIOD_S}


#   field              what it is a share of
SHARES = [
    ("no_localization", lambda one, base: not one.setting.senses.localization),
    ("late_localization", lambda one, base: 0.0 < one.setting.senses.fix_delay_s <= LATEST_FIX_S),
    ("camera_gone", lambda one, base: len(one.setting.mounts.depth) < len(base.mounts.depth)),
    ("drift_paper", lambda one, base: one.setting.senses.drift_scale == 1.0),
]


@pytest.mark.parametrize(("field", "happens"), SHARES)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_shares_are_what_they_say(field, happens, share):
    base, drawn = drills(DomainSection(**{"pedestrians": 0.0, field: share}))
    assert np.mean([happens(one, base) for one in drawn]) == pytest.approx(share, abs=0.15)


def test_a_robot_without_a_camera_has_no_limits():
    base, drawn = drills(DomainSection(pedestrians=0.0, camera_gone=0.5, limits=1.0))
    assert all(one.setting.limits == (len(one.setting.mounts.depth) == len(base.mounts.depth)) for one in drawn)


def test_the_robot_believes_its_file_and_the_base_is_another():
    base, drawn = drills(DomainSection(pedestrians=0.0), count=5)
    assert all(one.setting.plant is base.plant for one in drawn)
    assert len({one.setting.base_plant.linear.f_up for one in drawn}) == 5
    course = varied(depot()[1].course, drawn[0].setting)
    np.testing.assert_array_equal(course.linear, drawn[0].setting.true_plant.linear.as_array())


def test_the_default_plant_is_stable_at_the_ends_of_the_spread():
    for axis in (depot()[1].setting.plant.linear, depot()[1].setting.plant.angular):
        for scale in (0.7, 1.3):
            for damping in (0.7, 1.3):
                values = axis.as_array() * np.array([scale, scale, damping, damping, 1.0, 1.0, scale])
                speed, rate = 0.0, 0.0
                for _ in range(300):
                    speed, rate = step_axis(0.5, speed, rate, values, 1.0 / 30.0)
                assert (speed, rate) == pytest.approx((0.5, 0.0), abs=1e-3)


def test_people_are_about_near_start_and_goal_when_asked_for():
    _, drawn = drills(DomainSection(pedestrians=1.0), count=8)
    ends = ((episode().start.x_m, episode().start.y_m), episode().goal_xy_m)
    places = [(row[0], row[1]) for one in drawn for row in one.setting.crowd.state]
    assert {len(one.setting.crowd.state) for one in drawn} == {1, 2, 3}
    assert max(min(math.dist(place, end) for end in ends) for place in places) <= NEAR_M
    assert depot()[1].walkable is depot()[1].walkable


def with_cameras(names) -> Building:
    """Return the building with a robot whose scan names its cameras."""
    building = depot()[1]
    config = building.setting.config
    scan = config.scan.model_copy(update={"cameras": list(names)})
    return replace(building, setting=replace(building.setting, config=config.model_copy(update={"scan": scan})))


def test_a_named_camera_that_is_gone_is_named_no_more():
    names = sorted(depot()[1].setting.mounts.depth)
    building = with_cameras(names)
    _, drawn = drills(DomainSection(pedestrians=0.0, camera_gone=1.0), 4, building=building)
    for one in drawn:
        assert sorted(one.setting.config.scan.cameras) == sorted(one.setting.mounts.depth)
        assert len(one.setting.mounts.depth) == len(names) - 1
        varied(building.course, one.setting)


def test_the_only_camera_is_never_gone():
    only = sorted(depot()[1].setting.mounts.depth)[:1]
    base, drawn = drills(DomainSection(pedestrians=0.0, camera_gone=1.0), 4, building=with_cameras(only))
    assert all(one.setting.mounts is base.mounts for one in drawn)


@pytest.mark.parametrize("delay", [(0, 2), (2, 10)])
def test_a_delay_that_the_robot_cannot_have_is_refused(delay):
    with pytest.raises(ConfigError, match=rf"domain\.delay_ticks: .* 10, found {delay[0]}, {delay[1]}$"):
        rules_of(small(domain__delay_ticks=delay))
    DomainSection(delay_ticks=(1, 9)).check(RatesSection())


def test_the_same_seed_draws_the_same_robots():
    one, same, other = (drills(DomainSection(pedestrians=0.0), 5, seed)[1] for seed in (1, 1, 2))
    assert [sample.setting.true_plant for sample in one] == [sample.setting.true_plant for sample in same]
    assert [sample.setting.true_plant for sample in one] != [sample.setting.true_plant for sample in other]


def test_flaws_of_a_scan():
    ranges, rng = np.full(18_000, 2.0, np.float32), np.random.default_rng(0)
    assert with_faults(ranges, NO_FAULTS, rng) is ranges
    seen = with_faults(ranges, ScanFaults(noise=0.02, holes=0.1), rng)
    assert np.isinf(seen).mean() == pytest.approx(0.1, abs=0.01)
    assert np.std(seen[np.isfinite(seen)]) == pytest.approx(0.04, rel=0.05)
    assert seen.dtype == np.float32


@pytest.mark.parametrize(("field", "value"), [("delay_ticks", (4, 2)), ("drift_scale", (-1.0, 2.0)), ("limits", 1.5)])
def test_bounds_out_of_order_are_refused(field, value):
    with pytest.raises(ValidationError, match=field):
        DomainSection(**{field: value})
