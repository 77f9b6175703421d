"""Scan matching against true motions in rooms with furniture, and where it must not know."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from hil.maps.world_grid import World
from hil.sensors.depth_noise import noisy_scan
from hil.sensors.direct_scan import cast_scan
from onboard.perception.kernels import fuse_plain, planar
from onboard.perception.scan_matching import Match, match
from onboard.values.geometry import IDENTITY, compose, wrap
from onboard.values.messages import BINS, Pose
from tests.rigs.rooms import body_row, room, with_box

FURNISHED = with_box(with_box(room(7.0, 5.0), (3.0, 3.6), (3.2, 5.0), (0.0, 1.0)), (5.6, 6.4), (0.6, 1.0), (0.0, 0.8))
CORRIDOR = room(30.0, 1.6)
WHEELS = np.diag(np.square([0.03, 0.02, 0.06]))
"""Covariance of the wheels' guess."""


def matched(
    world: World,
    start: Pose,
    motion: Pose,
    error: Pose = IDENTITY,
    noise: int | None = None,
    covariance: np.ndarray = WHEELS,
) -> tuple[Match | None, Pose]:
    """Return the match of two scans, the second from `start` moved, and its error. error: of the guess."""
    scans = [cast_scan(world, start), cast_scan(world, compose(start, motion))]
    if noise is not None:
        scans = [noisy_scan(scan, noise, tick) for tick, scan in enumerate(scans)]
    guess = Pose(motion.x_m + error.x_m, motion.y_m + error.y_m, motion.yaw_rad + error.yaw_rad)
    found = match(scans[0], scans[1], guess, covariance)
    likely = guess if found is None else found.likely
    return found, Pose(likely.x_m - motion.x_m, likely.y_m - motion.y_m, wrap(likely.yaw_rad - motion.yaw_rad))


places = st.builds(Pose, st.floats(0.6, 2.4), st.floats(0.8, 4.2), st.floats(-3.1, 3.1))
motions = st.builds(Pose, st.floats(-0.1, 0.35), st.just(0.0), st.floats(-0.4, 0.4))
guesses = st.builds(Pose, st.floats(-0.05, 0.05), st.floats(-0.03, 0.03), st.floats(-0.15, 0.15))


@given(start=places, motion=motions, error=guesses)
@settings(max_examples=100, deadline=None)
def test_a_motion_is_found_from_a_bad_guess(start: Pose, motion: Pose, error: Pose) -> None:
    found, off = matched(FURNISHED, start, motion, error)
    assert found is not None
    assert math.hypot(off.x_m, off.y_m) < 0.03
    assert abs(off.yaw_rad) < 0.015


def test_the_covariance_tells_the_error() -> None:
    rng = np.random.default_rng(3)
    squared: list[float] = []
    noisy: list[float] = []
    for index in range(120):
        start = Pose(rng.uniform(0.6, 6.4), rng.uniform(1.3, 3.0), rng.uniform(-3.0, 3.0))
        motion = Pose(rng.uniform(0.1, 0.3), 0.0, rng.uniform(-0.3, 0.3))
        error = Pose(*(rng.standard_normal(3) * np.sqrt(np.diag(WHEELS))))
        for kept, noise in ((squared, None), (noisy, index)):
            found, _ = matched(FURNISHED, start, motion, error, noise)
            assert found is not None
            off = [found.measured.x_m - motion.x_m, found.measured.y_m, wrap(found.measured.yaw_rad - motion.yaw_rad)]
            kept.append(np.array(off) @ np.linalg.solve(found.covariance, off))
    assert np.mean(squared) < 3.0, "mean of a chi square with 3 degrees of freedom"
    assert np.mean(noisy) < 6.0, "noise of neighbouring bins is not independent"
    assert np.percentile(noisy, 99) < 30.66, "the filter's gate"


@pytest.mark.parametrize("turn", [-0.3, -0.2, 0.2, 0.3])
def test_slipping_wheels_turn_the_guess(turn: float) -> None:
    _, off = matched(FURNISHED, Pose(1.5, 2.0, 0.4), Pose(0.25, 0.0, 0.1), Pose(0.0, 0.0, turn))
    assert abs(off.yaw_rad) < 0.03


def test_along_a_bare_corridor_only_the_wheels_count() -> None:
    found, off = matched(CORRIDOR, Pose(15.0, 0.7, 0.0), Pose(0.3, 0.0, 0.0), Pose(0.05, 0.02, 0.05))
    assert found is not None
    assert off.x_m == pytest.approx(0.05, abs=0.01), "the guess"
    assert abs(off.y_m) < 0.01
    assert abs(off.yaw_rad) < 0.01
    assert math.sqrt(found.covariance[0, 0]) > 0.3
    assert math.sqrt(found.covariance[1, 1]) < 0.02
    assert math.sqrt(found.covariance[2, 2]) < 0.02


