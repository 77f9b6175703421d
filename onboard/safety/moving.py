"""What moves: successive scans give a velocity to things as small as a person. Pure.

As often as images come, a scan is compared with those `LEAST_S` and `SLOW_S` before. A place counts as newly taken only
if that scan looked through it, and as left only if the newest scan does, or if something is in front of it now. So a
thing that comes out from behind another, or a wall that the robot passes, has no velocity. A thing that leaves one
place and takes another near by moves from one to the other. Next to a wall, only what lies where most scans of the last
`LONGEST_S` looked through is the thing's own. The limits take it to go on like that for `AHEAD_S` (R30 of
`onboard/safety/limits.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard.perception import collision
from onboard.perception.collision import UNIT, Points
from onboard.perception.kernels import planar
from onboard.perception.obstacle_memory import NOWHERE
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import inverse
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_RAD, BINS, Pose, Scan, Twist

REACH_M = 5.0
"""Farther things do not matter: they move less than that in `AHEAD_S`."""
WIDEST_M = 0.9
"""A wider thing is no person."""
FEWEST = 3
"""Fewer returns are noise. A person 5 m away has three."""
GAP_M = 0.3
"""Neighbouring returns farther apart are of two things; a bin without a return may be between them."""
THROUGH_M, THROUGH_SHARE = 0.15, 0.05
"""A scan looked through a place if it returned from farther behind it than this, and this share of its distance."""
TAKEN_SHARE, TAKEN_NEW = 0.15, 0.25
"""Shares of a thing's returns in places that it left, and in places that it newly takes."""
OWN_SHARE, MOST = 0.4, 0.5
"""Share of a thing's returns in places through which at least the second share of all earlier scans looked."""
SLOWEST_MPS, FASTEST_MPS = 0.3, 2.2
STEP_S, LEAST_S, SLOW_S, LONGEST_S = 0.09, 0.27, 0.47, 1.2
"""Least times between two scans, between two that are compared, for what moves fast and what slowly; and how long scans
are kept."""
AHEAD_S, PATH_S = 2.0, 0.1
"""How far ahead a motion is taken to go on, and the time between the points of its path."""
EARLY_S, LATE_S = 0.5, 0.3
"""Margins of the times at which the robot enters and leaves a place: it has to speed up, and people hurry."""
Flags = npt.NDArray[np.bool_]
NOTHING: Points = np.empty((0, 3), np.float64)
KEPT_S = 0.7
"""A velocity is believed so long after its scan, unless a newer one is found near by."""
SAME_M = 0.6
"""A newer velocity so near to where a thing should be is of the same thing."""


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A scan: its stamp [ns], the base's x, y, yaw then by the odometry, (180,) ranges, NaN where it did not look."""

    stamp_ns: int
    place: tuple[float, float, float]
    ranges_m: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Moving:
    """What moves, in the odometry frame.

    past:         the scans of the last `LONGEST_S`, oldest first
    places_m:     (n, 2) returns of moving things [m], each at its time
    velocity_mps: (n, 2) their velocities
    seen_ns:      (n,) their times
    """

    past: tuple[Glimpse, ...] = ()
    places_m: Points = field(default_factory=NOWHERE.copy)
    velocity_mps: Points = field(default_factory=NOWHERE.copy)
    seen_ns: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


def is_due(moving: Moving, stamp_ns: int) -> bool:
    """Return whether a scan of this stamp is compared: not so soon after the last one that nothing has moved."""
    return not moving.past or not 0 <= stamp_ns - moving.past[-1].stamp_ns < STEP_S * NS_PER_S


