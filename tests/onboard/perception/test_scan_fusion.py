"""The fused scan: seen and blind bins, bad frames, and the memory between ticks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from onboard.config.config import DEFAULT_ROBOT, ScanSection
from onboard.config.mounts import Mount, load_mounts
from onboard.perception import scan_fusion
from onboard.perception import scan_fusion as scan_module
from onboard.perception.kernels import bins_of
from onboard.perception.scan_fusion import (
    CameraMemory,
    Capture,
    ScanMemory,
    build_rig,
    fuse,
    looked_at,
    moved_to_now,
    reach_m,
)
from onboard.values.errors import InputError
from onboard.values.geometry import IDENTITY, apply, between, compose
from onboard.values.messages import BINS, DepthFrame, Pose, Scan
from tests.onboard.policy.dwa.walls import box, scan_from
from tests.rigs.fusion.scan_rigs import MS, bins_deg, frame, mount, rig_of, wall

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


# ---- The floor of real frames gives no range. A fitted floor plane gives the mount of each frame

FRAMES = sorted((Path(__file__).parents[2] / "data" / "realsense-office").glob("*.png"))
F_PX, CX_PX, CY_PX = 384.0, 320.0, 240.0
"""Assumed; the recording does not state them."""
FLOOR_M = 0.02
UP_GUESS = np.array([0.0, -math.cos(math.radians(20)), -math.sin(math.radians(20))])
"""Up, in the optical frame of a camera pitched 20 deg down."""


def floor_plane(points: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Return (up, height) of the plane `up @ p + height = 0` that most points (n, 3) lie on: RANSAC, then refined."""
    sample = points[rng.choice(len(points), 4000, replace=False)]
    best, most = (UP_GUESS, 0.6), 0
    for _ in range(200):
        a, b, c = sample[rng.choice(len(sample), 3, replace=False)]
        normal = np.cross(b - a, c - a)
        if np.linalg.norm(normal) < 1e-6:
            continue
        up = normal / np.linalg.norm(normal) * np.sign(normal @ UP_GUESS)
        on_plane = int((np.abs((sample - a) @ up) < FLOOR_M).sum())
        if up @ UP_GUESS > math.cos(math.radians(20)) and on_plane > most:
            best, most = (up, -float(a @ up)), on_plane
    up, height = best
    for _ in range(4):
        floor = points[np.abs(points @ up + height) < FLOOR_M]
        middle = floor.mean(axis=0)
        normal = np.linalg.svd(floor[::20] - middle, full_matrices=False)[2][2]
        up = normal * np.sign(normal @ UP_GUESS)
        height = -float(up @ middle)
    return up, height


def mount_over(up: np.ndarray, height: float) -> Mount:
    """Return the mount of a camera with this floor: base x is its view along the floor."""
    ahead = np.array([0.0, 0.0, 1.0]) - up[2] * up
    ahead /= np.linalg.norm(ahead)
    transform = np.eye(4)
    transform[:3, :3] = [ahead, np.cross(up, ahead), up]
    transform[2, 3] = height
    return Mount("front", "", 640, 480, F_PX, F_PX, CX_PX, CY_PX, 0.001, transform, (0.0, 0.0, 0.0, 1.0))


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_the_floor_gives_no_range(path: Path) -> None:
    depth = np.asarray(Image.open(path)).astype(np.uint16)
    v, u = np.nonzero(depth)
    z = depth[v, u] * 0.001
    points = np.stack([(u - CX_PX) / F_PX * z, (v - CY_PX) / F_PX * z, z], axis=1)
    up, height = floor_plane(points[(v > CY_PX) & (z < 4.0)], np.random.default_rng(0))
    assert height == pytest.approx(0.63, abs=0.03)

    rig = rig_of(mount_over(up, height))
    above = points @ up + height
    is_floor = np.abs(above) < FLOOR_M
    assert is_floor.mean() > 0.3

    only_floor = np.zeros_like(depth)
    only_floor[v[is_floor], u[is_floor]] = depth[v[is_floor], u[is_floor]]
    scan, _ = fuse({"front": frame("front", only_floor)}, 0, IDENTITY, ScanMemory(), rig)
    assert np.isinf(scan.ranges_m).all()
    assert scan.seen[90]

    scan, _ = fuse({"front": frame("front", depth)}, 0, IDENTITY, ScanMemory(), rig)
    axes = rig.views["front"].mount.base_from_camera[:2, :3]
    x, y = axes @ points[~is_floor].T
    nearest = np.full(BINS, np.inf)
    np.minimum.at(nearest, bins_of(x, y), np.hypot(x, y))
    assert np.isfinite(scan.ranges_m).sum() > 30
    assert (scan.ranges_m >= nearest - 1e-5).all()


