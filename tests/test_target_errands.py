"""Where the robot is sent while round trips are measured."""

from __future__ import annotations

import pytest
from rooms import room

from hil.episode_files import EpisodeSet
from hil.routes import Episode
from hil.target import errands as errands_module
from hil.target.errands import AGAIN_S, Errands, Place, choose_place, driving
from hil.world import Body
from onboard.errors import InputError
from onboard.messages import Pose

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


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> EpisodeSet:
    """Three episodes, in place of those of any map."""
    rows = tuple(Episode(Pose(0.0, 0.0, 0.0), (float(number), 0.0), 1.0) for number in range(3))
    known = EpisodeSet("gdc1", "gdc1", "Gates", None, 1, room(3.0, 3.0), rows)
    monkeypatch.setattr(errands_module, "load_episodes", lambda name: known)
    return known


def test_committed_episodes_go_round_from_the_one_that_was_asked_for(committed: EpisodeSet) -> None:
    place = choose_place("gdc1", 1, 1, Body())
    assert [episode.goal_xy_m[0] for episode in place.episodes] == [1.0, 2.0, 0.0]


def test_an_episode_that_there_is_not(committed: EpisodeSet) -> None:
    with pytest.raises(InputError, match="--episode 3: map gdc1 has episodes 0 to 2"):
        choose_place("gdc1", 1, 3, Body())
