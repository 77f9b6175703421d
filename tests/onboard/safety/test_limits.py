"""The safety limits: every requirement of `onboard/safety/limits.py` by its number."""

from __future__ import annotations

from dataclasses import replace
from math import cos, inf, nan, pi, sin

import numpy as np
import pytest

from onboard.config.config import LimitsSection
from onboard.config.footprint import Footprint
from onboard.perception.collision import BIN_CENTERS_RAD, obstacles, stoppable_mps, travel_m
from onboard.perception.height_coverage import SIGHTINGS_S, Coverage
from onboard.policy.contract import ACTIONS
from onboard.safety import limits
from onboard.safety.limits import LimitedCommand, LimitsState, Reason, Situation, bounds_of, limit, operator_drives
from onboard.values.messages import STOP, Twist
from tests.onboard.safety.limits_bench import (
    AHEAD,
    BOUNDS,
    FREE,
    MS,
    NOW_NS,
    PLANT,
    RADIUS_M,
    STARTED,
    TICK_NS,
    before,
    bounds_with,
    limited,
    operator,
    scan_of,
)

# --- R1, R7: bounds ---------------------------------------------------------------------------------------------------

#   wanted              command
TOO_FAST = [
    (Twist(2.0, 0.0), Twist(1.0, 0.0)),
    (Twist(2.0, 2.0), Twist(1.0, 1.0)),
    (Twist(0.5, 6.0), Twist(0.25, 3.0)),
    (Twist(4.0, -6.0), Twist(1.0, -1.5)),
    (Twist(2.0, 12.0), Twist(0.5, 3.0)),
    (Twist(-0.6, 1.0), Twist(-0.3, 0.5)),
    (Twist(-0.3, -6.0), Twist(-0.15, -3.0)),
    (Twist(1e308, 0.0), Twist(1.0, 0.0)),
    (Twist(0.0, -1e308), Twist(0.0, -3.0)),
]


@pytest.mark.parametrize(("wanted", "command"), TOO_FAST)
def test_r1_r7_too_fast_is_scaled_down_on_its_arc(wanted: Twist, command: Twist) -> None:
    got = limited(wanted)
    assert (got.twist.v_mps, got.twist.w_radps) == pytest.approx((command.v_mps, command.w_radps))
    assert got.reason is Reason.SPEED


def test_r1_a_base_that_cannot_reverse_does_not() -> None:
    assert limited(Twist(-0.2, 1.0), bounds=bounds_with(v_min_mps=0.0)).twist == STOP


# --- R2: e-stop -------------------------------------------------------------------------------------------------------

#   what                                    (pressed, goal accepted) tick by tick                      held?
E_STOPS = [
    ("never pressed", [(None, False), (False, False)], False),
    ("pressed", [(True, False)], True),
    ("pressed with a goal", [(True, True)], True),
    ("released", [(True, False), (False, False)], True),
    ("released for long", [(True, False), *[(False, False)] * 500], True),
    ("released, then a goal", [(True, False), (False, False), (False, True)], False),
    ("released with the goal", [(True, False), (False, True)], True),
    ("released with the goal, then another", [(True, False), (False, True), (False, True)], False),
    ("goal while pressed, then released", [(True, True), (False, False)], True),
    ("pressed again", [(True, False), (False, False), (False, True), (True, False), (False, False)], True),
    (
        "released twice, then a goal",
        [(True, False), (False, False), (True, False), (False, False), (False, True)],
        False,
    ),
    ("topic silent again", [(True, False), (None, False)], True),
]


@pytest.mark.parametrize(("what", "ticks", "held"), E_STOPS, ids=[row[0] for row in E_STOPS])
@pytest.mark.parametrize("who", ["policy", "operator", "nobody"])
def test_r2_e_stop_is_latched(what: str, ticks: list[tuple[bool | None, bool]], held: bool, who: str) -> None:
    state, result = STARTED, limited(AHEAD)
    teleop = operator(AHEAD) if who == "operator" else None
    for pressed, goal in ticks:
        situation = replace(FREE, e_stop=pressed, goal_accepted=goal, teleop=teleop)
        state, result = limit(state, AHEAD if who == "policy" else None, situation, BOUNDS)
    assert state.e_stopped is held
    assert (result.reason is Reason.E_STOP) is held
    if held or who == "nobody":
        assert result.twist == STOP
    else:
        assert result.twist == AHEAD


