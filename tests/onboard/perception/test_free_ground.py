"""Ground that was seen free a moment ago: it counts where a camera saw all of it, for a short time."""

from __future__ import annotations

import math
from dataclasses import replace
from math import atan2, cos, degrees, hypot, inf, pi, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.config.footprint import Footprint, polygon
from onboard.perception import collision
from onboard.perception.collision import BIN_CENTERS_RAD
from onboard.perception.free_ground import CELL_M, SIDE, FreeGround, advance, free_path_m, unknown, with_unknown_ground
from onboard.perception.obstacle_memory import FLANK_BINS, NOWHERE, REACH_M, Surroundings
from onboard.recording.state_snapshot import decode, encode
from onboard.state import RobotState
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import apply, compose, inverse
from onboard.values.messages import BINS, Pose, Scan

FREE_NS = 5 * NS_PER_S
NOW_NS = 100 * NS_PER_S
ORIGIN = Pose(0.0, 0.0, 0.0)
ROUND = Footprint(0.25)
SWEPT = ROUND.grown(0.05)
FRONT_LOST = (-33.0, 33.0)
HALF_TURN = Pose(0.0, 0.0, pi)


def scan_of(
    *points: tuple[float, float], lost: tuple[float, float] | None = FRONT_LOST, stamp_ns: int = NOW_NS
) -> Scan:
    """Return a scan of points (x, y); no camera looks into the sector `lost` [deg]."""
    ranges, centers = np.full(BINS, inf, np.float32), np.degrees(BIN_CENTERS_RAD)
    seen = np.ones(BINS, np.bool_) if lost is None else (centers < lost[0]) | (centers > lost[1])
    for x, y in points:
        index = int(np.floor((degrees(atan2(y, x)) + 180.0) / 2.0)) % BINS
        ranges[index] = min(ranges[index], hypot(x, y))
    return Scan(stamp_ns, np.where(seen, ranges, np.float32(inf)), seen)


def after(*ticks: tuple[Scan, Pose]) -> FreeGround:
    ground = FreeGround()
    for scan, pose in ticks:
        ground = advance(ground, scan, pose, pose)
    return ground


def turned_to_look(*posts: tuple[float, float]) -> FreeGround:
    """Return what is known after a whole turn in place among posts."""
    yaws = np.linspace(0.0, 2.0 * pi, 37)
    poses = [Pose(0.0, 0.0, float(yaw)) for yaw in yaws]
    return after(*((scan_of(*(apply(inverse(pose), post) for post in posts), stamp_ns=NOW_NS - 36 + tick), pose)
                   for tick, pose in enumerate(poses)))  # fmt: skip


def blind_ground(ground: FreeGround, pose: Pose = ORIGIN, now_ns: int = NOW_NS, free_ns: int = FREE_NS) -> np.ndarray:
    found = unknown(ground, scan_of(), pose, now_ns, free_ns, ROUND)
    assert found is not None
    return found


def stamped(ground: FreeGround, place: tuple[float, float]) -> bool:
    """Return whether the cell at a place of the odometry frame was seen free."""
    a, b = (int(np.floor(place[axis] / CELL_M)) - ground.corner[axis] for axis in (0, 1))
    return bool(ground.stamps_ns[a, b] != 0)


def on_bin(degrees: float, range_m: float) -> tuple[float, float]:
    """Return the point at the centre of the bin of a bearing."""
    bearing = BIN_CENTERS_RAD[int((degrees + 180.0) / 2.0) % BINS]
    return range_m * cos(bearing), range_m * sin(bearing)


def ahead_m(ground: FreeGround, pose: Pose) -> float:
    return free_path_m(ground, scan_of(), pose, NOW_NS, FREE_NS, ROUND, SWEPT)


def test_while_cameras_look_all_around_ahead_nothing_is_kept() -> None:
    whole = after((scan_of(lost=None), ORIGIN))
    assert whole.stamps_ns.shape == (0, 0)
    assert unknown(whole, scan_of(lost=None), ORIGIN, NOW_NS, FREE_NS, ROUND) is None
    assert ahead_m(whole, ORIGIN) == 0.0


