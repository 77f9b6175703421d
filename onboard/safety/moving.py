"""What moves: the scans of successive decisions give a velocity to things as small as a person. Pure.

A place counts as newly taken only if the scan before looked through it, and as left only if the newest scan does, or if
something is in front of it now. So a thing that comes out from behind another, or a wall that the robot passes, has no
velocity. A thing that leaves one place and takes another near by moves from one to the other. The limits take it to go
on like that for `AHEAD_S` (R30 of `onboard/safety/limits.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard.perception import collision
from onboard.perception.collision import Points
from onboard.perception.kernels import bins_of, planar
from onboard.perception.obstacle_memory import NOWHERE
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, inverse
from onboard.values.messages import BINS, Pose, Scan, Twist

REACH_M = 5.0
"""Farther things do not matter: they move less than that in `AHEAD_S`."""
WIDEST_M = 0.9
"""A wider thing is no person."""
FEWEST = 3
"""Fewer returns are noise. A person 5 m away has three."""
GAP_M = 0.3
"""Neighbouring returns farther apart are of two things."""
THROUGH_M, THROUGH_SHARE = 0.15, 0.05
"""A scan looked through a place if it returned from farther behind it than this, and this share of its distance."""
TAKEN_SHARE = 0.15
"""Share of a thing's returns in newly taken places."""
SLOWEST_MPS, FASTEST_MPS = 0.3, 2.5
LEAST_S, LONGEST_S = 0.2, 1.0
"""Limits of the time between two scans that are compared."""
AHEAD_S, STEP_S = 2.0, 0.1
"""How far ahead a motion is taken to go on, and the time between the points of its path."""
EARLY_S, LATE_S = 0.5, 0.3
"""Margins of the times at which the robot enters and leaves a place: it has to speed up, and people hurry."""
NOTHING: Points = np.empty((0, 3), np.float64)
KEPT_S = 0.7
"""A velocity is believed so long after its scan: two decisions."""


@dataclass(frozen=True, slots=True)
class Moving:
    """What moved between the last two compared scans, in the odometry frame.

    scan_ns:      stamp of the newest compared scan; 0 before the first
    pose:         of the base then
    ranges_m:     (180,) of that scan; NaN where it did not look
    places_m:     (n, 2) returns of moving things [m]
    velocity_mps: (n, 2) their velocities
    """

    scan_ns: int = 0
    pose: Pose = IDENTITY
    ranges_m: npt.NDArray[np.float32] = field(default_factory=lambda: np.full(BINS, np.nan, np.float32))
    places_m: Points = field(default_factory=NOWHERE.copy)
    velocity_mps: Points = field(default_factory=NOWHERE.copy)


def advance(before: Moving, scan: Scan, pose: Pose) -> Moving:
    """Return what moves by the scan of a decision. pose: of the base at its stamp, by the odometry."""
    elapsed_s = (scan.stamp_ns - before.scan_ns) / NS_PER_S
    if 0.0 <= elapsed_s < LEAST_S:
        return before
    ranges_m = np.where(collision.looked(scan), scan.ranges_m, np.float32(np.nan))
    now = Moving(scan.stamp_ns, pose, ranges_m)
    if not 0.0 < elapsed_s <= LONGEST_S:
        return now
    left = [*_things(before, now), *_things(before, now, hidden=True)]
    places, velocities = [NOWHERE], [NOWHERE]
    for taken in _things(now, before):
        ways = [taken.mean(axis=0) - one.mean(axis=0) for one in left]
        fast = [way for way in ways if SLOWEST_MPS <= np.hypot(*way) / elapsed_s <= FASTEST_MPS]
        if fast:
            places.append(taken)
            velocities.append(np.tile(min(fast, key=lambda way: np.hypot(*way)) / elapsed_s, (len(taken), 1)))
    return replace(now, places_m=np.concatenate(places), velocity_mps=np.concatenate(velocities))