# ---- The rolling buffer


def test_old_frames_are_seen_from_where_the_base_is_now() -> None:
    front = mount(size=(1, 1))
    rig = rig_of(front, history=2)
    _, memory = fuse({"front": frame("front", wall(front, 3000), 1, 0)}, 0, IDENTITY, ScanMemory(), rig)
    turned = Pose(1.0, 0.0, math.pi / 2 - 0.01)
    scan, memory = fuse({"front": frame("front", wall(front, 1500), 2, MS)}, MS, turned, memory, rig)
    assert bins_deg(np.isfinite(scan.ranges_m)) == [-90, 0]
    assert (scan.ranges_m[45], scan.ranges_m[90]) == (2.0, 1.5)
    assert scan.seen[45]
    assert scan.stamp_ns == MS
    scan, _ = fuse({"front": frame("front", wall(front, 0), 3, 2 * MS)}, 2 * MS, turned, memory, rig)
    assert bins_deg(np.isfinite(scan.ranges_m)) == [0]  # the oldest of three is gone


def test_an_old_frame_follows_the_motion_although_no_new_one_came(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[np.ndarray] = []
    lower = scan_module.lower_ranges
    monkeypatch.setattr(scan_module, "lower_ranges", lambda *values: (lowered.append(values[3]), lower(*values)))
    front = mount(size=(1, 1))
    rig = rig_of(front, history=3)
    frames = {"front": frame("front", wall(front, 3000), 1, 0)}
    _, memory = fuse(frames, 0, IDENTITY, ScanMemory(), rig)
    scan, memory = fuse(frames, MS, Pose(0.5, 0.0, 0.0), memory, rig)
    assert scan.ranges_m[90] == 2.5
    assert len(lowered) == 2
    fuse(frames, 2 * MS, Pose(0.5, 0.0, 0.0), memory, rig)
    assert len(lowered) == 2  # at rest there is nothing to compute


def test_a_frame_counts_from_where_the_base_was_at_its_capture() -> None:
    front = mount(size=(1, 1))
    rig = rig_of(front, history=2)
    memory = ScanMemory()
    for tick in range(4):
        _, memory = fuse({}, tick * 10 * MS, Pose(0.1 * tick, 0.0, 0.0), memory, rig)
    late = {"front": frame("front", wall(front, 3000), 1, stamp_ns=15 * MS)}  # captured at x = 0.15, now at 0.4
    scan, _ = fuse(late, 40 * MS, Pose(0.4, 0.0, 0.0), memory, rig)
    assert scan.ranges_m[90] == pytest.approx(2.75, abs=1e-6)


@pytest.mark.parametrize(("stamp_ms", "x_m"), [(-50, 0.0), (2000, 2.0), (500, 0.5)])
def test_captures_beyond_the_remembered_poses_take_the_nearest(stamp_ms: int, x_m: float) -> None:
    front = mount(size=(1, 1))
    rig = rig_of(front, history=2)
    _, memory = fuse({}, 0, IDENTITY, ScanMemory(), rig)
    frames = {"front": frame("front", wall(front, 5000), 1, stamp_ms * MS)}
    scan, _ = fuse(frames, 1000 * MS, Pose(1.0, 0.0, 0.0), memory, rig)
    assert scan.ranges_m[90] == pytest.approx(5.0 - (1.0 - min(x_m, 1.0)), abs=1e-6)


def test_the_track_is_bounded_and_survives_a_clock_that_goes_back() -> None:
    rig = rig_of(mount(), history=2)
    memory = ScanMemory()
    for tick in range(100):
        _, memory = fuse({}, tick * 33 * MS, IDENTITY, memory, rig)
    assert len(memory.track) == 31
    _, memory = fuse({}, 50 * MS, IDENTITY, memory, rig)
    assert [time_ns for time_ns, _ in memory.track] == [50 * MS]


def test_a_camera_that_is_down_is_forgotten_with_its_history() -> None:
    front = mount(size=(1, 1))
    rig = rig_of(front, history=5)
    _, memory = fuse({"front": frame("front", wall(front, 2000))}, 0, IDENTITY, ScanMemory(), rig)
    scan, memory = fuse({}, MS, IDENTITY, memory, rig)
    assert (np.isfinite(scan.ranges_m).any(), scan.seen.any()) == (False, False)


def look_at(points_world: np.ndarray, pose: Pose, m: Mount) -> np.ndarray:
    """Return a camera's image of points (n, 3) from the robot at `pose`: one pixel each, the nearest point wins."""
    c, s = math.cos(pose.yaw_rad), math.sin(pose.yaw_rad)
    offset = points_world - [pose.x_m, pose.y_m, 0.0]
    in_base = np.stack([c * offset[:, 0] + s * offset[:, 1], c * offset[:, 1] - s * offset[:, 0], offset[:, 2]])
    x, y, z = m.base_from_camera[:3, :3].T @ (in_base - m.base_from_camera[:3, 3:])
    image = np.full((m.height, m.width), np.inf)
    ahead = z > 0.1
    u = np.round(m.fx * x[ahead] / z[ahead] + m.cx).astype(int)
    v = np.round(m.fy * y[ahead] / z[ahead] + m.cy).astype(int)
    inside = (u >= 0) & (u < m.width) & (v >= 0) & (v < m.height)
    np.minimum.at(image, (v[inside], u[inside]), z[ahead][inside] * 1000)
    return np.where(np.isfinite(image), image, 0).astype(np.uint16)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    start=st.builds(Pose, st.floats(-5, 5), st.floats(-5, 5), st.floats(-math.pi, math.pi)),
    step=st.builds(Pose, st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.floats(-1, 1)),
)
def test_a_static_world_seen_from_two_poses_is_one_world(seed: int, start: Pose, step: Pose) -> None:
    """Each range of the registered scan is a point of the world from the current pose; no new range is lost."""
    points = np.random.default_rng(seed).uniform([-4, -4, 0.2], [4, 4, 1.0], (20, 3))
    points[:, :2] += [start.x_m, start.y_m]
    eye = mount(size=(641, 481), f=320.0, at=(0.1, 0.05, 0.4))
    end = compose(start, step)
    rig = rig_of(eye, history=2)
    images = [look_at(points, pose, eye) for pose in (start, end)]
    _, memory = fuse({"front": frame("front", images[0], 1, 0)}, 0, start, ScanMemory(), rig)
    both, _ = fuse({"front": frame("front", images[1], 2, MS)}, MS, end, memory, rig)

    def single(image: np.ndarray) -> np.ndarray:
        return fuse({"front": frame("front", image)}, 0, IDENTITY, ScanMemory(), rig)[0].ranges_m

    here = np.array([apply(between(end, IDENTITY), (x, y)) for x, y, _ in points])
    radius = np.hypot(here[:, 0], here[:, 1])
    for i in np.flatnonzero(np.isfinite(both.ranges_m)):
        near = np.abs(radius - both.ranges_m[i]) < 0.03  # half a pixel at 6 m, and a millimetre of depth
        azimuth = math.radians(2 * i - 179)
        at = both.ranges_m[i] * np.array([math.cos(azimuth), math.sin(azimuth)])
        assert (near & (np.hypot(*(here - at).T) < 0.03 + 0.02 * both.ranges_m[i])).any()
    assert (both.ranges_m <= single(images[1])).all()