def test_what_no_camera_has_seen_is_unknown_up_to_the_reach_but_not_under_the_robot() -> None:
    points = blind_ground(after((scan_of(), ORIGIN)))
    bearings, ranges = np.degrees(np.arctan2(points[:, 1], points[:, 0])), np.hypot(*points.T)
    assert np.abs(bearings).max() <= 34.0
    assert ranges.min() > ROUND.radius_m
    assert ranges.max() == pytest.approx(REACH_M, abs=CELL_M)
    assert ahead_m(after((scan_of(), ORIGIN)), ORIGIN) < 0.1


def test_after_a_turn_all_ground_is_known() -> None:
    ground = turned_to_look()
    assert len(blind_ground(ground)) == 0
    assert ahead_m(ground, ORIGIN) == inf


def test_ground_is_known_as_far_as_a_post_allows() -> None:
    ground = turned_to_look((0.9, 0.0))
    assert 0.9 - 0.3 - 3 * CELL_M < ahead_m(ground, ORIGIN) <= 0.9 - 0.3
    assert ahead_m(ground, HALF_TURN) == inf


@pytest.mark.parametrize(("age_ns", "known"), [(FREE_NS, True), (FREE_NS + 40, False), (-FREE_NS - 40, False)])
def test_it_counts_for_a_time(age_ns: int, known: bool) -> None:
    ground = turned_to_look()
    assert (len(blind_ground(ground, now_ns=NOW_NS - 36 + age_ns)) == 0) == known


def test_without_the_time_there_is_no_memory() -> None:
    assert unknown(turned_to_look(), scan_of(), ORIGIN, NOW_NS, 0, ROUND) is None


def test_it_stays_in_place_while_the_robot_drives_on() -> None:
    ground = turned_to_look((1.2, 0.0))
    moved = Pose(0.4, 0.0, 0.0)
    there = advance(ground, scan_of(), moved, moved)
    assert ahead_m(there, moved) == pytest.approx(ahead_m(ground, ORIGIN) - 0.4, abs=1e-9)


def test_ground_far_behind_is_forgotten() -> None:
    ground = turned_to_look()
    for pose in (Pose(50.0, 0.0, 0.0), ORIGIN):
        ground = advance(ground, scan_of(), pose, pose)
    assert len(blind_ground(ground)) > 0


def test_the_edge_of_a_view_proves_nothing() -> None:
    """Near the edge a camera sees the floor, but not the edge of a table (`obstacle_memory.FLANK_BINS`)."""
    edge_deg = 33.0 + 2.0 * FLANK_BINS
    yaw = np.radians(40.0)
    ground = after((scan_of(), Pose(0.0, 0.0, yaw)))  # the right edge of the left view is at 73 deg now
    points = np.array([(1.0, a) for a in np.radians(np.arange(-33.0, 33.0, 1.0))])
    xy = points[:, :1] * np.column_stack([np.cos(points[:, 1]), np.sin(points[:, 1])])
    left = blind_ground(ground)
    known = [np.hypot(*(left - one).T).min() > CELL_M for one in xy]
    bearings = np.degrees(points[:, 1]) - degrees(yaw)
    assert any(known)
    assert all(abs(bearing) > edge_deg for bearing, one in zip(bearings, known, strict=True) if one)


def test_nearer_than_a_camera_sees_ground_counts_as_before_a_camera_that_works() -> None:
    near = [replace(scan_of(stamp_ns=NOW_NS - 36 + n), from_m=np.full(BINS, 0.8, np.float32)) for n in range(37)]
    ground = after(*((scan, Pose(0.0, 0.0, 2.0 * pi * n / 36)) for n, scan in enumerate(near)))
    assert ahead_m(ground, ORIGIN) == inf


def test_an_old_scan_is_entered_once() -> None:
    first = after((scan_of(), ORIGIN))
    again = advance(first, scan_of(), HALF_TURN, HALF_TURN)
    assert np.array_equal(again.stamps_ns, first.stamps_ns)


def test_the_ground_under_a_polygon_is_known() -> None:
    body = polygon(((0.4, 0.2), (-0.4, 0.2), (-0.4, -0.2), (0.4, -0.2)))
    points = unknown(after((scan_of(), ORIGIN)), scan_of(), ORIGIN, NOW_NS, FREE_NS, body)
    assert points is not None
    assert not body.covers(points).any()
    assert (points[:, 0] < 0.5).any()


