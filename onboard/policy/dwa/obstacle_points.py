"""Obstacle points of a scan: visible obstacles, and possible obstacles where no camera looks."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.perception.collision import BIN_CENTERS_RAD, UNIT
from onboard.values.kernel import kernel
from onboard.values.messages import BINS, Pose, Scan

Floats = npt.NDArray[np.float64]

HIDDEN_M = 1.6
"""Nearer than this, a low camera does not see an obstacle that hangs at the robot's height."""
BLIND_M = 0.10
"""In blind bins an obstacle is assumed at this distance beyond the footprint."""
AHEAD_BINS: npt.NDArray[np.bool_] = np.abs(BIN_CENTERS_RAD) < 0.35
"""The robot is blind ahead if all these bins are blind."""


def seen_or_known(scan: Scan, radius_m: float) -> npt.NDArray[np.bool_]:
    """Return (180,) bool, bins that a camera sees, or saw free a moment ago beyond the footprint.

    radius_m: of the circle that holds the footprint
    """
    known = np.isfinite(scan.ranges_m) & (scan.ranges_m > radius_m + BLIND_M)
    return np.asarray(scan.seen | known)


def blind_ahead(scan: Scan) -> bool:
    """Return whether no camera looks ahead, and the scan does not tell how far known ground reaches there."""
    return not (scan.seen | np.isfinite(scan.ranges_m))[AHEAD_BINS].any()


def obstacle_points(
    scan: Scan, pose: Pose, remembered: Floats, look_m: float, radius_m: float
) -> tuple[Floats, Floats]:
    """Return visible and possible obstacles as points (k, 2) in the frame of the pose, all nearer than `look_m`.

    Possible obstacles are a point in every blind bin, and remembered places (n, 2) in a blind bin or nearer than
    `HIDDEN_M`. The point is where the ground ends that was seen free a moment ago (`free_ground.told`), at least
    `BLIND_M` beyond the radius.

    radius_m: of the circle that holds the footprint
    """
    place = pose.x_m, pose.y_m, pose.yaw_rad
    seen, unseen = _points(scan.ranges_m, scan.seen, remembered, place, look_m, radius_m + BLIND_M)
    return seen, unseen


@kernel
def _points(
    ranges_m: npt.NDArray[np.float32], looked: npt.NDArray[np.bool_], remembered: Floats,
    place: tuple[float, float, float], look_m: float, guard_m: float,
) -> tuple[Floats, Floats]:  # fmt: skip  # pragma: no cover - compiled
    x_m, y_m, yaw_rad = place
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    seen, unseen = np.empty((BINS, 2)), np.empty((BINS + len(remembered), 2))
    n, m = 0, 0
    for k in range(BINS):
        dx, dy = UNIT[k, 0], UNIT[k, 1]
        dx, dy = c * dx - s * dy, s * dx + c * dy
        if not looked[k]:
            far_m = max(guard_m, ranges_m[k]) if math.isfinite(ranges_m[k]) else guard_m
            if far_m < look_m:
                unseen[m, 0], unseen[m, 1] = x_m + far_m * dx, y_m + far_m * dy
                m += 1
        elif ranges_m[k] < look_m:
            seen[n, 0], seen[n, 1] = x_m + ranges_m[k] * dx, y_m + ranges_m[k] * dy
            n += 1
    for k in range(len(remembered)):
        dx, dy = remembered[k, 0] - x_m, remembered[k, 1] - y_m
        squared_m2 = dx * dx + dy * dy
        if squared_m2 < look_m * look_m:
            azimuth = math.atan2(dy, dx) - yaw_rad + math.pi
            if squared_m2 < HIDDEN_M * HIDDEN_M or not looked[math.floor(azimuth / (2.0 * math.pi / BINS)) % BINS]:
                unseen[m] = remembered[k]
                m += 1
    return seen[:n], unseen[:m]
