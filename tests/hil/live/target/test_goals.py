"""Where the robot is sent while round trips are measured."""

from __future__ import annotations

import itertools

import pytest

from hil.drive.episodes import MAX_M, MIN_M
from hil.live.target.goals import AGAIN_S, GoalSequence, Place, choose_place
from hil.live.target.goals import GOALS as GOALS_DRAWN
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from onboard.navigation.mission import drives
from onboard.values.messages import Pose
from tests.rigs.rooms import room

NS = 1_000_000_000
GOALS = [(1.0, 0.0), (2.0, 0.0)]


@pytest.fixture
def goals() -> GoalSequence:
    return GoalSequence(Place(room(3.0, 3.0), tuple(Episode(Pose(0.0, 0.0, 0.0), goal, 1.0) for goal in GOALS)))


def test_goal_after_goal_whenever_it_does_not_drive(goals: GoalSequence) -> None:
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
        assert goals.next_goal(state, now_ns) == goal, (now_ns, state)
    assert (goals.sent, goals.reached) == (4, 2)


def test_what_it_had_reached_before_is_not_ours(goals: GoalSequence) -> None:
    assert goals.next_goal("reached", 0) == GOALS[0]
    assert goals.reached == 0


#   state                                drives
STATES = [("navigating", True), ("recovering: again", True), ("idle: cancelled", False), ("stopped: e_stop", False)]


@pytest.mark.parametrize(("state", "expected"), STATES)
def test_driving(state: str, expected: bool) -> None:
    assert drives(state) is expected


def test_goals_go_on_from_one_to_the_next_as_far_as_policies_are_trained_for() -> None:
    place = choose_place("apartment", 1, Body())
    assert len(place.episodes) == GOALS_DRAWN
    for before, after in itertools.pairwise(place.episodes):
        assert (after.start.x_m, after.start.y_m) == before.goal_xy_m
        assert MIN_M <= after.geodesic_m <= MAX_M
