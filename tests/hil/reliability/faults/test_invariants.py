"""The rules that hold in every tick, on ticks made by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.reliability.faults.expectations import Aftermath, Expectation, Reaction, Run, place_stays, problems
from hil.reliability.faults.fault import Fault
from hil.reliability.faults.invariants import GRACE_TICKS, Monitor
from hil.reliability.faults.observed_tick import UNKNOWN, off_the_wire
from hil.reliability.faults.verdict import Mode, Status, judge
from onboard.config.config import Config
from onboard.policy.decision import FinishedDecision
from onboard.recording.tick_message import NO_DEPTH
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.messages import (
    STOP,
    Decision,
    DepthFrame,
    GoalRequest,
    Inputs,
    Motion,
    OdometryMessage,
    Pose,
    Teleop,
    Twist,
)
from tests.rigs.runtime_bench import PLANT

PERIOD_NS = NS_PER_S // 30
GO = Twist(0.5, 0.1)


def wheels(now_ns: int, twist: Twist = GO) -> OdometryMessage:
    return OdometryMessage(now_ns, now_ns, Pose(0.0, 0.0, 0.0), twist)


def images(**stamps_ns: int) -> dict[str, DepthFrame]:
    return {name: DepthFrame(name, 0, stamp_ns, NO_DEPTH) for name, stamp_ns in stamps_ns.items()}


def tick(number: int, command: Twist = GO, *, consumed: dict[str, Any] | None = None, **changes: Any) -> TickRecord:
    """Return a tick of a robot that drives with all that it needs, with changes of it and of what it consumed."""
    now_ns = NS_PER_S + number * PERIOD_NS
    inputs = Inputs(now_ns, images(front=now_ns, rear=now_ns), odometry=(wheels(now_ns),))
    fresh = replace(off_the_wire(number, now_ns, command, "navigating"), reason="none")
    return replace(fresh, inputs=replace(inputs, **(consumed or {})), **changes)


def operated(number: int) -> dict[str, Any]:
    return {"teleop": Teleop(NS_PER_S + number * PERIOD_NS, GO)}


def broken(ticks: list[TickRecord], **sections: Any) -> list[tuple[int, str]]:
    monitor = Monitor(Config(**sections), PLANT)
    return [(one.slot, one.rule) for lived in ticks for one in monitor.watch(lived)]


def test_a_robot_that_drives_with_all_it_needs_breaks_nothing() -> None:
    assert broken([tick(number) for number in range(100)]) == []


#   command                        rule
NUMBERS = [
    (Twist(math.nan, 0.0), "finite"),
    (Twist(0.0, math.inf), "finite"),
    (Twist(1.001, 0.0), "speed"),
    (Twist(-0.301, 0.0), "speed"),
    (Twist(0.0, -3.001), "speed"),
]


@pytest.mark.parametrize(("command", "rule"), NUMBERS)
def test_a_command_that_cannot_be_is_found_at_once(command: Twist, rule: str) -> None:
    assert broken([tick(0), tick(1, command), tick(2)]) == [(1, rule)]


#   what it goes through [m/s], ramp 3 m/s^2 upward is 0.1 a tick     in which slots it leaps
RAMPS = [
    ([0.0, 0.1, 0.2, 0.3], []),
    ([0.0, 0.1, 0.3], [2]),
    ([0.5, 0.0, -0.1], []),
    ([0.5, 0.1, 0.0], []),
    ([0.05, -0.05], []),
    ([0.05, -0.1], [1]),
    ([0.0, -0.2], [1]),
]


@pytest.mark.parametrize(("speeds", "leaps"), RAMPS)
def test_a_ramp_is_held_away_from_zero_and_stopping_is_free(speeds: list[float], leaps: list[int]) -> None:
    """Plant and limits are such that the limits' ramp is the slower one."""
    plant = PLANT.model_copy(update={"linear": PLANT.linear.model_copy(update={"acceleration_max": 9.0})})
    monitor = Monitor(Config(limits={"acceleration_mps2": 3.0}), plant)
    found = [one for number, v in enumerate(speeds) for one in monitor.watch(tick(number, Twist(v, 0.0)))]
    assert [(one.slot, one.rule) for one in found] == [(slot, "acceleration") for slot in leaps]


