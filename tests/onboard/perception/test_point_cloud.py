"""A point cloud's scan equals its plain definition bit for bit; drops; its cost."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.config.config import DEFAULT_ROBOT, ScanSection
from onboard.config.mounts import Mounts, load_mounts
from onboard.drivers.dds.ros_convert import ages_from_ros, ros_cloud
from onboard.drivers.dds.ros_types import PointField
from onboard.perception.cliff import REACH_M, RING_M, RING_SIDE_DEG, SLOPE, TOUCHING_M
from onboard.perception.kernels import EDGE_M, NEAR_M, bins_of
from onboard.perception.point_cloud import STEP_TAN, SUPPORT, points_at_last, scan_of_points
from onboard.perception.scan_fusion import ScanMemory, build_rig, fuse
from onboard.values.geometry import IDENTITY, quaternion_from_rpy, rotation_from_quaternion
from onboard.values.messages import BINS, DepthFrame, Twist, bins_within

SECTION_OF = ScanSection(body_boxes_m=[(-0.3, -0.2, 0.0, 0.3, 0.2, 0.6)])


def posed(x: float, y: float, z: float, roll: float, pitch: float, yaw: float) -> np.ndarray:
    whole = np.eye(4)
    whole[:3, :3] = rotation_from_quaternion(quaternion_from_rpy(*map(math.radians, (roll, pitch, yaw))))
    whole[:3, 3] = x, y, z
    return whole


def plain_scan(points: np.ndarray, pose: np.ndarray, section: ScanSection) -> tuple[np.ndarray, np.ndarray]:
    """The definition: (ranges, seen)."""
    with np.errstate(invalid="ignore", over="ignore"):
        away2 = points[:, 0] ** 2 + points[:, 1] ** 2 + points[:, 2] ** 2
        points, away2 = (one[(away2 >= (NEAR_M - EDGE_M) ** 2) & (away2 < np.inf)] for one in (points, away2))
    x, y, z = (row[0] * points[:, 0] + (row[1] * points[:, 1] + (row[2] * points[:, 2] + row[3])) for row in pose[:3])
    own = np.zeros(len(x), np.bool_)
    for x0, y0, z0, x1, y1, z1 in section.body_boxes_m:
        own |= (x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1) & (z0 <= z) & (z <= z1)
    x, y, z, away2 = x[~own], y[~own], z[~own], away2[~own]
    seen = np.zeros(BINS, np.bool_)
    seen[bins_of(x, y)] = True
    near = away2 <= (section.far_m + EDGE_M) ** 2
    x, y, z = x[near], y[near], z[near]
    nearest, floor, drops = (np.full(BINS, np.inf, np.float32) for _ in range(3))

    def lower(ranges: np.ndarray, which: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        np.minimum.at(ranges, bins_of(x[which], y[which]), np.sqrt(x[which] ** 2 + y[which] ** 2).astype(np.float32))

    lower(nearest, (z >= section.z_min_m - EDGE_M) & (z <= section.z_max_m + EDGE_M), x, y)
    count = np.zeros(BINS, np.int64)
    if section.drop_m > 0.0:
        lower(floor, np.abs(z) <= section.drop_m, x, y)
        up, dx, dy = pose[2, 3], x - pose[0, 3], y - pose[1, 3]
        along, down = np.sqrt(dx * dx + dy * dy), up - z
        missing = (up > 0.0) & (-z > section.drop_m + SLOPE * along) & (up * along <= REACH_M * down)
        level = along - down * STEP_TAN
        with np.errstate(invalid="ignore", divide="ignore"):
            way = np.where(level > 0.0, up * level / (down + along * STEP_TAN) / along, 0.0)
        x, y = pose[0, 3] + way * dx, pose[1, 3] + way * dy
        lower(drops, missing, x, y)
        np.add.at(count, bins_of(x[missing], y[missing]), 1)
    sides = range(-bins_within(RING_SIDE_DEG), bins_within(RING_SIDE_DEG) + 1)
    floor = np.min([np.roll(floor, side) for side in sides], axis=0)
    drops[np.sum([np.roll(count, side) for side in (-1, 0, 1)], axis=0) < SUPPORT] = np.inf
    inner = np.isfinite(drops) & (drops <= floor + np.float32(RING_M))
    drops[inner] = np.minimum(drops[inner], np.float32(TOUCHING_M))
    return np.minimum(nearest, drops), seen | np.isfinite(drops)


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 3000), st.sampled_from([0.0, 0.08]),
    st.tuples(*[st.floats(-0.5, 0.5)] * 3, *[st.floats(-180.0, 180.0)] * 3),
)  # fmt: skip
def test_equals_the_definition(seed: int, count: int, drop_m: float, pose: tuple[float, ...]) -> None:
    random = np.random.default_rng(seed)
    points = random.normal(0.0, 1.0, (count, 3)) * random.choice([0.05, 0.5, 3.0, 20.0], (count, 1))
    points = points.astype(np.float32).astype(np.float64)
    points[random.random(count) < 0.05] = random.choice([np.nan, np.inf, -np.inf, 0.0, 1e200])
    section = SECTION_OF.model_copy(update={"drop_m": drop_m})
    scan = scan_of_points(points, 5, posed(*pose), section)
    ranges, seen = plain_scan(points, posed(*pose), section)
    np.testing.assert_array_equal(scan.ranges_m, ranges)
    np.testing.assert_array_equal(scan.seen, seen)
    assert scan.stamp_ns == 5


def test_points_on_the_edges_of_bins_equal_the_definition() -> None:
    angle = np.radians(np.arange(-180, 182, 1))
    points = np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=1) * np.array([[2.0, 2.0, 1.0]])
    pose = posed(0.0, 0.0, 0.3, 0.0, 0.0, 0.0)
    ranges, seen = plain_scan(points, pose, SECTION_OF)
    scan = scan_of_points(points, 0, pose, SECTION_OF)
    np.testing.assert_array_equal(scan.ranges_m, ranges)
    assert scan.seen.all()
    assert seen.all()


def lidar(edge_m: float) -> np.ndarray:
    """Return what a 3-D lidar at 0.5 m sees of a floor that ends, ahead, at `edge_m`, 1 m above the next floor."""
    yaw, down = np.meshgrid(np.radians(np.arange(-180.0, 180.0, 0.4)), np.radians(np.arange(4.0, 60.0, 2.0)))
    ray = np.stack([np.cos(down) * np.cos(yaw), np.cos(down) * np.sin(yaw), -np.sin(down)]).reshape(3, -1)
    to_floor, to_ground = 0.5 / -ray[2], 1.5 / -ray[2]
    return (np.where(ray[0] * to_floor < edge_m, to_floor, to_ground) * ray).T


def test_a_drop_ahead_is_an_obstacle_where_the_floor_was_last_seen() -> None:
    scan = scan_of_points(lidar(0.8), 0, posed(0.0, 0.0, 0.5, 0.0, 0.0, 0.0), ScanSection())
    ahead = scan.ranges_m[BINS // 2 - 5 : BINS // 2 + 5]
    assert (ahead > 0.6).all()
    assert (ahead <= 0.83).all()
    assert np.isinf(scan.ranges_m[:45]).all()
    assert scan.seen.all()


def test_a_drop_within_the_nearest_ring_of_floor_touches() -> None:
    scan = scan_of_points(lidar(0.2), 0, posed(0.0, 0.0, 0.5, 0.0, 0.0, 0.0), ScanSection())
    assert scan.ranges_m[BINS // 2] == np.float32(TOUCHING_M)


def test_thirty_thousand_points_cost_at_most_four_images() -> None:
    front = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth["front"]
    views = {f"{n}": replaced(front, f"{n}", 90.0 * n) for n in range(4)}
    rig = build_rig(Mounts(DEFAULT_ROBOT, views, {}), ScanSection())
    random = np.random.default_rng(0)
    depth = {name: (1000 + random.integers(0, 3000, (480, 848))).astype(np.uint16) for name in views}
    points, pose = random.normal(0.0, 3.0, (30_000, 3)), posed(0.0, 0.0, 0.5, 0.0, 0.0, 0.0)
    cloud_s, images_s = [], []
    for number in range(12):
        frames = {name: DepthFrame(name, number, number + 1, image) for name, image in depth.items()}
        began = time.perf_counter()
        fuse(frames, number + 1, IDENTITY, ScanMemory(), rig)
        images_s.append(time.perf_counter() - began)
        began = time.perf_counter()
        scan_of_points(points, 0, pose, ScanSection())
        cloud_s.append(time.perf_counter() - began)
    assert min(cloud_s) <= min(images_s)


def replaced(mount, name: str, yaw_deg: float):
    """Return a D435 at 848x480 that looks in a direction."""

    turned = mount.base_from_camera.copy()
    turned[:3, :3] = posed(0, 0, 0, 0, 0, yaw_deg)[:3, :3] @ np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0.0]])
    return replace(
        mount, name=name, width=848, height=480, fx=421.0, fy=421.0, cx=423.5, cy=239.5, base_from_camera=turned
    )


def test_points_of_a_sweep_are_moved_to_its_last_point():
    """A wall 2 m ahead of a robot that drives at 1 m/s: a point of 0.1 s ago is now 1.9 m away."""
    pose = np.eye(4)
    pose[:3, 3] = 0.2, 0.0, 0.5
    points_m = np.array([[2.0, 0.0, 0.0], [2.0, 0.1, 0.0], [np.nan, 0.0, 0.0]])
    moved_m = points_at_last(points_m, pose, Twist(1.0, 0.0), np.array([0.1, 0.0, 0.1]))
    np.testing.assert_allclose(moved_m[:2], [[1.9, 0.0, 0.0], [2.0, 0.1, 0.0]], atol=1e-12)
    turned_m = points_at_last(points_m[:1], np.eye(4), Twist(0.0, np.pi), np.array([0.5]))
    np.testing.assert_allclose(turned_m, [[0.0, -2.0, 0.0]], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "datatype", "values", "ages_s"),
    [
        ("t", 6, np.array([0, 100_000_000], "<u4"), [0.1, 0.0]),
        ("time", 7, np.array([-0.1, 0.0], "<f4"), [0.1, 0.0]),
        ("timestamp", 8, np.array([1.7e9, 1.7e9 + 0.1], "<f8"), [0.1, 0.0]),
        ("timestamp", 8, np.array([0.0, 1e9], "<f8"), None),
        ("ring", 6, np.array([0, 1], "<u4"), None),
    ],
)
def test_the_time_of_each_point_is_read_as_drivers_state_it(name, datatype, values, ages_s):
    cloud = ros_cloud(1, "lidar", np.ones((2, 3), np.float32))
    cloud.fields = [*cloud.fields, PointField(name, 12, datatype, 1)]
    cloud.point_step, cloud.row_step = 12 + values.itemsize, 2 * (12 + values.itemsize)
    points = np.frombuffer(bytes(cloud.data), np.uint8).reshape(2, 12)
    cloud.data = np.concatenate([points, values.view(np.uint8).reshape(2, -1)], axis=1).tobytes()
    found = ages_from_ros(cloud)
    assert (found is None) == (ages_s is None)
    if found is not None:
        np.testing.assert_allclose(found, ages_s, atol=1e-6)
