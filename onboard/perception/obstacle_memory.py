"""What was seen near the robot a moment ago and stands where no camera looks now. Pure: scan and pose in, places out.

A robot that goes past a post with a camera that is gone, or backs between two of them, has seen the post before: the
front camera did. It stands still where it was seen until a camera looks there again, or for `remember_s`. So does one
that the robot has come so near to that its cameras return nothing from it (`Scan.from_m`): only what is seen there, or
nearer, takes its place.

So near, a camera that looks cannot say that a place is free, and a place holds the robot only on good evidence: one
that was seen often in full view for `remember_s`, one that was seen often but only near by (a hand) for `BRIEF_NS`, a
single pixel not at all. Where no camera looks every place holds it: the robot turns, and a camera looks there again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard.perception import collision
from onboard.perception.collision import Points
from onboard.perception.kernels import bins_of, planar
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import interpolate, inverse
from onboard.values.messages import BINS, Pose, Scan

# ---- Where the base was, by the odometry, in the last second: to know where it stood when something was seen

TRACK_NS = 1_000_000_000
"""How far back poses are remembered."""

Track = tuple[tuple[int, Pose], ...]
"""(time [ns], pose), oldest first."""


def followed(track: Track, now_ns: int, pose: Pose) -> Track:
    """Return the track with the newest pose, without what is too old or (after a clock's jump) not older than now."""
    return (*(then for then in track if now_ns - TRACK_NS <= then[0] < now_ns), (now_ns, pose))


def pose_at(track: Track, stamp_ns: int) -> Pose:
    """Return the pose at a time: between two remembered poses on the straight line, beyond the ends the end's."""
    after = next((i for i, (time_ns, _) in enumerate(track) if time_ns >= stamp_ns), len(track) - 1)
    if after == 0 or track[after][0] < stamp_ns:
        return track[after][1]
    (start_ns, start), (end_ns, end) = track[after - 1], track[after]
    return interpolate(start, end, (stamp_ns - start_ns) / (end_ns - start_ns))


REACH_M = 1.5
"""What is farther away than this is not remembered: no command leads so far before it is judged again, and a robot that
needs more to stop is refused (`description.check_reach`)."""
MOST = 1000
"""Places that are remembered at most; beyond them the longest known are forgotten first."""
AHEAD: npt.NDArray[np.bool_] = np.abs(collision.BIN_CENTERS_RAD) <= collision.LEAD_RAD + collision.FLANK_RAD
"""The bins in which the limits want a camera to look when the robot goes ahead."""
SAME_M = 0.05
"""What is seen so little behind a place is what stands there."""
SPOT_M, SPOT_NS = 0.1, NS_PER_S // 2
"""What is seen so near to where something was first seen, and so soon after it was seen last, is seen again."""
OFTEN = 3
"""In so many scans noise is not seen in one spot: it has five of 10 Hz to come again in."""
BRIEF_NS = 6 * NS_PER_S
"""Longer than `recovery.blocked_s` is by default: first the robot backs off, where it can, and looks."""
FLANK_BINS = 8
"""So many bins beside one at the edge of a view, a camera looks with its whole height."""
NOWHERE: Points = np.empty((0, 2), np.float64)


@dataclass(frozen=True, slots=True)
class Nearby:
    """What is remembered.

    places_m: (n, 2) in the odometry's frame [m], the longest known first; seen_ns: (n,) when each was seen last
    spots_m:  (n, 2) where the thing in each was first seen: what moves on is another soon
    scans:    (n, 2) in how many scans it was seen, 0 when that was `BRIEF_NS` ago, and in how many ever in full view
    scan_ns:  stamp of the newest scan that was entered
    track:    where the base was

    A recording of before there were spots and scans has neither: its places are taken for well known. Raises ValueError
    where there is not one of each for a place.
    """

    places_m: npt.NDArray[np.float64] = field(default_factory=NOWHERE.copy)
    seen_ns: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    spots_m: npt.NDArray[np.float64] = field(default_factory=NOWHERE.copy)
    scans: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), np.int64))
    scan_ns: int = 0
    track: Track = ()

    def __post_init__(self) -> None:
        count = len(self.places_m)
        if count and not len(self.spots_m) and not len(self.scans):
            object.__setattr__(self, "spots_m", self.places_m)
            object.__setattr__(self, "scans", np.full((count, 2), OFTEN, np.int64))
        shapes = (self.places_m.shape, self.seen_ns.shape, self.spots_m.shape, self.scans.shape)
        if shapes != ((count, 2), (count,), (count, 2), (count, 2)):
            raise ValueError(f"places, times, spots and scans of shapes {shapes}")

    @property
    def vouched(self) -> npt.NDArray[np.bool_]:
        """(n,) which places hold the robot where no camera can say that they are free."""
        vouched: npt.NDArray[np.bool_] = self.scans.max(axis=1, initial=0) >= OFTEN
        return vouched