posts = st.lists(st.tuples(st.floats(0.3, 1.4), st.floats(-pi, pi)), min_size=1, max_size=6)


@given(posts=posts, x=st.floats(-20.0, 20.0), y=st.floats(-20.0, 20.0), yaw=st.floats(-pi, pi))
def test_law_no_post_that_a_scan_shows_stands_on_free_ground(
    posts: list[tuple[float, float]], x: float, y: float, yaw: float
) -> None:
    pose = Pose(x, y, yaw)
    scan = scan_of(*((r * cos(a), r * sin(a)) for r, a in posts))
    ground = after((scan, pose))
    for near in collision.obstacles(scan):
        assert not stamped(ground, apply(pose, (float(near[0]), float(near[1]))))


@given(x=st.floats(-50.0, 50.0), y=st.floats(-50.0, 50.0), yaw=st.floats(-pi, pi))
def test_law_it_does_not_depend_on_where_the_frame_begins(x: float, y: float, yaw: float) -> None:
    start = Pose(round(x / CELL_M) * CELL_M, round(y / CELL_M) * CELL_M, 0.0)
    turn = Pose(0.5 * CELL_M, 0.5 * CELL_M, yaw)
    here, there = after((scan_of((0.8, 0.3)), turn)), after((scan_of((0.8, 0.3)), compose(start, turn)))
    differ = (here.stamps_ns != 0) != (there.stamps_ns != 0)
    assert differ.sum() <= 0.01 * SIDE * SIDE  # cells at the edge of a bin


def test_the_policy_is_told_where_known_ground_ends_in_blind_bins_only() -> None:
    scan = scan_of((0.0, 1.0))
    ground = turned_to_look((0.9, 0.0), (0.0, 1.0))
    heard = with_unknown_ground(
        scan, Surroundings(scan, NOWHERE, unknown(ground, scan, ORIGIN, NOW_NS, FREE_NS, ROUND))
    )
    blind = ~scan.seen
    assert np.array_equal(heard.seen, scan.seen)
    assert np.array_equal(heard.ranges_m[scan.seen], scan.ranges_m[scan.seen])
    assert 0.5 < heard.ranges_m[BINS // 2] < 0.9
    assert heard.ranges_m[blind].max() == np.float32(REACH_M)
    assert with_unknown_ground(scan, Surroundings(scan, NOWHERE)) is scan


def test_what_the_limits_see_is_not_told_to_be_known() -> None:
    """A lidar for the limits, and cameras of the policy that are lost: what the limits see is no known ground."""
    ground, limits_see = turned_to_look(), scan_of((0.6, 0.0), lost=(60.0, 180.0))
    policy_sees = scan_of(lost=(-180.0, 180.0))
    heard = with_unknown_ground(
        policy_sees, Surroundings(limits_see, NOWHERE, unknown(ground, limits_see, ORIGIN, NOW_NS, FREE_NS, ROUND))
    )
    assert not np.isfinite(heard.ranges_m[limits_see.seen]).any()


def test_what_was_seen_free_and_then_occupied_is_unknown() -> None:
    ground = turned_to_look()
    somebody = on_bin(45.0, 0.8)
    occupied = advance(ground, scan_of(somebody, stamp_ns=NOW_NS + 1), ORIGIN, ORIGIN)
    turned = Pose(0.0, 0.0, math.radians(45.0))
    assert ahead_m(ground, turned) == inf
    assert 0.3 < ahead_m(occupied, turned) < 0.5


def test_images_that_are_younger_than_the_stamp_of_a_turning_robot_prove_less() -> None:
    """The post is seen at the bearing of a younger image: no cell of the post may count as free."""
    post, now = (0.9 * cos(1.2), 0.9 * sin(1.2)), Pose(0.0, 0.0, 0.2)
    then = ORIGIN
    seen = scan_of(apply(inverse(now), post))
    at_once, later = advance(FreeGround(), seen, then, then), advance(FreeGround(), seen, then, now)
    assert stamped(at_once, post)
    assert not stamped(later, post)


def test_it_is_part_of_the_state_of_a_recording() -> None:
    state = RobotState(ground=turned_to_look((0.9, 0.0)))
    again = decode(encode(state)).ground
    assert again.corner == state.ground.corner
    assert np.array_equal(again.stamps_ns, state.ground.stamps_ns)
