"""A laser's rays in 180 bins: our own scans map one to one, other lasers give the nearest range of each bin."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan, pi, radians

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onboard.drivers.dds.ros_convert import rays_from_ros, ros_scan
from onboard.drivers.dds.ros_types import LaserScan, from_cdr, to_cdr
from onboard.perception.laser_scan import TOO_CLOSE_M, TURN_NS, Rays, Turn, blind_reason, joined, scan_of_rays
from onboard.values.errors import InputError
from onboard.values.messages import BINS, Scan

STAMP_NS = 77
ON_EDGE = 1e-6


def rays(first_deg: float, step_deg: float, *ranges_m: float, near_m: float = 0.1, far_m: float = 10.0) -> Rays:
    last_deg = first_deg + step_deg * (len(ranges_m) - 1)
    angles = radians(first_deg), radians(last_deg), radians(step_deg)
    return Rays(*angles, near_m, far_m, np.array(ranges_m, np.float32))


def found(laser: Rays) -> dict[int, float]:
    """Return the ranges of the bins that are seen."""
    scan = scan_of_rays(laser, STAMP_NS)
    assert np.isinf(scan.ranges_m[~scan.seen]).all()
    return {int(i): float(scan.ranges_m[i]) for i in np.flatnonzero(scan.seen)}


#   what                                rays                                             bin -> range
LASERS = [
    ("one ahead", rays(1.0, 2.0, 3.0), {90: 3.0}),
    ("nearest of a bin", rays(0.5, 0.5, 3.0, 2.0, 4.0), {90: 2.0}),
    ("two bins", rays(1.0, 2.0, 3.0, 4.0), {90: 3.0, 91: 4.0}),
    ("no ray, not seen", rays(1.0, 10.0, 3.0, 4.0), {90: 3.0, 95: 4.0}),
    ("nothing there", rays(1.0, 2.0, inf), {90: inf}),
    ("something beside nothing", rays(0.5, 1.0, inf, 2.0), {90: 2.0}),
    ("invalid", rays(1.0, 2.0, nan, 4.0), {91: 4.0}),
    ("valid beside invalid", rays(0.5, 1.0, nan, inf), {90: inf}),
    ("a post of the robot", rays(1.0, 2.0, 3.0, 0.05, 0.06, 5.0), {90: 3.0, 91: 3.0, 92: 3.0, 93: 5.0}),
    ("a post before nothing", rays(1.0, 2.0, inf, 0.05, 5.0), {90: inf, 91: 5.0, 92: 5.0}),
    ("wider than a post", rays(1.0, 2.0, 3.0, 0.05, 0.06, 0.06, 5.0), {90: 3.0, 94: 5.0}),
    ("no post, though below range_min", rays(1.0, 2.0, 3.0, 0.05, 5.0, near_m=0.3), {90: 3.0, 92: 5.0}),
    ("a post beside what is invalid", rays(1.0, 2.0, nan, 0.05, 5.0), {92: 5.0}),
    ("too near and too far are invalid", rays(1.0, 2.0, 0.05, 10.5, 5.0), {92: 5.0}),
    ("nearer than can be measured", rays(1.0, 2.0, -inf), {90: np.float32(0.1)}),
    ("the same, measuring from 0 on", rays(1.0, 2.0, -inf, near_m=0.0), {90: np.float32(TOO_CLOSE_M)}),
    ("negative", rays(1.0, 2.0, -1.0, near_m=0.0), {}),
    ("0 is no return, not a thing in the robot's middle", rays(1.0, 2.0, 0.0, 3.0, near_m=0.0), {91: 3.0}),
    ("clockwise", rays(1.0, -2.0, 3.0, 4.0), {90: 3.0, 89: 4.0}),
    ("from 0 on round to the left", rays(181.0, 2.0, 3.0, 4.0), {0: 3.0, 1: 4.0}),
    ("across straight back", rays(179.0, 2.0, 3.0, 4.0), {179: 3.0, 0: 4.0}),
]


@pytest.mark.parametrize(("what", "laser", "bins"), LASERS, ids=[row[0] for row in LASERS])
def test_rays_fall_into_their_bins(what: str, laser: Rays, bins: dict[int, float]) -> None:
    assert found(laser) == bins


def test_a_turn_with_its_first_ray_twice_is_taken() -> None:
    assert len(found(rays(-180.0, 1.0, *[2.0] * 361))) == BINS


GOOD = rays(-90.0, 1.0, *[2.0] * 181)

#   what                   change of a good one                           what the line names
MALFORMED = [
    ("no ranges", {"ranges_m": np.empty(0, np.float32)}, "0 ranges"),
    ("too many", {"ranges_m": np.zeros(200_000, np.float32)}, "200000 ranges"),
    ("angle not a number", {"angle_min_rad": nan}, "angle_min is nan"),
    ("angle infinite", {"angle_max_rad": inf}, "angle_max is inf"),
    ("angle absurd", {"angle_min_rad": 1e9}, "angle_min"),
    ("no increment", {"increment_rad": 0.0}, "angle_increment is 0"),
    ("increment not a number", {"increment_rad": nan}, "angle_increment is nan"),
    ("more than a turn", {"increment_rad": 0.1}, "more than a turn"),
    ("angles and count disagree", {"angle_max_rad": 0.0}, "angle_max is 0, but 181 ranges"),
    ("range_min negative", {"range_min_m": -1.0}, "range_min is -1"),
    ("range_min not a number", {"range_min_m": nan}, "range_min is nan"),
    ("limits upside down", {"range_max_m": 0.05}, "range_max is 0.05"),
    ("range_max not a number", {"range_max_m": nan}, "range_max is nan"),
]


@pytest.mark.parametrize(("what", "change", "named"), MALFORMED, ids=[row[0] for row in MALFORMED])
def test_an_invalid_scan_is_refused_with_its_reason(what: str, change: dict[str, object], named: str) -> None:
    scan_of_rays(GOOD, STAMP_NS)
    with pytest.raises(InputError, match=named):
        scan_of_rays(replace(GOOD, **change), STAMP_NS)  # type: ignore[arg-type]


one_range = st.one_of(st.floats(0.0, 20.0, width=32, exclude_min=True), st.just(inf))


@given(st.lists(st.tuples(one_range, st.booleans()), min_size=BINS, max_size=BINS))
def test_our_own_scans_come_back_one_to_one(bins: list[tuple[float, bool]]) -> None:
    seen = np.array([looked for _, looked in bins])
    scan = Scan(5, np.where(seen, np.array([r for r, _ in bins], np.float32), np.float32(np.inf)), seen)
    wire = from_cdr(LaserScan, to_cdr(ros_scan(123, "base_link", scan, 10.0)))
    back = scan_of_rays(rays_from_ros(wire), STAMP_NS)
    assert np.array_equal(back.ranges_m, scan.ranges_m)
    assert np.array_equal(back.seen, scan.seen)
    assert back.stamp_ns == STAMP_NS


@given(
    st.floats(-pi, pi), st.integers(1, 720), st.floats(0.0005, 2 * pi / 720), st.integers(0, 2**32 - 1)
)  # fmt: skip
def test_no_bin_is_farther_than_any_of_its_rays_nor_seen_without_one(
    first_rad: float, count: int, step_rad: float, seed: int
) -> None:
    ranges = np.random.default_rng(seed).uniform(0.1, 10.0, count).astype(np.float32)
    laser = Rays(first_rad, first_rad + (count - 1) * step_rad, step_rad, 0.05, 12.0, ranges)
    bins = found(laser)
    azimuth = np.mod(first_rad + np.arange(count) * step_rad + pi, 2 * pi)
    expected: dict[int, float] = {}
    for angle, range_m in zip(azimuth, ranges, strict=True):
        index = int(np.floor(angle / (2 * pi / BINS))) % BINS
        expected[index] = min(expected.get(index, inf), float(range_m))
    widths = azimuth / (2 * pi / BINS)
    on_edge = int((np.abs(widths - np.round(widths)) < ON_EDGE).sum())  # such a ray may fall either way
    assert sum(bins.get(i) != expected.get(i) for i in range(BINS)) <= 2 * on_edge


def test_places_near_the_base_that_a_laser_ahead_cannot_see_are_not_seen() -> None:
    """The laser is 0.25 m ahead, sees 135 deg to each side, and not the place 120 deg to the left, 0.4 m away."""
    ahead = np.eye(4)
    ahead[0, 3] = 0.25
    laser = rays(-135.0, 0.5, *[inf] * 541)
    seen = scan_of_rays(laser, STAMP_NS, ahead).seen
    assert seen[90 - 45 : 90 + 45].all()
    assert not seen[90 + 60]
    assert not seen[90 - 61]
    post = [inf] * 541
    post[541 - 20] = 3.0  # at 125 deg of the laser
    found_post = scan_of_rays(rays(-135.0, 0.5, *post), STAMP_NS, ahead)
    (bin_of_post,) = np.flatnonzero(np.isfinite(found_post.ranges_m))
    assert found_post.seen[bin_of_post]


@pytest.mark.parametrize("turn_deg", [0.0, 90.0, 180.0])
def test_a_laser_that_looks_all_around_sees_all_around_wherever_it_sits(turn_deg: float) -> None:
    pose = np.eye(4)
    pose[:2, :2] = [
        [np.cos(radians(turn_deg)), -np.sin(radians(turn_deg))],
        [np.sin(radians(turn_deg)), np.cos(radians(turn_deg))],
    ]
    pose[:2, 3] = 0.2, -0.1
    assert scan_of_rays(rays(-180.0, 0.5, *[inf] * 720), STAMP_NS, pose).seen.all()


def hits(laser_m: float, walls: list[tuple[float, float, float, float]], bearing_rad: np.ndarray) -> np.ndarray:
    """Return the ranges of rays from (laser_m, 0) to walls (x0, y0, x1, y1)."""
    ranges, x, y = np.full(len(bearing_rad), inf), np.cos(bearing_rad), np.sin(bearing_rad)
    for x0, y0, x1, y1 in walls:
        dx, dy, to_x = x1 - x0, y1 - y0, x0 - laser_m
        with np.errstate(divide="ignore", invalid="ignore"):
            range_m = (to_x * dy - y0 * dx) / (x * dy - y * dx)
            part = (to_x * y - y0 * x) / (x * dy - y * dx)
        met = (range_m > 0.0) & (part >= 0.0) & (part <= 1.0)
        ranges[met] = np.minimum(ranges[met], range_m[met])
    return ranges


@pytest.mark.parametrize(("laser_m", "door_m"), [(-0.15, 0.2), (-0.15, 0.4), (0.15, -0.2), (0.15, -0.4)])
def test_behind_a_door_jamb_a_laser_beside_the_origin_has_no_blind_sector(laser_m: float, door_m: float) -> None:
    """In a door, the laser's shadow behind each jamb is known ground up to the line of sight past the jamb."""
    jambs = [(door_m, 0.45, door_m, 3.0), (door_m, -3.0, door_m, -0.45)]
    room = [*jambs, (4.0, -3.0, 4.0, 3.0), (-4.0, 3.0, 4.0, 3.0), (-4.0, -3.0, 4.0, -3.0), (-4.0, -3.0, -4.0, 3.0)]
    bearing = np.radians(np.arange(360.0) - 179.5)
    pose = np.eye(4)
    pose[0, 3] = laser_m
    ranges = hits(laser_m, room, bearing)
    scan = scan_of_rays(rays(-179.5, 1.0, *ranges), STAMP_NS, pose)
    assert scan.seen.all()
    met = np.arctan2(ranges * np.sin(bearing), ranges * np.cos(bearing) + laser_m)
    missed = np.setdiff1d(np.arange(BINS), np.floor((met + pi) / (2 * pi / BINS)).astype(int))
    assert len(missed) > 0
    for bin_ in missed.tolist():  # what is nearer than the range, the laser has seen
        azimuth = (bin_ + 0.5) * 2 * pi / BINS - pi
        place = scan.ranges_m[bin_] * np.array([np.cos(azimuth), np.sin(azimuth)]) - [laser_m, 0.0]
        reach = hits(laser_m, room, np.arctan2(place[1:], place[:1]) + np.radians([-1.0, 0.0, 1.0])).max()
        assert np.hypot(*place) <= reach + 0.05


