"""Rendered images: exact distances in a room, heights, range limits, no leaks; and the scan without images."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.maps.cell_kernels import mark_segments
from hil.maps.load import load_map
from hil.maps.world_grid import WALL_HEIGHT_M, World, world_of_walls
from hil.scene.furniture import furnish
from hil.sensors.camera import MAX_RANGE_M, cast_scan, rays_of, render_depth
from hil.sensors.direct_scan import looked_at
from onboard.config.config import DEFAULT_ROBOT, ScanSection
from onboard.config.mounts import Mount, load_mounts
from onboard.perception.scan_fusion import build_rig
from onboard.values.messages import Pose
from tests.rigs.rooms import drawn, room

MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
RIG = build_rig(MOUNTS, ScanSection())
RAYS = {name: rays_of(mount) for name, mount in MOUNTS.depth.items()}
COLOR = rays_of(MOUNTS.color["color"])
LOOKS = looked_at(MOUNTS, ScanSection())
ROOM = room(8.0, 6.0)
LEVEL = np.array([[0.0, 0, 1, 0], [-1, 0, 0, 0], [0, -1, 0, 0.5], [0, 0, 0, 1]])
"""A level camera above the base's origin, 0.5 m up, facing forwards."""


def camera(base_from_camera: np.ndarray = LEVEL, width: int = 81, height: int = 61, f: float = 40.0) -> Mount:
    centre = (width - 1) / 2, (height - 1) / 2
    return Mount("camera", "", width, height, f, f, *centre, 0.001, base_from_camera, (0.0, 0.0, 0.0, 1.0))


def metres(world: World, mount: Mount, pose: Pose) -> np.ndarray:
    return render_depth(world, rays_of(mount), pose) * mount.depth_scale_m


def plain_room_depth(mount: Mount, pose: Pose, size: tuple[float, float]) -> np.ndarray:
    """Return depth in a room [0, width] x [0, height] by intersecting every pixel's ray with five planes."""
    v, u = np.mgrid[0 : mount.height, 0 : mount.width]
    optical = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)], axis=-1)
    c, s = math.cos(pose.yaw_rad), math.sin(pose.yaw_rad)
    world_from_base = np.array([[c, -s, 0, pose.x_m], [s, c, 0, pose.y_m], [0, 0, 1, 0], [0, 0, 0, 1]])
    world_from_camera = world_from_base @ mount.base_from_camera
    rays, (x, y, z) = optical @ world_from_camera[:3, :3].T, world_from_camera[:3, 3]
    planes = [(rays[..., 0], -x), (rays[..., 0], size[0] - x), (rays[..., 1], -y), (rays[..., 1], size[1] - y)]
    with np.errstate(divide="ignore", invalid="ignore"):
        walls = np.min([np.where(offset / along > 0, offset / along, np.inf) for along, offset in planes], axis=0)
        floor = np.where(rays[..., 2] < 0, -z / rays[..., 2], np.inf)
    nearest = np.minimum(walls, floor)
    over = (walls < floor) & (z + walls * rays[..., 2] > WALL_HEIGHT_M)
    return np.where(over | (nearest > MAX_RANGE_M), 0.0, nearest)


@pytest.mark.parametrize("name", list(MOUNTS.depth))
@given(x=st.floats(0.5, 7.5), y=st.floats(0.5, 5.5), yaw=st.floats(-math.pi, math.pi))
@settings(max_examples=15, deadline=None)
def test_depth_of_an_empty_room_is_exact(name, x, y, yaw):
    """Depth along the optical axis, to half a millimetre; pixels on the upper edge of a wall may differ."""
    pose = Pose(x, y, yaw)
    seen, expected = metres(ROOM, MOUNTS.depth[name], pose), plain_room_depth(MOUNTS.depth[name], pose, (8.0, 6.0))
    same = np.abs(seen - expected) <= 0.000501
    assert same.mean() > 0.999
    assert ((seen == 0) | (expected == 0))[~same].all()


