"""The guard of the real robot: every rule by its number."""

from __future__ import annotations

from dataclasses import replace
from math import inf, pi

import numpy as np
import pytest

from hil.live.twin.guard.danger import Cause
from hil.live.twin.guard.rules import GONE_S, HOLD_S, RESUME_S, RETRY_S, STEADY_S, TRIES, Guard, GuardMessages, Phase
from onboard.perception.collision import braking_m
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import wrap
from onboard.values.messages import STOP, Twist
from tests.hil.live.twin.guard_rig import FAST, MS, NOW_NS, SLOW, TICK_NS, WATCHING, after, scan_of

# --- G1 ---------------------------------------------------------------------------------------------------------------

#   twin runs   a frame came   phase
BEGINNINGS = [
    (None, None, Phase.WAITING),
    (False, None, Phase.WAITING),
    (True, None, Phase.WAITING),
    (False, NOW_NS, Phase.WAITING),
    (True, NOW_NS, Phase.WATCHING),
]


@pytest.mark.parametrize(("running", "frame_ns", "phase"), BEGINNINGS)
def test_g1_it_begins_once_the_twin_runs(running: bool | None, frame_ns: int | None, phase: Phase) -> None:
    guard, order = after(Guard(), twin_running=running, frame_ns=frame_ns)
    assert guard.phase is phase
    assert order == GuardMessages()


@pytest.mark.parametrize(("running", "cause"), [(False, Cause.PAUSED), (None, Cause.SILENT)])
def test_g1_a_robot_whose_twin_is_gone_is_stopped_and_held_and_then_left_alone(
    running: bool | None, cause: Cause
) -> None:
    gone = {"twin_running": running}
    guard, order = after(WATCHING, **gone)
    assert (guard.phase, guard.cause, order) == (Phase.STOPPING, cause, GuardMessages(STOP))
    held_ns = NOW_NS + round(0.9 * HOLD_S * NS_PER_S)
    guard, order = after(guard, **(STANDING | gone), now_ns=held_ns)
    assert (guard.phase, order) == (Phase.STOPPING, GuardMessages(STOP)), "its runtime still believes the last frame"
    later_ns = NOW_NS + round(1.1 * HOLD_S * NS_PER_S)
    rolling, order = after(guard, **gone, now_ns=later_ns)
    assert (rolling.phase, order) == (Phase.STOPPING, GuardMessages(STOP))
    guard, order = after(guard, **(STANDING | gone), now_ns=later_ns)
    assert (guard.phase, guard.cause, order) == (Phase.WAITING, cause, GuardMessages())


def test_g1_a_robot_that_stands_when_its_twin_is_paused_is_left_alone() -> None:
    guard, order = after(WATCHING, **STANDING, scan=scan_of((0.5, 0.0)))
    assert (guard.phase, guard.cause, order) == (Phase.WAITING, Cause.PAUSED, GuardMessages())


#   what                         change of a robot that moves while the guard waits                     cause
WAITS = [
    ("towards a wall", {"scan": scan_of((0.8, 0.0))}, Cause.OBSTACLE),
    ("told to, unheard", {"scan": scan_of((0.8, 0.0)), "measured": None}, Cause.OBSTACLE),
    ("without a scan", {"scan": None}, Cause.SCAN),
    ("rolling without a scan", {"scan": None, "command": STOP}, Cause.SCAN),
    ("where it is free", {}, Cause.NONE),
    ("standing before a wall", {"scan": scan_of((0.5, 0.0)), "command": STOP, "measured": STOP}, Cause.NONE),
    ("before anything is heard", {"scan": None, "command": STOP, "measured": None}, Cause.NONE),
]


@pytest.mark.parametrize(("what", "change", "cause"), WAITS, ids=[row[0] for row in WAITS])
@pytest.mark.parametrize("running", [None, False])
def test_g1_while_it_waits_danger_stops_a_robot_that_moves(
    running: bool | None, what: str, change: dict[str, object], cause: Cause
) -> None:
    guard, order = after(Guard(), twin_running=running, **change)
    expected = (Phase.WAITING, GuardMessages()) if cause is Cause.NONE else (Phase.STOPPING, GuardMessages(STOP))
    assert (guard.phase, order) == expected
    assert guard.cause is cause


def test_g1_old_frames_are_no_reason_to_begin() -> None:
    guard, _ = after(Guard(), frame_ns=NOW_NS - NS_PER_S)
    assert guard.phase is Phase.WAITING


# --- G2, G3, G4, G9: what stops ---------------------------------------------------------------------------------------