FREE_TURN = np.full(897, 2.0, np.float32)

#   driver                                                 rays
HEADERS = [
    ("velodyne_laserscan, 1.6 rays past the last one",     Rays(-pi, pi, 0.007, 0.1, inf, FREE_TURN)),
    ("pointcloud_to_laserscan, a ray past it",             Rays(-pi, pi, 0.0087, 0.0, inf, np.full(723, 2.0))),
    ("one ray more, so that the first is repeated",        Rays(0.0, 2 * pi, radians(1), 0.15, 12, np.full(361, 2.0))),
    ("three rays more than a turn, as the motor was slow", Rays(-pi, pi, radians(1), 0.15, 12, np.full(363, 2.0))),
    ("rplidar, clockwise",                                 Rays(pi, -pi, -radians(1), 0.15, 12, np.full(361, 2.0))),
    ("angle_max within a turn of the last ray",            Rays(pi, 0.0, radians(1), 0.0, 12, np.full(181, 2.0))),
]  # fmt: skip


@pytest.mark.parametrize(("driver", "laser"), HEADERS, ids=[row[0] for row in HEADERS])
def test_the_headers_of_drivers_are_taken_by_first_angle_and_increment(driver: str, laser: Rays) -> None:
    assert set(found(laser).values()) == {2.0}
    assert len(found(laser)) >= 90


