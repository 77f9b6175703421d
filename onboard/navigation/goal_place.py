"""What stands about the goal: whether obstacles that were seen close all paths to it. Pure.

A scan shows only the near faces of what surrounds the goal. So the mission keeps, for each bearing from the goal, the
return nearest to it, and drops those that a later scan sees past. The goal is enclosed when the robot is outside of
this ring, and no gap between neighbours in it is wide enough for the robot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from onboard.perception import collision
from onboard.perception.collision import Points
from onboard.perception.kernels import bins_of
from onboard.values.geometry import apply, inverse
from onboard.values.messages import BINS, Pose, Scan

Ring = tuple[tuple[float, float], ...]
"""Points relative to the goal, in the axes of the start frame [m], by ascending bearing; at most one a sector."""

JUDGED_M = 2.5
"""From farther away nothing is judged about the goal: an error of 0.05 rad in yaw moves it by 0.12 m there, and a robot
that is tilted by a degree sees the floor 3 m ahead as an obstacle."""
SECTORS = 36
RING_M = 1.2
"""Obstacles farther from the goal are not part of the ring."""
PAST_M = 0.15
"""A scan that sees this much farther than a point sees past it."""
SLACK_M = 0.05
"""A gap must be this much narrower than the robot: the pose, and so the points, are uncertain."""
WIDEST_RAD = math.radians(150.0)
"""Neighbours in a ring about the goal are at most so far apart, seen from the goal."""


def ring_after(ring: Ring, scan: Scan, pose: Pose, goal_xy_m: tuple[float, float]) -> Ring:
    """Return the ring after a scan. pose: of the base in the start frame, at the scan."""
    kept = [point for point, past in zip(ring, _sees_past(ring, scan, pose, goal_xy_m), strict=True) if not past]
    seen = collision.obstacles(scan)
    c, s = math.cos(pose.yaw_rad), math.sin(pose.yaw_rad)
    x_m = c * seen[:, 0] - s * seen[:, 1] + (pose.x_m - goal_xy_m[0])
    y_m = s * seen[:, 0] + c * seen[:, 1] + (pose.y_m - goal_xy_m[1])
    near = x_m * x_m + y_m * y_m <= RING_M * RING_M
    return _nearest([*kept, *zip(x_m[near].tolist(), y_m[near].tolist(), strict=True)])


def is_enclosed(ring: Ring, off_m: tuple[float, float], radius_m: float) -> bool:
    """Return whether a robot cannot come from `off_m`, relative to the goal, to the goal.

    radius_m: of a circle inside the footprint
    """
    widest_m = 2.0 * radius_m - SLACK_M
    at_rad = math.atan2(off_m[1], off_m[0])
    for (x, y), (next_x, next_y) in zip(ring, ring[1:] + ring[:1], strict=True):
        first_rad = math.atan2(y, x)
        turn = (math.atan2(next_y, next_x) - first_rad) % (2.0 * math.pi)
        if math.hypot(next_x - x, next_y - y) >= widest_m or turn > WIDEST_RAD:
            return False
        if (at_rad - first_rad) % (2.0 * math.pi) <= turn:
            inside = math.hypot(*off_m) <= max(math.hypot(x, y), math.hypot(next_x, next_y))
            if inside:
                return False
    return len(ring) > 2


def _sees_past(ring: Ring, scan: Scan, pose: Pose, goal_xy_m: tuple[float, float]) -> list[bool]:
    """Return for each point whether the scan sees farther in its bin and in those beside it."""
    if not ring:
        return []
    to = inverse(pose)
    points: Points = np.array([apply(to, (goal_xy_m[0] + x, goal_xy_m[1] + y)) for x, y in ring])
    bins, away_m = bins_of(points[:, 0], points[:, 1]), np.hypot(points[:, 0], points[:, 1])
    past = np.ones(len(ring), np.bool_)
    for side in (-1, 0, 1):
        beside = (bins + side) % BINS
        past &= scan.seen[beside] & (scan.ranges_m[beside] > away_m + PAST_M)
    sees: list[bool] = past.tolist()
    return sees


def _nearest(points: Iterable[tuple[float, float]]) -> Ring:
    """Return the point nearest to the goal in each sector, by bearing."""
    found: dict[int, tuple[float, float, float]] = {}
    for x, y in points:
        sector = math.floor((math.atan2(y, x) + math.pi) * SECTORS / (2.0 * math.pi)) % SECTORS
        away_m = math.hypot(x, y)
        if sector not in found or away_m < found[sector][0]:
            found[sector] = away_m, x, y
    ring = sorted(((x, y) for _, x, y in found.values()), key=lambda point: math.atan2(point[1], point[0]))
    return tuple(ring)