# name, box x, y, z, pixel row offset above the middle, depth there
BOXES = [
    ("a wall of boxes ahead", (4.0, 4.1), (0.0, 6.0), (0.0, 2.0), 0, 3.0),
    ("it hides what is behind", (4.0, 4.1), (2.0, 4.0), (0.0, 2.0), 5, 3.0),
    ("a ray passes under what hangs", (4.0, 5.0), (2.0, 4.0), (0.8, 1.0), 0, 7.0),
    ("a ray passes over what is low", (4.0, 5.0), (2.0, 4.0), (0.0, 0.3), 0, 7.0),
    ("a ray down meets the floor before the box", (4.0, 5.0), (2.0, 4.0), (0.0, 0.3), -20, 1.0),
    # 0.5 m up, 8 pixels down of f 40: it falls by 1 m in 5 m; at the box's top, 0.3 m, after 1 m of depth.
    ("a ray down meets the top", (1.9, 5.0), (2.0, 4.0), (0.0, 0.3), -8, 1.0),
    # 8 pixels up: rises by 1 m in 5 m; at 0.8 m after 1.5 m of depth.
    ("a ray up meets the lower side", (2.0, 5.0), (2.0, 4.0), (0.8, 1.0), 8, 1.5),
]


def test_depth_beyond_uint16_is_no_return():
    """With a unit of 0.1 mm, uint16 ends at 6.5535 m."""
    fine = replace(camera(), depth_scale_m=0.0001)
    hall = room(30.0, 6.0)
    assert metres(hall, fine, Pose(30.0 - 6.5, 3.0, 0.0))[30, 40] == pytest.approx(6.5, abs=0.0001)
    assert metres(hall, fine, Pose(30.0 - 6.6, 3.0, 0.0))[30, 40] == 0.0


def test_a_portrait_camera_has_a_rotated_image():
    """The axis points 10 deg down; the image ends are 44.6 deg below (floor) and above it (wall ahead)."""
    half, pitch = math.atan(39.5 / 40.0), math.radians(10.0)
    depth = metres(ROOM, MOUNTS.depth["front"], Pose(6.0, 3.0, 0.0))
    assert depth.shape == (60, 80)
    floor, wall = sorted(depth[30, [0, -1]])
    assert floor == pytest.approx(0.30 / math.sin(half + pitch) * math.cos(half), abs=0.005)
    assert wall == pytest.approx(1.80 / math.cos(half - pitch) * math.cos(half), abs=0.005)


def test_no_ray_leaks_through_a_slanted_wall():
    """Seven walls around the camera, one cell thick, drawn like a vector map."""
    wall = np.zeros((200, 200), np.bool_)
    corners = [(100 + 60 * math.cos(a), 100 + 60 * math.sin(a)) for a in np.arange(7) * 2 * math.pi / 7 + 0.1]
    mark_segments(wall, np.array([[*a, *b] for a, b in zip(corners, corners[1:] + corners[:1], strict=True)]))
    world = world_of_walls("ring", 0.05, Pose(0.0, 0.0, 0.0), wall)
    scan = cast_scan(world, Pose(5.0, 5.0, 0.0))
    assert scan.max() <= 3.1
    for yaw in np.linspace(-math.pi, math.pi, 60):
        assert metres(world, camera(f=200.0), Pose(5.0, 5.0, float(yaw)))[30].max() <= 3.1


@pytest.mark.parametrize("name", ["ghc7", "willow"])
def test_strides_over_empty_squares_change_no_hit(name):
    """The reference walks from cell to cell: the same world with every gap cut to one cell."""
    world = furnish(load_map(name), seed=5)
    plain = replace(world, gap=np.minimum(world.gap, 1))
    free = np.argwhere(world.gap > 5)
    rng = np.random.default_rng(2)
    for index in rng.integers(len(free), size=10):
        pose = Pose(*world.centre_of((int(free[index, 0]), int(free[index, 1]))), float(rng.uniform(-3.0, 3.0)))
        for rays in RAYS.values():
            strides, steps = render_depth(world, rays, pose).astype(int), render_depth(plain, rays, pose).astype(int)
            assert (np.abs(strides - steps) <= 1).mean() > 0.9995
        np.testing.assert_allclose(cast_scan(world, pose), cast_scan(plain, pose), atol=0.002)


def test_every_walk_of_a_ray_ends():
    """From many places in many directions, also along the axes, a cell index never oscillates."""
    world = drawn("\n".join(["." * 40] * 40), 0.05)
    for x in np.linspace(0.05, 1.95, 7):
        for yaw in (*np.arange(8) * math.pi / 4, 1e-9, -1e-9, math.pi / 2 + 1e-12):
            assert np.isfinite(cast_scan(world, Pose(float(x), 1.0, float(yaw)))).all()
            assert (metres(world, camera(), Pose(float(x), 1.0, float(yaw)))[35:] > 0).all()
