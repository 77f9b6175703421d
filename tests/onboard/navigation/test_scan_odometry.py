"""Scan odometry: each rule by its number, corrections against numeric derivatives, and drives in a furnished room."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hil.physics.odometry_noise import Drift, drift_step, noisy_fix
from hil.sensors.direct_scan import cast_scan
from onboard.config.config import OdometrySection
from onboard.navigation import ekf, odometry, scan_odometry
from onboard.navigation.ekf import STATES, LocalizationState
from onboard.navigation.odometry import OdometryState
from onboard.navigation.scan_odometry import AGAIN, AGE_NS, FAR_M, KEY_M, KEY_RAD, ScanOdometry
from onboard.perception import scan_matching
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, between, compose, distance, wrap
from onboard.values.messages import BINS, STOP, Fix, OdometryMessage, Pose, Scan, Twist
from tests.rigs.rooms import room, with_box

SECTION = OdometrySection(scan_matching=True)
FURNISHED = with_box(with_box(room(7.0, 5.0), (3.0, 3.6), (3.2, 5.0), (0.0, 1.0)), (5.6, 6.4), (0.6, 1.0), (0.0, 0.8))
START = Pose(1.5, 2.0, 0.3)
SEEN = np.ones(BINS, np.bool_)
TICK_NS = NS_PER_S // 30


def scan_at(pose: Pose, stamp_ns: int) -> Scan:
    return Scan(stamp_ns, cast_scan(FURNISHED, pose), SEEN)


def rolled(wheels: OdometryState, twist: Twist, ticks: int) -> OdometryState:
    """Return the odometry after some ticks of one twist."""
    for _ in range(ticks):
        now_ns = TICK_NS + (wheels.stamp_ns or 0)
        wheels = odometry.advance(wheels, OdometryMessage(now_ns, now_ns, None, twist), SECTION)
    return wheels


AT_REST = rolled(OdometryState(), Twist(0.0, 0.0), 2)
FIXED = ekf.correct(
    LocalizationState(), Fix(AT_REST.stamp_ns or 0, AT_REST.arrival_ns or 0, START), AT_REST, SECTION
)  # fmt: skip


def begun() -> tuple[ScanOdometry, LocalizationState]:
    return scan_odometry.advance(ScanOdometry(), FIXED, scan_at(START, AT_REST.stamp_ns or 0), AT_REST)


def gone(twist: Twist, ticks: int, slip: Twist = STOP) -> tuple[OdometryState, Pose]:
    """Return the wheels after a drive, and the true pose. slip: what the wheels report too much"""
    wheels = rolled(AT_REST, Twist(twist.v_mps + slip.v_mps, twist.w_radps + slip.w_radps), ticks)
    return wheels, compose(START, rolled(AT_REST, twist, ticks).pose)


def advanced(
    wheels: OdometryState, true: Pose, before: tuple[ScanOdometry, LocalizationState] | None = None
) -> tuple[ScanOdometry, LocalizationState]:
    state, localization = before or begun()
    return scan_odometry.advance(state, ekf.predict(localization, wheels), scan_at(true, wheels.stamp_ns or 0), wheels)


def off_m(
    state: ScanOdometry, localization: LocalizationState, wheels: OdometryState, true: Pose
) -> tuple[float, float]:
    """Return how far the corrected odometry and the filter are from the truth [m]."""
    assert localization.map_from_base is not None
    in_map = compose(START, scan_odometry.corrected(state, wheels.pose))
    return distance(in_map, true), distance(localization.map_from_base, true)


def test_s2_the_first_scan_is_the_key_and_corrects_nothing() -> None:
    state, localization = begun()
    assert state.key is not None
    assert (state.matched, state.missed, state.rejected) == (0, 0, 0)
    assert scan_odometry.corrected(state, AT_REST.pose) == AT_REST.pose
    assert localization.key == START
    assert localization.covariance is not None
    assert localization.covariance.shape == (STATES + 3, STATES + 3)


def test_s3_a_scan_is_matched_once_the_wheels_have_moved_enough() -> None:
    before = begun()
    for twist, enough in ((Twist(0.5, 0.0), KEY_M), (Twist(0.0, 1.0), KEY_RAD)):
        speed = max(twist.v_mps, twist.w_radps)
        just_below, above = math.floor(enough / speed * 30) - 1, math.ceil(enough / speed * 30) + 1
        assert advanced(*gone(twist, just_below), before)[0].matched == 0
        assert advanced(*gone(twist, above), before)[0].matched == 1


def test_s3_the_same_scan_again_is_not_matched() -> None:
    state, localization = begun()
    wheels, _ = gone(Twist(0.5, 0.0), 20)
    again = scan_odometry.advance(state, localization, scan_at(START, AT_REST.stamp_ns or 0), wheels)
    assert again == (state, localization)


def test_s4_and_s5_filter_and_odometry_take_the_motion() -> None:
    wheels, true = gone(Twist(0.5, 0.2), 20, slip=Twist(0.05, 0.3))
    wheels_off_m = distance(compose(START, wheels.pose), true)
    state, localization = advanced(wheels, true)
    assert state.matched == 1
    assert state.key is not None
    assert state.key.wheels == wheels.pose
    assert max(off_m(state, localization, wheels, true)) < 0.3 * wheels_off_m
    assert localization.map_from_base is not None
    assert (
        abs(wrap(localization.map_from_base.yaw_rad - true.yaw_rad))
        < 0.02
        < abs(wrap(wheels.pose.yaw_rad + START.yaw_rad - true.yaw_rad))
    )


def test_s4_the_gate_doubts_wheels_that_slip() -> None:
    """They turn six standard deviations too far."""
    wheels, true = gone(Twist(0.4, 0.0), 20, slip=Twist(0.0, 0.45))
    state, localization = advanced(wheels, true)
    assert (state.matched, state.rejected) == (1, 0)
    assert max(off_m(state, localization, wheels, true)) < 0.03


def test_s4_a_motion_that_contradicts_everything_is_rejected() -> None:
    _, localization = begun()
    after, passed = ekf.moved(localization, IDENTITY, Pose(1.0, 1.0, 0.0), 1e-4 * np.eye(3), 1e-4 * np.eye(3))
    assert not passed
    assert after is localization


def test_s5_before_the_first_fix_the_odometry_alone_takes_the_motion() -> None:
    wheels, true = gone(Twist(0.5, 0.2), 20, slip=Twist(0.05, 0.3))
    before = scan_odometry.advance(ScanOdometry(), LocalizationState(), scan_at(START, AT_REST.stamp_ns or 0), AT_REST)
    state, localization = advanced(wheels, true, before)
    assert localization == LocalizationState()
    assert distance(compose(START, scan_odometry.corrected(state, wheels.pose)), true) < 0.02


def test_s5_a_filter_that_starts_meanwhile_has_no_key_until_the_next_scan() -> None:
    state, _ = begun()
    wheels, true = gone(Twist(0.5, 0.0), 20)
    started = ekf.correct(LocalizationState(), Fix(wheels.stamp_ns or 0, wheels.arrival_ns or 0, true), wheels, SECTION)
    after, localization = scan_odometry.advance(state, started, scan_at(true, wheels.stamp_ns or 0), wheels)
    assert after.matched == 1
    assert localization.map_from_base == started.map_from_base
    assert localization.key == true


@pytest.mark.parametrize("why", ["blind", "too far", "slipped badly"])
def test_s6_without_a_match_the_wheels_count(why: str) -> None:
    ticks = math.ceil(FAR_M / 0.5 * 30) + 2 if why == "too far" else 20
    wheels, true = gone(Twist(0.5, 0.0), ticks)
    if why == "slipped badly":
        true = compose(START, Pose(0.33, 0.0, 1.2))
    state, localization = begun()
    localization = ekf.predict(localization, wheels)
    scan = blind(wheels) if why == "blind" else scan_at(true, wheels.stamp_ns or 0)
    after, kept = scan_odometry.advance(state, localization, scan, wheels)
    assert after.matched == 0
    assert kept.map_from_base == localization.map_from_base
    expected, found = wheels.pose, scan_odometry.corrected(after, wheels.pose)
    assert (found.x_m, found.y_m, found.yaw_rad) == pytest.approx((expected.x_m, expected.y_m, expected.yaw_rad))
    assert after.key is not None
    assert (after.key == state.key) == (why != "too far"), "another scan may match this key scan"
    assert after.missed == (1 if why == "too far" else 0)


def blind(wheels: OdometryState) -> Scan:
    return Scan(wheels.stamp_ns or 0, np.full(BINS, np.inf, np.float32), SEEN)


def test_s6_the_key_scan_stays_for_a_while() -> None:
    before = state, localization = begun()
    for ticks, matched in ((20, 0), (25, 1)):
        wheels, true = gone(Twist(0.5, 0.0), ticks)
        scan = blind(wheels) if ticks == 20 else scan_at(true, wheels.stamp_ns or 0)
        state, localization = scan_odometry.advance(state, ekf.predict(localization, wheels), scan, wheels)
        assert (state.matched, state.missed) == (matched, 0)
    wheels, _ = gone(Twist(0.5, 0.0), math.ceil(AGAIN * KEY_M / 0.5 * 30) + 1)
    after, _ = scan_odometry.advance(before[0], ekf.predict(before[1], wheels), blind(wheels), wheels)
    assert after.key is not None
    assert (after.key.wheels, after.missed) == (wheels.pose, 1)


def test_s6_a_robot_that_stands_after_a_miss_does_not_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    monkeypatch.setattr(scan_matching, "match", lambda *_: tries.append(1))
    wheels, _ = gone(Twist(0.5, 0.0), 20)
    state, localization = begun()
    for _ in range(5):
        wheels = rolled(wheels, Twist(0.0, 0.0), 10)
        state, localization = scan_odometry.advance(state, localization, blind(wheels), wheels)
    assert len(tries) == 1
    wheels = rolled(wheels, Twist(0.5, 0.0), 4)
    state, _ = scan_odometry.advance(state, localization, blind(wheels), wheels)
    assert (len(tries), state.missed) == (2, 0)


@pytest.mark.parametrize(("age_ns", "matched"), [(AGE_NS, 1), (AGE_NS + 1, 0)])
def test_s7_a_scan_that_was_old_when_it_was_taken_is_not_matched(age_ns: int, matched: int) -> None:
    wheels, true = gone(Twist(0.5, 0.0), 20)
    state, localization = begun()
    scan, localization = scan_at(true, wheels.stamp_ns or 0), ekf.predict(localization, wheels)
    scan = replace(scan, arrival_ns=scan.stamp_ns + age_ns)
    state, _ = scan_odometry.advance(state, localization, scan, wheels)
    assert state.matched == matched


def test_a_registered_scan_is_in_the_base_frame_of_now() -> None:
    """With `scan.history` the stamp is that of the oldest frame, and the ranges are where the base is now."""
    before = begun()
    wheels, true = gone(Twist(0.4, 0.8), 20)
    scan = replace(scan_at(true, wheels.stamp_ns or 0), stamp_ns=(wheels.stamp_ns or 0) - 3 * TICK_NS)
    errors = []
    for registered in (True, False):
        state, localization = scan_odometry.advance(
            before[0], ekf.predict(before[1], wheels), scan, wheels, registered=registered
        )
        assert state.matched == 1
        errors.append(max(off_m(state, localization, wheels, true)))
    assert errors[0] < 0.01 < errors[1]


def test_without_odometry_nothing_happens() -> None:
    state = ScanOdometry()
    assert scan_odometry.advance(state, FIXED, scan_at(START, 0), OdometryState()) == (state, FIXED)


def test_a_scan_older_than_the_wheels_is_placed_where_it_was_taken() -> None:
    wheels, true = gone(Twist(0.5, 0.3), 20)
    later = rolled(wheels, Twist(0.5, 0.3), 5)
    state, localization = begun()
    stale = scan_at(true, wheels.stamp_ns or 0)
    after, kept = scan_odometry.advance(state, ekf.predict(localization, later), stale, later)
    assert after.key is not None
    assert after.key.wheels == wheels.pose
    now = compose(START, later.pose)
    assert max(off_m(after, kept, later, now)) < 0.02


def test_a_new_drive_goes_on_from_the_wheels() -> None:
    state, _ = advanced(*gone(Twist(0.5, 0.2), 20, slip=Twist(0.05, 0.3)))
    fresh = scan_odometry.begin(state)
    assert scan_odometry.corrected(fresh, Pose(3.0, 1.0, 0.5)) == Pose(3.0, 1.0, 0.5)
    assert fresh.matched == state.matched


def test_the_corrections_are_those_of_a_linearised_filter() -> None:
    """`keyed` and `moved` against covariances by numeric derivatives."""
    wheels, _ = gone(Twist(0.5, 0.4), 20)
    back = Pose(-0.05, 0.01, -0.03)
    localization = ekf.keyed(FIXED, back)
    assert localization.map_from_base is not None
    assert localization.covariance is not None
    h = 1e-6

    def shifted(pose: Pose, axis: int) -> Pose:
        values = [pose.x_m, pose.y_m, pose.yaw_rad]
        values[axis] += h
        return Pose(*values)

    def column(found: Pose, base: Pose) -> list[float]:
        return [(found.x_m - base.x_m) / h, (found.y_m - base.y_m) / h, wrap(found.yaw_rad - base.yaw_rad) / h]

    now = localization.map_from_base
    of_key = np.array([column(compose(shifted(now, axis), back), compose(now, back)) for axis in range(3)]).T
    assert localization.covariance[STATES:, :3] == pytest.approx(of_key @ localization.covariance[:3, :3], abs=1e-6)

    before = ekf.predict(localization, wheels)
    assert before.map_from_base is not None
    assert before.key is not None
    assert before.covariance is not None
    then = compose(before.map_from_base, back)
    expected = between(before.key, then)
    model = np.zeros((3, STATES + 3))
    for axis in range(3):
        model[:, axis] = column(between(before.key, compose(shifted(before.map_from_base, axis), back)), expected)
        model[:, STATES + axis] = column(between(shifted(before.key, axis), then), expected)
    noise = np.diag([1e-4, 1e-4, 1e-5])
    gain = before.covariance @ model.T @ np.linalg.inv(model @ before.covariance @ model.T + noise)
    residual = np.array([0.02, -0.01, 0.01])
    motion = Pose(expected.x_m + 0.02, expected.y_m - 0.01, expected.yaw_rad + 0.01)
    after, passed = ekf.moved(before, back, motion, noise, np.zeros((3, 3)))
    assert passed
    assert after.map_from_base is not None
    assert after.key is not None
    change = gain @ residual
    assert after.map_from_base.x_m - before.map_from_base.x_m == pytest.approx(change[0], abs=1e-6)
    assert after.map_from_base.yaw_rad - before.map_from_base.yaw_rad == pytest.approx(change[2], abs=1e-6)
    assert after.systematic == pytest.approx((change[3], change[4]), abs=1e-6)
    assert after.key.y_m - before.key.y_m == pytest.approx(change[STATES + 1], abs=1e-6)
    assert after.covariance == pytest.approx((np.eye(STATES + 3) - gain @ model) @ before.covariance, abs=1e-6)


def drives(scale: float, fixes: bool, seed: int) -> tuple[list[float], list[float], list[float]]:
    """Return errors of the wheels, of the corrected odometry and of the filter [m], once a second along a drive.

    scale: on the paper's drift; the filter's error is normalised: squared, by its covariance
    """
    rng = np.random.default_rng(seed)
    true, drift, wheels = START, Drift(IDENTITY), AT_REST
    state, localization = begun()
    raw, corrected, squared = [], [], []
    for tick in range(900):
        turn = 1.0 if true.x_m > 4.6 or true.x_m < 1.2 or not 1.3 < true.y_m < 2.9 else 0.0
        twist = Twist(
            0.5, turn * (1.0 if math.sin(math.atan2(2.0 - true.y_m, 3.0 - true.x_m) - true.yaw_rad) > 0 else -1.0)
        )
        true = odometry.integrate(true, twist, 1.0 / 30.0)
        drift, reported = drift_step(drift, twist, scale, rng)
        wheels = rolled(wheels, reported, 1)
        localization = ekf.predict(localization, wheels)
        if fixes and tick % 105 == 104:
            fix = Fix(wheels.stamp_ns or 0, wheels.arrival_ns or 0, noisy_fix(true, 1.0, rng))
            localization = ekf.correct(localization, fix, wheels, SECTION)
        if tick % 10 == 9:
            scan = scan_at(true, wheels.stamp_ns or 0)
            state, localization = scan_odometry.advance(state, localization, scan, wheels)
        if tick % 30 == 29:
            place, covariance = localization.map_from_base, localization.covariance
            assert place is not None
            assert covariance is not None
            raw.append(distance(compose(START, wheels.pose), true))
            corrected.append(distance(compose(START, scan_odometry.corrected(state, wheels.pose)), true))
            off = np.array([place.x_m - true.x_m, place.y_m - true.y_m, wrap(place.yaw_rad - true.yaw_rad)])
            squared.append(float(off @ np.linalg.solve(covariance[:3, :3], off)))
    assert state.matched > 40
    assert state.missed + state.rejected <= 2
    return raw, corrected, squared


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_the_drift_in_a_furnished_room_is_at_most_a_quarter(scale: float) -> None:
    raw, corrected = np.array([drives(scale, False, seed)[:2] for seed in range(4)]).transpose(1, 0, 2)
    assert corrected.mean() < 0.25 * raw.mean()
    assert corrected[:, -1].max() < 0.5


def test_the_filter_tells_its_error() -> None:
    squared = np.concatenate([drives(1.0, True, seed)[2] for seed in range(4)])
    assert 0.5 < squared.mean() < 6.0, "3 for a filter that knows its noise"