# Images of several ages, moved by odometry to one time

ROOM = np.array([*box(-2.0, -1.5, 4.0, 2.5), *box(1.0, 0.5, 1.4, 1.2)])
LEFT, RIGHT = (np.roll(np.arange(BINS) < 50, first) for first in (80, 50))
"""The bins of two cameras: -20 to 80 deg, and -80 to 20 deg."""


def poses(v_mps: float, w_radps: float) -> tuple[tuple[int, Pose], ...]:
    """Return the poses of half a second at 30 Hz, the last of them IDENTITY."""
    times_s = np.arange(-15, 1) / 30.0
    return tuple((round(t * 1e9) + 10**9, Pose(v_mps * t, 0.0, w_radps * t)) for t in times_s.tolist())


def memory_of(track, ages_ms: dict[str, int]) -> tuple[Scan, ScanMemory]:
    """Return the scan as it is fused from images of these ages, and its memory."""
    ranges_m, seen, cameras = np.full(BINS, np.inf, np.float32), np.zeros(BINS, np.bool_), {}
    now_s = track[-1][0] / 1e9
    for name, looks in (("left", LEFT), ("right", RIGHT)):
        stamp_ns = track[-1][0] - ages_ms[name] * MS
        age_s = now_s - stamp_ns / 1e9
        v, w = track[-2][1].x_m * -30.0, track[-2][1].yaw_rad * -30.0
        scan = scan_from(ROOM, Pose(-v * age_s, 0.0, -w * age_s), looks)
        image = DepthFrame(name, 1, stamp_ns, np.zeros((1, 1), np.uint16))
        cameras[name] = CameraMemory((Capture(image, IDENTITY),), IDENTITY, scan.ranges_m, looks)
        ranges_m, seen = np.minimum(ranges_m, scan.ranges_m), seen | looks
    return Scan(1, ranges_m, seen), ScanMemory(1, cameras, ())