FAILED = FinishedDecision(1, 0, None, 0, fault="it failed")
MISSED = FinishedDecision(1, 0, None, 0)
MADE = FinishedDecision(1, 0, Decision(0, np.zeros(28, np.float32)), 0)
GOAL = GoalRequest(0, 0, "map", Pose(1.0, 0.0, 0.0))
NOTHING: dict[str, Any] = {"odometry": ()}
OLD = (wheels(NS_PER_S + 9 * PERIOD_NS),)
MAD = (wheels(2, Twist(math.nan, 0.0)),)
ONE_OLD = images(front=2 * NS_PER_S, rear=0)
BACKING = {"acted": MISSED, "recovery": "backing"}
#   from tick 10 on              what is consumed     what else             rule                       late tick
CAUSES = [
    ("no odometry",              NOTHING,             {},                   "stale odometry",          18),
    ("odometry of yesterday",    {"odometry": OLD},   {},                   "stale odometry",          18),
    ("no image",                 {"depth": {}},       {},                   "stale scan",              24),
    ("one image is old",         {"depth": ONE_OLD},  {},                   "stale scan",              12),
    ("odometry is NaN",          {"odometry": MAD},   {},                   "impossible odometry", 12),
    ("the engine fails",         {},                  {"acted": FAILED},    "lost engine",             12),
    ("decisions are late",       {},                  {"acted": MISSED},    "lost engine",             14),
    ("they are, while it backs", {},                  BACKING,              "lost engine",             14),
    ("there is no goal",         {},                  {"state": "idle"},    "no goal",                 12),
]  # fmt: skip


@pytest.mark.parametrize(("what", "consumed", "changes", "rule", "late"), CAUSES, ids=[row[0] for row in CAUSES])
def test_what_must_stop_it_is_given_two_ticks(
    what: str, consumed: dict[str, Any], changes: dict[str, Any], rule: str, late: int
) -> None:
    ticks = [tick(number) for number in range(10)]
    ticks += [tick(number, consumed=consumed, **changes) for number in range(10, 40)]
    assert broken(ticks)[0] == (late, rule)
    standing = [one if one.slot.number < late else replace(one, command=STOP) for one in ticks]
    assert broken(standing) == []


ACCEPTED = {"events": ("goal_accepted",)}
PRESSED, RELEASED = {"e_stop": True}, {"e_stop": False}
#   what is consumed, and the rest, from tick 1 on                                             in which slots it breaks
LATCHES: list[tuple[list[tuple[dict[str, Any], dict[str, Any]]], list[int]]] = [
    ([(PRESSED, {"command": STOP, "reason": "e_stop"}), (RELEASED, {"command": STOP, "reason": "e_stop"})], []),
    ([(PRESSED, {"reason": "e_stop"})], [1]),
    ([(PRESSED, {"command": STOP})], [1]),
    ([(PRESSED, {"command": STOP, "reason": "e_stop"}), (RELEASED, {})], [2]),
    ([(PRESSED, {"command": STOP, "reason": "e_stop"}), (RELEASED, ACCEPTED)], [2]),
    ([(PRESSED, {"command": STOP, "reason": "e_stop"} | ACCEPTED)], [1]),
    ([(PRESSED, {"command": STOP, "reason": "e_stop"}), (RELEASED, {"command": STOP, "reason": "e_stop"}),
      (RELEASED, ACCEPTED)], []),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "found"), LATCHES)
def test_an_e_stop_holds_until_a_goal_is_accepted_after_its_release(
    rows: list[tuple[dict[str, Any], dict[str, Any]]], found: list[int]
) -> None:
    ticks = [tick(0), *(replace(tick(n, consumed=given), **more) for n, (given, more) in enumerate(rows, 1))]
    assert broken(ticks) == [(slot, "e-stop") for slot in found]


def test_the_newest_valid_speed_limit_holds() -> None:
    given = [(0.3, Twist(0.31, 0.0)), (math.nan, Twist(0.31, 0.0)), (None, Twist(-0.3, 0.0)), (0.0, Twist(0.5, 0.0))]
    ticks = [tick(n, command, consumed={"speed_limit_mps": mps}) for n, (mps, command) in enumerate(given)]
    assert broken(ticks) == [(0, "speed limit"), (1, "speed limit")]