def test_r2_zero_in_the_same_tick_without_a_ramp() -> None:
    slow = bounds_with(acceleration_mps2=0.1, angular_acceleration_radps2=0.1)
    rolling = LimitsState(sent=Twist(1.0, 2.0), sent_ns=NOW_NS - TICK_NS)
    got = limited(AHEAD, replace(FREE, e_stop=True), slow, rolling)
    assert (got.twist, got.reason) == (STOP, Reason.E_STOP)


# --- R3: operator -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [None, AHEAD, Twist(nan, 0.0)])
def test_r3_the_operator_replaces_what_is_wanted(wanted: Twist | None) -> None:
    command = Twist(-0.1, 0.5)
    got = limited(wanted, replace(FREE, teleop=operator(command)))
    assert got == LimitedCommand(command, Reason.TELEOP, command, True)


def test_r3_an_operator_at_zero_holds_the_robot() -> None:
    assert limited(AHEAD, replace(FREE, teleop=operator(STOP))).twist == STOP


@pytest.mark.parametrize(("age_ms", "drives"), [(0, True), (500, True), (501, False), (-20, True), (-501, False)])
def test_r3_dead_man(age_ms: int, drives: bool) -> None:
    teleop = operator(Twist(0.2, 0.0), age_ms * MS)
    assert operator_drives(teleop, NOW_NS, BOUNDS) is drives
    got = limited(AHEAD, replace(FREE, teleop=teleop))
    assert got.teleop is drives
    assert got.twist == (Twist(0.2, 0.0) if drives else AHEAD)


def test_r3_no_operator() -> None:
    assert not operator_drives(None, NOW_NS, BOUNDS)


#   what                 situation                                                         operator's    reason
OPERATOR = [
    ("too fast", FREE, Twist(2.0, 0.0), Reason.SPEED),
    ("not finite", FREE, Twist(nan, 0.0), Reason.NOT_FINITE),
    ("into a wall", replace(FREE, scan=scan_of((0.28, 0.0))), AHEAD, Reason.ZONE_STOP),
    ("to a wall", replace(FREE, scan=scan_of((0.8, 0.0))), AHEAD, Reason.ZONE_SLOW),
    ("no odometry", replace(FREE, odometry_arrival_ns=None), AHEAD, Reason.STALE_ODOMETRY),
    ("no scan", replace(FREE, scan=None), AHEAD, Reason.STALE_SCAN),
]


@pytest.mark.parametrize(("what", "situation", "command", "reason"), OPERATOR, ids=[row[0] for row in OPERATOR])
def test_r3_the_operator_passes_every_limit(what: str, situation: Situation, command: Twist, reason: Reason) -> None:
    got = limited(None, replace(situation, teleop=operator(command)))
    assert got.reason is reason
    assert abs(got.twist.v_mps) < 1.0 or reason is Reason.SPEED


# --- R4, R5, R6: nothing to go by -------------------------------------------------------------------------------------

STALE = [
    ("no odometry", {"odometry_arrival_ns": None}, Reason.STALE_ODOMETRY),
    ("old odometry", {"odometry_arrival_ns": NOW_NS - 200 * MS - 1}, Reason.STALE_ODOMETRY),
    ("odometry from the future", {"odometry_arrival_ns": NOW_NS + 200 * MS + 1}, Reason.STALE_ODOMETRY),
    ("no scan", {"scan": None}, Reason.STALE_SCAN),
    ("old scan", {"scan": scan_of(stamp_ns=NOW_NS - 400 * MS - 1)}, Reason.STALE_SCAN),
    ("scan from the future", {"scan": scan_of(stamp_ns=NOW_NS + 400 * MS + 1)}, Reason.STALE_SCAN),
    ("both", {"odometry_arrival_ns": None, "scan": None}, Reason.STALE_ODOMETRY),
]
JUST_FRESH = replace(FREE, odometry_arrival_ns=NOW_NS - 200 * MS, scan=scan_of(stamp_ns=NOW_NS - 400 * MS))


@pytest.mark.parametrize(("what", "missing", "reason"), STALE, ids=[row[0] for row in STALE])
def test_r5_stale_inputs_stop_at_once(what: str, missing: dict[str, object], reason: Reason) -> None:
    rolling = LimitsState(sent=AHEAD, sent_ns=NOW_NS - TICK_NS)
    situation = replace(FREE, **missing)  # type: ignore[arg-type]
    got = limited(Twist(0.3, 1.0), situation, bounds_with(acceleration_mps2=0.1), rolling)
    assert (got.twist, got.reason) == (STOP, reason)


