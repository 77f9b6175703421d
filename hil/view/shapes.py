"""What is drawn of a scan and of a body, as plain points and lines."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from onboard.drivers.ros_types import LaserScan

BLIND_M = 0.6
"""Radius at which sectors that no camera looks into are drawn."""
CIRCLE_CORNERS = 48

Points = npt.NDArray[np.float64]


def scan_points(scan: LaserScan, height_m: float) -> Points:
    """Return (n, 3) points of what was seen, in the frame of the scan; neither inf nor NaN is a point [m]."""
    ranges = np.asarray(scan.ranges, np.float64)
    azimuth = scan.angle_min + scan.angle_increment * np.arange(len(ranges))
    seen = np.isfinite(ranges)
    x, y = ranges[seen] * np.cos(azimuth[seen]), ranges[seen] * np.sin(azimuth[seen])
    return np.column_stack([x, y, np.full(len(x), height_m)])


def blind_sectors(scan: LaserScan, height_m: float, radius_m: float = BLIND_M) -> list[Points]:
    """Return closed lines round the sectors where no camera looks (NaN): from the origin, along the arc, and back.

    The sector across the scan's seam comes as two.
    """
    blind = np.isnan(np.asarray(scan.ranges, np.float64))
    half = scan.angle_increment / 2.0
    sectors = []
    for first, last in _stretches(blind):
        azimuth = scan.angle_min + scan.angle_increment * np.arange(first, last + 1)
        edges = np.r_[azimuth[0] - half, azimuth, azimuth[-1] + half]
        arc = np.column_stack([radius_m * np.cos(edges), radius_m * np.sin(edges)])
        line = np.vstack([np.zeros((1, 2)), arc, np.zeros((1, 2))])
        sectors.append(np.column_stack([line, np.full(len(line), height_m)]))
    return sectors


def circle(radius_m: float, height_m: float) -> Points:
    """Return (n, 3) corners of a closed circle about the origin [m]."""
    angle = np.linspace(0.0, 2.0 * math.pi, CIRCLE_CORNERS + 1)
    return np.column_stack([radius_m * np.cos(angle), radius_m * np.sin(angle), np.full(len(angle), height_m)])


def _stretches(flags: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield first and last index of every stretch of True."""
    change = np.flatnonzero(np.diff(np.r_[False, flags, False]))
    yield from zip(change[::2].tolist(), (change[1::2] - 1).tolist(), strict=True)
