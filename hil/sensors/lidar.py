"""Simulated lidars: a full turn of rays in one level plane, with the noise of a usual one, and the lidar of paper 4."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hil.maps.world_grid import World
from hil.physics.contact import NO_BODIES, Bodies
from hil.sensors.camera import MAX_RANGE_M, Rays, render_depth
from hil.sensors.direct_scan import LIDAR_HEIGHT_M
from onboard.perception.laser_scan import Rays as LaserRays
from onboard.values.messages import Pose

RAYS = 720
NEAR_M = 0.05
SD_M = 0.01
"""Standard deviation of a range, as data sheets of lidars state it."""
UNIT_M = 0.001
STREAM = 11
"""Random stream beside a drive's seed, independent of the drive's other noise."""
BEARINGS_RAD = -math.pi + 2.0 * math.pi * np.arange(RAYS) / RAYS


def lidar_rays(base_from_laser: npt.NDArray[np.float64] | None) -> Rays:
    """Return the rays of a lidar at a pose, (4, 4), in the base frame; None: above the base frame's origin.

    The configuration states no height: the plane is `LIDAR_HEIGHT_M` above the floor.
    """
    placed = np.eye(4) if base_from_laser is None else base_from_laser
    level = np.stack([np.cos(BEARINGS_RAD), np.sin(BEARINGS_RAD), np.zeros(RAYS)], axis=-1)
    origin_m = np.array([placed[0, 3], placed[1, 3], LIDAR_HEIGHT_M])
    return Rays(1, RAYS, np.ascontiguousarray(level @ placed[:3, :3].T), origin_m, UNIT_M)


TURN_DEG, TALL_DEG, CLOUD_HEIGHT_M = 360, 30, 0.6
"""Paper 4, section V: 360 x 30 deg at 1 deg. The height above the floor is ours."""


def cloud_rays() -> Rays:
    """Return the rays of paper 4's lidar above the base frame's origin, level in the mean: a row for each elevation."""
    up, around = np.deg2rad(np.mgrid[0:TALL_DEG, 0:TURN_DEG] - np.array([(TALL_DEG - 1) / 2, 180.0])[:, None, None])
    directions = np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], axis=-1)
    origin_m = np.array([0.0, 0.0, CLOUD_HEIGHT_M])
    return Rays(TALL_DEG, TURN_DEG, np.ascontiguousarray(directions.reshape(-1, 3)), origin_m, UNIT_M)


def lidar_cloud(world: World, rays: Rays, pose: Pose, bodies: Bodies = NO_BODIES) -> npt.NDArray[np.float32]:
    """Return (n, 3) the hit points in the base frame [m]; rays without a hit within `MAX_RANGE_M` have none."""
    ranges_m = render_depth(world, rays, pose, bodies).reshape(-1, 1) * UNIT_M
    return (rays.origin_m + ranges_m * rays.directions)[ranges_m[:, 0] > 0.0].astype(np.float32)


def lidar_scan(
    world: World, rays: Rays, pose: Pose, bodies: Bodies = NO_BODIES, noise: tuple[int, int] | None = None
) -> LaserRays:
    """Return a scan from a pose of the base in the map frame; inf where nothing is within `MAX_RANGE_M`.

    noise: seed and number of the scan; None for no noise
    """
    ranges_m = (render_depth(world, rays, pose, bodies)[0] * UNIT_M).astype(np.float32)
    hit = ranges_m > 0.0
    if noise is not None:
        error_m = SD_M * np.random.default_rng((noise[0], STREAM, noise[1])).standard_normal(RAYS)
        ranges_m = np.clip(ranges_m + error_m, NEAR_M, MAX_RANGE_M).astype(np.float32)
    step_rad = 2.0 * math.pi / RAYS
    first_rad = float(BEARINGS_RAD[0])
    return LaserRays(
        angle_min_rad=first_rad,
        angle_max_rad=first_rad + (RAYS - 1) * step_rad,
        increment_rad=step_rad,
        range_min_m=NEAR_M,
        range_max_m=MAX_RANGE_M,
        ranges_m=np.where(hit, ranges_m, np.float32(np.inf)),
    )