@dataclass(frozen=True, slots=True)
class Around:
    """What limits and recovery look at: the newest scan, and (k, 2) [m] in the base frame what is out of its view."""

    scan: Scan
    out_of_view: Points


def advance(nearby: Nearby, scan: Scan, pose: Pose, now_ns: int, remember_ns: int) -> Nearby:
    """Return what is remembered after a tick.

    scan:        the newest, which is entered once, from where the base stood at its stamp
    pose:        of the base now, in a frame that does not jump (odometry)
    remember_ns: for how long a place is remembered; 0 remembers nothing
    """
    if remember_ns == 0:
        return nearby
    track = followed(nearby.track, now_ns, pose)
    if scan.stamp_ns != nearby.scan_ns:
        then = pose_at(track, scan.stamp_ns)
        nearby = _joined(_picked(nearby, ~_judged(scan, _from(then, nearby.places_m))), _found(nearby, scan, then))
    near = _distances_m(_from(pose, nearby.places_m)) <= REACH_M
    kept = _picked(nearby, near & (np.abs(now_ns - nearby.seen_ns) <= remember_ns))
    scans = kept.scans.copy()
    scans[now_ns - kept.seen_ns > BRIEF_NS, 0] = 0
    return replace(kept, scans=scans, scan_ns=scan.stamp_ns, track=track)


def around(nearby: Nearby, scan: Scan, pose: Pose) -> Around:
    """Return the scan and the remembered places of which it says nothing. pose: of the base now, by the odometry.

    Where a camera looks, but not so near, these are only those that are vouched for.
    """
    places_m = _from(pose, nearby.places_m)
    looked = collision.looked(scan)[_bins(places_m)]
    return Around(scan, places_m[~looked | (nearby.vouched & ~_told(scan, places_m))])


def filled(scan: Scan, out_of_view: Points) -> Scan:
    """Return the scan for the policy: ahead, where no camera looks or not so near, what was seen there before.

    Behind, it stays what it is on every drive, by which policies are trained: nothing.
    """
    if len(out_of_view) == 0:
        return scan
    bins = bins_of(out_of_view[:, 0], out_of_view[:, 1])
    ahead = AHEAD[bins] & ~(collision.looked(scan)[bins] & _told(scan, out_of_view))
    ranges_m, seen = scan.ranges_m.copy(), scan.seen.copy()
    np.minimum.at(ranges_m, bins[ahead], _distances_m(out_of_view[ahead]).astype(np.float32))
    seen[bins[ahead]] = True
    return replace(scan, ranges_m=ranges_m, seen=seen)


