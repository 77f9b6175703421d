"""The state machine of one goal."""

from __future__ import annotations

import math
from dataclasses import replace
from math import pi
from typing import Any

import numpy as np
import pytest

from onboard.config.config import GoalSection
from onboard.navigation import mission as m
from onboard.navigation.mission import Mission, Situation, State
from onboard.policy.contract import ACTIONS, STOP_ACTION
from onboard.safety.limits import Reason
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BINS, STOP, Pose, Scan, Twist
from onboard.values.reasons import E_STOP

SECTION = GoalSection()
GOAL = (2.0, 0.0)
DRIVING = m.accept(Mission(), GOAL, 0)


def refused_now(mission: Mission) -> Mission:
    return m.refuse(mission, "why", 0)


FORWARD = ACTIONS.index(Twist(0.6, 0.0))


def stopped_at(x_m: float, now_s: float = 1.0, twist: Twist = STOP, stops: int = m.REST_DECISIONS) -> Mission:
    state = DRIVING
    for _ in range(stops):
        state = m.note_action(state, STOP)
    return judged(state, x_m, now_s, twist)


def judged(mission: Mission, x_m: float, now_s: float, twist: Twist = STOP, **changes: Any) -> Mission:
    return m.judge(mission, Situation(round(now_s * NS_PER_S), Pose(x_m, 0.0, 0.0), twist, **changes), SECTION)


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
        mission = m.note_action(mission, ACTIONS[action])
    assert mission.stops == 1


def test_policy_that_gives_up_short_of_the_goal_is_stopped_with_the_distance() -> None:
    mission = stopped_at(0.5, now_s=1.0)
    assert mission.state is State.NAVIGATING
    later = judged(mission, 0.5, 7.0)
    assert later.text() == "stopped: the policy stopped 1.50 m from the goal"


def test_moving_again_restarts_the_patience() -> None:
    mission = judged(stopped_at(0.5, now_s=1.0), 0.5, 3.0, Twist(0.3, 0.0))
    assert mission.stopped_since_ns is None