STOP_M = braking_m(1.0, 2.5, 0.3) + 0.3 + 0.3
"""Range of a wall straight ahead, from the robot's middle, at which it is stopped from 1 m/s."""

#   what                          change                                                       cause
CAUSES = [
    ("free", {}, Cause.NONE),
    ("far wall", {"scan": scan_of((STOP_M + 0.02, 0.0))}, Cause.NONE),
    ("near wall", {"scan": scan_of((STOP_M - 0.02, 0.0))}, Cause.OBSTACLE),
    ("beside it", {"scan": scan_of((0.6, 0.3)), "command": Twist(0.6, -0.6), "measured": SLOW}, Cause.NONE),
    ("beside", {"scan": scan_of((0.6, 0.6), (0.6, -0.6))}, Cause.NONE),
    ("on the arc to it", {"scan": scan_of((0.6, 0.3)), "command": Twist(0.6, 0.6), "measured": SLOW}, Cause.OBSTACLE),
    ("slow, so it may be nearer", {"scan": scan_of((0.7, 0.0)), "command": SLOW, "measured": SLOW}, Cause.OBSTACLE),
    ("slow and farther", {"scan": scan_of((0.8, 0.0)), "command": SLOW, "measured": SLOW}, Cause.NONE),
    ("still fast", {"scan": scan_of((0.8, 0.0)), "command": SLOW, "measured": FAST}, Cause.OBSTACLE),
    ("turning in place", {"scan": scan_of((0.4, 0.0)), "command": Twist(0.0, 2.0), "measured": STOP}, Cause.NONE),
    ("behind, backing", {"scan": scan_of((-0.7, 0.0)), "command": Twist(-0.2, 0.0)}, Cause.OBSTACLE),
    ("no scan", {"scan": None}, Cause.SCAN),
    ("old scan", {"scan": scan_of(stamp_ns=NOW_NS - 501 * MS)}, Cause.SCAN),
    ("scan just in time", {"scan": scan_of(stamp_ns=NOW_NS - 499 * MS)}, Cause.NONE),
    ("nobody looks ahead", {"scan": scan_of(blind_deg=(-20, 20))}, Cause.SCAN),
    ("nobody looks behind", {"scan": scan_of(blind_deg=(-180, -150))}, Cause.NONE),
    ("frame just in time", {"frame_ns": NOW_NS - 199 * MS}, Cause.NONE),
    ("frame late", {"frame_ns": NOW_NS - 201 * MS}, Cause.LATE),
    ("frame of an old pose", {"frame_lag_ns": 201 * MS}, Cause.LATE),
    ("frame of no pose of this robot", {"frame_lag_ns": -NS_PER_S}, Cause.LATE),
    ("frame of a pose just in time", {"frame_lag_ns": 199 * MS}, Cause.NONE),
    ("contact", {"contact": True}, Cause.CONTACT),
]


@pytest.mark.parametrize(("what", "change", "cause"), CAUSES, ids=[row[0] for row in CAUSES])
def test_g2_g3_g4_g9_what_stops_the_robot(what: str, change: dict[str, object], cause: Cause) -> None:
    guard, order = after(WATCHING, **change)
    assert guard.cause is cause
    if cause is Cause.NONE:
        assert (guard.phase, order) == (Phase.WATCHING, GuardMessages())
    else:
        assert guard.phase is Phase.STOPPING
        assert order == GuardMessages(STOP, pause=True, cancel=cause is Cause.CONTACT)


# --- G5: standing -----------------------------------------------------------------------------------------------------

STOPPED = Guard(Phase.STOPPING, Cause.OBSTACLE, last=SLOW)
STANDING = {"measured": STOP, "command": STOP, "twin_running": False}

#   what                        change of a robot and a twin that stand          goes on?
STANDINGS = [
    ("both stand", {}, True),
    ("the robot rolls", {"measured": Twist(0.1, 0.0)}, False),
    ("the robot turns", {"measured": Twist(0.0, 0.2)}, False),
    ("its speed is not known", {"measured": None}, False),
    ("the twin still runs", {"twin_running": True}, False),
    ("the scan is old", {"scan": scan_of(stamp_ns=0)}, False),
]


@pytest.mark.parametrize(("what", "change", "goes_on"), STANDINGS, ids=[row[0] for row in STANDINGS])
def test_g5_zero_until_both_stand(what: str, change: dict[str, object], goes_on: bool) -> None:
    guard, order = after(STOPPED, **(STANDING | change))
    assert (guard.phase is not Phase.STOPPING) == goes_on
    if not goes_on:
        assert order.teleop == STOP
        assert order.pause == (what == "the twin still runs")


