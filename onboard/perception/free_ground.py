"""Ground near the robot that a camera saw free a moment ago, for sectors that no camera sees now. Pure.

Where a camera is lost, the limits let the robot drive over this ground alone, slowly (R12 of
`onboard/safety/limits.py`). Each cell of the odometry frame has the time at which it was last seen free: all bins that
it touches look beyond it, in full view. Near the edge of its view a camera sees the floor, but no edge of a table.
A return in a cell takes its time away, also at the edge of a view.

The images of one scan may be younger than its stamp, and the robot turns while it looks. So a cell takes up all
bearings that it has had between the stamp and now. Ground nearer than a camera's least range counts as free, as it does
for a camera that works: what was seen there before is in `obstacle_memory.py`. The time for which a cell counts is
`limits.seen_free_s` in `onboard/config/config.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard.config.footprint import Footprint
from onboard.perception import collision
from onboard.perception.collision import Points
from onboard.perception.kernels import bins_of
from onboard.perception.obstacle_memory import AHEAD, FLANK_BINS, REACH_M, Surroundings
from onboard.values.geometry import wrap
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_RAD, BINS, Pose, Scan, Twist

Stamps = npt.NDArray[np.int64]

CELL_M = 0.05
HALF = math.ceil(REACH_M / CELL_M) + 1
SIDE = 2 * HALF + 1
"""Cells along one side of the square about the robot."""
EDGE_M = 0.5 * CELL_M
"""An unknown cell begins so far before its centre: the footprint keeps this much more distance from it."""
HALF_DIAGONAL_M = math.sqrt(0.5) * CELL_M
NEVER_NS = 0
STRAIGHT = Twist(1.0, 0.0)


@dataclass(frozen=True, slots=True)
class FreeGround:
    """The cells about the robot.

    corner:    (a, b) of the first cell; cell (a, b) covers [a, a + 1) x [b, b + 1) times `CELL_M` of the odometry frame
    stamps_ns: (SIDE, SIDE) time at which the cell was last seen free, NEVER_NS if never; (0, 0) while cameras look all
               around ahead, so that there is nothing to remember
    scan_ns:   stamp of the newest scan that was entered
    """

    corner: tuple[int, int] = (0, 0)
    stamps_ns: Stamps = field(default_factory=lambda: np.empty((0, 0), np.int64))
    scan_ns: int = 0


def advance(ground: FreeGround, scan: Scan, seen_from: Pose, pose: Pose) -> FreeGround:
    """Return the cells after a tick.

    scan:      the newest, fresh; each scan is entered once
    seen_from: pose of the base at the scan's stamp, in a frame without jumps (odometry)
    pose:      of the base now
    """
    looked = collision.looked(scan)
    if looked[AHEAD].all():
        return FreeGround() if len(ground.stamps_ns) else ground
    moved = _moved(ground, (math.floor(pose.x_m / CELL_M) - HALF, math.floor(pose.y_m / CELL_M) - HALF))
    if scan.stamp_ns == ground.scan_ns:
        return moved
    full = np.all([np.roll(looked, side) for side in range(-FLANK_BINS, FLANK_BINS + 1)], axis=0)
    ranges_m = np.where(looked, scan.ranges_m, np.float32(np.inf))
    stamps_ns = moved.stamps_ns.copy()
    place = seen_from.x_m, seen_from.y_m, seen_from.yaw_rad
    _enter(stamps_ns, moved.corner, place, wrap(pose.yaw_rad - seen_from.yaw_rad), ranges_m, full, scan.stamp_ns)
    return FreeGround(moved.corner, stamps_ns, scan.stamp_ns)


def unknown(
    ground: FreeGround, scan: Scan, pose: Pose, now_ns: int, free_ns: int, footprint: Footprint
) -> Points | None:
    """Return (k, 2) ground in a blind sector that was not seen free in the last `free_ns`, in the base frame [m].

    The points are centres of cells: an unknown cell begins `EDGE_M` before its centre. The ground under the robot is
    known. None without a memory: all ground that no camera sees is then unknown.
    """
    if free_ns == 0 or not len(ground.stamps_ns):
        return None
    place = pose.x_m, pose.y_m, pose.yaw_rad
    left = _unknown(ground.stamps_ns, ground.corner, place, collision.looked(scan), now_ns, free_ns)
    return left[~footprint.covers(left)]


def free_path_m(
    ground: FreeGround, scan: Scan, pose: Pose, now_ns: int, free_ns: int, footprint: Footprint, swept: Footprint
) -> float:
    """Return how far a robot at a pose may go straight ahead over ground that was seen free lately [m].

    scan:  its blind sectors count, its ranges do not
    swept: the footprint with its margin. 0 without a memory, inf as far as the memory reaches
    """
    points, known = unknown(ground, scan, pose, now_ns, free_ns, footprint), swept.grown(EDGE_M)
    if points is None:
        return 0.0
    return collision.travel_m(points[np.abs(points[:, 1]) <= known.reach_m], STRAIGHT, known)


def with_unknown_ground(scan: Scan, surroundings: Surroundings) -> Scan:
    """Return the policy's scan: in bins that no scan sees, the range to the nearest unknown ground.

    `seen` stays False there. Without a memory the scan stays as it is.
    """
    points = surroundings.unknown
    if points is None:
        return scan
    nearest_m, bins = np.full(BINS, REACH_M, np.float32), bins_of(points[:, 0], points[:, 1])
    centres_m = np.hypot(points[:, 0], points[:, 1])
    wide = (np.arcsin(np.minimum(HALF_DIAGONAL_M / centres_m, 1.0)) / BIN_RAD).astype(np.int64)
    ranges_m = (centres_m - EDGE_M).astype(np.float32)
    for beside in range(-int(wide.max(initial=0)), int(wide.max(initial=0)) + 1):
        within = np.abs(beside) <= wide
        np.minimum.at(nearest_m, (bins[within] + beside) % BINS, ranges_m[within])
    blind = ~(collision.looked(scan) | collision.looked(surroundings.scan))
    return replace(scan, ranges_m=np.where(blind, nearest_m, scan.ranges_m))


def warm_up() -> None:
    """Compile the kernels, before the first tick."""
    nothing = Scan(1, np.full(BINS, np.inf, np.float32), np.zeros(BINS, np.bool_))
    here = Pose(0.0, 0.0, 0.0)
    unknown(advance(FreeGround(), nothing, here, here), nothing, here, 1, 1, Footprint(0.25))


def _moved(ground: FreeGround, corner: tuple[int, int]) -> FreeGround:
    """Return the square at another corner; cells that were outside were never seen free."""
    if len(ground.stamps_ns) and corner == ground.corner:
        return ground
    stamps_ns = np.full((SIDE, SIDE), NEVER_NS, np.int64)
    if len(ground.stamps_ns):
        da, db = corner[0] - ground.corner[0], corner[1] - ground.corner[1]
        if abs(da) < SIDE and abs(db) < SIDE:
            kept = ground.stamps_ns[max(da, 0) : SIDE + min(da, 0), max(db, 0) : SIDE + min(db, 0)]
            rows, columns = kept.shape
            stamps_ns[max(-da, 0) : max(-da, 0) + rows, max(-db, 0) : max(-db, 0) + columns] = kept
    return FreeGround(corner, stamps_ns, ground.scan_ns)


@kernel
def _enter(
    stamps_ns: Stamps, corner: tuple[int, int], place: tuple[float, float, float], turned_rad: float,
    ranges_m: npt.NDArray[np.float32], full: npt.NDArray[np.bool_], stamp_ns: int,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Stamp the cells that a scan sees free, and take the stamp from those in which it has a return.

    place:      (x, y, yaw) at the scan's stamp; turned_rad: by which the robot has turned since
    ranges_m:   inf in bins that no camera sees; full: bins in full view
    """
    x_m, y_m, yaw_rad = place
    for i in range(SIDE):
        for j in range(SIDE):
            dx, dy = (corner[0] + i + 0.5) * CELL_M - x_m, (corner[1] + j + 0.5) * CELL_M - y_m
            far_m = math.sqrt(dx * dx + dy * dy)
            if far_m <= HALF_DIAGONAL_M or far_m > REACH_M + CELL_M:
                continue
            half = math.asin(HALF_DIAGONAL_M / far_m)
            azimuth = math.atan2(dy, dx) - yaw_rad + math.pi
            first = math.floor((azimuth - half - max(turned_rad, 0.0)) / BIN_RAD)
            last = math.floor((azimuth + half - min(turned_rad, 0.0)) / BIN_RAD)
            free, met = True, False
            for k in range(first, last + 1):
                bin = k % BINS
                free = free and full[bin] and ranges_m[bin] >= far_m + HALF_DIAGONAL_M
                met = met or abs(ranges_m[bin] - far_m) < HALF_DIAGONAL_M
            if free:
                stamps_ns[i, j] = stamp_ns
            elif met:
                stamps_ns[i, j] = NEVER_NS


@kernel
def _unknown(
    stamps_ns: Stamps, corner: tuple[int, int], place: tuple[float, float, float],
    looked: npt.NDArray[np.bool_], now_ns: int, free_ns: int,
) -> Points:  # fmt: skip  # pragma: no cover - compiled
    """Return (k, 2) centres of the cells within reach in blind bins that were not seen free lately, base frame [m]."""
    x_m, y_m, yaw_rad = place
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    found, count = np.empty((SIDE * SIDE, 2)), 0
    for i in range(SIDE):
        for j in range(SIDE):
            stamp_ns = stamps_ns[i, j]
            if stamp_ns != NEVER_NS and abs(now_ns - stamp_ns) <= free_ns:
                continue
            dx, dy = (corner[0] + i + 0.5) * CELL_M - x_m, (corner[1] + j + 0.5) * CELL_M - y_m
            if dx * dx + dy * dy > REACH_M * REACH_M:
                continue
            ahead, aside = c * dx + s * dy, c * dy - s * dx
            if not looked[math.floor((math.atan2(aside, ahead) + math.pi) / BIN_RAD) % BINS]:
                found[count, 0], found[count, 1] = ahead, aside
                count += 1
    return found[:count]