#   what                  function                               from driving                 from idle
TRANSITIONS = [
    ("stop", lambda mission: m.stop(mission, "why"), "stopped: why", "idle"),
    ("cancel", m.cancel, "idle: cancelled", "idle"),
    ("refuse", refused_now, "navigating: goal refused: why", "stopped: goal refused: why"),
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
    assert judged(recovering, 2.0, 0.1).state is State.RECOVERING
    assert m.recovering(recovering, False).state is State.NAVIGATING


def test_every_goal_counts_as_an_episode() -> None:
    assert m.accept(m.accept(Mission(), GOAL, 1), GOAL, 2).episode == 2


#   what                                          change of the situation       state text after judging 6 s later
ENDED_FROM_OUTSIDE = [
    ("nothing", {}, "navigating"),
    ("the engine failed", {"failure": "engine failed: why"}, "stopped: engine failed: why"),
    ("it failed, with the e-stop", {"failure": "engine failed: why", "e_stop": True}, "stopped: engine failed: why"),
    ("e-stop", {"e_stop": True}, "stopped: e_stop"),
    ("input lost for long", {"lost_ns": 0}, "stopped: input lost for 5 s"),
    ("input lost just now", {"lost_ns": 5 * NS_PER_S}, "navigating"),
    ("an operator drives", {"held": True}, "navigating"),
]


@pytest.mark.parametrize(("what", "change", "text"), ENDED_FROM_OUTSIDE, ids=[row[0] for row in ENDED_FROM_OUTSIDE])
@pytest.mark.parametrize("recovering", [False, True])
def test_what_ends_a_drive_from_outside(what: str, change: dict[str, Any], text: str, recovering: bool) -> None:
    after = judged(m.recovering(DRIVING, recovering), 0.0, 6.0, **change)
    assert after.text() == text.replace("navigating", "recovering" if recovering else "navigating")


def test_the_reason_of_the_e_stop_is_that_of_the_limits() -> None:
    assert Reason.E_STOP.value == E_STOP.named


@pytest.mark.parametrize("change", [{"held": True}, {"lost_ns": 0}], ids=["an operator", "a lost input"])
def test_rest_by_an_operator_or_a_lost_input_is_no_stop_of_the_policy(change: dict[str, Any]) -> None:
    mission = stopped_at(0.5)
    brought = judged(mission, 2.0, 2.0, **change)
    assert judged(brought, 2.0, 3.0).state is State.NAVIGATING
    again = m.note_action(m.note_action(brought, STOP), STOP)
    assert judged(again, 2.0, 4.0).state is State.REACHED


def test_no_progress_ends_the_drive_and_an_operators_time_does_not_count() -> None:
    assert judged(DRIVING, 0.0, 119.0).driving
    assert judged(DRIVING, 0.0, 121.0).text() == "stopped: no progress towards the goal for 120 s"
    held = judged(DRIVING, 0.0, 119.0, held=True)
    assert judged(held, 0.0, 121.0).driving
    nearer = judged(DRIVING, 0.5, 119.0)
    assert judged(nearer, 0.5, 121.0).driving


def test_the_distance_is_absent_without_goal_or_pose() -> None:
    assert Mission().away_m(Pose(0.0, 0.0, 0.0)) is None
    assert DRIVING.away_m(None) is None
    assert DRIVING.away_m(Pose(2.0, 1.5, 0.0)) == 1.5


def test_a_refusal_is_shown_for_a_while_only() -> None:
    mission = m.refuse(DRIVING, "why", 0)
    soon = m.judge(mission, situation_at(1.0), SECTION)
    later = m.judge(soon, situation_at(3.0), SECTION)
    assert (soon.text(), later.text()) == ("navigating: goal refused: why", "navigating")


def situation_at(now_s: float) -> m.Situation:
    return m.Situation(int(now_s * NS_PER_S), Pose(0.0, 0.0, 0.0), STOP)


STALLED = "no progress towards the goal for 120 s"
START = m.Progress(5.0, 0)

#   what                           distance  held   now [s]  since [s]  best  reason
PROGRESS = [
    ("nearer", 4.0, False, 59.0, 59.0, 4.0, ""),
    ("just near enough", 4.95, False, 30.0, 30.0, 4.95, ""),
    ("hardly nearer", 4.96, False, 30.0, 0.0, 5.0, ""),
    ("farther", 9.0, False, 30.0, 0.0, 5.0, ""),
    ("not yet", 5.0, False, 119.9, 0.0, 5.0, ""),
    ("too long", 5.0, False, 120.0, 0.0, 5.0, STALLED),
    ("nearer at the last moment", 4.0, False, 120.0, 120.0, 4.0, ""),
    ("held", 5.0, True, 200.0, 200.0, 5.0, ""),
    ("clock went back", 5.0, False, -1.0, -1.0, 5.0, ""),
]


@pytest.mark.parametrize(
    ("what", "distance_m", "held", "now_s", "since_s", "best_m", "reason"), PROGRESS, ids=[row[0] for row in PROGRESS]
)
def test_progress(
    what: str, distance_m: float, held: bool, now_s: float, since_s: float, best_m: float, reason: str
) -> None:
    got = m.track_progress(START, distance_m, held, SECTION, round(now_s * NS_PER_S))
    assert got == (m.Progress(best_m, round(since_s * NS_PER_S)), reason)


#   what                 path left, one decision after the other [m]         time of the last progress [decisions]
PATHS = [
    ("without a map", [math.inf] * 9, 0),
    ("a detour", [30.0, 29.7, 29.4, 29.1, 28.8], 4),
    ("too little", [30.0, 29.9, 29.8, 29.7, 29.6], 0),
    ("a longer path", [30.0, 29.4, 36.0, 35.8, 35.6], 1),
    ("along a longer path", [30.0, 29.4, 36.0, 35.7, 35.4], 4),
    ("two plans in turn", [30.0, 66.0] * 9, 0),
    ("lost in between", [30.0, math.inf, math.inf, 29.7, 29.4], 4),
]


@pytest.mark.parametrize(("what", "left_m", "since"), PATHS, ids=[row[0] for row in PATHS])
def test_the_path_left_is_progress_too(what: str, left_m: list[float], since: int) -> None:
    progress = START
    for decision, one in enumerate(left_m):
        progress = m.track_path(progress, one, decision)
    assert (progress.best_m, progress.since_ns) == (START.best_m, since)


# ---- A goal that the scan shows to be occupied

RADIUS_M = 0.25


def scan_of(*points_m: tuple[float, float]) -> Scan:
    """Return the scan of obstacles at points in the base frame."""
    ranges_m = np.full(BINS, np.inf, np.float32)
    for x_m, y_m in points_m:
        number = int((math.degrees(math.atan2(y_m, x_m)) + 180.0) // 2)
        ranges_m[number] = min(ranges_m[number], math.hypot(x_m, y_m))
    return Scan(0, ranges_m, np.ones(BINS, np.bool_))


FREE = scan_of()
#   what                                      pose in the start frame   obstacles in the base frame       taken?
LOOKS = [
    ("on the goal",                           Pose(0.0, 0.0, 0.0),      scan_of((2.0, 0.0)),              True),
    ("just within the footprint",             Pose(0.0, 0.0, 0.0),      scan_of((1.78, 0.0)),             True),
    ("beside the footprint",                  Pose(0.0, 0.0, 0.0),      scan_of((1.72, 0.0)),             False),
    ("hidden behind a wall",                  Pose(0.0, 0.0, 0.0),      scan_of((1.0, 0.0)),              False),
    ("nothing in sight",                      Pose(0.0, 0.0, 0.0),      FREE,                             False),
    ("seen from the side",                    Pose(2.0, 1.0, -pi / 2),  scan_of((0.9, 0.0)),              True),
    ("looks away",                            Pose(2.0, 1.0, pi / 2),   scan_of((0.9, 0.0)),              False),
    ("among others",                          Pose(0.0, 0.0, 0.0),      scan_of((0.5, 0.5), (2.1, 0.1)),  True),
    ("the robot is within tolerance",         Pose(1.81, 0.0, 0.0),     scan_of((0.29, 0.0)),             False),
    ("the robot is just out of tolerance",    Pose(1.79, 0.0, 0.0),     scan_of((0.31, 0.0)),             True),
]  # fmt: skip


PERIOD_S = 1.0 / 3.0
ENOUGH = 14
"""Decisions of `PERIOD_S` within the time of `mission.OCCUPIED_S`."""


def looked(mission: Mission, scan: Scan, times: int, pose: Pose = LOOKS[0][1]) -> Mission:
    for _ in range(times):
        mission = m.look_at_goal(mission, scan, pose, RADIUS_M, SECTION, PERIOD_S)
    return mission


@pytest.mark.parametrize(("what", "pose", "scan", "taken"), LOOKS, ids=[row[0] for row in LOOKS])
def test_a_goal_that_the_scan_shows_to_be_occupied_ends_the_drive(
    what: str, pose: Pose, scan: Scan, taken: bool
) -> None:
    mission = looked(DRIVING, scan, ENOUGH - 1, pose)
    assert mission.driving
    assert looked(mission, scan, 1, pose).text() == ("stopped: goal is occupied" if taken else "navigating")
    assert PERIOD_S * ENOUGH <= 5.0


TAKEN = LOOKS[0][2]
UNSEEN = replace(FREE, seen=np.zeros(BINS, np.bool_))
HIDDEN = scan_of((1.0, 0.0))
#   what is seen between two halves              begins anew?
BETWEEN = [
    ("the goal, free", FREE, True),
    ("the goal, free, before a wall", scan_of((2.5, 0.0)), True),
    ("an obstacle before the goal", HIDDEN, False),
    ("nothing: no camera looks", UNSEEN, False),
]


@pytest.mark.parametrize(("what", "scan", "anew"), BETWEEN, ids=[row[0] for row in BETWEEN])
def test_only_a_free_goal_in_sight_restarts_the_time(what: str, scan: Scan, anew: bool) -> None:
    mission = looked(looked(looked(DRIVING, TAKEN, 7), scan, 30), TAKEN, 7)
    assert mission.driving == anew
    assert looked(mission, TAKEN, 7).reason == "goal is occupied"
    assert m.accept(mission, GOAL, 0).occupied_s == 0.0


@pytest.mark.parametrize("mission", [Mission(), m.cancel(DRIVING), m.stop(DRIVING, E_STOP.named)])
def test_an_ended_drive_or_none_keeps_its_state(mission: Mission) -> None:
    assert looked(mission, TAKEN, 2 * ENOUGH).text() == mission.text()


@pytest.mark.parametrize(
    ("uncertain_m", "text"), [(None, "reached"), (0.2, "reached"), (0.41, "reached; uncertain by 0.41 m")]
)
def test_a_goal_that_is_reached_by_an_uncertain_pose_says_so(uncertain_m: float | None, text: str) -> None:
    mission = m.note_action(m.note_action(DRIVING, STOP), STOP)
    mission = judged(mission, 2.0, 1.0, uncertain_m=uncertain_m)
    assert mission.state is State.REACHED
    assert mission.text() == text
    assert m.state_word(mission.text()) == "reached"