@pytest.mark.parametrize(("v_mps", "w_radps"), [(0.0, 2.0), (0.0, -2.0), (0.7, 0.0), (0.7, 1.0)])
def test_images_of_unequal_age_show_the_room_from_where_the_base_is_now(v_mps: float, w_radps: float) -> None:
    track = poses(v_mps, w_radps)
    raw, memory = memory_of(track, {"left": 115, "right": 30})
    moved, truth = moved_to_now(raw, memory, track), scan_from(ROOM, IDENTITY, LEFT | RIGHT)

    def error_m(scan: Scan) -> float:
        both = scan.seen & np.isfinite(scan.ranges_m) & truth.seen
        off_m = np.abs(scan.ranges_m[both] - truth.ranges_m[both])
        return float(np.minimum(off_m, 0.2).mean())  # at a box's edge one bin is off by metres

    assert error_m(moved) < 0.6 * error_m(raw)
    inside = moved.seen & truth.seen
    assert np.isfinite(moved.ranges_m[inside]).all()  # no hole in a wall


def test_an_edge_that_no_image_shows_yet_is_not_seen() -> None:
    track = poses(0.0, 2.0)
    raw, memory = memory_of(track, {"left": 115, "right": 115})
    moved = moved_to_now(raw, memory, track)
    turned = math.floor(math.degrees(2.0 * 0.115) / 2.0)
    last = int(np.flatnonzero(raw.seen).max())
    assert not moved.seen[last - turned + 1 : last + 1].any()
    assert moved.seen[last - turned - 1]


def test_at_rest_and_without_images_a_scan_stays_as_it_is() -> None:
    track = poses(0.0, 0.0)
    raw, memory = memory_of(track, {"left": 115, "right": 30})
    assert moved_to_now(raw, memory, track) is raw
    assert moved_to_now(raw, ScanMemory(), poses(0.5, 1.0)) is raw
    assert moved_to_now(raw, memory, ()) is raw
