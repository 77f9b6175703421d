"""A laser's rays in 180 bins: our own scans map one to one, other lasers give the nearest range of each bin."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan, pi, radians

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.drivers.dds.ros_convert import rays_from_ros, ros_scan
from onboard.drivers.dds.ros_types import LaserScan, from_cdr, to_cdr
from onboard.perception.laser_scan import TOO_CLOSE_M, Rays, scan_of_rays
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
    ("angles and count disagree", {"angle_max_rad": 0.0}, "do not end at angle_max"),
    ("range_min negative", {"range_min_m": -1.0}, "range_min is -1"),
    ("range_min not a number", {"range_min_m": nan}, "range_min is nan"),
    ("limits upside down", {"range_max_m": 0.05}, "range_max 0.05"),
    ("range_max not a number", {"range_max_m": nan}, "range_max nan"),
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