def advance(before: Moving, scan: Scan, pose: Pose) -> Moving:
    """Return what moves by a scan. pose: of the base at its stamp, by the odometry."""
    now_ns, past = scan.stamp_ns, before.past
    if not is_due(before, now_ns):
        return before
    ranges_m = np.where(collision.looked(scan), scan.ranges_m, np.float32(np.nan))
    now = Glimpse(now_ns, (pose.x_m, pose.y_m, pose.yaw_rad), ranges_m)
    past = tuple(one for one in past if 0 < now_ns - one.stamp_ns <= LONGEST_S * NS_PER_S)
    earlier = [one for one in past if now_ns - one.stamp_ns >= LEAST_S * NS_PER_S]
    kept = _kept(replace(before, past=(*past, now)), now_ns)
    if not earlier:
        return kept
    bins, places = _returns(now)
    own, known = _looked_through(places, earlier), np.empty((0, 2))
    for since_s in (LEAST_S, SLOW_S):
        then = next((one for one in reversed(earlier) if now_ns - one.stamp_ns >= since_s * NS_PER_S), None)
        if then is None:
            break
        taken = _things(bins, places, _looked_through(places, [then]), own, OWN_SHARE)
        taken = [one for one in taken if not (np.hypot(*(known - one.mean(axis=0)).T) < SAME_M).any()]
        moved = _moved(taken, now, then, earlier)
        for thing, velocity_mps in moved:
            kept = _with(kept, thing, velocity_mps, now_ns)
        known = np.array([thing.mean(axis=0) for thing, _ in moved]).reshape(-1, 2)
    return kept


def _moved(taken: list[Points], now: Glimpse, then: Glimpse, earlier: list[Glimpse]) -> list[tuple[Points, Points]]:
    """Return those of newly taken things that left a place near by since a scan, each with its velocity."""
    if not taken:
        return []
    elapsed_s = (now.stamp_ns - then.stamp_ns) / NS_PER_S
    bins, places = _returns(then)
    free, behind = _looked_through(places, [now]), _looked_through(places, [now], hidden=True)
    own = _looked_through(places, earlier)  # a wall that is hidden now has not left
    left = [*_things(bins, places, free, free | own), *_things(bins, places, behind, behind & own)]
    found = []
    for thing in taken:
        ways = [thing.mean(axis=0) - one.mean(axis=0) for one in left]
        fast = [way for way in ways if SLOWEST_MPS <= np.hypot(*way) / elapsed_s <= FASTEST_MPS]
        if fast:
            found.append((thing, min(fast, key=lambda way: float(np.hypot(*way))) / elapsed_s))
    return found


def _kept(before: Moving, now_ns: int) -> Moving:
    """Return what is still believed to move."""
    age_ns = now_ns - before.seen_ns
    stays = (age_ns >= 0) & (age_ns <= KEPT_S * NS_PER_S)
    places_m, velocity_mps, seen_ns = before.places_m[stays], before.velocity_mps[stays], before.seen_ns[stays]
    return replace(before, places_m=places_m, velocity_mps=velocity_mps, seen_ns=seen_ns)


def _with(known: Moving, thing: Points, velocity_mps: Points, now_ns: int) -> Moving:
    """Return what moves with one more thing, which takes the place of what it was before."""
    age_s = (now_ns - known.seen_ns[:, np.newaxis]) / NS_PER_S
    off_m = known.places_m + age_s * known.velocity_mps - thing.mean(axis=0)
    other = (known.seen_ns == now_ns) | (np.hypot(off_m[:, 0], off_m[:, 1]) > SAME_M)
    return replace(
        known,
        places_m=np.concatenate([known.places_m[other], thing]),
        velocity_mps=np.concatenate([known.velocity_mps[other], np.tile(velocity_mps, (len(thing), 1))]),
        seen_ns=np.concatenate([known.seen_ns[other], np.full(len(thing), now_ns)]),
    )


def reached(moving: Moving, pose: Pose, now_ns: int) -> Points:
    """Return (n, 3) points in the base frame that moving things reach [m], and when [s from now].

    pose: of the base now, by the odometry
    """
    moving = _kept(moving, now_ns)
    if len(moving.places_m) == 0:
        return NOTHING
    times_s = np.arange(0.0, AHEAD_S + PATH_S / 2.0, PATH_S)
    at_s = (now_ns - moving.seen_ns) / NS_PER_S + times_s[:, np.newaxis]
    paths = moving.places_m + at_s[:, :, np.newaxis] * moving.velocity_mps
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