def _found(nearby: Nearby, scan: Scan, pose: Pose) -> Nearby:
    """Return what a scan sees within reach, each place with what is known of its spot already."""
    seen = collision.obstacles(scan)
    near = seen[_distances_m(seen) <= REACH_M]
    to = planar(pose)
    places_m: Points = near @ to[:2, :2].T + to[:2, 2]
    spots_m, scans = places_m.copy(), np.zeros((len(near), 2), np.int64)
    known = (scan.stamp_ns - nearby.seen_ns <= SPOT_NS) | (nearby.scans[:, 1] >= OFTEN)
    if known.any() and len(near):
        of = _picked(nearby, known)
        x_m, y_m = (np.subtract.outer(places_m[:, axis], of.spots_m[:, axis]) for axis in (0, 1))
        squares = x_m * x_m + y_m * y_m
        nearest, there = np.argmin(squares, axis=1), squares <= SPOT_M * SPOT_M
        again = there.any(axis=1)
        spots_m[again] = of.spots_m[nearest[again]]
        scans = np.stack([(there * column).max(axis=1) for column in of.scans.T], axis=1)
    scans = scans + np.stack([np.ones(len(near), np.int64), _in_full_view(scan, near)], axis=1)
    return Nearby(places_m, np.full(len(near), scan.stamp_ns), spots_m, scans)


def _picked(nearby: Nearby, which: npt.NDArray[np.bool_]) -> Nearby:
    """Return some of the places. which: (n,)."""
    return replace(
        nearby,
        places_m=nearby.places_m[which],
        seen_ns=nearby.seen_ns[which],
        spots_m=nearby.spots_m[which],
        scans=nearby.scans[which],
    )


def _joined(old: Nearby, new: Nearby) -> Nearby:
    """Return the old places and the new ones, but for the longest known beyond `MOST`."""
    return replace(
        old,
        places_m=np.concatenate([old.places_m, new.places_m])[-MOST:],
        seen_ns=np.concatenate([old.seen_ns, new.seen_ns])[-MOST:],
        spots_m=np.concatenate([old.spots_m, new.spots_m])[-MOST:],
        scans=np.concatenate([old.scans, new.scans])[-MOST:],
    )


def _in_full_view(scan: Scan, points: Points) -> npt.NDArray[np.bool_]:
    """Return (n,) which points are so far that the cameras that look there, or beside it, see what stands there."""
    if scan.from_m is None:
        return np.ones(len(points), np.bool_)
    beside = np.arange(-FLANK_BINS, FLANK_BINS + 1)
    from_m = scan.from_m[(_bins(points)[:, np.newaxis] + beside) % BINS].min(axis=1)
    full: npt.NDArray[np.bool_] = _distances_m(points) >= from_m
    return full


def _from(pose: Pose, places_m: Points) -> Points:
    """Return places in the base frame."""
    to = planar(inverse(pose))
    seen: Points = places_m @ to[:2, :2].T + to[:2, 2]
    return seen


def _judged(scan: Scan, points: Points) -> npt.NDArray[np.bool_]:
    """Return (n,) of which points a scan says whether they stand: in bins looked at, but for an empty one at the edge.

    There one hole in an image is the whole bin, and the next scan may have it out of view.
    """
    looked = collision.looked(scan)
    inside: npt.NDArray[np.bool_] = looked & np.roll(looked, 1) & np.roll(looked, -1)
    bins = inside | (looked & np.isfinite(scan.ranges_m))
    return bins[_bins(points)] & _told(scan, points)


def _told(scan: Scan, points: Points) -> npt.NDArray[np.bool_]:
    """Return (n,) which points are so far that they would be seen, or have something seen at them or before them."""
    bins, away_m = _bins(points), _distances_m(points)
    far: npt.NDArray[np.bool_] = away_m >= (0.0 if scan.from_m is None else scan.from_m[bins])
    return far | (scan.ranges_m[bins] <= away_m + SAME_M)


def _bins(points: Points) -> npt.NDArray[np.intp]:
    bins: npt.NDArray[np.intp] = bins_of(points[:, 0], points[:, 1])
    return bins


def _distances_m(points: Points) -> npt.NDArray[np.float64]:
    distances: npt.NDArray[np.float64] = np.hypot(points[:, 0], points[:, 1])
    return distances