def test_r5_just_fresh_enough_is_fresh() -> None:
    assert limited(AHEAD, JUST_FRESH).twist == AHEAD


def test_r4_nothing_wanted_is_idle_whatever_is_stale() -> None:
    for situation in (FREE, replace(FREE, scan=None, odometry_arrival_ns=None)):
        assert limited(None, situation) == LimitedCommand(STOP, Reason.IDLE, None, False)
        lost = replace(situation, engine_lost=True)
        assert limited(None, lost) == LimitedCommand(STOP, Reason.ENGINE_LOST, None, False)


@pytest.mark.parametrize("wanted", [Twist(nan, 0.0), Twist(0.0, nan), Twist(inf, 0.0), Twist(0.0, -inf)])
def test_r6_not_finite_stops(wanted: Twist) -> None:
    got = limited(wanted)
    assert (got.twist, got.reason) == (STOP, Reason.NOT_FINITE)


# --- R8: acceleration -------------------------------------------------------------------------------------------------


def test_r8_the_bases_own_acceleration_needs_no_ramp() -> None:
    assert (BOUNDS.ramp_mps2, BOUNDS.ramp_radps2) == (None, None)
    assert BOUNDS.braking_mps2 == 2.5


def test_r8_each_axis_has_its_own() -> None:
    one, other = bounds_with(acceleration_mps2=2.4), bounds_with(angular_acceleration_radps2=11.0)
    assert (one.ramp_mps2, one.ramp_radps2, one.braking_mps2) == (2.4, None, 2.4)
    assert (other.ramp_mps2, other.ramp_radps2, other.braking_mps2) == (None, 11.0, 2.5)
    assert bounds_with(acceleration_mps2=9.0).braking_mps2 == 2.5


#   last sent            wanted              after 1/10 s at 1 m/s^2 and 5 rad/s^2
RAMPS = [
    (STOP, Twist(1.0, 0.0), Twist(0.1, 0.0)),
    (STOP, Twist(0.05, 0.4), Twist(0.05, 0.4)),
    (Twist(1.0, 0.0), Twist(0.0, 3.0), Twist(0.9, 0.5)),
    (Twist(0.05, 1.0), Twist(-0.3, -1.0), Twist(-0.05, 0.5)),
    (Twist(0.5, -3.0), Twist(1.0, -3.0), Twist(0.6, -3.0)),
]


@pytest.mark.parametrize(("last", "wanted", "expected"), RAMPS)
def test_r8_a_lower_bound_ramps_the_set_point(last: Twist, wanted: Twist, expected: Twist) -> None:
    bounds = bounds_with(acceleration_mps2=1.0, angular_acceleration_radps2=5.0)
    state = LimitsState(sent=last, sent_ns=NOW_NS - 100 * MS)
    after, got = limit(state, wanted, FREE, bounds)
    assert (got.twist.v_mps, got.twist.w_radps) == pytest.approx((expected.v_mps, expected.w_radps))
    assert got.reason is (Reason.NONE if expected == wanted else Reason.ACCELERATION)
    assert (after.sent, after.sent_ns) == (got.twist, NOW_NS)


#   time since the last command [ms], None before the first; greatest change at 1 m/s^2
PAUSES = [(None, 0.0), (0, 0.0), (50, 0.05), (100, 0.1), (5000, 0.1), (-1000, 0.0)]


@pytest.mark.parametrize(("elapsed_ms", "change"), PAUSES)
def test_r8_a_ramp_does_not_leap_after_a_pause(elapsed_ms: int | None, change: float) -> None:
    state = LimitsState(sent_ns=None if elapsed_ms is None else NOW_NS - elapsed_ms * MS)
    got = limited(AHEAD, FREE, bounds_with(acceleration_mps2=1.0), state)
    assert got.twist.v_mps == pytest.approx(change)


def test_r8_the_first_command_of_all_has_no_time_to_ramp() -> None:
    assert limited(AHEAD, FREE, bounds_with(acceleration_mps2=1.0), LimitsState()).twist == STOP


