"""The simulated lidar: true ranges, the pose of the laser, and the scan that the runtime makes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hil.sensors.direct_scan import direct_scan
from hil.sensors.lidar import BEARINGS_RAD, CLOUD_HEIGHT_M, RAYS, SD_M, cloud_rays, lidar_cloud, lidar_rays, lidar_scan
from onboard.assembly.robot import lasers_of, used_mounts
from onboard.config.config import Config, ScanSection
from onboard.perception.laser_scan import scan_of_rays
from onboard.values.messages import Pose
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS

WORLD = room(8.0, 4.0)
AT = Pose(3.0, 2.0, 0.3)
PLACES = [None, (0.2, 0.0, 0.0), (-0.15, 0.1, 180.0), (0.0, 0.0, 90.0)]


def laser(place: tuple[float, float, float] | None) -> np.ndarray | None:
    return lasers_of(Config(scan={"topic": "laser", **({} if place is None else {"laser": place})}))["laser"]


def test_ranges_are_those_of_the_room() -> None:
    scan = lidar_scan(WORLD, lidar_rays(None), Pose(3.0, 2.0, 0.0))
    for bearing_rad, wall_m in ((0.0, 5.0), (math.pi / 2, 2.0), (-math.pi / 2, 2.0)):
        ray = int(np.argmin(np.abs(BEARINGS_RAD - bearing_rad)))
        assert scan.ranges_m[ray] == pytest.approx(wall_m, abs=0.051), "a wall is a cell thick"
    assert len(scan.ranges_m) == RAYS


def test_a_cloud_lies_on_the_surfaces_of_the_room() -> None:
    rays = cloud_rays()
    points_m = lidar_cloud(WORLD, rays, Pose(3.0, 2.0, 0.0))
    assert len(rays.directions) == 360 * 30
    np.testing.assert_allclose(np.linalg.norm(rays.directions, axis=1), 1.0)
    x, y, z = np.abs(points_m - np.array([1.0, 0.0, 0.0])).T
    assert (np.minimum.reduce([np.abs(x - 4.0), np.abs(y - 2.0), z]) < 0.06).all()  # the walls, or the floor
    ahead = points_m[(np.abs(points_m[:, 1]) < 0.05) & (points_m[:, 0] > 0.0)]
    assert ahead[:, 2].min() < CLOUD_HEIGHT_M < ahead[:, 2].max()


@pytest.mark.parametrize("place", PLACES)
def test_the_runtime_sees_the_room_from_the_base_wherever_the_laser_sits(place: tuple | None) -> None:
    pose = laser(place)
    seen = scan_of_rays(lidar_scan(WORLD, lidar_rays(pose), AT), 0, pose)
    cast = direct_scan(WORLD, MOUNTS, ScanSection(topic="laser"), "fused").ranges(AT)
    assert seen.seen.all()
    both = np.isfinite(cast) & np.isfinite(seen.ranges_m)
    assert both.mean() > 0.9
    assert np.median(np.abs(cast - seen.ranges_m)[both]) < 0.03
    assert (cast - seen.ranges_m)[both].max() < 0.1, "it is nowhere nearer than the wall"


def test_noise_is_that_of_a_lidar_and_the_same_for_the_same_seed() -> None:
    rays = lidar_rays(None)
    true, one, same, other = (lidar_scan(WORLD, rays, AT, noise=n).ranges_m for n in (None, (1, 7), (1, 7), (1, 8)))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert float(np.std((one - true)[np.isfinite(true)])) == pytest.approx(SD_M, rel=0.2)


def test_a_table_with_a_topic_is_judged_by_the_lidar() -> None:
    lidar = direct_scan(WORLD, MOUNTS, ScanSection(topic="laser"), "fused")
    cameras = direct_scan(WORLD, MOUNTS, ScanSection(), "fused")
    assert lidar.seen.all()
    assert (lidar.z_min_m, lidar.z_max_m) == (0.2, 0.2)
    assert (cameras.z_min_m, cameras.z_max_m) == (0.05, 1.2)


#   name                      cameras                                             depth cameras that are left, colour
USED = [
    ("all", {}, list(MOUNTS.depth), 1),
    ("a lidar alone", {"source": "none", "color": "none"}, [], 0),
    ("one", {"source": "none", "sources": {"front": "dds"}}, ["front"], 1),
    ("all but one", {"sources": {"rear": "none"}}, [name for name in MOUNTS.depth if name != "rear"], 1),
]


@pytest.mark.parametrize(("cameras", "depth", "color"), [row[1:] for row in USED], ids=[row[0] for row in USED])
def test_the_cameras_that_a_configuration_uses(cameras: dict, depth: list[str], color: int) -> None:
    used = used_mounts(Config(cameras=cameras), MOUNTS)
    assert (list(used.depth), len(used.color)) == (depth, color)
