"""The door on the shortest path: its place, when it closes, and that the robot waits until it opens."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hil.drive.fast.drive import drive_fast
from hil.drive.setting import Setting
from hil.evaluate.baselines.registry import make_policy
from hil.evaluate.episode import others_in
from hil.maps.world_grid import World
from hil.physics.collision_world import Body, blocked_cells
from hil.physics.free_space import Episode, free_space
from hil.scene.doors import LEAF_RADIUS_M, NEAR_M, STEP_M, WIDEST_M, Blocking, advance, door_on, sides
from hil.scene.walkers import crowd_of
from onboard.config.config import Config
from onboard.values.messages import Pose
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT

BODY = Body()
TWO_ROOMS = with_box(with_box(room(8.0, 4.0), (3.5, 4.0), (0.0, 1.5), (0.0, 2.5)), (3.5, 4.0), (2.5, 4.0), (0.0, 2.5))
"""A door of 1 m between x = 3.5 and 4.0 m, about y = 2.0 m."""
EPISODE = Episode(Pose(1.0, 2.0, 0.0), (7.0, 2.0), 6.0)
EVERY_S = 1.0 / 30.0


def found(world: World, episode: Episode, shut_s: float = 3.0) -> Blocking | None:
    return door_on(free_space(world, BODY), blocked_cells(world, BODY), episode, shut_s)


def door(world: World = TWO_ROOMS, episode: Episode = EPISODE, shut_s: float = 3.0) -> Blocking:
    one = found(world, episode, shut_s)
    assert one is not None
    return one


def test_the_door_closes_the_narrowest_place_from_wall_to_wall() -> None:
    leaves = door().leaves
    assert 3.4 <= leaves[:, 0].min() <= leaves[:, 0].max() <= 4.1
    ends = np.sort(leaves[:, 1])
    assert (ends[0] - LEAF_RADIUS_M, ends[-1] + LEAF_RADIUS_M) == pytest.approx((1.5, 2.5), abs=0.16)
    assert np.diff(ends).max() <= 2.0 * LEAF_RADIUS_M + 1e-9


def test_no_door_where_the_robot_can_drive_around() -> None:
    assert found(room(12.0, 12.0), Episode(Pose(2.0, 6.0, 0.0), (10.0, 6.0), 8.0)) is None
    narrow = with_box(with_box(room(8.0, 8.0), (3.5, 4.0), (1.5, 3.5), (0.0, 2.5)), (3.5, 4.0), (4.5, 6.5), (0.0, 2.5))
    assert found(narrow, Episode(Pose(1.0, 4.0, 0.0), (7.0, 4.0), 6.0)) is None


def test_the_door_skips_a_narrower_place_with_a_path_around() -> None:
    furnished = with_box(with_box(TWO_ROOMS, (5.4, 5.8), (1.2, 1.6), (0.0, 2.5)), (5.4, 5.8), (2.4, 2.8), (0.0, 2.5))
    leaves = door(furnished).leaves
    assert 3.4 <= leaves[:, 0].min() <= leaves[:, 0].max() <= 4.1


#   how far off the other door is   whether the first one may close
ROUND = [(3.0, False), (11.0, True)]


@pytest.mark.parametrize(("off_m", "closes"), ROUND)
def test_a_path_around_the_door_must_be_much_longer(off_m: float, closes: bool) -> None:
    above = with_box(room(8.0, 16.0), (3.5, 4.0), (3.0 + off_m, 16.0), (0.0, 2.5))
    between = with_box(above, (3.5, 4.0), (2.5, 2.0 + off_m), (0.0, 2.5))
    two_doors = with_box(between, (3.5, 4.0), (0.0, 1.5), (0.0, 2.5))
    assert (found(two_doors, EPISODE) is not None) is closes


def test_a_drive_without_a_door_on_its_path_is_unchanged() -> None:
    hall, episode = room(12.0, 12.0), Episode(Pose(4.0, 6.0, 0.0), (7.0, 6.0), 3.0)
    free = Setting(hall, PLANT, BODY, MOUNTS, Config())
    assert others_in(hall, BODY, 0, 20.0).crowd(episode, 1) is None
    walkers = others_in(hall, BODY, 2, 20.0).crowd(episode, 1)
    assert walkers is not None
    assert (len(walkers.state), walkers.blocking) == (2, None)
    nobody = replace(free, crowd=crowd_of([], [], []))
    one, other = (
        drive_fast(setting, episode, make_policy("planner", setting, episode), 1) for setting in (free, nobody)
    )
    np.testing.assert_array_equal(one.trace, other.trace)


@pytest.mark.parametrize("turned_rad", [0.0, 0.7])
def test_widths_equal_a_stepwise_walk_to_either_side(turned_rad: float) -> None:
    world = replace(TWO_ROOMS, map_from_grid=Pose(-1.0, 0.5, turned_rad))
    solid, rng = blocked_cells(world, BODY), np.random.default_rng(3)
    centres = [world.centre_of((int(row), int(column))) for row, column in np.argwhere(~solid)]
    places, headings = np.array(centres)[rng.integers(len(centres), size=50)], rng.uniform(-math.pi, math.pi, 50)
    walked = [
        [walk_m(world, solid, place, heading + turn) for turn in (math.pi / 2.0, -math.pi / 2.0)]
        for place, heading in zip(places, headings, strict=True)
    ]
    assert len(np.unique(walked)) > 10
    np.testing.assert_allclose(sides(world, solid, places, headings), walked)


def walk_m(world: World, solid: np.ndarray, place: np.ndarray, towards_rad: float) -> float:
    """Return the distance to the first solid cell, by a stepwise walk."""
    rows, columns = solid.shape
    for step in range(1, round(WIDEST_M / 2.0 / STEP_M)):
        away_m = step * STEP_M
        x, y = place[0] + away_m * math.cos(towards_rad), place[1] + away_m * math.sin(towards_rad)
        row, column = world.cell_of((float(x), float(y)))
        if not (0 <= row < rows and 0 <= column < columns) or solid[row, column]:
            return (step - 1) * STEP_M
    return WIDEST_M / 2.0


def test_the_door_closes_once_near_the_robot_and_opens_again() -> None:
    one = door(shut_s=2.0)
    middle = one.leaves[:, :2].mean(axis=0)
    far, near = (middle[0] - NEAR_M - 0.1, middle[1]), (middle[0] - NEAR_M + 0.1, middle[1])
    closed = []
    for place in [far] * 10 + [near] * 100 + [far] * 10 + [near] * 10:
        one = advance(one, EVERY_S, place, BODY.radius_m)
        closed.append(one.closed)
    assert not any(closed[:10])
    assert closed[10:70] == [True] * 60
    assert not any(closed[72:])


def test_the_door_does_not_close_on_the_robot() -> None:
    one = door()
    x, y = one.leaves[0, :2]
    assert not advance(one, EVERY_S, (x - 0.5, y), BODY.radius_m).closed
    assert not advance(one, EVERY_S, None, BODY.radius_m).closed
    assert advance(one, EVERY_S, (x - 0.8, y), BODY.radius_m).closed


def test_the_robot_waits_until_the_door_opens() -> None:
    setting = Setting(TWO_ROOMS, PLANT, BODY, MOUNTS, Config())
    shut = replace(setting, crowd=replace(crowd_of([], [], []), blocking=door(shut_s=8.0)))
    free, held = (drive_fast(one, EPISODE, make_policy("planner", one, EPISODE), 1) for one in (setting, shut))
    assert free.reached
    assert held.reached
    assert held.time_s > max(8.0, free.time_s + 3.0)
    assert held.contacts == 0
    through = held.trace[held.trace[:, 1] > 3.75]
    assert through[0, 0] > 8.0