# --- G6: turning ------------------------------------------------------------------------------------------------------

#   what                   points that stand about                                          side
SIDES = [
    ("wall to the right", [(1.0, 0.0), (1.0, -0.5), (0.5, -1.0), (0.0, -1.0)], 1),
    ("wall to the left", [(1.0, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 1.0)], -1),
]


@pytest.mark.parametrize(("what", "points", "side"), SIDES, ids=[row[0] for row in SIDES])
def test_g6_it_turns_the_shorter_way(what: str, points: list[tuple[float, float]], side: int) -> None:
    guard, order = after(STOPPED, **STANDING, scan=scan_of(*points))
    assert guard.phase is Phase.TURNING
    assert order == GuardMessages(Twist(0.0, side * 0.5))


TURNING = Guard(Phase.TURNING, Cause.OBSTACLE, last=SLOW, side=-1, enough_m=2.5)

#   the most that is free [m]   enough [m]
ROOM_MOST = [(3.5, 2.5), (2.0, 1.8), (1.0, 0.9)]


@pytest.mark.parametrize(("most_m", "enough_m"), ROOM_MOST)
def test_g6_in_a_small_room_most_of_what_it_has_is_enough(most_m: float, enough_m: float) -> None:
    """At the closed end of a passage, which behind is `most_m` long."""
    sides = [(x, y) for x in np.arange(-most_m - 0.3, 0.6, 0.02) for y in (-0.5, 0.5)]
    ends = [(x, y) for x in (-most_m - 0.3, 0.6) for y in np.arange(-0.5, 0.5, 0.02)]
    guard, _ = after(STOPPED, **STANDING, scan=scan_of(*sides, *ends))
    assert guard.enough_m == pytest.approx(enough_m, abs=0.05)


#   what                      ahead [m]   phase
AHEAD = [("room", 2.9, Phase.STARTING), ("not enough", 2.7, Phase.TURNING), ("nothing seen", inf, Phase.STARTING)]


@pytest.mark.parametrize(("what", "ahead_m", "phase"), AHEAD, ids=[row[0] for row in AHEAD])
def test_g6_it_turns_until_there_is_room(what: str, ahead_m: float, phase: Phase) -> None:
    scan = scan_of() if ahead_m == inf else scan_of((ahead_m, 0.0), (ahead_m, 0.05), (ahead_m, -0.05))
    guard, order = after(TURNING, **STANDING, scan=scan)
    assert guard.phase is phase
    assert order.teleop == (Twist(0.0, -0.5) if phase is Phase.TURNING else SLOW)


def test_g6_after_a_whole_turn_the_most_that_the_room_has_is_enough() -> None:
    guard, headings = TURNING, np.arange(0.0, 2.5 * pi, 0.1)
    for heading in headings:
        room_m = 1.8 if abs(wrap(heading - 1.0)) < 0.15 else 1.0
        guard, _ = after(guard, **STANDING, yaw_rad=wrap(heading), scan=scan_of((room_m, 0.0)))
        if guard.phase is not Phase.TURNING:
            break
    assert guard.phase is Phase.STARTING
    assert 2.0 * pi <= heading <= 2.0 * pi + 1.2
    assert guard.best_free_m == pytest.approx(1.5, abs=0.05)


def test_g6_the_last_arc_must_be_out_of_danger_too() -> None:
    guard, _ = after(replace(TURNING, last=Twist(0.3, -0.6)), **STANDING, scan=scan_of((0.45, -0.4)))
    assert guard.phase is Phase.TURNING


@pytest.mark.parametrize("phase", [Phase.TURNING, Phase.STARTING, Phase.RESUMING])
def test_g3_g7_without_a_scan_whatever_it_was_doing_ends_in_a_stop(phase: Phase) -> None:
    guard, order = after(Guard(phase, Cause.OBSTACLE, NOW_NS, SLOW), scan=None)
    assert (guard.phase, guard.cause, order) == (Phase.STOPPING, Cause.SCAN, GuardMessages(STOP, pause=True))


# --- G7, G8: going on -------------------------------------------------------------------------------------------------

STARTING = Guard(Phase.STARTING, Cause.OBSTACLE, NOW_NS, SLOW)
RESUMING = Guard(Phase.RESUMING, Cause.OBSTACLE, NOW_NS, SLOW)