@pytest.mark.parametrize("count", [72, 90, 128, 170])
def test_bins_between_rays_that_are_wider_apart_have_the_smaller_range_of_both(count: int) -> None:
    ranges = np.where(np.arange(count) < count // 2, np.float32(2.0), np.float32(3.0))
    bins = found(Rays(0.0, 2 * pi * (count - 1) / count, 2 * pi / count, 0.1, 10.0, ranges))
    assert len(bins) == BINS
    assert bins[BINS // 2 - 1] == 2.0, "also between the last ray and the first"
    assert set(bins.values()) == {2.0, 3.0}


def test_a_bin_beside_an_invalid_ray_and_bins_between_rays_too_far_apart_stay_blind() -> None:
    assert set(found(rays(0.5, 4.0, 2.0, nan, 2.0, inf, inf))) == {90, 94, 95, 96, 97, 98}
    assert set(found(rays(0.5, 7.0, 2.0, 2.0))) == {90, 93}


@given(st.lists(st.one_of(one_range, st.just(nan)), min_size=61, max_size=179), st.floats(-pi, pi))
def test_law_a_bin_without_a_ray_has_the_smaller_range_of_the_rays_about_it(
    ranges: list[float], first_rad: float
) -> None:
    count = len(ranges)
    laser = Rays(first_rad, 0.0, 2 * pi / count, 0.0, 20.0, np.array(ranges, np.float32))
    laser = replace(laser, angle_max_rad=first_rad + (count - 1) * laser.increment_rad)
    places = np.mod(first_rad + np.arange(count) * laser.increment_rad + pi, 2 * pi) / (2 * pi / BINS)
    assume((np.abs(places - np.round(places)) > ON_EDGE).all())
    bins = found(laser)
    for index in set(range(BINS)) - set(np.floor(places).astype(int).tolist()):
        after = int(np.argmin(np.mod(places - index, BINS)))
        about = [ranges[after - 1], ranges[after]]
        assert bins.get(index) == (None if np.isnan(about).any() else min(about))


#   sent for no return   key          blind bins, and why
SILENT = [
    (0.0,                "zero",      "90 of 180 bins are blind: 180 of 360 rays are 0.0; if that"),
    (nan,                "nan",       "180 of 360 rays are NaN"),
    (13.0,               "beyond",    "180 of 360 rays are beyond range_max"),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "key", "why"), SILENT, ids=[row[1] for row in SILENT])
def test_values_that_mean_no_return_are_named_and_free_by_the_key(sent: float, key: str, why: str) -> None:
    laser = rays(-179.5, 1.0, *[sent] * 180, *[2.0] * 180, far_m=12.0)
    reason = blind_reason(scan_of_rays(laser, 1), laser)
    assert why in reason
    assert f'scan.no_return = ["{key}"]' in reason
    free = scan_of_rays(laser, 1, None, [key])  # type: ignore[list-item]
    assert free.seen.all()
    assert np.isinf(free.ranges_m[:89]).all()
    assert blind_reason(free, laser, [key]) == ""  # type: ignore[list-item]
    others = {"zero", "nan", "beyond"} - {key}
    assert int(scan_of_rays(laser, 1, None, others).seen.sum()) == 90  # type: ignore[arg-type]


#   what                     rays                                    why
BLIND = [
    ("rays too far apart",   rays(-180.0, 10.0, *[2.0] * 36),        "rays are 10.0 deg apart"),
    ("a view of 270 deg",    rays(-135.0, 1.0, *[2.0] * 271),        "a message covers 271 deg"),
    ("below range_min",      rays(-180.0, 1.0, *[0.01] * 360),       "360 of 360 rays are below range_min"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "laser", "why"), BLIND, ids=[row[0] for row in BLIND])
def test_the_reason_for_blind_bins(what: str, laser: Rays, why: str) -> None:
    assert why in blind_reason(scan_of_rays(laser, 1), laser)


MS = 1_000_000


def turned(*parts: tuple[int, float, int, float]) -> Turn:
    """Return the turn after parts: time [ms], first angle [deg], rays of 1 deg, range [m]."""
    turn = None
    for at_ms, first_deg, count, range_m in parts:
        laser = rays(first_deg + 0.5, 1.0, *[range_m] * count)
        turn = joined(turn, laser, scan_of_rays(laser, at_ms * MS))
    assert turn is not None
    return turn


SIX = [(100 + 17 * n, -180.0 + 60.0 * n, 60, 2.0 + n) for n in range(6)]

#   what                             parts                                            seen   stamp [ms]
PARTS = [
    ("six of 60 deg",                SIX,                                             180,   100),
    ("a part goes on being newest",  [*SIX, (202, -180.0, 60, 9.0)],                  180,   117),
    ("three of them",                SIX[:3],                                          90,   100),
    ("two of 180 deg",               [(0, -180.0, 180, 2.0), (50, 0.0, 180, 3.0)],    180,   0),
    ("a turn that takes too long",   [(90 * n, *one[1:]) for n, one in enumerate(SIX)], 90,  270),
    ("whole turns, the start moves", [(0, -180.0, 360, 2.0), (100, -177.0, 360, 3.0)], 180,  100),
    ("always the same 90 deg",       [(0, -46.0, 90, 2.0), (100, -46.0, 90, 3.0)],     45,   100),
]  # fmt: skip


@pytest.mark.parametrize(("what", "parts", "seen", "stamp_ms"), PARTS, ids=[row[0] for row in PARTS])
def test_parts_of_a_turn_are_joined(what: str, parts: list, seen: int, stamp_ms: int) -> None:
    scan = turned(*parts).scan
    assert (int(scan.seen.sum()), scan.stamp_ns) == (seen, stamp_ms * MS)
    assert TURN_NS == 200 * MS
    newest = parts[-1]
    assert scan.ranges_m[int((newest[1] + 180.0) / 2.0) + 5] == newest[3]
