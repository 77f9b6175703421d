"""The minimum range of cameras in each bin: too near for a camera, or between two views."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from hil.replay.player import Player
from onboard.assembly.robot import build_rigs
from onboard.config.config import CamerasSection, ScanSection
from onboard.config.mounts import Mount
from onboard.perception.collision import UNIT
from onboard.perception.kernels import NEAR_M
from onboard.perception.min_range import (
    HEIGHT_STEP_M,
    HEIGHT_STEPS,
    MARGIN_M,
    joined,
    seen_heights,
    sees_from,
    with_min_distance,
)
from onboard.perception.obstacle_memory import heights_at, within
from onboard.perception.scan_fusion import ScanMemory, build_rig
from onboard.recording.tick_message import has_images
from onboard.values.geometry import IDENTITY
from onboard.values.messages import BINS, Inputs
from tests.rigs.fusion.scan_rigs import MS, frame, mount, rig_of, wall
from tests.rigs.recordings.replay_references import REFERENCES
from tests.rigs.runtime_bench import MOUNTS, PLANT, Puppet

SECTION = ScanSection()
AHEAD = BINS // 2
HEIGHTS_M = np.linspace(SECTION.z_min_m, SECTION.z_max_m, 60)


def depths_m(one: Mount, index: int, range_m: float) -> np.ndarray:
    """Return the depths of a thin post at a bin's centre in a camera's image."""
    x, y = UNIT[index] * range_m
    points = np.stack([np.full(HEIGHTS_M.size, x), np.full(HEIGHTS_M.size, y), HEIGHTS_M])
    optical = one.base_from_camera[:3, :3].T @ (points - one.base_from_camera[:3, 3:])
    with np.errstate(divide="ignore", invalid="ignore"):
        u, v = one.fx * optical[0] / optical[2] + one.cx, one.fy * optical[1] / optical[2] + one.cy
    inside = (optical[2] > 0.0) & (u >= 0.0) & (u <= one.width - 1) & (v >= 0.0) & (v <= one.height - 1)
    return optical[2][inside]


#   least_m,  from the range
LEAST = [(0.0, 0.15), (0.17, 0.22), (0.28, 0.33), (0.52, 0.57)]


@pytest.mark.parametrize(("least_m", "from_m"), LEAST)
def test_straight_ahead_of_a_level_camera_it_is_its_least_distance(least_m: float, from_m: float) -> None:
    found = sees_from(replace(mount(), least_m=least_m), ScanSection())
    assert found[AHEAD] == pytest.approx(from_m, abs=0.03)
    assert np.isinf(found[:40]).all(), "nobody looks there"


@pytest.mark.parametrize("least_m", [0.0, 0.17, 0.28])
@pytest.mark.parametrize("name", list(MOUNTS.depth))
def test_law_beyond_the_minimum_range_an_obstacle_is_in_the_image(name: str, least_m: float) -> None:
    one = replace(MOUNTS.depth[name], least_m=least_m)
    found, checked = sees_from(one, SECTION), 0
    for index in np.flatnonzero(np.isfinite(found)):
        for range_m in np.arange(found[index], 1.5, 0.05):
            depths = depths_m(one, index, range_m)
            assert depths.size > 0, f"bin {index} at {range_m:.2f} m is not in the image"
            assert depths.min() >= max(least_m, NEAR_M) + MARGIN_M - 0.025, f"bin {index} at {range_m:.2f} m"
            checked += 1
    assert checked > 300


def test_no_camera_sees_a_post_between_two_views() -> None:
    rig = build_rig(MOUNTS, SECTION)
    found = rig.sees_from(np.ones(BINS, np.bool_))
    between = AHEAD + 17  # 35 degrees
    assert all(view.looks[between - 1 : between + 1].any() for view in (rig.views["front"], rig.views["front_left"]))
    assert found[between] > 1.0
    assert not any(depths_m(one, between, 0.6).size for one in MOUNTS.depth.values())
    assert (found[AHEAD - 5 : AHEAD + 5] < 0.4).all()


def test_a_camera_that_is_down_sees_nothing() -> None:
    one, other = mount("front"), mount("left", yaw_deg=90.0)
    rig = rig_of(one, other)
    inputs = Inputs(MS, depth={"left": frame("left", wall(other, 3000))})
    scan, _ = rig.scan(inputs, IDENTITY, ScanMemory())
    assert scan.from_m is not None
    assert np.isinf(scan.from_m[AHEAD])
    assert scan.from_m[AHEAD + 45] < 0.3
    nothing, _ = rig.scan(Inputs(MS), IDENTITY, ScanMemory())
    assert nothing.from_m is not None
    assert np.isinf(nothing.from_m).all()


def test_a_realsense_that_states_no_least_distance_has_that_of_the_widest() -> None:
    mounts = replace(MOUNTS, depth={"a": replace(mount("a", f=425.0)), "b": replace(mount("b"), least_m=0.17)})
    section = CamerasSection(source="realsense")
    found = with_min_distance(mounts, section).depth
    assert found["a"].least_m == pytest.approx(0.32, abs=0.005)
    assert found["b"].least_m == 0.17
    stated = with_min_distance(replace(mounts, depth={"a": replace(mounts.depth["a"], least_m=0.0)}), section)
    assert stated.depth["a"] == found["a"]
    assert with_min_distance(mounts, CamerasSection(source="dds")).depth["a"].least_m is None


def test_a_replayed_scan_without_images_has_minimum_ranges() -> None:
    with open_recording(REFERENCES / "office.mcap") as recording:
        rig, _ = build_rigs(recording.config, recording.mounts)
        player = Player(recording.config, recording.mounts, PLANT, Puppet())
        ticks = [tick for tick, _ in zip(ticks_of(recording), range(30), strict=False)]
        assert not all(has_images(tick) for tick in ticks)
        scans = [player.play(tick).limits_scan for tick in ticks]
    assert all(scan.from_m is not None and (scan.from_m == rig.sees_from(scan.seen)).all() for scan in scans)


# ---- Heights that cameras see at a place


@pytest.mark.parametrize("name", list(MOUNTS.depth))
def test_the_seen_heights_are_those_that_are_in_the_image(name: str) -> None:
    """Compared with the pixels of an upright line; where it is at the edge of the image, either may hold."""
    one, checked = MOUNTS.depth[name], 0
    table = seen_heights(one, SECTION)
    for index in range(0, BINS, 3):
        for step in (6, 10, 16, 24, 30):
            x, y = UNIT[index] * step * HEIGHT_STEP_M
            points = np.stack([np.full(HEIGHTS_M.size, x), np.full(HEIGHTS_M.size, y), HEIGHTS_M])
            optical = one.base_from_camera[:3, :3].T @ (points - one.base_from_camera[:3, 3:])
            with np.errstate(divide="ignore", invalid="ignore"):
                u, v = one.fx * optical[0] / optical[2] + one.cx, one.fy * optical[1] / optical[2] + one.cy
            inside = (optical[2] >= NEAR_M) & (u >= 0.0) & (u <= one.width - 1) & (v >= 0.0)
            seen = HEIGHTS_M[inside & (v <= one.height - 1)]
            low, high = table[index, step]
            if len(seen):
                checked += 1
                assert (low, high) == pytest.approx((seen[0], seen[-1]), abs=HEIGHTS_M[1] - HEIGHTS_M[0])
            else:
                assert high - low < HEIGHTS_M[1] - HEIGHTS_M[0]
    assert checked > 20


def test_heights_between_the_entries_are_interpolated_and_without_a_table_all_are_seen() -> None:
    table = joined([seen_heights(one, SECTION) for one in MOUNTS.depth.values()])
    assert table is not None
    ways = np.array([[away_m, 0.01] for away_m in np.arange(0.5, 1.5, 0.01)])
    highs = heights_at(table, ways)[:, 1]
    assert (np.diff(highs) > 0.0).all(), "a camera that looks up sees the higher the farther"
    assert within(heights_at(table, ways[:1])[:, :2], heights_at(table, ways[50:51])[:, :2]).all()
    assert not within(heights_at(table, ways[50:51])[:, :2], heights_at(table, ways[:1])[:, :2]).any()
    assert np.isinf(heights_at(None, ways)).all()
    assert joined([]) is None


def test_heights_that_two_cameras_see_with_a_gap_between_them_do_not_count_as_one() -> None:
    low, high = (np.tile(np.array(pair, np.float32), (BINS, HEIGHT_STEPS, 1)) for pair in ((0.05, 0.2), (0.6, 1.2)))
    table = joined([low, high])
    assert table is not None
    assert table[0, 0] == pytest.approx([0.6, 1.2, 0.6, 1.2])
    middle = np.tile(np.array((0.1, 0.7), np.float32), (BINS, HEIGHT_STEPS, 1))
    together = joined([low, middle, high])
    assert together is not None
    assert together[0, 0, :2] == pytest.approx([0.05, 1.2])