def test_r8_a_zone_does_not_wait_for_a_ramp() -> None:
    bounds = bounds_with(acceleration_mps2=0.1)
    rolling = LimitsState(sent=AHEAD, sent_ns=NOW_NS - TICK_NS)
    got = limited(AHEAD, replace(FREE, scan=scan_of((0.29, 0.0))), bounds, rolling)
    assert (got.twist, got.reason) == (STOP, Reason.ZONE_STOP)


def test_r8_the_zones_judge_the_arc_that_the_ramp_makes() -> None:
    """Turning away would miss the wall, but the ramp still goes straight on."""
    bounds = bounds_with(angular_acceleration_radps2=0.5)
    state = LimitsState(sent=Twist(0.3, 0.0), sent_ns=NOW_NS - TICK_NS)
    scan = scan_of((0.33, -0.2), (0.40, -0.2))
    turning = Twist(0.3, 3.0)
    assert travel_m(obstacles(scan), turning, BOUNDS.swept) > 0.3
    got = limited(turning, replace(FREE, scan=scan), bounds, state)
    assert got.twist.v_mps <= stoppable_mps(0.33 - 0.22, 2.5, 0.15)
    assert got.reason is Reason.TIME_TO_CONTACT


# --- R9, R10, R11: zones ----------------------------------------------------------------------------------------------

#   what                        obstacles                   wanted              speed   reason
ZONES = [
    ("free", [], Twist(1.0, 0.0), 1.0, Reason.NONE),
    ("far ahead", [(1.3, 0.0)], Twist(1.0, 0.0), 1.0, Reason.NONE),
    ("a second away", [(1.0, 0.0)], Twist(1.0, 0.0), 0.75, Reason.TIME_TO_CONTACT),
    ("a second away, slower", [(1.0, 0.0)], Twist(0.7, 0.0), 0.7, Reason.NONE),
    ("within the slow zone", [(0.8, 0.0)], Twist(1.0, 0.0), 0.3, Reason.ZONE_SLOW),
    ("already slow", [(0.8, 0.0)], Twist(0.3, 0.0), 0.3, Reason.NONE),
    ("near", [(0.45, 0.0)], Twist(1.0, 0.0), 0.2, Reason.TIME_TO_CONTACT),
    ("in the stop zone", [(0.29, 0.0)], Twist(1.0, 0.0), 0.0, Reason.ZONE_STOP),
    ("in the footprint", [(0.1, 0.0)], Twist(0.3, 0.0), 0.0, Reason.ZONE_STOP),
    ("aside, slow zone", [(0.4, 0.4)], Twist(1.0, 0.0), 0.3, Reason.ZONE_SLOW),
    ("aside, beyond it", [(0.4, 0.52)], Twist(1.0, 0.0), 1.0, Reason.NONE),
    ("abeam behind", [(-0.02, 0.31)], Twist(1.0, 0.0), 1.0, Reason.NONE),
    ("behind", [(-0.28, 0.0)], Twist(1.0, 0.0), 1.0, Reason.NONE),
    ("backing to it", [(-0.29, 0.0)], Twist(-0.2, 0.0), 0.0, Reason.ZONE_STOP),
    ("backing near it", [(-0.4, 0.0)], Twist(-0.2, 0.0), 0.15, Reason.TIME_TO_CONTACT),
    ("backing away", [(0.28, 0.0)], Twist(-0.2, 0.0), 0.2, Reason.NONE),
]


@pytest.mark.parametrize(("what", "points", "wanted", "speed", "reason"), ZONES, ids=[row[0] for row in ZONES])
def test_r9_r10_r11_zones(
    what: str, points: list[tuple[float, float]], wanted: Twist, speed: float, reason: Reason
) -> None:
    got = before(*points, wanted=wanted)
    assert abs(got.twist.v_mps) == pytest.approx(speed, abs=0.01)
    assert got.reason is reason