BACKS: tuple[bool | None, float, bool, bool] = (None, -0.2, False, True)
RESTS: tuple[bool | None, float, bool, bool] = (False, 0.0, False, False)
#   obstacle, v [m/s], operated?, backing?  tick by tick                                in which slots what is broken
TOLD = [
    ([(True, 0.1, False, False), (True, -0.1, False, False), (True, 0.0, False, False)], [(0, "obstacle")]),
    ([(None, 0.1, False, False), (False, 0.1, False, False)],                            []),
    ([(True, 0.1, True, False), (True, 0.101, True, False)],                             [(1, "obstacle")]),
    ([(True, -0.2, False, True), (True, -0.2, False, True)],                             []),
    ([(False, -0.2, False, True), (True, -0.2, False, True), (True, -0.2, False, True)],
     [(1, "backed into"), (2, "backed into")]),
    ([(None, -0.2, False, True), (True, 0.0, False, False), (True, -0.2, False, True)],  [(2, "backed into")]),
    ([BACKS, (True, 0.0, False, False), RESTS, (True, 0.0, False, False), (True, -0.2, False, True)],
     [(4, "backed into")]),
    ([BACKS, RESTS, RESTS, (True, 0.0, False, False), (True, -0.2, False, True)],        [(4, "backed into")]),
    ([BACKS, *[RESTS] * 13, (True, 0.0, False, False), (True, -0.2, False, True)],       [(15, "backed into")]),
    ([BACKS, *[RESTS] * 15, (True, 0.0, False, False), (True, -0.2, False, True)],       []),
    ([RESTS, (True, 0.0, False, False), (True, -0.2, False, True)],                      []),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "found"), TOLD)
def test_while_an_obstacle_is_told_nothing_goes_forward_and_nothing_backs_on(
    rows: list[tuple[bool | None, float, bool, bool]], found: list[tuple[int, str]]
) -> None:
    ticks = []
    for number, (reported, v, held, backing) in enumerate(rows):
        consumed = {"obstacle": reported, **(operated(number) if held else {})}
        ticks.append(tick(number, Twist(v, 0.0), consumed=consumed, recovery="backing" if backing else ""))
    assert broken(ticks) == found
    assert broken([replace(one, reason=UNKNOWN) for one in ticks]) == []


def test_an_operator_drives_without_a_goal_and_without_an_engine_but_not_without_wheels() -> None:
    failed = [tick(number, state="idle", consumed=operated(number), acted=FAILED) for number in range(20)]
    assert broken(failed) == []
    silent = [tick(number, state="idle", consumed=operated(number) | NOTHING) for number in range(20)]
    assert {rule for _, rule in broken(silent)} == {"stale odometry"}


def test_what_was_only_heard_on_the_wire_is_judged_by_its_numbers_alone() -> None:
    assert broken([tick(number, reason=UNKNOWN, consumed=NOTHING) for number in range(40)]) == []
    assert broken([tick(0, Twist(math.nan, 0.0), reason=UNKNOWN)]) == [(0, "finite")]


CONSUMED = st.fixed_dictionaries(
    {
        "e_stop": st.sampled_from([None, True, False]),
        "goals": st.sampled_from([(), (GOAL,), (GOAL, GOAL)]),
        "odometry": st.sampled_from([(), (wheels(1),), (wheels(2, Twist(math.nan, 1.0)),)]),
        "depth": st.sampled_from([{}, images(front=0), images(front=10 * NS_PER_S)]),
        "obstacle": st.sampled_from([None, True, False]),
    }
)
CHANGES = st.fixed_dictionaries(
    {
        "acted": st.sampled_from([None, MADE, MISSED, FAILED]),
        "state": st.sampled_from(["idle", "navigating", "recovering", "stopped: x"]),
        "recovery": st.sampled_from(["", "backing"]),
    }
)


