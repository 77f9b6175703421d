"""The start frame: raw wheels, newest fix and filtered pose in it, and goals in other frames."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan, pi

import pytest

from onboard.config.config import DdsSection, GoalSection, OdometrySection
from onboard.navigation import ekf, odometry
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.odometry import OdometryState
from onboard.navigation.start_frame import Start, anchor, begin, drift_m, goal_in_start, locate
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import IDENTITY, compose, inverse
from onboard.values.messages import STOP, Fix, GoalRequest, OdometryMessage, Pose, Twist
from onboard.values.reasons import GOAL_NO_ORIENTATION
from tests.onboard.navigation.fixes import near

SECTION = OdometrySection()
PERIOD_NS = 100_000_000
MAP_FROM_ODOM = Pose(10.0, -4.0, pi / 2)


def wheels_at(pose: Pose) -> OdometryState:
    return odometry.advance(OdometryState(), OdometryMessage(0, 0, pose, STOP), SECTION)


def moved(wheels: OdometryState, twist: Twist, seconds: float) -> OdometryState:
    for _ in range(round(seconds * 10)):
        stamp_ns = (wheels.stamp_ns or 0) + PERIOD_NS
        wheels = odometry.advance(wheels, OdometryMessage(stamp_ns, stamp_ns, None, twist), SECTION)
    return wheels


def fixed(
    wheels: OdometryState, state: LocalizationState | None = None, map_from_odom: Pose = MAP_FROM_ODOM
) -> LocalizationState:
    fix = Fix(wheels.stamp_ns or 0, wheels.arrival_ns or 0, compose(map_from_odom, wheels.pose))
    return ekf.advance(state or LocalizationState(), [fix], wheels, SECTION)


WHEELS = moved(wheels_at(Pose(3.0, 1.0, 0.5)), Twist(0.5, 0.3), 2.0)
UNKNOWN = LocalizationState()


def test_raw_motion_starts_at_the_origin_and_follows_the_wheels() -> None:
    start = begin(WHEELS, UNKNOWN)
    later = moved(WHEELS, Twist(1.0, 0.0), 1.0)
    located = locate(start, later, UNKNOWN, later.arrival_ns or 0)
    assert near(located.raw.pose, Pose(1.0, 0.0, 0.0))
    assert located.raw.twist == Twist(1.0, 0.0)


def test_without_localisation_the_filtered_pose_is_the_raw_one_and_the_fix_is_absent() -> None:
    located = locate(begin(WHEELS, UNKNOWN), WHEELS, UNKNOWN, 0)
    assert located.filtered == located.raw
    assert (located.fix, located.fix_age_ns) == (None, None)


def test_localised_at_the_start_all_three_agree() -> None:
    state = fixed(WHEELS)
    start = begin(WHEELS, state)
    later = moved(WHEELS, Twist(0.4, -0.2), 1.5)
    state = fixed(later, state)
    located = locate(start, later, state, later.arrival_ns or 0)
    assert located.fix is not None
    assert near(located.filtered.pose, located.raw.pose, 1e-6)
    assert near(located.fix.pose, located.raw.pose, 1e-6)
    assert located.fix.twist == located.filtered.twist == Twist(0.4, -0.2)


def test_the_first_fix_places_the_start_frame_without_a_jump() -> None:
    start = begin(WHEELS, UNKNOWN)
    later = moved(WHEELS, Twist(0.4, -0.2), 3.0)
    state = fixed(later)
    assert locate(start, later, state, 0).fix is None
    placed = anchor(start, later, state)
    located = locate(placed, later, state, later.arrival_ns or 0)
    assert near(located.filtered.pose, located.raw.pose)
    assert placed.start_from_map is not None
    assert near(inverse(placed.start_from_map), compose(MAP_FROM_ODOM, WHEELS.pose), 1e-6)


def test_once_placed_the_start_frame_stays() -> None:
    state = fixed(WHEELS)
    start = begin(WHEELS, state)
    shifted = fixed(moved(WHEELS, STOP, 1.0), state, Pose(10.05, -4.0, pi / 2))
    assert anchor(start, WHEELS, shifted) is start


def test_an_uncertain_filter_does_not_place_the_start_frame() -> None:
    state = fixed(WHEELS)
    lost_wheels = moved(WHEELS, Twist(0.5, 0.1), 120.0)
    lost = ekf.advance(state, [], lost_wheels, SECTION)
    start = begin(lost_wheels, lost)
    assert start.start_from_map is None
    assert anchor(start, lost_wheels, lost).start_from_map is None


#   age of the fix [s], present?
AGES = [(0.0, True), (2.5, True), (8.0, True), (8.1, False)]


@pytest.mark.parametrize(("age_s", "present"), AGES)
def test_a_fix_is_there_until_it_is_too_old(age_s: float, present: bool) -> None:
    state = fixed(WHEELS)
    now_ns = (WHEELS.arrival_ns or 0) + round(age_s * NS_PER_S)
    located = locate(begin(WHEELS, state), WHEELS, state, now_ns)
    assert (located.fix is not None) is present
    assert located.fix_age_ns == (round(age_s * NS_PER_S) if present else None)


def test_the_fix_is_where_the_robot_was_not_where_it_is() -> None:
    state = fixed(WHEELS)
    start = begin(WHEELS, state)
    later = moved(WHEELS, Twist(1.0, 0.0), 2.0)
    state = ekf.advance(state, [], later, SECTION)
    located = locate(start, later, state, later.arrival_ns or 0)
    assert located.fix is not None
    assert near(located.fix.pose, IDENTITY, 1e-6)
    assert located.fix.twist == Twist(0.5, 0.3)
    assert near(located.filtered.pose, Pose(2.0, 0.0, 0.0), 1e-6)


STATE = fixed(WHEELS)
LOCALISED = begin(WHEELS, STATE)
LOST = begin(WHEELS, UNKNOWN)
IN_ODOM = compose(WHEELS.pose, Pose(2.0, 1.0, 0.0))
IN_MAP = compose(MAP_FROM_ODOM, IN_ODOM)


def asked(frame: str, pose: Pose, start: Start = LOCALISED, state: LocalizationState = STATE) -> tuple[float, float]:
    return goal_in_start(GoalRequest(0, 0, frame, pose), start, WHEELS, state, GoalSection(), DdsSection())


#   frame         position
FRAMES = [
    ("odom", IN_ODOM),
    ("/odom", IN_ODOM),
    ("base_link", Pose(2.0, 1.0, 0.0)),
    ("/base_link", Pose(2.0, 1.0, 0.0)),
    ("map", IN_MAP),
    ("/map", IN_MAP),
]


@pytest.mark.parametrize(("frame", "pose"), FRAMES, ids=[row[0] for row in FRAMES])
def test_goals_in_every_frame_are_the_same_point(frame: str, pose: Pose) -> None:
    assert asked(frame, pose) == pytest.approx((2.0, 1.0), abs=1e-6)


def test_frames_can_be_renamed() -> None:
    request = GoalRequest(0, 0, "r1/odom", IN_ODOM)
    dds = DdsSection(odom_frame="r1/odom")
    assert goal_in_start(request, LOST, WHEELS, UNKNOWN, GoalSection(), dds) == pytest.approx((2.0, 1.0))


def test_a_goal_on_the_base_is_where_the_robot_is_now() -> None:
    later = moved(WHEELS, Twist(1.0, 0.0), 1.0)
    request = GoalRequest(0, 0, "base_link", Pose(1.0, 0.0, 0.0))
    got = goal_in_start(request, LOST, later, UNKNOWN, GoalSection(), DdsSection())
    assert got == pytest.approx((2.0, 0.0))


#   what                  frame       position               localised  reason
LIMIT = "limit 100 m (goal.max_distance_m)"
REFUSED = [
    ("NaN", "odom", Pose(nan, 0.0, 0.0), True, "x of the goal is nan, not a finite number"),
    ("infinite", "map", Pose(0.0, -inf, 0.0), True, "y of the goal is -inf, not a finite number"),
    ("no heading", "odom", Pose(0.0, 0.0, nan), True, GOAL_NO_ORIENTATION.sentence),
    ("unknown frame", "moon", IDENTITY, True, "unknown frame 'moon', known are odom, base_link, map"),
    ("no frame", "", IDENTITY, True, "unknown frame '', known are odom, base_link, map"),
    (
        "map, not localised",
        "map",
        IN_MAP,
        False,
        "frame 'map' needs a localised robot, and there is no trusted localisation",
    ),
    ("too far", "base_link", Pose(100.1, 0.0, 0.0), True, f"the goal is 100.1 m away, {LIMIT}"),
    ("absurdly far", "base_link", Pose(1e300, 0.0, 0.0), True, f"the goal is 1e+300 m away, {LIMIT}"),
    ("overflowing", "map", Pose(1e308, 1.7e308, 0.0), True, f"the goal is inf m away, {LIMIT}"),
]


@pytest.mark.parametrize(("what", "frame", "pose", "known", "reason"), REFUSED, ids=[row[0] for row in REFUSED])
def test_goals_that_are_refused(what: str, frame: str, pose: Pose, known: bool, reason: str) -> None:
    start, state = (LOCALISED, STATE) if known else (LOST, UNKNOWN)
    with pytest.raises(InputError) as refused:
        asked(frame, pose, start, state)
    assert str(refused.value) == reason


def test_a_goal_in_the_map_that_is_refused_says_why_fixes_are_refused() -> None:
    refusing = replace(UNKNOWN, refusal="localisation refused: x is nan")
    with pytest.raises(InputError, match="needs a localised robot, and localisation refused: x is nan"):
        asked("map", IN_MAP, LOST, refusing)


def test_a_place_in_the_map_without_a_fix_that_was_kept_gives_no_fix_to_the_policy() -> None:
    known = fixed(WHEELS)
    start = begin(WHEELS, known)
    located = locate(start, WHEELS, replace(known, received=None), 0)
    assert (located.fix, located.fix_age_ns) == (None, None)
    assert near(located.filtered.pose, IDENTITY)


def test_without_fixes_the_drift_since_the_start_is_known_whatever_was_driven_before() -> None:
    """The odometry's own covariance also has the drift before the start; the relative motion's must not."""
    twist = Twist(0.5, 0.0)
    fresh, driven = wheels_at(IDENTITY), moved(wheels_at(IDENTITY), Twist(0.5, 0.3), 20.0)
    drifts_m = []
    for wheels in (fresh, driven):
        start, after = begin(wheels, UNKNOWN), moved(wheels, twist, 20.0)
        assert drift_m(start, wheels) == pytest.approx(0.0, abs=1e-6)
        located = locate(start, after, UNKNOWN, 0)
        assert located.uncertain_m == pytest.approx(2.0 * (located.drift_m or 0.0))
        drifts_m.append(located.drift_m)
    assert drifts_m[0] == pytest.approx(drifts_m[1], rel=1e-6)
    assert (drifts_m[0] or 0.0) > 0.05
    assert locate(Start(IDENTITY, None), fresh, UNKNOWN, 0).uncertain_m is None, "an old recording"
