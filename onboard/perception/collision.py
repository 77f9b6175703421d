"""Distance to collision along an arc, and whether cameras look in its direction.

All coordinates are in the current base frame. The footprint is a circle about the base's origin, or a polygon. Turning
in place, a circle sweeps no new area, but the corners of a polygon do. An obstacle is a point at the centre of its
2 deg bin: within a metre its error is below 2 cm.

Only obstacles that the motion approaches count. A footprint that overlaps an obstacle may move away from it, never
nearer. Otherwise a robot pushed against a wall could not leave.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
import numpy.typing as npt

from onboard.config.footprint import Footprint, edges_of, nearest
from onboard.values.geometry import TURN_RAD
from onboard.values.kernel import compilable, kernel
from onboard.values.messages import BINS, Scan, Twist

Points = npt.NDArray[np.float64]
_UP = np.array([0.0, 1.0])

BIN_CENTERS_RAD: Points = np.deg2rad(-180.0 + (np.arange(BINS) + 0.5) * 360.0 / BINS)
UNIT: Points = np.stack([np.cos(BIN_CENTERS_RAD), np.sin(BIN_CENTERS_RAD)], axis=1)

REST_MPS = 1e-3
"""Slower than this the base stands, or turns in place."""
STRAIGHT_PER_M = 1e-3
"""Below this curvature an arc counts as straight: 1 mm of lateral error after 1.4 m."""
SMALLEST_M = 1e-9
NEARER_M = 1e-3
"""A polygon beside an obstacle, with less than its margin, may pass it at most this much nearer than it is now."""

AHEAD_RAD = math.radians(30.0)
FLANK_RAD = math.radians(70.0)
"""Half-widths of the sectors about the arc's direction that cameras must see. With a gap in the first the robot does
not go, with a gap in the second only slowly. The default robot sees 105 deg to each side."""
LEAD_RAD = math.radians(30.0)
"""Limit of an arc's direction against straight ahead: on a tighter arc the robot mainly turns."""
REAR = Twist(-1.0, 0.0)


class SectorView(Enum):
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


def blind_sectors_deg(seen: npt.NDArray[np.bool_]) -> list[tuple[float, float]]:
    """Return from and to of each sector that no camera sees [deg], counter-clockwise, 0 ahead. seen: (180,) bool."""
    if not seen.any():
        return [(-180.0, 180.0)]
    starts = np.flatnonzero(~seen & np.roll(seen, 1))
    sectors = []
    for start in starts:
        count = next(n for n in range(1, BINS + 1) if seen[(start + n) % BINS])
        first = float(start * 360.0 / BINS - 180.0)
        sectors.append((first, first + float(count * 360.0 / BINS)))
    return sectors


# ---- The zones' arithmetic, for the runtime and for simulation at speed


@compilable
def braking_m(speed_mps: float, deceleration_mps2: float, reaction_s: float) -> float:
    """Return the braking distance from `speed_mps` [m]: v^2 / 2a + v * reaction."""
    return speed_mps * speed_mps / (2.0 * deceleration_mps2) + speed_mps * reaction_s


@compilable
def stoppable_mps(way_m: float, deceleration_mps2: float, reaction_s: float) -> float:
    """Return the highest speed from which the robot stops within `way_m`: the inverse of `braking_m`."""
    lost = deceleration_mps2 * reaction_s
    return math.sqrt(lost * lost + 2.0 * deceleration_mps2 * way_m) - lost


@compilable
def contact_mps(way_m: float, time_s: float) -> float:
    """Return the speed at which `way_m` takes `time_s`; inf if `time_s` is 0."""
    return way_m / time_s if time_s > 0.0 else math.inf


@compilable
def ring_mps(way_m: float, braking_way_m: float, mps: float) -> float:
    """Return the speed that a ring of the slow zone allows with an obstacle `way_m` ahead of it: `mps`, or inf."""
    return mps if way_m <= braking_way_m else math.inf


