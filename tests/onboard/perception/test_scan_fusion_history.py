"""The rolling buffer: old frames registered by odometry into the base frame of now."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.config.mounts import Mount
from onboard.perception import scan_fusion as scan_module
from onboard.perception.scan_fusion import CameraMemory, Capture, ScanMemory, fuse, moved_to_now
from onboard.values.geometry import IDENTITY, apply, between, compose
from onboard.values.messages import BINS, DepthFrame, Pose, Scan
from tests.onboard.policy.dwa.walls import box, scan_from
from tests.rigs.fusion.scan_rigs import MS, bins_deg, frame, mount, rig_of, wall


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
