"""Every drive has another robot, within the bounds of the configuration, and the same one by the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from engines.train.domain import FLAWLESS, DomainSection, Flaws, draw_drill, flawed
from hil.noise import FIX_PERIOD_S, TRAINING_FIX_PERIOD_S
from tests.train_rig import depot

DRILLS = 200


def drills(section: DomainSection, count: int = DRILLS, seed: int = 0):
    rng = np.random.default_rng(seed)
    setting = depot()[1].setting
    return setting, [draw_drill(section, setting, rng) for _ in range(count)]


def test_robots_lie_within_the_bounds_and_reach_them():
    section = DomainSection(pedestrians=0.0)
    base, drawn = drills(section)
    factors = np.array([one.setting.plant.angular.f_up / base.plant.angular.f_up for one in drawn])
    assert 1.0 / 1.3 <= factors.min() < 0.85
    assert 1.15 < factors.max() <= 1.3
    assert {one.setting.config.rates.delay_ticks for one in drawn} == {2, 3, 4}
    drift = np.array([one.setting.senses.drift_scale for one in drawn])
    assert drift.min() < 0.5
    assert 2.5 < drift.max() <= 3.0
    assert {one.setting.senses.fix_period_s for one in drawn} == {FIX_PERIOD_S, TRAINING_FIX_PERIOD_S}


#   field              what it is a share of
SHARES = [
    ("no_localization", lambda one, base: not one.setting.senses.localization),
    ("camera_gone", lambda one, base: len(one.setting.mounts.depth) < len(base.mounts.depth)),
    ("drift_paper", lambda one, base: one.setting.senses.drift_scale == 1.0),
]


@pytest.mark.parametrize(("field", "happens"), SHARES)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_shares_are_what_they_say(field, happens, share):
    base, drawn = drills(DomainSection(**{"pedestrians": 0.0, field: share}))
    assert np.mean([happens(one, base) for one in drawn]) == pytest.approx(share, abs=0.12)


def test_a_robot_without_a_camera_has_no_limits():
    base, drawn = drills(DomainSection(pedestrians=0.0, camera_gone=0.5, limits=1.0))
    assert all(one.setting.limits == (len(one.setting.mounts.depth) == len(base.mounts.depth)) for one in drawn)


def test_people_are_about_when_asked_for():
    _, drawn = drills(DomainSection(pedestrians=1.0), count=3)
    assert all(one.setting.crowd is not None for one in drawn)


def test_the_same_seed_draws_the_same_robots():
    one, same, other = (drills(DomainSection(pedestrians=0.0), 5, seed)[1] for seed in (1, 1, 2))
    assert [drill.setting.plant for drill in one] == [drill.setting.plant for drill in same]
    assert [drill.setting.plant for drill in one] != [drill.setting.plant for drill in other]


def test_flaws_of_a_scan():
    ranges, rng = np.full(18_000, 2.0, np.float32), np.random.default_rng(0)
    assert flawed(ranges, FLAWLESS, rng) is ranges
    seen = flawed(ranges, Flaws(noise=0.02, holes=0.1), rng)
    assert np.isinf(seen).mean() == pytest.approx(0.1, abs=0.01)
    assert np.std(seen[np.isfinite(seen)]) == pytest.approx(0.04, rel=0.05)
    assert seen.dtype == np.float32


@pytest.mark.parametrize(("field", "value"), [("delay_ticks", (4, 2)), ("drift_scale", (-1.0, 2.0)), ("limits", 1.5)])
def test_bounds_out_of_order_are_refused(field, value):
    with pytest.raises(ValidationError, match=field):
        DomainSection(**{field: value})
