"""The fused scan: seen and blind bins, bad frames, and the memory between ticks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.config.config import DEFAULT_ROBOT, ScanSection
from onboard.config.mounts import load_mounts
from onboard.perception import scan_fusion
from onboard.perception import scan_fusion as scan_module
from onboard.perception.scan_fusion import ScanMemory, build_rig, fuse, looked_at, reach_m
from onboard.values.errors import InputError
from onboard.values.geometry import IDENTITY
from onboard.values.messages import BINS, DepthFrame, Pose
from tests.rigs.fusion.scan_rigs import bins_deg, frame, mount, rig_of, wall

# What a camera looks at


def test_a_camera_looks_into_its_field_of_view() -> None:
    assert bins_deg(looked_at(mount(f=40.0 / math.tan(math.radians(44.5))), ScanSection())) == list(range(-46, 46, 2))


@pytest.mark.parametrize(("height_m", "looks"), [(1.25, False), (1.2, True), (0.05, True), (0.04, False)])
def test_a_flat_view_looks_only_inside_the_band(height_m: float, looks: bool) -> None:
    line = mount(at=(0, 0, height_m), size=(81, 1))
    assert looked_at(line, ScanSection()).any() == looks


def test_a_camera_high_up_looks_where_its_rays_come_down_into_the_band() -> None:
    high = mount(at=(0, 0, 2.0))
    assert looked_at(high, ScanSection(far_m=10.0)).any()
    assert not looked_at(high, ScanSection(far_m=1.0)).any()  # not yet down to 1.2 m: 0.8 m below needs 1.07 m of depth


def test_a_camera_that_looks_up_or_away_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    up = mount(at=(0, 0, 0.5), f=200.0)
    up.base_from_camera[:3, :3] = np.array([[0.0, -1, 0], [-1, 0, 0], [0, 0, 1]])
    assert looked_at(up, ScanSection()).any()  # above 0.6 m, still in the band
    monkeypatch.setattr(scan_fusion, "NEAR_M", 0.8)
    assert not looked_at(up, ScanSection()).any()


def test_bins_that_a_ray_only_crosses_do_not_count() -> None:
    """A camera at the left front corner looks right: near it are bearings that it does not see farther out."""
    toed_in = mount(at=(0.3, 0.3, 0.3), yaw_deg=-60, f=150.0)
    looks = looked_at(toed_in, ScanSection())
    assert looks[60]  # -60 deg
    assert not looks[90:].any()


def test_default_robot_blind_bins() -> None:
    """Three portrait cameras of 73.7 deg and a landscape one leave about 28 deg blind on each side towards the rear."""
    rig = build_rig(load_mounts(DEFAULT_ROBOT / "mounts.toml"), ScanSection())
    seen = np.logical_or.reduce([view.looks for view in rig.views.values()])
    assert np.array_equal(seen, seen[::-1])
    left = list(range(106, 136, 2))
    assert bins_deg(~seen) == [-2 - edge for edge in reversed(left)] + left
    assert 360 - 2 * int((~seen).sum()) <= 311


# One tick


def test_nothing_seen_is_not_blind() -> None:
    front = mount()
    scan, _ = fuse(
        {"front": frame("front", wall(front, 0))}, 0, IDENTITY, ScanMemory(), rig_of(front, mount("rear", 180))
    )
    assert np.isinf(scan.ranges_m).all()
    assert scan.seen[90]
    assert not scan.seen[0]
    assert (scan.ranges_m.dtype, scan.seen.dtype, scan.ranges_m.shape) == (np.float32, np.bool_, (BINS,))


def test_a_missing_camera_leaves_a_blind_sector() -> None:
    front, rear = mount(), mount("rear", 180)
    rig = rig_of(front, rear)
    both = {"front": frame("front", wall(front, 2000)), "rear": frame("rear", wall(rear, 1000))}
    scan, memory = fuse(both, 0, IDENTITY, ScanMemory(), rig)
    assert (scan.ranges_m[90], scan.ranges_m[0], scan.seen[0]) == (2.0, 1.0, True)
    scan, memory = fuse({"front": both["front"]}, 1, IDENTITY, memory, rig)
    assert (scan.ranges_m[90], scan.ranges_m[0], scan.seen[0]) == (2.0, np.inf, False)
    scan, _ = fuse(both, 2, IDENTITY, memory, rig)
    assert (scan.ranges_m[0], scan.seen[0]) == (1.0, True)


def test_two_cameras_on_one_bin_give_the_nearer() -> None:
    low, high = mount("low"), mount("high", at=(0, 0, 0.9))
    frames = {"low": frame("low", wall(low, 3000)), "high": frame("high", wall(high, 2000))}
    rig = rig_of(low, high)
    assert fuse(frames, 0, IDENTITY, ScanMemory(), rig)[0].ranges_m[90] == 2.0
    frames["low"] = frame("low", wall(low, 1500), number=2)
    assert fuse(frames, 0, IDENTITY, ScanMemory(), rig)[0].ranges_m[90] == 1.5


def test_a_range_implies_seen() -> None:
    """An obstacle close to an off-centre camera may lie at a bearing where the camera does not look farther out."""
    toed_in = mount(at=(0.3, 0.3, 0.3), yaw_deg=-60, f=150.0)
    rig = rig_of(toed_in)
    scan, _ = fuse({"front": frame("front", wall(toed_in, 150))}, 0, IDENTITY, ScanMemory(), rig)
    hit = np.isfinite(scan.ranges_m)
    assert (hit & ~rig.views["front"].looks).any()
    assert scan.seen[hit].all()


def test_the_stamp_is_that_of_the_oldest_frame_and_ages_without_frames() -> None:
    front, rear = mount(), mount("rear", 180)
    rig = rig_of(front, rear)
    frames = {
        "front": frame("front", wall(front, 2000), stamp_ns=70),
        "rear": frame("rear", wall(rear, 1000), stamp_ns=50),
    }
    scan, memory = fuse({}, 10, IDENTITY, ScanMemory(), rig)
    assert (scan.stamp_ns, scan.seen.any()) == (0, False)
    scan, memory = fuse(frames, 80, IDENTITY, memory, rig)
    assert scan.stamp_ns == 50
    scan, memory = fuse({}, 1000, IDENTITY, memory, rig)
    assert (scan.stamp_ns, scan.seen.any(), np.isfinite(scan.ranges_m).any()) == (50, False, False)


WRONG_FRAMES = [
    ("front", np.zeros((60, 80), np.uint16), "camera front: depth image is 80x60, its mount says 81x61"),
    ("front", np.zeros((61, 81, 3), np.uint16), "camera front: depth image is 3x81x61, its mount says 81x61"),
    ("front", np.zeros((61, 81), np.float32), "camera front: depth image is float32, must be uint16"),
    ("left", np.zeros((61, 81), np.uint16), "camera left: not in the mounts, which have front"),
]


@pytest.mark.parametrize(("name", "depth", "line"), WRONG_FRAMES)
def test_a_frame_that_does_not_fit_is_refused(name: str, depth: np.ndarray, line: str) -> None:
    with pytest.raises(InputError) as caught:
        fuse({name: DepthFrame(name, 1, 1, depth)}, 0, IDENTITY, ScanMemory(), rig_of(mount()))
    assert str(caught.value) == line


# From tick to tick


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Count the calls of the kernel: the largest depth of each image that it was given."""
    calls: list[float] = []
    kernel = scan_module.lower_ranges

    def counting(ranges_m: np.ndarray, depth: np.ndarray, *rest) -> None:
        calls.append(float(depth.max()))
        kernel(ranges_m, depth, *rest)

    monkeypatch.setattr(scan_module, "lower_ranges", counting)
    return calls


