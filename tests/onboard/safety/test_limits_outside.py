"""External inputs of the limits: the policy scan's age (R17), `/speed_limit` (R18, R19), notices (R23, R24)."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.safety.limits import LOST, Bounds, LimitedCommand, LimitsState, Reason, Situation, limit
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BINS, STOP, Scan, Teleop, Twist
from tests.onboard.safety.limits_bench import BOUNDS, FREE, MS, NOW_NS, bounds_with, scan_of

AHEAD = Twist(1.0, 0.5)


def limited(wanted: Twist, situation: Situation, bounds: Bounds = BOUNDS) -> LimitedCommand:
    return limit(LimitsState(), wanted, situation, bounds)[1]


# --- R17: the policy's scan -------------------------------------------------------------------------------------------

#   age [ms]   driven?
AGES = [(0, True), (400, True), (401, False), (10_000, False), (-400, True), (-401, False)]


@pytest.mark.parametrize(("age_ms", "driven"), AGES)
def test_r17_the_policys_scan_is_judged_by_its_own_age(age_ms: int, driven: bool) -> None:
    got = limited(AHEAD, replace(FREE, policy_scan=scan_of(stamp_ns=NOW_NS - age_ms * MS)))
    assert got.twist == (AHEAD if driven else STOP)
    assert got.reason is (Reason.NONE if driven else Reason.STALE_POLICY_SCAN)


def test_r17_holds_a_turn_in_place_as_well() -> None:
    assert limited(Twist(0.0, 1.0), replace(FREE, policy_scan=scan_of(stamp_ns=0))).twist == STOP


def test_r17_an_operator_does_not_drive_by_it() -> None:
    got = limited(STOP, replace(FREE, policy_scan=scan_of(stamp_ns=0), teleop=Teleop(NOW_NS, AHEAD)))
    assert (got.twist, got.reason) == (AHEAD, Reason.TELEOP)


def test_r17_the_limits_own_scan_is_named_first() -> None:
    got = limited(AHEAD, replace(FREE, scan=scan_of(stamp_ns=0), policy_scan=scan_of(stamp_ns=0)))
    assert (got.twist, got.reason) == (STOP, Reason.STALE_SCAN)


def test_r17_counts_as_a_lost_input() -> None:
    assert Reason.STALE_POLICY_SCAN in LOST


def test_r17_obstacles_in_the_policys_scan_do_not_stop_the_robot() -> None:
    wall = Scan(NOW_NS, np.full(BINS, 0.3, np.float32), np.ones(BINS, np.bool_))
    assert limited(AHEAD, replace(FREE, policy_scan=wall)).twist == AHEAD


# --- R18: the limit ---------------------------------------------------------------------------------------------------

#   wanted              limit   command              reason
SPEED_LIMITS = [
    (Twist(1.0, 0.0), 0.5, Twist(0.5, 0.0), Reason.SPEED_LIMIT),
    (Twist(1.0, 2.0), 0.5, Twist(0.5, 1.0), Reason.SPEED_LIMIT),
    (Twist(0.6, -3.0), 0.3, Twist(0.3, -1.5), Reason.SPEED_LIMIT),
    (Twist(-0.3, 1.0), 0.15, Twist(-0.15, 0.5), Reason.SPEED_LIMIT),
    (Twist(0.5, 1.0), 0.5, Twist(0.5, 1.0), Reason.NONE),
    (Twist(0.3, 1.0), 0.5, Twist(0.3, 1.0), Reason.NONE),
    (Twist(0.0, 3.0), 0.01, Twist(0.0, 3.0), Reason.NONE),
    (Twist(1.0, 1.0), 0.0, Twist(1.0, 1.0), Reason.NONE),
    (Twist(1.0, 1.0), None, Twist(1.0, 1.0), Reason.NONE),
    (Twist(4.0, 0.0), 0.5, Twist(0.5, 0.0), Reason.SPEED_LIMIT),
    (Twist(2.0, 0.0), 3.0, Twist(1.0, 0.0), Reason.SPEED),
]


@pytest.mark.parametrize(("wanted", "limit_mps", "command", "reason"), SPEED_LIMITS)
def test_r18_slower_on_the_same_arc(wanted: Twist, limit_mps: float | None, command: Twist, reason: Reason) -> None:
    got = limited(wanted, replace(FREE, speed_limit_mps=limit_mps))
    assert (got.twist.v_mps, got.twist.w_radps) == pytest.approx((command.v_mps, command.w_radps))
    assert got.reason is reason


def test_r18_an_operator_keeps_it_too() -> None:
    got = limited(STOP, replace(FREE, speed_limit_mps=0.5, teleop=Teleop(NOW_NS, AHEAD)))
    assert (got.twist, got.reason) == (Twist(0.5, 0.25), Reason.SPEED_LIMIT)


def test_r18_does_not_wait_for_a_ramp() -> None:
    state = LimitsState(sent=Twist(1.0, 0.0), sent_ns=NOW_NS - 33 * MS)
    situation = replace(FREE, speed_limit_mps=0.2)
    got = limit(state, Twist(1.0, 0.0), situation, bounds_with(acceleration_mps2=0.3))[1]
    assert got.twist.v_mps == pytest.approx(0.2)


def test_r18_a_zone_that_is_stricter_is_the_reason() -> None:
    wall = Scan(NOW_NS, np.full(BINS, 0.32, np.float32), np.ones(BINS, np.bool_))
    got = limited(Twist(1.0, 0.0), replace(FREE, scan=wall, speed_limit_mps=0.5))
    assert got.twist.v_mps < 0.5
    assert got.reason is Reason.TIME_TO_CONTACT


@given(st.floats(-5.0, 5.0), st.floats(-5.0, 5.0), st.floats(1e-3, 2.0))
def test_r18_never_faster_and_never_another_arc(v_mps: float, w_radps: float, limit_mps: float) -> None:
    twist = limited(Twist(v_mps, w_radps), replace(FREE, speed_limit_mps=limit_mps)).twist
    assert abs(twist.v_mps) <= limit_mps * (1.0 + 1e-12) or abs(twist.v_mps) < 1e-3
    assert twist.w_radps * v_mps == pytest.approx(twist.v_mps * w_radps, abs=1e-9)


# --- R19: what holds, and what is refused -----------------------------------------------------------------------------

#   words in their order                 limit in force   the last refused?
WORDS = [
    ([None], inf, False),
    ([0.5], 0.5, False),
    ([0.5, None], 0.5, False),
    ([0.5, 0.8], 0.8, False),
    ([0.5, 0.0], inf, False),
    ([nan], inf, True),
    ([0.5, nan], 0.5, True),
    ([0.5, inf], 0.5, True),
    ([0.5, -1.0], 0.5, True),
    ([0.5, -inf, 0.3], 0.3, False),
    ([0.5, nan, nan, nan], 0.5, True),
    ([0.5, nan, 0.0], inf, False),
]


@pytest.mark.parametrize(("words", "in_force_mps", "refused"), WORDS)
def test_r19_the_last_valid_limit_holds(words: list[float | None], in_force_mps: float, refused: bool) -> None:
    state = LimitsState()
    for word in words:
        state, got = limit(state, AHEAD, replace(FREE, speed_limit_mps=word), BOUNDS)
    assert (state.speed_limit_mps, state.limit_refused) == (in_force_mps, refused)
    assert got.twist.v_mps == pytest.approx(min(1.0, in_force_mps))


def test_r19_it_holds_through_stops_and_for_as_long_as_nothing_else_is_said() -> None:
    state = limit(LimitsState(), AHEAD, replace(FREE, speed_limit_mps=0.5), BOUNDS)[0]
    for wanted, e_stop in [(None, False), (AHEAD, True), (None, False), (None, False)]:
        situation = replace(FREE, speed_limit_mps=0.5, e_stop=e_stop, goal_accepted=not e_stop)
        state = limit(state, wanted, situation, BOUNDS)[0]
    later_ns = NOW_NS + 3600 * NS_PER_S
    situation = replace(
        FREE, now_ns=later_ns, odometry_arrival_ns=later_ns, scan=scan_of(stamp_ns=later_ns), speed_limit_mps=0.5
    )
    assert limit(state, AHEAD, situation, BOUNDS)[1].twist == Twist(0.5, 0.25)


@given(st.one_of(st.none(), st.floats()), st.floats(-2.0, 2.0), st.floats(-5.0, 5.0))
def test_r19_no_limit_makes_a_command_that_is_not_finite(word: float | None, v_mps: float, w_radps: float) -> None:
    twist = limited(Twist(v_mps, w_radps), replace(FREE, speed_limit_mps=word)).twist
    assert isfinite(twist.v_mps)
    assert isfinite(twist.w_radps)


# --- R23, R24: a notice of an obstacle --------------------------------------------------------------------------------

SLIGHT = Twist(1e-9, 0.4)
#   what                        notice  wanted              operator  command             reason
NOTICES = [
    ("ahead",                    True,  Twist(1.0, 0.0),    False,    STOP,               Reason.OBSTACLE),
    ("an arc",                   True,  Twist(0.6, 0.4),    False,    Twist(0.0, 0.4),    Reason.OBSTACLE),
    ("an arc to the right",      True,  Twist(0.6, -0.3),   False,    Twist(0.0, -0.3),   Reason.OBSTACLE),
    ("hardly ahead",             True,  SLIGHT,             False,    Twist(0.0, 0.4),    Reason.OBSTACLE),
    ("too fast, on an arc",      True,  Twist(2.0, 0.8),    False,    Twist(0.0, 0.4),    Reason.OBSTACLE),
    ("in place",                 True,  Twist(0.0, 0.5),    False,    Twist(0.0, 0.5),    Reason.NONE),
    ("back",                     True,  Twist(-0.2, 0.0),   False,    Twist(-0.2, 0.0),   Reason.NONE),
    ("back on an arc",           True,  Twist(-0.3, 0.5),   False,    Twist(-0.3, 0.5),   Reason.NONE),
    ("stands",                   True,  STOP,               False,    STOP,               Reason.NONE),
    ("operator",                 True,  Twist(1.0, 0.5),    True,     Twist(0.1, 0.05),   Reason.OBSTACLE),
    ("operator who creeps",      True,  Twist(0.1, 0.5),    True,     Twist(0.1, 0.5),    Reason.TELEOP),
    ("operator, back",           True,  Twist(-0.3, 0.0),   True,     Twist(-0.3, 0.0),   Reason.TELEOP),
    ("operator, in place",       True,  Twist(0.0, 3.0),    True,     Twist(0.0, 3.0),    Reason.TELEOP),
    ("withdrawn",                False, Twist(1.0, 0.0),    False,    Twist(1.0, 0.0),    Reason.NONE),
    ("never heard of",           None,  Twist(1.0, 0.0),    False,    Twist(1.0, 0.0),    Reason.NONE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "notice", "wanted", "by_operator", "command", "reason"), NOTICES, ids=[row[0] for row in NOTICES]
)
def test_r23_no_forward_motion_while_a_notice_is_on(
    what: str, notice: bool | None, wanted: Twist, by_operator: bool, command: Twist, reason: Reason
) -> None:
    teleop = Teleop(NOW_NS, wanted) if by_operator else None
    got = limited(wanted, replace(FREE, obstacle=notice, teleop=teleop))
    assert (got.twist.v_mps, got.twist.w_radps) == pytest.approx((command.v_mps, command.w_radps), rel=1e-12, abs=0.0)
    assert got.reason is reason


#   what                        notice  wanted              operator  command             reason
TURNS = [
    ("in place",                 True,  Twist(0.0, 3.0),    False,    Twist(0.0, 0.5),    Reason.OBSTACLE),
    ("to the right",             True,  Twist(0.0, -0.6),   False,    Twist(0.0, -0.5),   Reason.OBSTACLE),
    ("of an arc ahead",          True,  Twist(0.6, 2.0),    False,    Twist(0.0, 0.5),    Reason.OBSTACLE),
    ("of an arc back",           True,  Twist(-0.3, 1.0),   False,    Twist(-0.15, 0.5),  Reason.OBSTACLE),
    ("as slow as may be",        True,  Twist(0.0, -0.5),   False,    Twist(0.0, -0.5),   Reason.NONE),
    ("operator",                 True,  Twist(0.0, 3.0),    True,     Twist(0.0, 3.0),    Reason.TELEOP),
    ("withdrawn",                False, Twist(0.0, 3.0),    False,    Twist(0.0, 3.0),    Reason.NONE),
    ("never heard of",           None,  Twist(0.0, 3.0),    False,    Twist(0.0, 3.0),    Reason.NONE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "notice", "wanted", "by_operator", "command", "reason"), TURNS, ids=[row[0] for row in TURNS]
)
def test_r24_a_turn_is_slow_while_a_notice_is_on(
    what: str, notice: bool | None, wanted: Twist, by_operator: bool, command: Twist, reason: Reason
) -> None:
    test_r23_no_forward_motion_while_a_notice_is_on(what, notice, wanted, by_operator, command, reason)


def test_r24_r8_a_turn_from_before_does_not_wait_for_a_ramp() -> None:
    turning = LimitsState(sent=Twist(0.0, 3.0), sent_ns=NOW_NS - 33 * MS)
    got = limit(turning, Twist(0.0, 3.0), replace(FREE, obstacle=True), bounds_with(angular_acceleration_radps2=1.0))[1]
    assert (got.twist, got.reason) == (Twist(0.0, 0.5), Reason.OBSTACLE)


def test_r23_r8_a_notice_does_not_wait_for_a_ramp() -> None:
    """Nor does a notice prevent a ramp from a backward command."""
    slow, reported = bounds_with(acceleration_mps2=0.3), replace(FREE, obstacle=True)
    rolling = LimitsState(sent=Twist(1.0, 0.0), sent_ns=NOW_NS - 33 * MS)
    for wanted in (Twist(1.0, 0.0), Twist(-0.3, 0.0)):
        got = limit(rolling, wanted, reported, slow)[1]
        assert (got.twist, got.reason) == (STOP, Reason.OBSTACLE)
    backing = LimitsState(sent=Twist(-0.2, 0.0), sent_ns=NOW_NS - 100 * MS)
    got = limit(backing, Twist(1.0, 0.0), reported, slow)[1]
    assert got.twist.v_mps == pytest.approx(-0.17)
    assert got.reason is Reason.ACCELERATION


def test_r23_r14_with_a_wall_in_the_stop_zone_as_well_the_wall_is_named() -> None:
    wall = Scan(NOW_NS, np.full(BINS, 0.28, np.float32), np.ones(BINS, np.bool_))
    got = limited(Twist(0.3, 1.0), replace(FREE, scan=wall, obstacle=True))
    assert (got.twist, got.reason) == (STOP, Reason.ZONE_STOP)


def test_r23_with_no_creep_an_operator_stands() -> None:
    reported = replace(FREE, obstacle=True, teleop=Teleop(NOW_NS, AHEAD))
    assert limited(STOP, reported, bounds_with(creep_mps=0.0)).twist == STOP


@given(st.floats(-5.0, 5.0), st.floats(-5.0, 5.0))
def test_r23_r24_whatever_is_wanted_nothing_goes_forward_or_turns_fast(v_mps: float, w_radps: float) -> None:
    free_twist = limited(Twist(v_mps, w_radps), FREE).twist
    twist = limited(Twist(v_mps, w_radps), replace(FREE, obstacle=True)).twist
    part = min(1.0, 0.5 / abs(free_twist.w_radps)) if free_twist.w_radps else 1.0
    expected = min(0.0, free_twist.v_mps) * part, free_twist.w_radps * part
    assert (twist.v_mps, twist.w_radps) == pytest.approx(expected, abs=1e-12)