@compilable
def point_travel_m(x_m: float, y_m: float, v_mps: float, w_radps: float, radius_m: float) -> float:
    """Return `travel_m` of a circle about the base for one point and a twist that moves the base [m].

    On an arc about (0, turn) let d be the point's distance from that centre and phi its angle from the start. The
    circle overlaps the point while the base's angle is within `half` of phi, with
    sin^2(half / 2) = (radius^2 - (d - turn)^2) / (4 d turn).
    """
    # Driving backward mirrors x. As in forward motion, the arc turns to the side where curvature * y is positive.
    ahead = -x_m if v_mps < 0.0 else x_m
    curvature = w_radps / v_mps
    if abs(curvature) < STRAIGHT_PER_M:
        inside = radius_m * radius_m - y_m * y_m
        return max(0.0, ahead - math.sqrt(inside)) if inside > 0.0 and ahead > 0.0 else math.inf
    aside = -y_m if curvature < 0.0 else y_m
    turn_m = 1.0 / abs(curvature)
    from_center = max(math.hypot(ahead, aside - turn_m), SMALLEST_M)
    off_m = from_center - turn_m
    square = (radius_m * radius_m - off_m * off_m) / (4.0 * from_center * turn_m)
    if not square > 0.0:
        return math.inf
    half = 2.0 * math.asin(math.sqrt(min(square, 1.0)))
    phi = math.atan2(ahead, turn_m - aside)
    return 0.0 if 0.0 < phi < half else turn_m * ((phi - half) % TURN_RAD)


@kernel
def circle_travel_m(points: Points, v_mps: float, w_radps: float, radius_m: float) -> float:
    """Return `travel_m` of a circle about the base for a twist that moves the base [m]."""
    least_m = math.inf
    for i in range(len(points)):
        least_m = min(least_m, point_travel_m(points[i, 0], points[i, 1], v_mps, w_radps, radius_m))
    return least_m


def warm_up() -> None:
    """Compile `circle_travel_m`."""
    circle_travel_m(np.zeros((1, 2)), 1.0, 0.0, 1.0)


# ---- Ways of the runtime's footprints


def travel_m(points: Points, twist: Twist, footprint: Footprint) -> float:
    """Return how far the base's origin goes along the arc until the footprint meets a point [m].

    0 if the footprint overlaps a point and would come nearer. A point that the footprint leaves counts when the arc
    returns to it. inf without a collision, and for a base that stands or turns in place (`turn_rad`).
    """
    if abs(twist.v_mps) < REST_MPS or len(points) == 0:
        return math.inf
    if footprint.is_round:
        at = np.ascontiguousarray(points, np.float64)
        return float(circle_travel_m(at, float(twist.v_mps), float(twist.w_radps), float(footprint.radius_m)))
    forward, curvature = math.copysign(1.0, twist.v_mps), twist.w_radps / twist.v_mps
    straight = abs(curvature) < STRAIGHT_PER_M
    left = 1.0 if straight else math.copysign(1.0, curvature)
    turn_m = math.inf if straight else 1.0 / abs(curvature)
    return _polygon_travel(points * [forward, left], _mirrored(footprint, forward, left), turn_m)


def turn_rad(points: Points, w_radps: float, footprint: Footprint) -> float:
    """Return how far the base turns in place until the footprint meets a point [rad]; as `travel_m`, inf for a circle.

    The sign of `w_radps` is the side to turn to.
    """
    if footprint.is_round or w_radps == 0.0 or len(points) == 0:
        return math.inf
    left = math.copysign(1.0, w_radps)
    return _polygon_travel(points * [1.0, left], _mirrored(footprint, 1.0, left), 0.0)


def _mirrored(footprint: Footprint, x: float, y: float) -> Footprint:
    """Return a polygon with its axes multiplied by 1 or -1, counter-clockwise again."""
    corners = tuple((x * corner[0], y * corner[1]) for corner in footprint.corners_m)
    return Footprint(footprint.radius_m, corners if x * y > 0.0 else corners[::-1])


def _polygon_travel(points: Points, footprint: Footprint, turn_m: float) -> float:
    """Return `travel_m` of a polygon along a circle of radius `turn_m` about (0, turn_m), starting along +x.

    For inf the motion is straight. For 0 it is a turn in place, and the result an angle [rad].

    Seen from the robot, a point moves clockwise on a circle about (0, turn_m), or along -x. It meets the footprint
    where it enters the disc about a corner, or crosses an edge that is moved outward by the radius.
    """
    distance_m, away = nearest(points, footprint.corners_m)
    offset = points - [0.0, 0.0 if math.isinf(turn_m) else turn_m]
    motion = np.array([-1.0, 0.0]) if math.isinf(turn_m) else np.column_stack([offset[:, 1], -offset[:, 0]])
    if ((distance_m < footprint.radius_m) & (np.sum(away * motion, axis=1) < -SMALLEST_M)).any():
        return 0.0
    # Nearer than the radius and not approached now: as near as now is allowed.
    radius_m = np.minimum(footprint.radius_m, np.maximum(distance_m - NEARER_M, 0.0))
    radius_m[distance_m >= footprint.radius_m] = footprint.radius_m
    entries = _straight_entries if math.isinf(turn_m) else _arc_entries
    first = float(entries(points, radius_m[:, np.newaxis], footprint, turn_m).min())
    return max(first, 0.0) * (turn_m if 0.0 < turn_m < math.inf else 1.0)


