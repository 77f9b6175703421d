"""`onboard/safety/limits.py` at its edges: limits met exactly, and the reason if two limits apply."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nextafter

import numpy as np
import pytest

from onboard.config.footprint import Footprint
from onboard.perception.collision import braking_m, obstacles, stoppable_mps, travel_m
from onboard.safety.limits import (
    LOST,
    RAMP_S,
    UNSEEN,
    Bounds,
    LimitedCommand,
    LimitsState,
    Reason,
    Situation,
    limit,
)
from onboard.values.messages import BINS, STOP, Scan, Teleop, Twist
from tests.onboard.safety.limits_bench import BOUNDS, FREE, MS, NOW_NS, bounds_with

AHEAD_BIN = 90
"""The bin just to the left of straight ahead."""


def scan_of(ranges: dict[int, float] | None = None, blind: tuple[int, int] = (0, 0)) -> Scan:
    """Return a scan with ranges in some bins; blind from one bin to before another."""
    ranges_m, seen = np.full(BINS, np.inf, np.float32), np.ones(BINS, np.bool_)
    for index, range_m in (ranges or {}).items():
        ranges_m[index] = range_m
    seen[slice(*blind)] = False
    return Scan(NOW_NS, ranges_m, seen)


BLIND_AHEAD = scan_of(blind=(80, 100))
BLIND_LEFT = scan_of(blind=(109, 124))


def limited(wanted: Twist, situation: Situation = FREE, bounds: Bounds = BOUNDS) -> LimitedCommand:
    return limit(LimitsState(), wanted, situation, bounds)[1]


# --- R1, R3, R5: met exactly ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [Twist(1.0, 3.0), Twist(1.0, -3.0), Twist(-0.3, 3.0), Twist(0.0, -3.0), STOP])
def test_r1_r15_at_a_bound_nothing_is_changed(wanted: Twist) -> None:
    assert limited(wanted) == LimitedCommand(wanted, Reason.NONE, wanted, False)


@pytest.mark.parametrize("wanted", [Twist(nextafter(1.0, 2.0), 0.0), Twist(0.0, nextafter(3.0, 4.0))])
def test_r1_the_next_number_beyond_a_bound_is_too_fast(wanted: Twist) -> None:
    got = limited(wanted)
    assert got.reason is Reason.SPEED
    assert (got.twist.v_mps, got.twist.w_radps) == pytest.approx((wanted.v_mps, wanted.w_radps))
    assert got.twist != wanted


#   what                 limit [ms]   changes to fresh inputs, with a stamp                                      reason
AGES = [
    ("odometry",            200, lambda stamp_ns: {"odometry_arrival_ns": stamp_ns}, Reason.STALE_ODOMETRY),
    ("scan",                400, lambda stamp_ns: {"scan": replace(scan_of(), stamp_ns=stamp_ns)}, Reason.STALE_SCAN),
    ("the policy's scan",   400, lambda stamp_ns: {"policy_scan": replace(scan_of(), stamp_ns=stamp_ns)},
     Reason.STALE_POLICY_SCAN),
]  # fmt: skip


@pytest.mark.parametrize(("what", "limit_ms", "changes", "reason"), AGES, ids=[row[0] for row in AGES])
@pytest.mark.parametrize("side", [-1, 1], ids=["old", "from the future"])
def test_r5_r17_an_age_is_met_to_the_nanosecond(
    what: str, limit_ms: int, changes: object, reason: Reason, side: int
) -> None:
    assert callable(changes)
    wanted = Twist(0.3, 0.0)
    assert limited(wanted, replace(FREE, **changes(NOW_NS + side * limit_ms * MS))).twist == wanted
    got = limited(wanted, replace(FREE, **changes(NOW_NS + side * (limit_ms * MS + 1))))
    assert (got.twist, got.reason) == (STOP, reason)


def test_r3_r17_an_operator_too_late_is_no_operator() -> None:
    late = Teleop(NOW_NS - 500 * MS - 1, Twist(0.1, 0.0))
    blind = replace(FREE, teleop=late, policy_scan=replace(scan_of(), stamp_ns=0))
    assert limited(Twist(0.3, 0.0), blind) == LimitedCommand(STOP, Reason.STALE_POLICY_SCAN, Twist(0.3, 0.0), False)


def test_r5_which_reasons_are_lost_inputs_and_which_are_unseen_places() -> None:
    assert {Reason.STALE_ODOMETRY, Reason.STALE_SCAN, Reason.STALE_POLICY_SCAN} == LOST
    assert {Reason.BLIND_AHEAD, Reason.REMEMBERED, Reason.OBSTACLE} == UNSEEN


# --- R8 ---------------------------------------------------------------------------------------------------------------


def test_r8_a_ramp_is_given_a_tenth_of_a_second_at_most() -> None:
    assert RAMP_S == 0.1


@pytest.mark.parametrize("v_mps", [1.0, -0.3])
def test_r8_a_ramp_of_one_axis_leaves_the_other(v_mps: float) -> None:
    state = LimitsState(sent=Twist(0.0, 1.0), sent_ns=NOW_NS - 50 * MS)
    got = limit(state, Twist(v_mps, -3.0), FREE, bounds_with(angular_acceleration_radps2=4.0))[1]
    assert (got.twist.v_mps, got.twist.w_radps) == (v_mps, pytest.approx(0.8))


# --- R9, R10, R11: two limits at once ---------------------------------------------------------------------------------


def test_r10_an_obstacle_exactly_at_the_end_of_the_slow_zone_slows() -> None:
    """The test searches a margin for which the distance to the obstacle is exactly the braking distance."""
    scan, wanted, open_road = scan_of({AHEAD_BIN: 0.8}), Twist(0.5, 0.0), bounds_with(time_to_contact_s=0.0)
    way_m = braking_m(wanted.v_mps, open_road.braking_mps2, open_road.reaction_s)
    radius_m = 0.8 - way_m
    for _ in range(100):
        radius_m += travel_m(obstacles(scan), wanted, Footprint(radius_m)) - way_m
    found = next(
        margin
        for step in range(-200, 200)
        if travel_m(obstacles(scan), wanted, margin := Footprint(radius_m + step * 2.0**-54)) == way_m
    )
    (ring,) = open_road.slow
    exactly = replace(open_road, slow=(replace(ring, footprint=found),))
    just_less = replace(open_road, slow=(replace(ring, footprint=found.grown(-1e-9)),))
    situation = replace(FREE, scan=scan)
    assert limited(wanted, situation, exactly).reason is Reason.ZONE_SLOW
    assert limited(wanted, situation, just_less).reason is Reason.NONE


def test_r10_the_slow_speed_itself_is_not_slowed() -> None:
    situation = replace(FREE, scan=scan_of({AHEAD_BIN: 0.7}))
    slow = Twist(0.3, 0.5)
    assert limited(slow, situation) == LimitedCommand(slow, Reason.NONE, slow, False)


def test_r16_of_two_that_changed_it_the_stricter_is_the_reason() -> None:
    wall = replace(FREE, scan=scan_of({AHEAD_BIN: 0.7}))
    assert limited(Twist(1.0, 0.0), replace(wall, speed_limit_mps=0.2)).reason is Reason.SPEED_LIMIT
    assert limited(Twist(1.0, 0.0), replace(wall, speed_limit_mps=0.4)).reason is Reason.ZONE_SLOW


# --- R12, R14, R20: what may be left ----------------------------------------------------------------------------------


def test_r12_with_no_creep_at_all_the_turn_is_still_left() -> None:
    standing = bounds_with(creep_mps=0.0)
    got = limited(Twist(0.3, 1.0), replace(FREE, scan=BLIND_AHEAD), standing)
    assert (got.twist, got.reason) == (Twist(0.0, 1.0), Reason.BLIND_AHEAD)


def test_r12_an_operator_creeps_on_the_same_arc() -> None:
    wanted = Twist(0.2, 1.0)
    got = limited(wanted, replace(FREE, scan=BLIND_AHEAD, teleop=Teleop(NOW_NS, wanted)))
    assert (got.twist, got.reason) == (Twist(0.1, 0.5), Reason.BLIND_AHEAD)


def test_r12_r14_a_blind_flank_slows_on_the_same_arc() -> None:
    got = limited(Twist(1.0, 0.5), replace(FREE, scan=BLIND_LEFT))
    assert (got.twist.v_mps, got.twist.w_radps) == pytest.approx((0.3, 0.15))
    assert got.reason is Reason.BLIND_FLANK


def test_r20_a_farther_obstacle_slows_on_the_same_arc() -> None:
    place = np.array([(0.45, 0.0)])
    got = limited(Twist(1.0, 0.25), replace(FREE, out_of_view=place))
    way_m = travel_m(place, Twist(1.0, 0.25), BOUNDS.swept)
    assert got.reason is Reason.REMEMBERED
    assert got.twist.v_mps == pytest.approx(stoppable_mps(way_m, 2.5, 0.15))
    assert got.twist.w_radps == pytest.approx(0.25 * got.twist.v_mps)


def test_r20_r9_a_nearer_visible_obstacle_is_the_reason() -> None:
    situation = replace(FREE, scan=scan_of({AHEAD_BIN: 0.28}), out_of_view=np.array([(0.33, 0.0)]))
    got = limited(Twist(0.3, 1.0), situation)
    assert (got.twist, got.reason) == (STOP, Reason.ZONE_STOP)


# --- R18, R19 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word_mps", "in_force_mps"), [(1e-9, 1e-9), (0.0, inf), (-0.0, inf), (1e308, 1e308)])
def test_r18_r19_the_smallest_and_the_largest_limits_are_accepted(word_mps: float, in_force_mps: float) -> None:
    state, _ = limit(LimitsState(), Twist(0.3, 0.0), replace(FREE, speed_limit_mps=word_mps), BOUNDS)
    assert (state.speed_limit_mps, state.limit_refused) == (in_force_mps, False)


def test_r19_a_limit_counts_without_a_command_and_while_e_stopped() -> None:
    situation = replace(FREE, speed_limit_mps=0.5, e_stop=True)
    state, got = limit(LimitsState(), None, situation, BOUNDS)
    assert state == LimitsState(e_stopped=True, pressed=True, sent=STOP, sent_ns=NOW_NS, speed_limit_mps=0.5)
    assert got == LimitedCommand(STOP, Reason.E_STOP, None, False)
