"""How far the robot may go along an arc before its footprint meets something seen, and whether anybody looks that way.

Everything is in the base frame now. The footprint is a circle about the base's origin, so turning in place sweeps
nothing new. An obstacle is the point at the centre of its 2 deg bin at the bin's range: within a metre it is placed to
2 cm.

Only what the motion *approaches* counts. A circle that already overlaps an obstacle may move away from it, never
nearer, else a robot that was pushed against a wall would be held there for good.
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
"""Below this curvature an arc is taken as straight: 1 mm aside after 1.4 m."""
SMALLEST_M = 1e-9

AHEAD_RAD = math.radians(30.0)
FLANK_RAD = math.radians(70.0)
"""Half-widths of the sectors, about the direction in which the arc leads, that must be looked at: without the first the
robot does not go there, without the second only slowly. The default robot looks 105 deg to each side."""
LEAD_RAD = math.radians(30.0)
"""The most that an arc's direction is turned from straight ahead: on a tighter one the robot rather turns than goes."""
REAR = Twist(-1.0, 0.0)


class Look(Enum):
    """What the cameras know of the sector into which a motion leads."""

    SEEN = "seen"
    FLANK_BLIND = "flank blind"
    AHEAD_BLIND = "ahead blind"


def obstacles(scan: Scan) -> Points:
    """Return (n, 2) points of everything seen [m]."""
    ranges = scan.ranges_m.astype(np.float64)
    seen = np.isfinite(ranges) & (ranges >= 0.0)
    points: Points = UNIT[seen] * ranges[seen, np.newaxis]
    return points


def looked(scan: Scan) -> npt.NDArray[np.bool_]:
    """Return (180,) where a camera looks; a range that is no distance (NaN, negative) counts as blind."""
    return scan.seen & (scan.ranges_m >= 0.0)


def braking_m(speed_mps: float, deceleration_mps2: float, reaction_s: float) -> float:
    """Return the way from `speed_mps` to rest: v^2 / 2a + v * reaction."""
    return speed_mps * speed_mps / (2.0 * deceleration_mps2) + speed_mps * reaction_s


def stoppable_mps(way_m: float, deceleration_mps2: float, reaction_s: float) -> float:
    """Return the greatest speed that can be brought to rest within `way_m`: the inverse of `braking_m`."""
    lost = deceleration_mps2 * reaction_s
    return math.sqrt(lost * lost + 2.0 * deceleration_mps2 * way_m) - lost


def travel_m(points: Points, twist: Twist, radius_m: float) -> float:
    """Return how far the base's origin goes along the arc until a circle of `radius_m` about it meets a point.

    0 where the circle overlaps a point and would come nearer; a point that it leaves counts when the arc comes round
    again; inf where it never meets one, and for a base that stands or turns in place.
    """
    if abs(twist.v_mps) < REST_MPS or len(points) == 0:
        return math.inf
    ahead = points[:, 0] * math.copysign(1.0, twist.v_mps)
    aside = points[:, 1]
    curvature = twist.w_radps / twist.v_mps
    if abs(curvature) < STRAIGHT_PER_M:
        return _straight_travel_m(ahead, aside, radius_m)
    # Driving backward mirrors x; the arc then turns to the side where curvature * y is positive, as forward.
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

    With d a point's distance from that centre and phi its angle past the start, the circle overlaps it while the base's
    own angle is within `half` of phi, sin^2(half / 2) = (radius^2 - (d - turn)^2) / (4 d turn).
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
    """Return whether the cameras look where the arc leads within `way_m`; SEEN when it leads nowhere.

    `way_m` must not depend on the speed: else a command that was slowed down would be judged by another sector.
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
    """Return how far a circle of `radius_m` may go straight back [m]: 0 without a scan or where nobody looks there.

    The sector that must be looked at is `AHEAD_RAD` to each side of straight back, which holds the whole width of the
    default robot's corridor from half a metre behind the origin on. Its rear camera looks 43 deg to each side. What
    stands nearer, at the corridor's edge in a blind sector, is known only where it was seen before: out_of_view (n, 2)
    [m] (`obstacle_memory.py`).
    """
    if scan is None or look(scan, REAR, 0.0) is Look.AHEAD_BLIND:
        return 0.0
    return travel_m(np.concatenate([obstacles(scan), out_of_view]), REAR, radius_m)
