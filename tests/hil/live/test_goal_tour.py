"""Several goals one after another: `demo --goals`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hil.live.goal_tour import Leg, leg_results, tour
from hil.maps.load import load_map
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode, free_space, path_length, pick_episode, shortest_path
from onboard.values.errors import InputError
from onboard.values.messages import Pose
from tests.rigs.rooms import room

FIRST = Episode(Pose(0.0, 0.0, 0.0), (2.0, 0.0), 2.0)
THEN = Episode(Pose(2.0, 0.0, 0.0), (2.0, 3.0), 3.0)


@pytest.fixture(scope="module")
def world() -> World:
    return load_map("apartment")


def test_every_goal_is_to_be_had_from_the_one_before(world: World) -> None:
    space = free_space(world, Body())
    first = pick_episode(space, np.random.default_rng(1), 2.0, 15.0)
    episodes = tour(space, first, 6, seed=4)
    assert episodes[0] == first
    assert len(episodes) == 6
    for before, after in itertools.pairwise(episodes):
        assert (after.start.x_m, after.start.y_m) == before.goal_xy_m
        way = shortest_path(space, before.goal_xy_m, after.goal_xy_m)
        assert way is not None
        assert 2.0 <= after.geodesic_m <= 15.0
        assert after.geodesic_m == pytest.approx(path_length(way), rel=0.01)
    assert tour(space, first, 6, seed=4) == episodes
    assert tour(space, first, 6, seed=5) != episodes


def test_where_there_is_no_way_on_it_says_so() -> None:
    """A room of one metre and a half."""
    space = free_space(room(1.5, 1.5), Body())
    lonely = Episode(Pose(0.75, 0.75, 0.0), (0.75, 0.75), 2.0)
    with pytest.raises(
        InputError, match=r"^--goals 2: map .*: goal 1 at \(0\.75, 0\.75\) has no other 2 to 15 m away$"
    ):
        tour(space, lonely, 2, seed=0)


MOVING = 1.0
LIVED_NS = 7_000_000_000


def rows(*poses: tuple[float, float, float]) -> np.ndarray:
    """Return a trace through (x, y, v), a row a second."""
    return np.array([(float(at), x, y, 0.0, v, 0.0) for at, (x, y, v) in enumerate(poses)])


#   name, legs: state and when it ended, trace (x, y, v), and of every leg: reached, distance
TRACES = [
    ("one goal", [("reached", 2)], [(0, 0, 0), (1, 0, MOVING), (1.9, 0, 0)], [(True, 0.1)]),
    ("not near enough", [("reached", 2)], [(0, 0, 0), (1, 0, MOVING), (1.7, 0, 0)], [(False, 0.3)]),
    ("near but moving", [("reached", 1)], [(0, 0, 0), (2, 0, MOVING), (2, 0, 0)], [(False, 0.0)]),
    ("the runtime says otherwise", [("stopped", 1)], [(0, 0, 0), (2, 0, 0)], [(False, 0.0)]),
    (
        "both",
        [("reached", 1), ("reached", 3)],
        [(0, 0, 0), (2, 0.1, 0), (2, 2, 1), (2, 3, 0)],
        [(True, 0.1), (True, 0)],
    ),
    ("between rows", [("reached", 1.9)], [(0, 0, 0), (2, 0, 0), (5, 0, 0)], [(True, 0.0)]),
    (
        "the second only",
        [("navigating", 1), ("reached", 2)],
        [(0, 0, 0), (1, 0, 1), (2, 3, 0)],
        [(False, 1), (True, 0)],
    ),
    ("longer than the trace", [("reached", 9)], [(0, 0, 0), (2, 0, 0)], [(True, 0.0)]),
    (
        "beside an overload",
        [("reached; 15 of the last 90 ticks were missed", 1)],
        [(0, 0, 0), (2, 0, 0)],
        [(True, 0.0)],
    ),
    ("before it", [("stopped", -1)], [(0, 0, 0), (2, 0, 0)], [(False, 2.0)]),
]


@pytest.mark.parametrize(("name", "ends", "trace", "reported"), TRACES, ids=[row[0] for row in TRACES])
def test_the_true_trace_says_what_was_reached(
    name: str,
    ends: list[tuple[str, float]],
    trace: list[tuple[float, float, float]],
    reported: list[tuple[bool, float]],
) -> None:
    began_ns = LIVED_NS - (len(trace) - 1) * 1_000_000_000
    legs = [
        Leg(episode, state, 5.0, began_ns + round(at_s * 1e9))
        for episode, (state, at_s) in zip((FIRST, THEN), ends, strict=False)
    ]
    results = leg_results(legs, rows(*trace), LIVED_NS)
    assert [(row["reached"], row["distance_to_goal_m"]) for row in results] == [
        (reached, round(distance_m, 3)) for reached, distance_m in reported
    ]
    assert [row["goal_m"] for row in results] == [list(leg.episode.goal_xy_m) for leg in legs]
