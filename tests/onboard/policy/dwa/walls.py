"""Walls as segments: an exact scan of them, and the distance to them. For tests of policies without a building."""

from __future__ import annotations

import math

import numpy as np

from onboard.perception.collision import BIN_CENTERS_RAD
from onboard.values.messages import BINS, Pose, Scan

Walls = np.ndarray
"""(n, 4) segments x0, y0, x1, y1 in the start frame [m]."""

NO_WALLS = np.empty((0, 4))


def box(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float, float, float]]:
    return [(x0, y0, x1, y0), (x1, y0, x1, y1), (x1, y1, x0, y1), (x0, y1, x0, y0)]


def scan_from(walls: Walls, pose: Pose, seen: np.ndarray) -> Scan:
    """Return the exact ranges along the bins' middles, blind where no camera looks."""
    ranges = np.full(BINS, np.inf)
    angle = BIN_CENTERS_RAD + pose.yaw_rad
    rays = np.stack([np.cos(angle), np.sin(angle)])
    for x0, y0, x1, y1 in walls:
        along, to_start = np.array([x1 - x0, y1 - y0]), np.array([x0 - pose.x_m, y0 - pose.y_m])
        cross = rays[0] * along[1] - rays[1] * along[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            range_m = (to_start[0] * along[1] - to_start[1] * along[0]) / cross
            part = (to_start[0] * rays[1] - to_start[1] * rays[0]) / cross
        hit = (range_m > 0) & (part >= 0) & (part <= 1)
        ranges[hit] = np.minimum(ranges[hit], range_m[hit])
    ranges[(ranges > 10.0) | ~seen] = np.inf
    return Scan(0, ranges.astype(np.float32), seen.copy())


def distance_to(walls: Walls, pose: Pose) -> float:
    """Return the distance from the robot's centre to the nearest wall [m]."""
    nearest = math.inf
    for x0, y0, x1, y1 in walls:
        dx, dy = x1 - x0, y1 - y0
        part = ((pose.x_m - x0) * dx + (pose.y_m - y0) * dy) / (dx * dx + dy * dy)
        part = min(max(part, 0.0), 1.0)
        nearest = min(nearest, math.hypot(x0 + part * dx - pose.x_m, y0 + part * dy - pose.y_m))
    return nearest
