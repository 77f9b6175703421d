"""A laser's scan as the runtime takes it: round the base, whatever the laser's place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hil.importing.frames import Transform
from onboard.drivers import ros_types as ros
from onboard.drivers.ros_messages import rays_from_ros, ros_scan
from onboard.errors import InputError
from onboard.laser import BIN_RAD, MOST_RAYS, TOO_CLOSE_M
from onboard.messages import BINS, Scan


def seen_from_base(sample: ros.LaserScan, base_from_laser: Transform, base_frame: str) -> ros.LaserScan:
    """Return the scan seen from the base: each ray's end, and of each bin the nearest.

    A ray that ends nowhere vouches for the bin in which it leaves the laser's reach. One that was taken at the base is
    passed on as it is. Raises InputError for one that is none.
    """
    header = ros.Header(sample.header.stamp, base_frame)
    if np.array_equal(base_from_laser, np.eye(4)):
        return replace(sample, header=header)
    rays = rays_from_ros(sample)
    count, reach_m = len(rays.ranges_m), rays.range_max_m
    if not (0 < count <= MOST_RAYS and math.isfinite(reach_m) and math.isfinite(rays.increment_rad)):
        raise InputError(f"a laser scan of {count} rays, every {rays.increment_rad} rad, up to {reach_m} m is none")
    too_close = max(rays.range_min_m, TOO_CLOSE_M)
    ranges = np.where(np.isneginf(rays.ranges_m), too_close, rays.ranges_m).astype(np.float64)
    with np.errstate(invalid="ignore"):
        hits = (ranges >= rays.range_min_m) & (ranges <= reach_m)
    nothing = np.isposinf(ranges)
    azimuth = rays.angle_min_rad + np.arange(count) * rays.increment_rad
    lengths = np.where(hits, ranges, reach_m)
    ends = np.stack([lengths * np.cos(azimuth), lengths * np.sin(azimuth), np.zeros(count)])
    x, y, _ = base_from_laser[:3, :3] @ ends + base_from_laser[:3, 3:]
    bins = np.floor((np.arctan2(y, x) + math.pi) / BIN_RAD).astype(np.int64) % BINS
    nearest = np.full(BINS, np.inf, np.float32)
    np.minimum.at(nearest, bins[hits], np.hypot(x, y)[hits].astype(np.float32))
    seen = np.zeros(BINS, np.bool_)
    seen[bins[hits | nothing]] = True
    stamp_ns = sample.header.stamp.sec * 1_000_000_000 + sample.header.stamp.nanosec
    return ros_scan(stamp_ns, base_frame, Scan(stamp_ns, nearest, seen), reach_m)