#   what                        guard      change                                               phase, order
GOING_ON = [
    ("not fast yet", STARTING, {"measured": Twist(0.1, 0.0)}, Phase.STARTING, GuardMessages(SLOW)),
    ("fast enough", STARTING, {"measured": Twist(0.22, 0.0)}, Phase.RESUMING, GuardMessages(SLOW, resume=True)),
    (
        "never fast enough",
        replace(STARTING, since_ns=NOW_NS - NS_PER_S),
        {"measured": STOP},
        Phase.RESUMING,
        GuardMessages(SLOW, resume=True),
    ),
    ("said again", RESUMING, {"twin_running": False}, Phase.RESUMING, GuardMessages(SLOW, resume=True)),
    ("runs, no frame yet", RESUMING, {"frame_ns": NOW_NS - MS}, Phase.RESUMING, GuardMessages(SLOW)),
    ("runs and shows", RESUMING, {"frame_ns": NOW_NS + MS}, Phase.WATCHING, GuardMessages()),
    ("obstacle meanwhile", STARTING, {"scan": scan_of((0.6, 0.0))}, Phase.STOPPING, GuardMessages(STOP, pause=True)),
    (
        "obstacle while resuming",
        RESUMING,
        {"scan": scan_of((0.6, 0.0))},
        Phase.STOPPING,
        GuardMessages(STOP, pause=True),
    ),
    (
        "does not resume",
        replace(RESUMING, since_ns=NOW_NS - round(RESUME_S * NS_PER_S)),
        {"twin_running": False},
        Phase.STOPPING,
        GuardMessages(STOP, pause=True),
    ),
]


@pytest.mark.parametrize(("what", "guard", "change", "phase", "order"), GOING_ON, ids=[row[0] for row in GOING_ON])
def test_g7_the_last_velocity_then_resume(
    what: str, guard: Guard, change: dict[str, object], phase: Phase, order: GuardMessages
) -> None:
    onward, given_order = after(guard, **({"measured": SLOW, "command": SLOW} | change))
    assert (onward.phase, given_order) == (phase, order)


def test_g8_a_twin_that_does_not_resume_is_asked_again_later() -> None:
    late = replace(RESUMING, since_ns=NOW_NS - NS_PER_S)
    guard, _ = after(late, **STANDING)
    waiting, order = after(guard, **STANDING, now_ns=NOW_NS + 10 * MS, scan=scan_of(stamp_ns=NOW_NS))
    assert (waiting.phase, order) == (Phase.STOPPING, GuardMessages(STOP))
    then_ns = NOW_NS + round(RETRY_S * NS_PER_S)
    again, order = after(waiting, **STANDING, now_ns=then_ns, scan=scan_of(stamp_ns=then_ns))
    assert (again.phase, order) == (Phase.STARTING, GuardMessages(STOP)), "from rest: the first try has had its way"


def tried(guard: Guard, running: bool | None, seconds: float) -> tuple[Guard, list[GuardMessages]]:
    """Return the guard, and its orders, after a time beside a robot that obeys and a twin that only says this."""
    orders, measured = [], SLOW
    for tick in range(round(seconds * NS_PER_S / TICK_NS)):
        now_ns = NOW_NS + tick * TICK_NS
        seen = {"now_ns": now_ns, "scan": scan_of(stamp_ns=now_ns), "command": measured, "measured": measured}
        guard, order = after(guard, twin_running=running, frame_ns=NOW_NS, **seen)
        measured = STOP if order.teleop is None else order.teleop
        orders.append(order)
    return guard, orders


@pytest.mark.parametrize("phase", [Phase.TURNING, Phase.STARTING, Phase.RESUMING])
def test_g8_a_twin_that_is_not_heard_gets_nothing_but_zero_and_is_given_up(phase: Phase) -> None:
    guard, orders = tried(Guard(phase, Cause.OBSTACLE, NOW_NS, SLOW, enough_m=9.0), None, GONE_S + 1.0)
    assert {order.teleop for order in orders} == {STOP, None}
    assert not any(order.resume for order in orders)
    assert (guard.phase, guard.cause) == (Phase.WAITING, Cause.SILENT)


def test_g8_a_twin_that_stays_paused_is_asked_so_often_and_then_left_alone() -> None:
    guard, orders = tried(RESUMING, False, (TRIES + 1) * (RESUME_S + RETRY_S + 0.2) + HOLD_S)
    moving = [tick for tick, order in enumerate(orders) if order.teleop not in (STOP, None)]
    assert max(moving) * TICK_NS <= (RESUME_S + 0.1) * NS_PER_S, "only on the first try does the robot move"
    resumed = [order.resume for order in orders]
    assert sum(now and not before for before, now in zip([False, *resumed], resumed, strict=False)) == TRIES
    assert (guard.phase, guard.cause, orders[-1]) == (Phase.WAITING, Cause.GAVE_UP, GuardMessages())
    again, _ = after(guard)
    assert (again.phase, again.tries) == (Phase.WATCHING, 0)


