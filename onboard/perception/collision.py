"""Distance to collision along an arc, and whether cameras look in its direction.

All coordinates are in the current base frame. The footprint is a circle about the base's origin, so turning in place
sweeps no new area. An obstacle is a point at the centre of its 2 deg bin: within a metre its error is below 2 cm.

Only obstacles that the motion approaches count. A footprint that overlaps an obstacle may move away from it, never
nearer. Otherwise a robot pushed against a wall could not leave.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
import numpy.typing as npt

from onboard.values.messages import BINS, Scan, Twist

Points = npt.NDArray[np.float64]

BIN_CENTERS_RAD: Points = np.deg2rad(-180.0 + (np.arange(BINS) + 0.5) * 360.0 / BINS)
UNIT: Points = np.stack([np.cos(BIN_CENTERS_RAD), np.sin(BIN_CENTERS_RAD)], axis=1)

REST_MPS = 1e-3
"""Slower than this the base stands, or turns in place."""
STRAIGHT_PER_M = 1e-3
"""Below this curvature an arc counts as straight: 1 mm of lateral error after 1.4 m."""
SMALLEST_M = 1e-9

AHEAD_RAD = math.radians(30.0)
FLANK_RAD = math.radians(70.0)
"""Half-widths of the sectors about the arc's direction that cameras must see. With a gap in the first the robot does
not go, with a gap in the second only slowly. The default robot sees 105 deg to each side."""
LEAD_RAD = math.radians(30.0)
"""Limit of an arc's direction against straight ahead: on a tighter arc the robot mainly turns."""
REAR = Twist(-1.0, 0.0)


class Look(Enum):
    """Whether cameras see the sector into which a motion leads."""

    SEEN = "seen"
    FLANK_BLIND = "flank blind"
    AHEAD_BLIND = "ahead blind"


def obstacles(scan: Scan) -> Points:
    """Return (n, 2) obstacle points of a scan [m]."""
    ranges = scan.ranges_m.astype(np.float64)
    seen = np.isfinite(ranges) & (ranges >= 0.0)
    points: Points = UNIT[seen] * ranges[seen, np.newaxis]
    return points


def looked(scan: Scan) -> npt.NDArray[np.bool_]:
    """Return (180,) bool, the bins that a camera sees; an invalid range (NaN, negative) counts as blind."""
    return scan.seen & (scan.ranges_m >= 0.0)


def braking_m(speed_mps: float, deceleration_mps2: float, reaction_s: float) -> float:
    """Return the braking distance from `speed_mps` [m]: v^2 / 2a + v * reaction."""
    return speed_mps * speed_mps / (2.0 * deceleration_mps2) + speed_mps * reaction_s


def stoppable_mps(way_m: float, deceleration_mps2: float, reaction_s: float) -> float:
    """Return the highest speed from which the robot stops within `way_m`: the inverse of `braking_m`."""
    lost = deceleration_mps2 * reaction_s
    return math.sqrt(lost * lost + 2.0 * deceleration_mps2 * way_m) - lost


def travel_m(points: Points, twist: Twist, radius_m: float) -> float:
    """Return how far the base's origin goes along the arc until a circle of `radius_m` about it meets a point [m].

    0 if the circle overlaps a point and would come nearer. A point that the circle leaves counts when the arc returns
    to it. inf without a collision, and for a base that stands or turns in place.
    """
    if abs(twist.v_mps) < REST_MPS or len(points) == 0:
        return math.inf
    ahead = points[:, 0] * math.copysign(1.0, twist.v_mps)
    aside = points[:, 1]
    curvature = twist.w_radps / twist.v_mps
    if abs(curvature) < STRAIGHT_PER_M:
        return _straight_travel_m(ahead, aside, radius_m)
    # Driving backward mirrors x. As in forward motion, the arc turns to the side where curvature * y is positive.
    return _arc_travel_m(ahead, aside * math.copysign(1.0, curvature), 1.0 / abs(curvature), radius_m)


def _straight_travel_m(ahead: Points, aside: Points, radius_m: float) -> float:
    """Return `travel_m` along +x."""
    inside = radius_m * radius_m - aside * aside
    met = (inside > 0.0) & (ahead > 0.0)
    if not met.any():
        return math.inf
    entries = ahead[met] - np.sqrt(inside[met])
    return max(0.0, float(entries.min()))


def _arc_travel_m(ahead: Points, aside: Points, turn_m: float, radius_m: float) -> float:
    """Return `travel_m` along a circle of radius `turn_m` about (0, turn_m), starting along +x.

    Let d be a point's distance from that centre and phi its angle from the start. The circle overlaps the point while
    the base's angle is within `half` of phi, with sin^2(half / 2) = (radius^2 - (d - turn)^2) / (4 d turn).
    """
    from_center = np.maximum(np.hypot(ahead, aside - turn_m), SMALLEST_M)
    square = (radius_m * radius_m - (from_center - turn_m) ** 2) / (4.0 * from_center * turn_m)
    met = square > 0.0
    if not met.any():
        return math.inf
    half = 2.0 * np.arcsin(np.sqrt(np.minimum(square[met], 1.0)))
    phi = np.arctan2(ahead[met], turn_m - aside[met])
    overlaps = np.abs(phi) < half
    entries = np.where(overlaps & (phi > 0.0), 0.0, np.mod(phi - half, 2.0 * math.pi))
    return turn_m * float(entries.min())


def look(scan: Scan, twist: Twist, way_m: float) -> Look:
    """Return whether cameras see where the arc leads within `way_m`; SEEN for a base that does not translate.

    `way_m` must not depend on the speed. Otherwise slowing a command would change the sector that judges it.
    """
    if abs(twist.v_mps) < REST_MPS:
        return Look.SEEN
    forward = twist.v_mps > 0.0
    lead = 0.5 * way_m * twist.w_radps / twist.v_mps
    lead = min(max(lead, -LEAD_RAD), LEAD_RAD)
    direction = lead if forward else math.pi - lead
    off = np.abs(np.remainder(BIN_CENTERS_RAD - direction + math.pi, 2.0 * math.pi) - math.pi)
    blind = ~looked(scan)
    if (blind & (off <= AHEAD_RAD)).any():
        return Look.AHEAD_BLIND
    return Look.FLANK_BLIND if (blind & (off <= FLANK_RAD)).any() else Look.SEEN


def free_behind_m(scan: Scan | None, out_of_view: Points, radius_m: float) -> float:
    """Return how far a circle of `radius_m` may go straight back [m]: 0 without a scan or without a view to the rear.

    The required sector is `AHEAD_RAD` to each side of straight back. It covers the default robot's corridor from half a
    metre behind the origin on; its rear camera sees 43 deg to each side. Nearer obstacles at the corridor's edge are
    known only from memory: out_of_view (n, 2) [m] (`obstacle_memory.py`).
    """
    if scan is None or look(scan, REAR, 0.0) is Look.AHEAD_BLIND:
        return 0.0
    return travel_m(np.concatenate([obstacles(scan), out_of_view]), REAR, radius_m)
