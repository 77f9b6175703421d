"""Where the robot is sent while round trips are measured."""

from __future__ import annotations

import itertools

import pytest

from hil.drive.episodes import MAX_M, MIN_M, load_episodes
from hil.live.target.goals import AGAIN_S, Errands, Place, choose_place, driving
from hil.live.target.goals import GOALS as GOALS_DRAWN
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from onboard.values.errors import InputError
from onboard.values.messages import Pose
from tests.rigs.rooms import room

NS = 1_000_000_000
GOALS = [(1.0, 0.0), (2.0, 0.0)]


@pytest.fixture
def errands() -> Errands:
    return Errands(Place(room(3.0, 3.0), tuple(Episode(Pose(0.0, 0.0, 0.0), goal, 1.0) for goal in GOALS)))


def test_goal_after_goal_whenever_it_does_not_drive(errands: Errands) -> None:
    second = round(AGAIN_S * NS)
    #   at                state                        goal
    rows = [
        (0, "", None),  # not heard yet
        (1, "idle", GOALS[0]),
        (2, "idle", None),  # it has just been asked
        (second, "navigating", None),
        (9 * second, "recovering", None),
        (9 * second + 1, "reached", GOALS[1]),
        (9 * second + 2, "reached", None),
        (11 * second, "stopped: goal refused: nowhere", GOALS[0]),
        (12 * second, "navigating", None),
        (13 * second, "reached", GOALS[1]),
    ]
    for now_ns, state, goal in rows:
        assert errands.next_goal(state, now_ns) == goal, (now_ns, state)
    assert (errands.sent, errands.reached) == (4, 2)


def test_what_it_had_reached_before_is_not_ours(errands: Errands) -> None:
    assert errands.next_goal("reached", 0) == GOALS[0]
    assert errands.reached == 0


#   state                                drives
STATES = [("navigating", True), ("recovering: again", True), ("idle: cancelled", False), ("stopped: e_stop", False)]


@pytest.mark.parametrize(("state", "expected"), STATES)
def test_driving(state: str, expected: bool) -> None:
    assert driving(state) is expected


def test_goals_go_on_from_one_to_the_next_as_far_as_policies_are_trained_for() -> None:
    place = choose_place("apartment", 1, None, Body())
    assert len(place.episodes) == GOALS_DRAWN
    for before, after in itertools.pairwise(place.episodes):
        assert (after.start.x_m, after.start.y_m) == before.goal_xy_m
        assert MIN_M <= after.geodesic_m <= MAX_M


def test_they_may_begin_with_a_committed_episode() -> None:
    assert choose_place("apartment", 1, 3, Body()).episodes[0] == load_episodes("apartment").episodes[3]


def test_an_episode_that_there_is_not() -> None:
    with pytest.raises(InputError, match="--episode 99: map apartment has episodes 0 to "):
        choose_place("apartment", 1, 99, Body())