def test_r9_never_faster_than_it_can_brake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the other zones: the remaining speed allows a stop within the distance."""
    monkeypatch.setattr(limits, "SLOW_FRACTION", 1.0)
    bounds = bounds_with(time_to_contact_s=0.0)
    for range_m in (0.31, 0.35, 0.4, 0.5, 0.6):
        got = before((range_m, 0.0), bounds=bounds)
        way_m = travel_m(obstacles(scan_of((range_m, 0.0))), AHEAD, Footprint(0.3))
        assert got.twist.v_mps == pytest.approx(stoppable_mps(way_m, 2.5, 0.15))
        assert got.reason is Reason.ZONE_STOP
    assert before((0.70, 0.0), bounds=bounds).twist == AHEAD


def test_r9_slower_than_a_millimetre_a_second_is_no_motion() -> None:
    assert before((0.26, 0.0), wanted=Twist(1e-3, 0.0)).twist == STOP
    assert before((0.26, 0.0), wanted=Twist(9.9e-4, 1.0)).twist == Twist(9.9e-4, 1.0)


def test_r10_the_slow_zone_looks_ahead_as_far_as_the_wanted_command_brakes() -> None:
    """Footprint, slow margin and braking distance: 0.25 + 0.25 + 0.35 m at 1 m/s, 0.573 m at 0.31 m/s."""
    bounds = bounds_with(time_to_contact_s=0.0)
    assert before((0.84, 0.0), bounds=bounds).reason is Reason.ZONE_SLOW
    assert before((0.86, 0.0), bounds=bounds).reason is Reason.NONE
    slower = Twist(0.31, 0.0)
    assert before((0.56, 0.0), wanted=slower, bounds=bounds).reason is Reason.ZONE_SLOW
    assert before((0.58, 0.0), wanted=slower, bounds=bounds).reason is Reason.NONE


def test_r10_slow_is_a_fraction_of_this_robots_speed() -> None:
    got = before((0.6, 0.0), wanted=Twist(0.5, 0.0), bounds=bounds_with(v_max_mps=0.5))
    assert (got.twist, got.reason) == (Twist(0.15, 0.0), Reason.ZONE_SLOW)


#   clearance of a post that the robot passes   speed with 4 steps of 5 cm
RINGS = [(0.26, 1.0), (0.24, 0.825), (0.19, 0.65), (0.14, 0.475), (0.09, 0.3), (0.06, 0.3)]


@pytest.mark.parametrize(("clearance_m", "speed"), RINGS)
def test_r10_in_steps_the_speed_falls_with_the_clearance(clearance_m: float, speed: float) -> None:
    post, bounds = (0.3, 0.25 + clearance_m), bounds_with(slow_steps=4)
    assert before(post, bounds=bounds).twist.v_mps == pytest.approx(speed, abs=0.01)
    assert before(post).twist.v_mps == (1.0 if clearance_m > 0.25 else 0.3)


@pytest.mark.parametrize("steps", [1, 2, 4, 8])
def test_r10_steps_never_slow_more_and_stop_the_same(steps: int) -> None:
    bounds = bounds_with(slow_steps=steps)
    assert [ring.mps for ring in bounds.slow] == sorted((ring.mps for ring in bounds.slow), reverse=True)
    assert (bounds.slow[0].footprint, bounds.slow[-1].mps) == (Footprint(0.25).grown(0.25), 0.3)
    for y_m in np.linspace(-0.6, 0.6, 25):
        for x_m in np.linspace(0.2, 1.2, 21):
            stepped, once = before((x_m, y_m), bounds=bounds), before((x_m, y_m))
            assert stepped.twist.v_mps >= once.twist.v_mps
            assert (stepped.twist == STOP) == (once.twist == STOP)


def test_r11_twice_the_time_is_half_the_speed() -> None:
    got = before((1.05, 0.0), bounds=bounds_with(time_to_contact_s=2.0))
    assert got.twist.v_mps == pytest.approx(0.4, abs=0.001)
    assert got.reason is Reason.TIME_TO_CONTACT


def test_r11_can_be_switched_off() -> None:
    assert before((1.0, 0.0), bounds=bounds_with(time_to_contact_s=0.0)).twist == AHEAD


# --- R12: blind -------------------------------------------------------------------------------------------------------

#   what                    blind sector   wanted             operator  speed   reason
BLIND = [
    ("ahead", (-33, 33), Twist(0.3, 0.0), False, 0.0, Reason.BLIND_AHEAD),
    ("ahead, turning", (-33, 33), Twist(0.3, 1.0), False, 0.0, Reason.BLIND_AHEAD),
    ("ahead, no more than a turn", (-33, 33), Twist(0.05, -1.0), False, 0.0, Reason.BLIND_AHEAD),
    ("ahead, in place", (-33, 33), Twist(0.0, 1.0), False, 0.0, Reason.NONE),
    ("ahead, backing", (-33, 33), Twist(-0.2, 0.0), False, 0.2, Reason.NONE),
    ("ahead, operator", (-33, 33), Twist(0.3, 0.0), True, 0.1, Reason.BLIND_AHEAD),
    ("ahead, operator creeping", (-33, 33), Twist(0.08, 0.0), True, 0.08, Reason.TELEOP),
    ("rear, backing", (137, 180), Twist(-0.2, 0.0), False, 0.0, Reason.BLIND_AHEAD),
    ("rear, ahead", (137, 180), Twist(1.0, 0.0), False, 1.0, Reason.NONE),
    ("left", (37, 107), Twist(1.0, 0.0), False, 0.3, Reason.BLIND_FLANK),
    ("left, slow", (37, 107), Twist(0.3, 0.0), False, 0.3, Reason.NONE),
    ("left, operator", (37, 107), Twist(1.0, 0.0), True, 0.3, Reason.BLIND_FLANK),
]


@pytest.mark.parametrize(
    ("what", "blind", "wanted", "by_operator", "speed", "reason"), BLIND, ids=[row[0] for row in BLIND]
)
def test_r12_blind(
    what: str, blind: tuple[float, float], wanted: Twist, by_operator: bool, speed: float, reason: Reason
) -> None:
    teleop = operator(wanted) if by_operator else None
    got = limited(wanted, replace(FREE, scan=scan_of(blind=blind), teleop=teleop))
    assert abs(got.twist.v_mps) == pytest.approx(speed)
    assert got.reason is reason


@pytest.mark.parametrize("v", [0.3, 1.0])
def test_r12_the_sector_is_the_same_at_every_speed_on_an_arc(v: float) -> None:
    got = limited(Twist(v, v), replace(FREE, scan=scan_of(blind=(-22.0, -20.0))))
    assert (got.twist, got.reason) == (Twist(0.0, v), Reason.BLIND_AHEAD)


def test_r12_towards_a_blind_sector_it_turns_until_a_camera_sees_it() -> None:
    """A camera to the left has failed. The robot wants to go there: it turns, and then goes where cameras see."""
    blind, wanted = scan_of(blind=(37.0, 107.0)), Twist(0.3, 3.0)
    turned = limited(wanted, replace(FREE, scan=blind))
    assert (turned.twist, turned.reason) == (Twist(0.0, 3.0), Reason.BLIND_AHEAD)
    assert limited(Twist(0.3, 0.0), replace(FREE, scan=blind)).twist == Twist(0.3, 0.0)


#   what                        nearest unknown ground  wanted             operator  speed  reason
KNOWN = [
    ("all known",                None,                   Twist(1.0, 0.0),   False,    0.3,   Reason.BLIND_AHEAD),
    ("all known, slow",          None,                   Twist(0.3, 0.5),   False,    0.3,   Reason.NONE),
    ("known far enough",         (1.0, 0.0),             Twist(0.3, 0.0),   False,    0.3,   Reason.NONE),
    ("beside the way",           (0.6, 0.35),            Twist(0.3, 0.0),   False,    0.3,   Reason.NONE),
    ("its end is near",          (0.36, 0.0),            Twist(0.3, 0.5),   False,    0.187, Reason.BLIND_AHEAD),
    ("its end is at hand",       (0.31, 0.0),            Twist(0.3, 0.5),   False,    0.0,   Reason.BLIND_AHEAD),
    ("at hand, an operator",     (0.31, 0.0),            Twist(0.3, 0.0),   True,     0.1,   Reason.BLIND_AHEAD),
    ("all known, an operator",   None,                   Twist(1.0, 0.0),   True,     0.3,   Reason.BLIND_AHEAD),
    ("all known, backing",       None,                   Twist(-0.2, 0.0),  False,    0.2,   Reason.NONE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "end", "wanted", "by_operator", "speed", "reason"), KNOWN, ids=[row[0] for row in KNOWN]
)
def test_r12_over_ground_that_was_seen_free(
    what: str, end: tuple[float, float] | None, wanted: Twist, by_operator: bool, speed: float, reason: Reason
) -> None:
    unknown = np.array([end]) if end else np.empty((0, 2))
    teleop = operator(wanted) if by_operator else None
    got = limited(wanted, replace(FREE, scan=scan_of(blind=(-33, 33)), unknown=unknown, teleop=teleop))
    assert abs(got.twist.v_mps) == pytest.approx(speed, abs=1e-3)
    assert got.reason is (Reason.TELEOP if by_operator and reason is Reason.NONE else reason)
    assert got.twist.w_radps in (wanted.w_radps, pytest.approx(wanted.w_radps * speed / abs(wanted.v_mps), abs=2e-3))


def test_r12_backward_no_ground_is_known() -> None:
    blind = replace(FREE, scan=scan_of(blind=(137, 180)), unknown=np.empty((0, 2)))
    assert limited(Twist(-0.2, 0.0), blind).twist == STOP


def test_r12_known_ground_excuses_no_obstacle() -> None:
    known = replace(FREE, scan=scan_of(blind=(-33, 33)), unknown=np.empty((0, 2)), out_of_view=np.array([(0.31, 0.0)]))
    assert limited(Twist(0.3, 0.0), known).reason is Reason.REMEMBERED
    seen = replace(known, scan=scan_of((0.31, 0.0), blind=(4, 33)), out_of_view=np.empty((0, 2)))
    assert limited(Twist(0.3, 0.0), seen).twist.v_mps < 0.1


# --- R20: what was seen a moment ago ----------------------------------------------------------------------------------

#   what                       remembered      wanted            operator  command             reason
REMEMBERED = [
    ("beside the way",         (0.6, 0.4),     Twist(0.3, 0.0),  False,    Twist(0.3, 0.0),    Reason.NONE),
    ("far ahead",              (1.4, 0.0),     Twist(0.3, 0.0),  False,    Twist(0.3, 0.0),    Reason.NONE),
    ("right before it",        (0.28, 0.0),    Twist(0.3, 0.0),  False,    STOP,               Reason.REMEMBERED),
    ("before it, turning",     (0.28, 0.0),    Twist(0.3, 1.0),  False,    Twist(0.0, 1.0),    Reason.REMEMBERED),
    ("before it, operator",    (0.28, 0.0),    Twist(0.3, 1.0),  True,     STOP,               Reason.REMEMBERED),
    ("away from it",           (0.28, 0.0),    Twist(-0.2, 0.0), False,    Twist(-0.2, 0.0),   Reason.NONE),
    ("behind, backing",        (-0.28, 0.0),   Twist(-0.2, 0.0), False,    STOP,               Reason.REMEMBERED),
    ("turning in place",       (0.28, 0.0),    Twist(0.0, 3.0),  False,    Twist(0.0, 3.0),    Reason.NONE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "place", "wanted", "by_operator", "command", "reason"), REMEMBERED, ids=[row[0] for row in REMEMBERED]
)
def test_r20_remembered_obstacles_in_blind_sectors(
    what: str, place: tuple[float, float], wanted: Twist, by_operator: bool, command: Twist, reason: Reason
) -> None:
    teleop = operator(wanted) if by_operator else None
    got = limited(wanted, replace(FREE, out_of_view=np.array([place]), teleop=teleop))
    assert (got.twist.v_mps, got.twist.w_radps) == pytest.approx((command.v_mps, command.w_radps))
    assert got.reason is (Reason.TELEOP if by_operator and reason is Reason.NONE else reason)


# --- R13, R14: not held, not bent -------------------------------------------------------------------------------------

AROUND = [(0.27 * cos(a), 0.27 * sin(a)) for a in np.linspace(0.0, 2 * pi, 90)]


@pytest.mark.parametrize("w", [-3.0, -0.5, 0.5, 3.0])
def test_r13_turning_in_place_is_free_even_when_walled_in(w: float) -> None:
    assert before(*AROUND, wanted=Twist(0.0, w)).twist == Twist(0.0, w)


@pytest.mark.parametrize("bearing", BIN_CENTERS_RAD[::7])
@pytest.mark.parametrize("v", [-0.3, 0.3])
def test_r13_away_from_a_touching_obstacle_is_free_and_towards_it_is_not(bearing: float, v: float) -> None:
    away = cos(bearing) * v < 0.0
    got = before((0.26 * cos(bearing), 0.26 * sin(bearing)), wanted=Twist(v, 0.0))
    assert (got.twist.v_mps != 0.0) is away


def test_r14_slowing_keeps_the_arc() -> None:
    got = before((0.8, 0.1), wanted=Twist(1.0, 0.5))
    assert 0.0 < got.twist.v_mps < 1.0
    assert got.twist.w_radps / got.twist.v_mps == pytest.approx(0.5)


# --- R15, R16: free space, reasons ------------------------------------------------------------------------------------


def test_r15_in_free_space_the_wire_is_the_policy_for_every_transition() -> None:
    for first in ACTIONS:
        for second in ACTIONS:
            state = LimitsState(sent=first, sent_ns=NOW_NS - TICK_NS)
            assert limited(second, state=state) == LimitedCommand(second, Reason.NONE, second, False)


def test_r16_the_last_limit_that_changed_the_command_is_the_reason() -> None:
    ramping = bounds_with(acceleration_mps2=0.3)
    assert limited(Twist(2.0, 0.0), FREE, ramping).reason is Reason.ACCELERATION
    assert before((0.26, 0.0), wanted=Twist(2.0, 0.0), bounds=ramping).reason is Reason.ZONE_STOP
    assert before(wanted=Twist(0.5, 0.0), teleop=operator(Twist(0.5, 0.0))).reason is Reason.TELEOP


# --- R28: pause -------------------------------------------------------------------------------------------------------


def test_r28_a_pause_stands_whatever_is_wanted_but_an_operator_drives() -> None:
    assert before(wanted=Twist(0.5, 0.2), paused=True) == LimitedCommand(STOP, Reason.PAUSED, None, False)
    assert before(wanted=Twist(0.5, 0.2), paused=False).reason is Reason.NONE
    driven = before(wanted=Twist(0.5, 0.2), paused=True, teleop=operator(Twist(0.3, 0.0)))
    assert (driven.twist, driven.reason) == (Twist(0.3, 0.0), Reason.TELEOP)
    assert before(wanted=None, paused=True, e_stop=True).reason is Reason.E_STOP


def test_r16_reasons_are_words() -> None:
    assert all(reason.value == reason.value.lower() and " " not in reason.value for reason in Reason)


# --- R29: heights that no camera sees ---------------------------------------------------------------------------------

#   what                        first, last distance in view [m]   highest speed
HEIGHTS = [
    ("in view from afar on", inf, 0.4, 1.0),
    ("in view nowhere", -inf, inf, 0.3),
    ("only beyond the memory", inf, 2.8, 0.3),
    ("too late", 0.5, 0.05, stoppable_mps(0.5 - RADIUS_M - 0.05, BOUNDS.braking_mps2, BOUNDS.reaction_s)),
    ("too short a while", 1.0, 0.9, 0.1 / SIGHTINGS_S),
]


@pytest.mark.parametrize(("what", "first_m", "lost_m", "most_mps"), HEIGHTS, ids=[row[0] for row in HEIGHTS])
def test_r29_a_height_that_is_seen_too_late_or_nowhere_slows_the_robot(
    what: str, first_m: float, lost_m: float, most_mps: float
) -> None:
    coverage = Coverage(np.array([0.1, 0.6]), np.array([inf, first_m]), np.array([0.05, lost_m]))
    bounds = bounds_of(LimitsSection(), PLANT, Footprint(RADIUS_M), 200.0, coverage)
    assert limited(Twist(2.0, 0.0), bounds=bounds).twist.v_mps == pytest.approx(most_mps)


# --- R30: what moves --------------------------------------------------------------------------------------------------

#   what                    ahead, aside [m], in [s]   speed left
PATHS = [
    ("comes when it is there", (0.5, 0.0, 0.6), 0.3),
    ("has passed before", (2.5, 0.0, 0.1), 1.0),
    ("comes after it has left", (0.2, 0.0, 1.9), 1.0),
    ("beside the way", (0.7, 0.6, 0.6), 1.0),
    ("within the margin", (0.35, 0.2, 0.3), 0.0),
]


@pytest.mark.parametrize(("what", "point", "least"), PATHS, ids=[row[0] for row in PATHS])
@pytest.mark.parametrize("who", ["policy", "operator"])
def test_r30_the_path_of_what_moves_stops_the_robot(
    what: str, point: tuple[float, float, float], least: float, who: str
) -> None:
    teleop = operator(AHEAD) if who == "operator" else None
    got = limited(AHEAD, replace(FREE, reached=np.array([point]), teleop=teleop))
    stopped = least < AHEAD.v_mps
    assert (got.reason is Reason.CROSSING) is stopped
    assert got.twist.v_mps <= least if stopped else got.twist == AHEAD


def test_r30_neither_a_turn_in_place_nor_backing_away_is_stopped() -> None:
    before_it = replace(FREE, reached=np.array([[0.35, 0.0, 0.3]]))
    for wanted in (Twist(0.0, 1.0), Twist(-0.2, 0.0)):
        assert limited(wanted, before_it).twist == wanted