def reached(moving: Moving, pose: Pose, now_ns: int) -> Points:
    """Return (n, 3) points in the base frame that moving things reach [m], and when [s from now].

    pose: of the base now, by the odometry
    """
    age_s = (now_ns - moving.scan_ns) / NS_PER_S
    if len(moving.places_m) == 0 or not 0.0 <= age_s <= KEPT_S:
        return NOTHING
    times_s = np.arange(0.0, AHEAD_S + STEP_S / 2.0, STEP_S)
    paths = moving.places_m + (age_s + times_s)[:, np.newaxis, np.newaxis] * moving.velocity_mps
    return np.column_stack([_seen_from(pose, paths.reshape(-1, 2)), np.repeat(times_s, len(moving.places_m))])


def meeting(reached: Points, twist: Twist, radius_m: float) -> Points:
    """Return (k, 2) the points of `reached` on which a circle that drives along a twist is when a thing gets there.

    The circle is taken to enter a point `EARLY_S` sooner and to leave it `LATE_S` later.
    """
    x, y, at_s = reached.T
    v, curvature = abs(twist.v_mps), twist.w_radps / twist.v_mps
    x = np.copysign(1.0, twist.v_mps) * x
    along, off = x, y
    if abs(curvature) >= collision.STRAIGHT_PER_M:
        turn_m, y = 1.0 / abs(curvature), np.copysign(1.0, curvature) * y
        along, off = turn_m * np.arctan2(x, turn_m - y), np.hypot(x, y - turn_m) - turn_m
    half = np.sqrt(np.maximum(radius_m * radius_m - off * off, 0.0))
    enters_s, leaves_s = (along - half) / v - EARLY_S, (along + half) / v + LATE_S
    met: Points = reached[(half > 0.0) & (along + half > 0.0) & (enters_s <= at_s) & (at_s <= leaves_s), :2]
    return met


def _things(of: Moving, other: Moving, hidden: bool = False) -> list[Points]:
    """Return the returns of small things of a scan in places through which another scan looked, a thing each.

    hidden: instead, in places before which the other scan saw something
    """
    bins = np.flatnonzero(of.ranges_m <= REACH_M)
    if len(bins) == 0:
        return []
    near = collision.UNIT[bins] * of.ranges_m[bins, np.newaxis].astype(np.float64)
    to = planar(of.pose)
    places: Points = near @ to[:2, :2].T + to[:2, 2]
    seen = _seen_from(other.pose, places)
    at, away_m = bins_of(seen[:, 0], seen[:, 1]), np.hypot(seen[:, 0], seen[:, 1])
    beside_m = [other.ranges_m[(at + side) % BINS] for side in (-1, 0, 1)]  # NaN where it did not look
    if hidden:
        through = np.max(beside_m, axis=0) < away_m * (1.0 - THROUGH_SHARE) - THROUGH_M
    else:
        through = np.min(beside_m, axis=0) > away_m * (1.0 + THROUGH_SHARE) + THROUGH_M
    apart = (np.diff(bins) > 1) | (np.hypot(*np.diff(places, axis=0).T) > GAP_M)
    parts = np.split(np.arange(len(bins)), np.flatnonzero(apart) + 1)
    if len(parts) > 1 and bins[0] == 0 and bins[-1] == BINS - 1 and np.hypot(*(places[0] - places[-1])) <= GAP_M:
        parts[0] = np.concatenate([parts.pop(), parts[0]])
    small = []
    for part in parts:
        if not _is_small(places[part]):  # a thing next to a wall: only what the other scan looked through is its own
            part = part[through[part]]
            runs = np.split(part, np.flatnonzero(np.diff(part) > 1) + 1)
            small += [places[run] for run in runs if len(run) >= FEWEST and _is_small(places[run])]
        elif len(part) >= FEWEST and through[part].mean() >= TAKEN_SHARE:
            small.append(places[part])
    return small


def _is_small(places: Points) -> bool:
    """Return whether returns in a row are of no wider thing than a person."""
    return len(places) > 0 and bool(np.hypot(*(places[-1] - places[0])) <= WIDEST_M)


def _seen_from(pose: Pose, places_m: Points) -> Points:
    """Return places of the odometry frame in the base frame."""
    to = planar(inverse(pose))
    seen: Points = places_m @ to[:2, :2].T + to[:2, 2]
    return seen
