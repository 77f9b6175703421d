"""Laws of the limits for every command in every situation."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, nan

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onboard.perception.collision import obstacles, stoppable_mps, travel_m
from onboard.safety.limits import Bounds, LimitsState, Reason, Situation, limit
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BINS, STOP, Scan, Teleop, Twist
from tests.onboard.safety.limits_bench import BOUNDS, FREE, NOW_NS, bounds_with, limited, scan_of

any_number = st.one_of(st.floats(), st.floats(-4.0, 4.0))
twists = st.builds(Twist, any_number, any_number)
stamps = st.none() | st.integers(NOW_NS - NS_PER_S, NOW_NS + NS_PER_S)
scans = st.builds(
    lambda stamp_ns, near, seen: Scan(stamp_ns, _filled(near), _seen(seen)),
    st.integers(NOW_NS - NS_PER_S, NOW_NS + NS_PER_S),
    st.dictionaries(
        st.integers(0, BINS - 1), st.floats(0.0, 2.0, width=32) | st.sampled_from((nan, -1.0)), max_size=20
    ),
    st.lists(st.integers(0, BINS - 1), max_size=3),
)
situations = st.builds(
    Situation,
    st.just(NOW_NS),
    st.sampled_from((None, True, False)),
    st.booleans(),
    st.none() | st.builds(Teleop, st.integers(NOW_NS - NS_PER_S, NOW_NS + NS_PER_S), twists),
    stamps,
    st.none() | scans,
)
finite = st.builds(Twist, st.floats(-0.3, 1.0), st.floats(-3.0, 3.0))
states = st.builds(LimitsState, st.booleans(), st.booleans(), finite, stamps)
sections = st.sampled_from([BOUNDS, bounds_with(acceleration_mps2=1.0, angular_acceleration_radps2=2.0)])


def _filled(near: dict[int, float]) -> np.ndarray:
    ranges = np.full(BINS, np.inf, dtype=np.float32)
    for index, range_m in near.items():
        ranges[index] = range_m
    return ranges


def _seen(blind: list[int]) -> np.ndarray:
    seen = np.ones(BINS, dtype=np.bool_)
    seen[blind] = False
    return seen


@given(states, st.none() | twists, situations, sections)
def test_law_whatever_happens_the_command_is_finite_bounded_and_safe(
    state: LimitsState, wanted: Twist | None, situation: Situation, bounds: Bounds
) -> None:
    after, got = limit(state, wanted, situation, bounds)
    v, w = got.twist.v_mps, got.twist.w_radps
    assert isfinite(v)
    assert isfinite(w)
    assert bounds.v_min_mps <= v <= bounds.v_max_mps
    assert abs(w) <= bounds.w_max_radps
    assert (after.sent, after.sent_ns) == (got.twist, NOW_NS)
    if situation.e_stop is True or (state.e_stopped and not (situation.goal_accepted and not state.pressed)):
        assert (got.twist, got.reason, after.e_stopped) == (STOP, Reason.E_STOP, True)
    else:
        assert not after.e_stopped
    if situation.scan is None or situation.odometry_arrival_ns is None:
        assert got.twist == STOP
    elif abs(v) >= 1e-3:
        way_m = travel_m(obstacles(situation.scan), got.twist, bounds.swept)
        assert abs(v) <= stoppable_mps(way_m, bounds.braking_mps2, bounds.reaction_s) + 1e-6


@given(finite, scans)
def test_law_zones_only_scale(wanted: Twist, scan: Scan) -> None:
    got = limited(wanted, replace(FREE, scan=replace(scan, stamp_ns=NOW_NS)))
    if got.reason is Reason.BLIND_AHEAD:
        assert got.twist == Twist(0.0, wanted.w_radps)
        return
    assert got.twist.v_mps * wanted.w_radps == pytest.approx(got.twist.w_radps * wanted.v_mps, abs=1e-9)
    assert abs(got.twist.v_mps) <= abs(wanted.v_mps)
    assert got.twist.v_mps * wanted.v_mps >= 0.0


@given(finite, st.floats(-1.5, 1.5), st.floats(-1.5, 1.5))
def test_r20_law_it_slows_as_much_as_a_visible_obstacle(wanted: Twist, x: float, y: float) -> None:
    got = limited(wanted, replace(FREE, out_of_view=np.array([(x, y)]))).twist
    if abs(got.v_mps) >= 1e-3:
        way_m = travel_m(np.array([(x, y)]), got, BOUNDS.swept)
        assert abs(got.v_mps) <= stoppable_mps(way_m, BOUNDS.braking_mps2, BOUNDS.reaction_s) + 1e-6
        assert got.v_mps * wanted.w_radps == pytest.approx(got.w_radps * wanted.v_mps, abs=1e-9)


@given(finite)
def test_law_free_space_changes_nothing(wanted: Twist) -> None:
    assert limited(wanted).twist == wanted


@given(finite, scans)
@example(Twist(1.0, 1.0), scan_of(blind=(-27.5, -26.5)))
def test_law_limits_are_idempotent(wanted: Twist, scan: Scan) -> None:
    """The slow zone covers the wanted command's braking distance, so a slower command is limited no more."""
    situation = replace(FREE, scan=replace(scan, stamp_ns=NOW_NS))
    once = limited(wanted, situation).twist
    twice = limited(once, situation).twist
    assert abs(twice.v_mps) == pytest.approx(abs(once.v_mps), abs=1e-6)