def test_a_frame_is_computed_once(lowered: list[float]) -> None:
    front, rear = mount(), mount("rear", 180)
    rig = rig_of(front, rear)
    frames = {"front": frame("front", wall(front, 2000)), "rear": frame("rear", wall(rear, 1000))}
    first, memory = fuse(frames, 0, IDENTITY, ScanMemory(), rig)
    second, memory = fuse(frames, 1, Pose(1, 1, 1), memory, rig)
    assert lowered == [2000, 1000]
    assert np.array_equal(first.ranges_m, second.ranges_m)
    frames["rear"] = frame("rear", wall(rear, 900), number=2)
    third, _ = fuse(frames, 2, IDENTITY, memory, rig)
    assert lowered == [2000, 1000, 900]
    assert third.ranges_m[0] == np.float32(0.9)


def test_a_restarted_camera_is_computed(lowered: list[float]) -> None:
    front = mount()
    rig = rig_of(front)
    _, memory = fuse({"front": frame("front", wall(front, 2000), stamp_ns=5)}, 5, IDENTITY, ScanMemory(), rig)
    scan, _ = fuse({"front": frame("front", wall(front, 1000), stamp_ns=9)}, 9, IDENTITY, memory, rig)
    assert scan.ranges_m[90] == 1.0


def test_one_tick_leaves_the_last_scan_as_it_was() -> None:
    front = mount()
    rig = rig_of(front)
    first, memory = fuse({"front": frame("front", wall(front, 2000))}, 0, IDENTITY, ScanMemory(), rig)
    kept = first.ranges_m.copy()
    fuse({"front": frame("front", wall(front, 1000), number=2)}, 1, IDENTITY, memory, rig)
    again, _ = fuse({"front": frame("front", wall(front, 2000))}, 1, IDENTITY, memory, rig)
    assert np.array_equal(first.ranges_m, kept)
    assert np.array_equal(again.ranges_m, kept)


@pytest.mark.parametrize("name", ["front", "rear", "front_left"])
def test_reach_is_the_farthest_range_that_a_frame_can_give(name: str) -> None:
    camera = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth[name]
    rig = rig_of(camera, far_m=10.0, z_min_m=-100.0, z_max_m=100.0)
    ranges_m = fuse({name: frame(name, wall(camera, 10_000))}, 1, IDENTITY, ScanMemory(), rig)[0].ranges_m
    farthest_m = float(ranges_m[np.isfinite(ranges_m)].max())
    assert farthest_m <= reach_m(rig) <= 1.3 * farthest_m
