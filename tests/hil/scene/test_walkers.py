"""Characters: starts, motion, waiting, and dependence on the seed alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.physics.collision_world import Body, Simulation
from hil.physics.free_space import Episode
from hil.scene.walkers import (
    CLEAR_M,
    KINDS,
    ROBOT_M,
    TOUCH_M,
    WAIT_M,
    CrowdOptions,
    bodies_of,
    crowd_of,
    make_crowd,
    requested_crowd,
    walk,
    walking_space,
)
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import load_plant
from onboard.values.messages import Pose
from tests.rigs.rooms import room, with_box

TICK_S = 1.0 / 30.0
ROUNDING_M = 1e-9
HALL = with_box(with_box(room(12.0, 9.0), (4.0, 5.0), (2.0, 7.0), (0.0, 2.0)), (8.0, 8.4), (4.0, 6.0), (1.2, 1.4))
"""A hall with a shelf in the middle and a beam at head height."""
SPACE = walking_space(HALL)
PERSON = Simulation(HALL, load_plant(DEFAULT_ROBOT / "plant.toml"), Body(0.25, 1.7))
WALKER = KINDS["pedestrian"]


def apart(bodies: np.ndarray) -> float:
    """Return the least gap between two cylinders."""
    room_m = math.inf
    for i in range(len(bodies)):
        for j in range(i):
            room_m = min(room_m, math.dist(bodies[i, :2], bodies[j, :2]) - bodies[i, 2] - bodies[j, 2])
    return room_m


def straight(*points: tuple[float, float]) -> np.ndarray:
    return np.array(points)


@given(
    seed=st.integers(0, 2**32 - 1),
    pedestrians=st.integers(0, 6),
    robots=st.integers(0, 3),
    dt_s=st.sampled_from([TICK_S, 0.1, 0.5]),
    robot=st.tuples(st.floats(1.0, 11.0), st.floats(1.0, 8.0)),
)
@settings(max_examples=25, deadline=None)
def test_characters_hit_nothing_and_keep_their_speed(seed, pedestrians, robots, dt_s, robot):
    crowd = make_crowd(SPACE, seed, pedestrians, robots, keep_clear=(robot,))
    for _ in range(150):
        before, crowd = bodies_of(crowd), walk(crowd, dt_s, robot)
        bodies = bodies_of(crowd)
        stepped = np.hypot(*(bodies[:, :2] - before[:, :2]).T)
        assert (stepped <= crowd.shape[:, 3] * dt_s + ROUNDING_M).all()
        assert not any(PERSON.overlaps(Pose(x, y, 0.0)) for x, y in bodies[:, :2])
        assert apart(bodies) > 0.0
        assert all(math.dist(robot, (x, y)) > 0.25 + radius + ROBOT_M - ROUNDING_M for x, y, radius in bodies[:, :3])


def test_a_lone_character_walks_back_and_forth_at_its_speed():
    crowd = crowd_of([WALKER], [1.0], [straight((1.0, 1.0), (3.0, 1.0), (3.0, 2.0))])
    places = {0.5: (1.5, 1.0), 2.5: (3.0, 1.5), 3.0: (3.0, 2.0), 3.5: (3.0, 1.5), 6.0: (1.0, 1.0), 7.0: (2.0, 1.0)}
    for ticks in range(1, 211):
        crowd = walk(crowd, TICK_S)
        if (expected := places.get(round(ticks * TICK_S, 3))) is not None:
            np.testing.assert_allclose(crowd.state[0, :2], expected, atol=2 * TICK_S + ROUNDING_M)


def test_a_character_waits_before_a_standing_robot_then_reverses():
    crowd = crowd_of([WALKER], [1.0], [straight((1.0, 1.0), (9.0, 1.0))])
    places = []
    for _ in range(30 * 16):
        crowd = walk(crowd, TICK_S, (5.0, 1.0))
        places.append(crowd.state[0, 0])
    farthest = int(np.argmax(places))
    assert 0.5 + WAIT_M <= 5.0 - places[farthest] < 0.5 + WAIT_M + 0.15
    assert min(np.diff(places[:farthest])) >= 0.0
    assert min(places[farthest:]) == pytest.approx(1.0, abs=0.04)


def test_two_characters_meeting_in_a_corridor_reverse():
    ways = [straight((1.0, 1.0), (9.0, 1.0)), straight((9.0, 1.0), (1.0, 1.0))]
    crowd, nearest = crowd_of([WALKER, WALKER], [1.0, 0.8], ways), math.inf
    for _ in range(30 * 12):
        crowd = walk(crowd, TICK_S)
        nearest = min(nearest, apart(bodies_of(crowd)))
    assert TOUCH_M < nearest < WAIT_M + 0.15
    assert apart(bodies_of(crowd)) > 2.0


def test_a_faster_one_stays_behind_a_slower_one():
    ways = [straight((2.0, 1.0), (30.0, 1.0)), straight((1.0, 1.0), (30.0, 1.0))]
    crowd = crowd_of([WALKER, WALKER], [0.6, 1.5], ways)
    for _ in range(30 * 10):
        crowd = walk(crowd, TICK_S)
    assert crowd.state[0, 0] == pytest.approx(8.0)
    assert WAIT_M < apart(bodies_of(crowd)) < 1.0


def test_one_whom_the_robot_has_run_into_may_walk_off():
    crowd = crowd_of([WALKER], [1.0], [straight((1.0, 1.0), (9.0, 1.0))])
    for _ in range(30):
        crowd = walk(crowd, TICK_S, (0.7, 1.0))
    assert crowd.state[0, 0] == pytest.approx(2.0)


EPISODE = Episode(Pose(2.0, 4.5, 0.0), (10.0, 4.5), 9.0)


def test_a_crowd_that_is_asked_for_is_clear_of_the_start_and_near_the_way():
    assert requested_crowd(CrowdOptions(), HALL, EPISODE, 1) is None
    crowd = requested_crowd(CrowdOptions(3, 1), HALL, EPISODE, 1)
    assert crowd is not None
    assert len(crowd.state) == 4
    assert all(math.dist((2.0, 4.5), place) >= CLEAR_M for place in crowd.state[:, :2])
