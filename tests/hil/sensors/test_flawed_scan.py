"""What real cameras do to the cast scan: images of other times, a floor under a tilt, surfaces that read too near."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hil.physics.contact import NO_BODIES, Bodies
from hil.sensors.direct_scan import direct_scan
from hil.sensors.flawed_scan import FIRST_TICK, NONE, CameraTimes, FlawedScan, Flaws, camera_times, tilt_rad
from onboard.config.config import ScanSection
from onboard.values.messages import Pose
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS

SECTION = ScanSection()
DIRECT = direct_scan(room(6.0, 5.0), MOUNTS, SECTION, "fused")
STANDS = Pose(2.0, 2.5, 0.0)


def flawed(flaws: Flaws, seed: int = 1) -> FlawedScan:
    return FlawedScan(DIRECT, MOUNTS, SECTION, flaws, False, seed, 1)


def turning(tick: int) -> tuple[Pose, Bodies]:
    """Return the pose of a robot that turns at 2 rad/s."""
    return Pose(2.0, 2.5, 2.0 * tick / 30.0), NO_BODIES


def standing(tick: int) -> tuple[Pose, Bodies]:
    return STANDS, NO_BODIES


def test_no_flaw_is_the_direct_scan() -> None:
    np.testing.assert_array_equal(flawed(NONE).ranges(40, turning), DIRECT.ranges(turning(40)[0]))


def test_a_lidar_next_to_cameras_keeps_its_bins() -> None:
    section = ScanSection(topic="/laser", cameras=["front"])
    direct = direct_scan(room(6.0, 5.0), MOUNTS, section, "lidar")
    scan = FlawedScan(direct, MOUNTS, section, NONE, False, 1, 1)
    np.testing.assert_array_equal(scan.ranges(40, standing), direct.ranges(STANDS))


#   period first age  tick  newest
TIMES = [(1, 1, 0, 9, 9), (4, 2, 0, 9, 6), (4, 2, 2, 9, 6), (4, 2, 4, 9, 2), (4, 2, 4, 2, FIRST_TICK)]


@pytest.mark.parametrize(("period", "first", "age", "tick", "newest"), TIMES)
def test_the_newest_image_is_one_that_was_taken_and_has_arrived(
    period: int, first: int, age: int, tick: int, newest: int
) -> None:
    times = CameraTimes(period, first, age)
    assert times.newest(tick) == newest
    assert times.takes(newest)


def test_each_camera_has_its_own_rate_within_the_limits() -> None:
    times = [
        one for seed in range(50) for one in camera_times(Flaws((5.0, 30.0)), list(MOUNTS.depth), seed, 2).values()
    ]
    assert {min(one.period for one in times), max(one.period for one in times)} == {1, 6}
    assert all(FIRST_TICK <= one.first < FIRST_TICK + one.period for one in times)


def test_an_old_image_is_moved_to_now_and_leaves_an_edge_that_nobody_saw() -> None:
    ranges_m, true_m = flawed(Flaws((5.0, 8.0), (0.09, 0.09))).ranges(60, turning), DIRECT.ranges(turning(60)[0])
    both = np.isfinite(ranges_m) & np.isfinite(true_m)
    assert 90 < both.sum() < np.isfinite(true_m).sum()
    assert np.abs(ranges_m[both] - true_m[both]).max() < 0.25


def test_a_tilted_floor_is_an_obstacle_where_it_reaches_the_lowest_height() -> None:
    flaws = Flaws(tilt_deg=3.0)
    ticks = range(1, 300)
    tick = max(ticks, key=lambda one: tilt_rad(flaws, 1, one)[0] - abs(tilt_rad(flaws, 1, one)[1]))
    pitch, _ = tilt_rad(flaws, 1, tick)
    ahead_m = float(flawed(flaws).ranges(tick, standing)[90])
    assert DIRECT.ranges(STANDS)[90] == pytest.approx(4.0, abs=0.1)
    assert ahead_m == pytest.approx(SECTION.z_min_m / math.tan(pitch), rel=0.05)
    assert max(abs(part) for one in ticks for part in tilt_rad(flaws, 1, one)) <= math.radians(3.0)


def test_a_wall_reads_nearer_by_its_distance_squared() -> None:
    ranges_m = flawed(Flaws(nearer_per_m=0.018)).ranges(1, standing)
    assert DIRECT.ranges(STANDS)[90] - ranges_m[90] == pytest.approx(0.27, abs=0.02)
