"""From which distance ahead cameras see which height, and the speed that gaps allow."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.config.config import load_config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.perception.height_coverage import WINDOW_M, coverage_of, described, sight_mps
from onboard.perception.obstacle_memory import REACH_M
from onboard.safety.limits import SLOW_FRACTION, bounds_of
from tests.rigs.fusion.table_tops import looking

CONFIG = load_config(None)
PLANT = load_plant(CONFIG.robot.plant)
DEFAULT = load_mounts(CONFIG.robot.mounts)

#   what                                  z [m]  down  fov   height  lost at, of the highest   in words, whole or part
MOUNTS = [
    ("all in view",                        0.3,   0.0,  90.0,  0.5,   0.35,      ""),
    ("the top is lost near by",            0.5,  18.0,  58.0,  0.85,  2.0,       ""),
    ("the top is lost beyond the memory",  0.3,  10.0,  40.0,  0.9,   None,      "only from"),
    ("it looks down, and sees no top",     0.5,  35.0,  45.0,  1.0,   None,      "in view nowhere"),
    ("high up, it sees high things late",  0.9,  30.0,  50.0,  0.8,   None,      "only nearer than"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "z_m", "down", "fov", "height_m", "lost_m", "words"), MOUNTS, ids=lambda row: str(row)
)
def test_what_a_camera_sees_ahead(
    what: str, z_m: float, down: float, fov: float, height_m: float, lost_m: float | None, words: str
) -> None:
    found = coverage_of([looking("front", 0.0, down, fov, z_m)], 0.05, height_m, 0.25)
    if lost_m is not None:
        assert described(found) == []
        assert found.lost_m[-1] == pytest.approx(lost_m, abs=0.1)
        assert np.isinf(found.first_m).all()
        assert found.memory_m(REACH_M) == pytest.approx(max(REACH_M, found.lost_m.max() + WINDOW_M))
    else:
        assert any(words in line for line in described(found))


def test_the_default_robot_has_no_gap() -> None:
    assert described(coverage_of(DEFAULT.depth.values(), 0.05, CONFIG.robot.height_m, 0.25)) == []


def test_what_is_seen_late_slows_the_robot_so_that_it_stops_before_it() -> None:
    found = coverage_of([looking("front", 0.0, 33.0, 50.0, 0.9)], 0.05, 0.75, 0.25)
    reach_m, mps2, reaction_s = 0.3, 1.0, 0.15
    mps = sight_mps(found, reach_m, mps2, reaction_s)
    nearest_m = found.first_m[np.isfinite(found.first_m)].min()
    assert 0.0 < mps < math.inf
    assert reach_m + mps * mps / (2.0 * mps2) + mps * reaction_s <= nearest_m + 1e-9


def test_r29_unseen_heights_hold_the_slow_zones_speed() -> None:
    section = CONFIG.limits
    for fov, allowed_mps in ((90.0, section.v_max_mps), (20.0, SLOW_FRACTION * section.v_max_mps)):
        seen = coverage_of([looking("front", 0.0, 0.0, fov, 0.3)], 0.05, 1.0, 0.25)
        bounds = bounds_of(section, PLANT, CONFIG.robot.footprint, 300.0, seen)
        assert bounds.v_max_mps <= allowed_mps
        assert (bounds.v_max_mps == section.v_max_mps) == (fov == 90.0)
    assert bounds_of(section, PLANT, CONFIG.robot.footprint, 300.0).v_max_mps == section.v_max_mps


def test_without_a_camera_nothing_is_in_view() -> None:
    found = coverage_of([], 0.05, 1.0, 0.25)
    assert found.unseen.all()
    assert found.memory_m(REACH_M) == REACH_M
    assert math.isinf(sight_mps(found, 0.3, 2.0, 0.15))