@given(st.lists(st.tuples(CONSUMED, CHANGES), max_size=12))
def test_a_robot_that_stands_breaks_nothing_whatever_happens(
    happenings: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    lived = [tick(number, STOP, consumed=given, **more) for number, (given, more) in enumerate(happenings)]
    assert {rule for _, rule in broken(lived)} <= {"e-stop", "recovery tries"}, "what is no matter of motion"


# ---- recoveries

BACK = Twist(-0.2, 0.0)


def backing(numbers: range, command: Twist = BACK) -> list[Any]:
    return [tick(number, command, recovery="backing", state="recovering", wanted=BACK) for number in numbers]


def recovered(ticks: list[Any], m_per_tick: float = 0.0066) -> list[str]:
    monitor = Monitor(Config(), PLANT)
    return [one.what for n, lived in enumerate(ticks) for one in monitor.watch(lived, m_per_tick * n)]


def tries(count: int, every: int = 200) -> list[Any]:
    """Return tries of two seconds, each followed by a tick without."""
    firsts = [every * number for number in range(count)]
    return [one for first in firsts for one in (*backing(range(first, first + 60)), tick(first + 60))]


def test_a_recovery_within_its_bounds_breaks_nothing() -> None:
    assert recovered(backing(range(60))) == []
    assert recovered(tries(3)) == []
    assert recovered(tries(5, every=700)) == [], "they are too far apart for the window"


def test_a_recovery_beyond_its_bounds_is_found() -> None:
    assert recovered(backing(range(66)))[0] == "it has backed off for 2.10 s"
    assert recovered(backing(range(60)), m_per_tick=0.02)[0] == "it has backed off by 0.50 m"
    assert recovered(backing(range(3), Twist(-0.25, 0.0)))[0] == "it backs off at 0.25 m/s"
    assert recovered(tries(4)) == ["try 4 within 60 s"]
    requested = [replace(attempt, inputs=replace(attempt.inputs, goals=(GOAL,))) for attempt in tries(4)]
    assert recovered(requested) == ["try 4 within 60 s"], "a new goal does not begin anew"


def test_a_drive_without_a_way_must_have_ended() -> None:
    stuck = [tick(number, STOP) for number in range(30 * 140)]
    assert recovered(stuck, m_per_tick=0.0) == ["it should drive, but has stood for 135 s"]
    assert recovered(stuck, m_per_tick=0.001) == []
    assert recovered([replace(one, state="stopped: blocked") for one in stuck], m_per_tick=0.0) == []


# ---- what a fault must come to

ONSET, END = 10, 40
STANDS = Expectation(Reaction.STANDS, timeouts=("odometry.stale_ms",), reasons=("stale_odometry",))


def reported(must: Expectation, judged: Run, config: Config) -> list[str]:
    return [problem.what for problem in problems(must, judged, config)]


def run(stands_from: int, again_from: int, **changes: Any) -> Run:
    ticks = []
    for number in range(60):
        standing = stands_from <= number < again_from
        reason = "stale_odometry" if standing else "none"
        ticks.append(tick(number, STOP if standing else GO, reason=reason))
    return replace(Run(ticks, ticks[ONSET].slot.start_ns, ticks[END].slot.start_ns), **changes)


#   stands from, drives again from      what is said
RUNS = [
    (16, 41, []),
    (18, 41, []),
    (19, 41, ["it stands from tick 9 on, must by tick 8"]),
    (16, 30, ["never so: stands"]),
    (99, 99, ["never so: stands"]),
    (16, 60, ['it does not continue: it stands (stale_odometry, "navigating")']),
]


@pytest.mark.parametrize(("stands_from", "again_from", "expected"), RUNS)
def test_within_how_long_it_stands_and_that_it_goes_on(stands_from: int, again_from: int, expected: list[str]) -> None:
    assert STANDS.within_ticks(Config()) == 6 + GRACE_TICKS
    assert reported(STANDS, run(stands_from, again_from), Config()) == expected


def test_a_robot_must_not_stand_for_another_reason() -> None:
    other = replace(STANDS, reasons=("stale_scan",))
    assert reported(other, run(16, 41), Config()) == ["it stands for another reason: stale_odometry"]


def test_what_must_stay_must_not_move_again_and_what_must_leave_must_have_stopped() -> None:
    stays = replace(STANDS, then=Aftermath.STAYS)
    assert reported(stays, run(16, 41), Config()) == ["it moves again in slot 41 without a new goal"]
    assert reported(stays, run(16, 60), Config()) == []
    leaves = Expectation(Reaction.HOLDS, Aftermath.LEAVES)
    assert reported(leaves, run(16, 60), Config()) == ["the run continues"]
    assert reported(leaves, run(16, 60, ended="x", stopped_last=False), Config()) == ["the run ended without a stop"]
    assert reported(STANDS, run(16, 60, ended="DriverError: x"), Config()) == ["the run ended: DriverError: x"]


GONE = Fault("gone", "nothing comes", STANDS, "R5")
#   what                              with the fault  without it  status            told
SHOWN = [
    ("as it must be",                   (16, 41),       None,       Status.PASSED,    []),
    ("it stands on",                    (16, 60),       (99, 99),   Status.FAILED,    ["it does not continue: "]),
    ("it stands on, without it too",    (16, 60),       (35, 60),   Status.NOT_SHOWN, []),
    ("it stands too late and on",       (19, 60),       (35, 60),   Status.FAILED,    ["it stands from "]),
    ("it never stands, without it too", (99, 99),       (99, 99),   Status.FAILED,    ["never so: "]),
    ("it stood when the fault began",   (0, 41),        None,       Status.NOT_SHOWN, []),
]  # fmt: skip


@pytest.mark.parametrize(("what", "ticks", "plain", "status", "expected"), SHOWN, ids=[row[0] for row in SHOWN])
def test_what_is_the_same_without_the_fault_is_not_its_doing(
    what: str, ticks: tuple[int, int], plain: tuple[int, int] | None, status: Status, expected: list[str]
) -> None:
    without = None if plain is None else lambda: run(*plain)
    verdict = judge(GONE, Mode.CLOCK, run(*ticks), Config(), PLANT, without)
    assert verdict.status is status
    assert len(verdict.problems) == len(expected)
    assert all(problem.startswith(start) for problem, start in zip(verdict.problems, expected, strict=True))


def test_a_drive_that_is_over_shows_nothing_and_a_broken_rule_is_one_all_the_same() -> None:
    there = run(99, 99)
    there = replace(there, ticks=[replace(one, state="reached", command=STOP) for one in there.ticks])
    verdict = judge(GONE, Mode.CLOCK, run(99, 99), Config(), PLANT, lambda: there)
    assert (verdict.status, verdict.happened) == (
        Status.NOT_SHOWN,
        "without the fault, the robot reaches its goal meanwhile",
    )
    verdict = judge(GONE, Mode.CLOCK, run(99, 99), Config(), PLANT, lambda: None)
    assert (verdict.status, verdict.happened) == (Status.NOT_SHOWN, "the robot does not drive without the fault either")
    stood = run(0, 41)
    mad = [*stood.ticks[:-1], replace(stood.ticks[-1], command=Twist(math.nan, 0.0))]
    verdict = judge(GONE, Mode.CLOCK, replace(stood, ticks=mad), Config(), PLANT)
    assert (verdict.status, verdict.problems) == (
        Status.FAILED,
        ("finite: the command is (nan, 0.0) (slot 59)",),
    )


def test_reasons_count_from_when_it_must_be_so() -> None:
    """It stood by itself until then."""
    early = run(14, 41)
    ticks = [replace(one, reason="none") if one.slot.number < ONSET + 8 else one for one in early.ticks]
    assert reported(STANDS, replace(early, ticks=ticks), Config()) == []
    ticks = [replace(one, reason="none") if one.slot.number <= ONSET + 8 else one for one in early.ticks]
    assert reported(STANDS, replace(early, ticks=ticks), Config()) == ["it stands for another reason: none"]


def test_a_place_that_leaps_is_told() -> None:
    """An honest fix after seconds without one corrects the place by less than metres."""
    lost = run(99, 99)

    def leaping(by_m: float) -> Run:
        places = [Pose(by_m if one.slot.number > END else 0.0, 0.0, 0.0) for one in lost.ticks]
        ticks = [replace(one, filtered=Motion(at, GO)) for one, at in zip(lost.ticks, places, strict=True)]
        return replace(lost, ticks=ticks)

    assert place_stays(leaping(0.5), Config()) == ""
    assert place_stays(leaping(1.0), Config()) == "its pose estimate jumps by 1.00 m in slot 41"