def _returns(of: Glimpse) -> tuple[npt.NDArray[np.int64], Points]:
    """Return (n,) the bins with a return within `REACH_M`, and (n, 2) the places of these returns."""
    bins = np.flatnonzero(of.ranges_m <= REACH_M)
    to = planar(Pose(*of.place))
    places: Points = (UNIT[bins] * of.ranges_m[bins, np.newaxis].astype(np.float64)) @ to[:2, :2].T + to[:2, 2]
    return bins, places


def _things(
    bins: npt.NDArray[np.int64], places: Points, moved: Flags, own: Flags, own_share: float = 0.0
) -> list[Points]:
    """Return the returns of small things of which a share has moved, a thing each.

    own:       which returns are of nothing that was always there: the thing's own, next to a wall
    own_share: least share of these; above 0 for things in newly taken places
    """
    if not moved.any():
        return []
    apart = (np.diff(bins) > 2) | (np.hypot(*np.diff(places, axis=0).T) > GAP_M)
    parts = np.split(np.arange(len(bins)), np.flatnonzero(apart) + 1)
    if len(parts) > 1 and bins[0] == 0 and bins[-1] == BINS - 1 and np.hypot(*(places[0] - places[-1])) <= GAP_M:
        parts[0] = np.concatenate([parts.pop(), parts[0]])
    small = []
    for part in parts:
        runs = [part]
        if not _is_small(places[part]):
            part = part[own[part]]
            runs = np.split(part, np.flatnonzero(np.diff(part) > 1) + 1)
        small += [
            places[run]
            for run in runs
            if len(run) >= FEWEST
            and _is_small(places[run])
            and moved[run].mean() >= (TAKEN_NEW if own_share else TAKEN_SHARE)
            and own[run].mean() >= own_share
        ]
    return small


def _is_small(places: Points) -> bool:
    """Return whether returns in a row are of no wider thing than a person."""
    return len(places) > 0 and bool(np.hypot(*(places[-1] - places[0])) <= WIDEST_M)


def _looked_through(places: Points, others: list[Glimpse], hidden: bool = False) -> Flags:
    """Return (n,) bool: through which places most of other scans looked. hidden: before which most saw something"""
    ranges_m, poses = np.stack([one.ranges_m for one in others]), np.array([one.place for one in others])
    found: Flags = _through(places, ranges_m, poses, hidden)
    return found


@kernel
def _through(
    places: Points, ranges_m: npt.NDArray[np.float32], poses: Points, hidden: bool
) -> Flags:  # pragma: no cover - compiled
    through = np.zeros(len(places), np.bool_)
    for k in range(len(places)):
        count = 0
        for n in range(len(ranges_m)):
            dx, dy = places[k, 0] - poses[n, 0], places[k, 1] - poses[n, 1]
            away_m = math.hypot(dx, dy)
            at = math.floor((math.atan2(dy, dx) - poses[n, 2] + math.pi) / BIN_RAD)
            near, far = math.inf, -math.inf
            for side in range(-1, 2):
                beside = ranges_m[n, (at + side) % BINS]
                if math.isnan(beside):
                    near, far = -math.inf, math.inf
                    break
                near, far = min(near, beside), max(far, beside)
            if hidden:
                count += far < away_m * (1.0 - THROUGH_SHARE) - THROUGH_M
            else:
                count += near > away_m * (1.0 + THROUGH_SHARE) + THROUGH_M
        through[k] = count > 0 and count >= MOST * len(ranges_m)
    return through


def warm_up() -> None:
    """Compile what compares scans."""
    empty = Glimpse(0, (0.0, 0.0, 0.0), np.full(BINS, np.inf, np.float32))
    _looked_through(NOWHERE, [empty])


def _seen_from(pose: Pose, places_m: Points) -> Points:
    """Return places of the odometry frame in the base frame."""
    to = planar(inverse(pose))
    seen: Points = places_m @ to[:2, :2].T + to[:2, 2]
    return seen
