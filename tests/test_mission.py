"""The state machine of one goal."""

from __future__ import annotations

import pytest

from onboard import mission as m
from onboard.config import GoalSection
from onboard.contract import ACTIONS, NO_ACTION, STOP_ACTION
from onboard.messages import STOP, Pose, Twist
from onboard.mission import Mission, State
from onboard.scheduler import NS_PER_S

SECTION = GoalSection()
GOAL = (2.0, 0.0)
DRIVING = m.accept(Mission(), GOAL, 0)
FORWARD = ACTIONS.index(Twist(0.6, 0.0))


def stopped_at(x_m: float, now_s: float = 1.0, twist: Twist = STOP, stops: int = SECTION.rest_decisions) -> Mission:
    state = DRIVING
    for _ in range(stops):
        state = m.note_action(state, STOP_ACTION)
    return m.judge(state, Pose(x_m, 0.0, 0.0), twist, SECTION, int(now_s * NS_PER_S))


#   what                                   mission after judging                         state
ENDS = [
    ("at the goal, at rest", stopped_at(2.0), State.REACHED),
    ("at the edge of the tolerance", stopped_at(1.8), State.REACHED),
    ("just outside", stopped_at(1.79), State.NAVIGATING),
    ("still rolling", stopped_at(2.0, twist=Twist(0.05, 0.0)), State.NAVIGATING),
    ("still turning", stopped_at(2.0, twist=Twist(0.0, -0.1)), State.NAVIGATING),
    ("one stop action only", stopped_at(2.0, stops=1), State.NAVIGATING),
    ("time is over", stopped_at(0.0, now_s=601.0), State.STOPPED),
]


@pytest.mark.parametrize(("what", "mission", "state"), ENDS, ids=[row[0] for row in ENDS])
def test_ends(what: str, mission: Mission, state: State) -> None:
    assert mission.state is state


def test_other_actions_restart_the_count_of_stops() -> None:
    mission = DRIVING
    for action in (STOP_ACTION, FORWARD, STOP_ACTION):
        mission = m.note_action(mission, action)
    assert mission.stops == 1
    assert m.note_action(mission, NO_ACTION).stops == 1


def test_policy_that_gives_up_short_of_the_goal_is_stopped_with_the_distance() -> None:
    mission = stopped_at(0.5, now_s=1.0)
    assert mission.state is State.NAVIGATING
    later = m.judge(mission, Pose(0.5, 0.0, 0.0), STOP, SECTION, 7 * NS_PER_S)
    assert later.text() == "stopped: the policy stopped 1.50 m from the goal"


def test_moving_again_restarts_the_patience() -> None:
    mission = m.judge(stopped_at(0.5, now_s=1.0), Pose(0.5, 0.0, 0.0), Twist(0.3, 0.0), SECTION, 3 * NS_PER_S)
    assert mission.stopped_since_ns is None


#   what                  function                               from driving                 from idle
TRANSITIONS = [
    ("stop", lambda mission: m.stop(mission, "why"), "stopped: why", "idle"),
    ("cancel", m.cancel, "idle: cancelled", "idle"),
    ("refuse", lambda mission: m.refuse(mission, "why"), "navigating: goal refused: why", "stopped: goal refused: why"),
    ("recover", lambda mission: m.recovering(mission, True), "recovering", "idle"),
    ("new goal", lambda mission: m.accept(mission, GOAL, 5), "navigating", "navigating"),
]


@pytest.mark.parametrize(("what", "change", "driving", "idle"), TRANSITIONS, ids=[row[0] for row in TRANSITIONS])
def test_transitions(what: str, change: object, driving: str, idle: str) -> None:
    assert callable(change)
    assert change(DRIVING).text() == driving
    assert change(Mission()).text() == idle


def test_recovery_ends_in_navigating_and_never_judges_the_goal() -> None:
    recovering = m.recovering(DRIVING, True)
    assert m.judge(recovering, Pose(2.0, 0.0, 0.0), STOP, SECTION, 1).state is State.RECOVERING
    assert m.recovering(recovering, False).state is State.NAVIGATING


def test_every_goal_counts_as_an_episode() -> None:
    assert m.accept(m.accept(Mission(), GOAL, 1), GOAL, 2).episode == 2