def test_g8_frames_that_are_late_again_at_once_are_a_failed_try() -> None:
    resumed, _ = after(RESUMING, measured=SLOW, command=SLOW, frame_ns=NOW_NS + MS)
    guard, _ = after(resumed, frame_ns=NOW_NS - NS_PER_S, command=SLOW)
    assert (guard.cause, guard.last, guard.tries) == (Cause.LATE, STOP, 1)
    steady = replace(resumed, since_ns=NOW_NS - round(STEADY_S * NS_PER_S), tries=3)
    guard, _ = after(steady, frame_ns=NOW_NS - NS_PER_S, command=SLOW)
    assert (guard.cause, guard.last, guard.tries) == (Cause.LATE, SLOW, 0)


def test_g6_a_twin_that_runs_while_the_robot_turns_is_paused_again() -> None:
    wall = {"scan": scan_of((0.7, 0.0)), "measured": STOP, "command": STOP}
    _, order = after(TURNING, **wall, twin_running=True)
    assert order == GuardMessages(Twist(0.0, -0.5), pause=True)
    _, order = after(TURNING, **wall, twin_running=False)
    assert order == GuardMessages(Twist(0.0, -0.5))


@pytest.mark.parametrize("phase", [Phase.STOPPING, Phase.TURNING, Phase.STARTING, Phase.RESUMING])
@pytest.mark.parametrize("change", [{"elsewhere": True}, {"driving": False}])
def test_g7_the_last_velocity_is_gone_with_its_place_or_its_goal(phase: Phase, change: dict[str, object]) -> None:
    guard, order = after(Guard(phase, Cause.OBSTACLE, NOW_NS, SLOW, enough_m=9.0), measured=SLOW, **change)
    assert guard.last == STOP
    assert order.teleop is None or order.teleop.v_mps == 0.0


#   what            of a watching guard          seconds before the stop    last
KEPT = [
    ("just now", {"elsewhere": True}, 0.0, STOP),
    ("shortly before", {"elsewhere": True}, 0.5, STOP),
    ("long before", {"elsewhere": True}, 1.5, FAST),
    ("no goal", {"driving": False}, 0.0, STOP),
    ("a goal", {"driving": True}, 0.0, FAST),
]


@pytest.mark.parametrize(("what", "change", "before_s", "last"), KEPT, ids=[row[0] for row in KEPT])
def test_g7_what_is_kept_of_a_stop_while_watching(
    what: str, change: dict[str, object], before_s: float, last: Twist
) -> None:
    wall = {"scan": scan_of((0.8, 0.0))}
    if before_s == 0.0:
        guard, _ = after(WATCHING, **wall, **change)
    else:
        before_ns = NOW_NS - round(before_s * NS_PER_S)
        guard, _ = after(WATCHING, **change, now_ns=before_ns, scan=scan_of(stamp_ns=before_ns))
        guard, _ = after(guard, **wall)
    assert (guard.phase, guard.last) == (Phase.STOPPING, last)


@pytest.mark.parametrize("phase", Phase)
def test_g9_a_contact_stops_whatever_the_guard_is_doing(phase: Phase) -> None:
    guard, order = after(Guard(phase, Cause.OBSTACLE, NOW_NS, SLOW, enough_m=9.0), contact=True)
    assert (guard.phase, guard.cause, guard.last) == (Phase.STOPPING, Cause.CONTACT, STOP)
    assert order == GuardMessages(STOP, pause=True, cancel=True)


def test_a_late_frame_with_free_room_ahead_needs_no_turn() -> None:
    guard, order = after(replace(STOPPED, cause=Cause.LATE), **STANDING)
    assert (guard.phase, order) == (Phase.STARTING, GuardMessages(SLOW))


def test_g9_after_a_contact_the_twin_is_resumed_and_the_robot_stands() -> None:
    guard, _ = after(WATCHING, contact=True)
    guard, order = after(guard, **STANDING)
    assert (guard.phase, order) == (Phase.RESUMING, GuardMessages(STOP, resume=True))
    guard, order = after(guard, measured=STOP, command=STOP, frame_ns=NOW_NS + MS)
    assert (guard.phase, order) == (Phase.WATCHING, GuardMessages())


def test_g9_a_contact_on_the_way_to_rest_cancels_too() -> None:
    guard, order = after(STOPPED, measured=SLOW, contact=True)
    assert (guard.cause, order) == (Cause.CONTACT, GuardMessages(STOP, pause=True, cancel=True))