def test_noise_tells_nothing_along_a_corridor() -> None:
    """Noise gives each line a little of every direction, and the guess comes back as if it were measured."""
    off_m, deviations_m = [], []
    for index in range(30):
        found, _ = matched(CORRIDOR, Pose(15.0, 0.7, 0.0), Pose(0.3, 0.0, 0.0), Pose(0.05, 0.0, 0.0), noise=index)
        assert found is not None
        off_m.append(found.measured.x_m - 0.3)
        deviations_m.append(math.sqrt(found.covariance[0, 0]))
    assert np.mean(off_m) > 0.04, "it is the guess"
    assert min(deviations_m) > 0.3


def test_walking_people_do_not_move_the_robot() -> None:
    start, motion = Pose(2.0, 1.2, 0.2), Pose(0.25, 0.0, 0.0)
    persons = (np.vstack([body_row((3.0 + away, 2.0), 0.25, 1.7, 0)]) for away in (0.0, 0.3))
    first, second = (
        cast_scan(FURNISHED, at, bodies=body) for at, body in zip((start, compose(start, motion)), persons, strict=True)
    )
    found = match(first, second, Pose(0.28, 0.0, 0.05), WHEELS)
    assert found is not None
    assert (found.likely.x_m, found.likely.y_m) == pytest.approx((0.25, 0.0), abs=0.02)
    assert found.likely.yaw_rad == pytest.approx(0.0, abs=0.01)


BLIND = np.full(BINS, np.inf, np.float32)
FULL = cast_scan(FURNISHED, Pose(1.5, 2.0, 0.4))
SPECKLES = np.where(np.arange(BINS) % 3 == 0, FULL, np.inf).astype(np.float32)


@pytest.mark.parametrize(
    ("first", "second"),
    [(BLIND, FULL), (FULL, BLIND), (np.full_like(FULL, np.nan), FULL), (FULL, SPECKLES), (np.zeros_like(FULL), FULL)],
    ids=["blind before", "blind now", "not a number", "speckles", "zeros"],
)
def test_too_little_in_common_is_no_match(first: np.ndarray, second: np.ndarray) -> None:
    assert match(first, second, IDENTITY, WHEELS) is None


@given(ranges=st.lists(st.floats(0.0, 12.0, width=32) | st.just(math.inf), min_size=BINS, max_size=BINS))
@settings(max_examples=50, deadline=None)
def test_any_scan_gives_finite_numbers_or_none(ranges: list[float]) -> None:
    found = match(FULL, np.array(ranges, np.float32), Pose(0.1, 0.0, 0.1), WHEELS)
    if found is not None:
        assert np.isfinite([found.likely.x_m, found.measured.x_m, found.measured.yaw_rad]).all()
        assert np.linalg.eigvalsh(found.covariance).min() > 0.0


STILL = Path(__file__).parents[2] / "data/realsense-office/still"


def real_scan(file: Path) -> np.ndarray:
    """Return the scan of a real depth image alone: 40 bins, as the camera looked."""
    down = math.radians(20.0)
    c, s = math.cos(down), math.sin(down)
    pose = np.array([[0.0, -s, c, 0.2], [-1.0, 0.0, 0.0, 0.0], [0.0, -c, -s, 0.6], [0.0, 0.0, 0.0, 1.0]])
    ranges_m, depth = np.full(BINS, np.inf, np.float32), np.asarray(Image.open(file)).astype(np.uint16)
    limits = (0.1, 8.0, 0.1, 1.2, np.empty((0, 6)))
    fuse_plain(ranges_m, depth, 192.0, 192.0, 160.0, 120.0, 1e-3, pose, planar(IDENTITY), *limits)
    return ranges_m


def test_real_depth_images_of_a_still_camera_match_at_rest() -> None:
    """From a guess 4 cm and 4.6 deg off; one camera tells the motion to the sides worst."""
    scans = [real_scan(STILL / f"{number}.png") for number in range(10)]
    found = [match(one, other, Pose(0.04, 0.0, 0.08), WHEELS) for one, other in itertools.combinations(scans, 2)]
    matched = [one for one in found if one is not None]
    assert len(matched) >= 15
    for one in matched:
        off = np.array([one.measured.x_m, one.measured.y_m, one.measured.yaw_rad])
        assert off @ np.linalg.solve(one.covariance, off) < 30.66, "the filter's gate"
        assert abs(one.likely.x_m) < 0.03
        assert abs(one.likely.yaw_rad) < 0.03
