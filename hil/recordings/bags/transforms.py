"""A laser scan in the base frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import ns_from_time, rays_from_ros, ros_scan
from onboard.perception.laser_scan import scan_of_rays
from onboard.values.frames import Transform


def seen_from_base(sample: ros.LaserScan, base_from_laser: Transform, base_frame: str) -> ros.LaserScan:
    """Return the scan in the base frame: the nearest end of a ray in each bin.

    A ray without a hit marks the bin at the laser's reach as seen. A scan taken at the base is returned unchanged.
    Raises InputError for a bad scan.
    """
    header = ros.Header(sample.header.stamp, base_frame)
    if np.array_equal(base_from_laser, np.eye(4)):
        return replace(sample, header=header)
    rays, stamp_ns = rays_from_ros(sample), ns_from_time(sample.header.stamp)
    return ros_scan(stamp_ns, base_frame, scan_of_rays(rays, stamp_ns, base_from_laser), rays.range_max_m)