def _straight_entries(points: Points, radius_m: Points, footprint: Footprint, turn_m: float) -> Points:
    """Return (n, 2 m) ways along +x until each point comes within its radius (n, 1) of each edge or corner; or inf."""
    edges = edges_of(footprint.corners_m)
    offset = points[:, np.newaxis] - edges.start_m
    across = offset @ _UP
    with np.errstate(divide="ignore", invalid="ignore"):
        by_corner = offset[:, :, 0] - np.sqrt(radius_m * radius_m - across * across)
        by_edge = (np.sum(offset * edges.outward, axis=2) - radius_m) / edges.outward[:, 0]
        place = np.sum(offset * edges.along, axis=2) - by_edge * edges.along[:, 0]
        # A point enters across an edge that faces ahead.
        met = (edges.outward[:, 0] > 0.0) & (place >= -SMALLEST_M) & (place <= edges.length_m + SMALLEST_M)
        ways = np.concatenate([by_corner, np.where(met, by_edge, math.inf)], axis=1)
        return np.where(ways >= -SMALLEST_M, ways, math.inf)


def _arc_entries(points: Points, radius_m: Points, footprint: Footprint, turn_m: float) -> Points:
    """Return (n, 2 m) angles of the arc about (0, turn_m), as `_straight_entries`."""
    center, edges = np.array([0.0, turn_m]), edges_of(footprint.corners_m)
    offset, start = points - center, edges.start_m - center
    from_center, phi = np.hypot(*offset.T)[:, np.newaxis], np.arctan2(offset[:, 1], offset[:, 0])[:, np.newaxis]
    corner_m, corner_phi = np.hypot(*start.T), np.arctan2(start[:, 1], start[:, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        square = (radius_m * radius_m - (from_center - corner_m) ** 2) / (4.0 * from_center * corner_m)
        half = 2.0 * np.arcsin(np.sqrt(square))
        height_m = np.sum(start * edges.outward, axis=1) + radius_m
        facing = np.arctan2(edges.outward[:, 1], edges.outward[:, 0])
        enters = facing - np.arccos(height_m / from_center)
        place = from_center * np.cos(enters - facing - 0.5 * math.pi) - np.sum(start * edges.along, axis=1)
        met = (place >= -SMALLEST_M) & (place <= edges.length_m + SMALLEST_M)
        turns = np.concatenate([phi - corner_phi - half, np.where(met, phi - enters, math.nan)], axis=1)
        turns = np.mod(turns + SMALLEST_M, TURN_RAD) - SMALLEST_M
        return np.where(np.isnan(turns), math.inf, turns)


def view_sector(scan: Scan, twist: Twist, way_m: float) -> SectorView:
    """Return whether cameras see where the arc leads within `way_m`; SEEN for a base that does not translate.

    `way_m` must not depend on the speed. Otherwise slowing a command would change the sector that judges it.
    """
    if abs(twist.v_mps) < REST_MPS:
        return SectorView.SEEN
    forward = twist.v_mps > 0.0
    lead = 0.5 * way_m * twist.w_radps / twist.v_mps
    lead = min(max(lead, -LEAD_RAD), LEAD_RAD)
    direction = lead if forward else math.pi - lead
    off = np.abs(np.remainder(BIN_CENTERS_RAD - direction + math.pi, 2.0 * math.pi) - math.pi)
    blind = ~looked(scan)
    if (blind & (off <= AHEAD_RAD)).any():
        return SectorView.AHEAD_BLIND
    return SectorView.FLANK_BLIND if (blind & (off <= FLANK_RAD)).any() else SectorView.SEEN


def free_behind_m(scan: Scan | None, out_of_view: Points, footprint: Footprint) -> float:
    """Return how far a footprint may go straight back [m]: 0 without a scan or without a view to the rear.

    The required sector is `AHEAD_RAD` to each side of straight back. It covers the default robot's corridor from half a
    metre behind the origin on; its rear camera sees 43 deg to each side. Nearer obstacles at the corridor's edge are
    known only from memory: out_of_view (n, 2) [m] (`obstacle_memory.py`).
    """
    if scan is None or view_sector(scan, REAR, 0.0) is SectorView.AHEAD_BLIND:
        return 0.0
    return travel_m(np.concatenate([obstacles(scan), out_of_view]), REAR, footprint)
