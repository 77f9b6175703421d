"""Drives of the training: lengths and detours as asked for, and a field that knows the way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engines.train.drives.places import DETOUR, PlacesSection, draw_drives
from engines.train.stages import check
from hil.physics.free_space import shortest_path
from onboard.values.errors import ConfigError
from tests.rigs.train_rig import batched, depot


def drawn(section: PlacesSection, count: int = 10):
    _, building = depot()
    rng = np.random.default_rng(3)
    return building, [drive for _ in range(count) for drive in draw_drives(section, building, rng)]


def test_lengths_are_within_bounds_and_drives_share_goals():
    section = PlacesSection(maps=("depot",), least_m=2.0, most_m=6.0, sharing=4)
    _, drives = drawn(section)
    assert len(drives) == 40
    assert len({goal.xy_m for _, goal in drives}) == 10
    assert all(2.0 <= episode.geodesic_m <= 6.0 for episode, _ in drives)
    assert len({episode.start for episode, _ in drives}) == 40


@pytest.mark.parametrize(("detours", "least", "most"), [(0.0, 0.0, 0.5), (1.0, 0.6, 1.0)])
def test_more_detours_are_drawn_when_asked_for(detours, least, most):
    _, drives = drawn(PlacesSection(maps=("depot",), detours=detours))
    ways = [(one.geodesic_m, math.dist((one.start.x_m, one.start.y_m), one.goal_xy_m)) for one, _ in drives]
    assert least <= np.mean([way > DETOUR * straight for way, straight in ways]) <= most


def test_detours_are_as_long_as_the_recipe_says():
    shares = []
    for ratio in (None, 1.3):
        _, drives = drawn(PlacesSection(maps=("depot",), detours=1.0, detour_ratio=ratio))
        ways = [(one.geodesic_m, math.dist((one.start.x_m, one.start.y_m), one.goal_xy_m)) for one, _ in drives]
        shares.append(np.mean([way > 1.3 * straight for way, straight in ways]))
    assert shares[1] > shares[0] + 0.1, shares


def test_the_field_is_the_length_of_the_way():
    building, drives = drawn(PlacesSection(maps=("depot",)), 3)
    for episode, goal in drives[::6]:
        way = shortest_path(building.space, (episode.start.x_m, episode.start.y_m), goal.xy_m)
        length = np.hypot(*np.diff(way, axis=0).T).sum()
        assert episode.geodesic_m == pytest.approx(length, rel=0.05, abs=0.1)


def test_drives_to_which_the_robot_takes_no_goal_are_refused(tmp_path):
    robot = tmp_path / "near.toml"
    robot.write_text("[goal]\nmax_distance_m = 8.0\n")
    changes = {"robot__config": str(robot)}
    line = (
        r"^places\.most_m: expected 7\.7 or less, found 7\.8: the robot refuses a goal .* 8 m \(goal\.max_distance_m\)"
    )
    with pytest.raises(ConfigError, match=line):
        check(batched(**changes, places__most_m=7.8))
    check(batched(**changes, places__most_m=7.7))
