"""What was seen near the robot a moment ago and stands where no camera looks now. Pure: scan and pose in, places out.

A robot that goes past a post with a camera that is gone, or backs between two of them, has seen the post before: the
front camera did. It stands still where it was seen until a camera looks there again, or for `remember_s`. So does one
that the robot has come so near to that its cameras return nothing from it (`Scan.from_m`): only what is seen there, or
nearer, takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard import zones
from onboard.geometry import inverse
from onboard.kernels import bins_of, planar
from onboard.messages import Pose, Scan
from onboard.track import Track, followed, pose_at
from onboard.zones import Points

REACH_M = 1.5
"""What is farther away than this is not remembered: no command leads so far before it is judged again."""
MOST = 1000
"""Places that are remembered at most; beyond them the longest known are forgotten first."""
AHEAD: npt.NDArray[np.bool_] = np.abs(zones.BIN_CENTERS_RAD) <= zones.LEAD_RAD + zones.FLANK_RAD
"""The bins in which the limits want a camera to look when the robot goes ahead."""
SAME_M = 0.05
"""What is seen so little behind a place is what stands there."""
NOWHERE: Points = np.empty((0, 2), np.float64)


@dataclass(frozen=True, slots=True)
class Nearby:
    """What is remembered.

    places_m: (n, 2) in the odometry's frame [m], the longest known first; seen_ns: (n,) when each was seen last
    scan_ns:  stamp of the newest scan that was entered
    track:    where the base was
    """

    places_m: npt.NDArray[np.float64] = field(default_factory=NOWHERE.copy)
    seen_ns: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    scan_ns: int = 0
    track: Track = ()


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
    places_m, seen_ns = nearby.places_m, nearby.seen_ns
    if scan.stamp_ns != nearby.scan_ns:
        then = pose_at(track, scan.stamp_ns)
        old = ~_judged(scan, _from(then, places_m))
        found = _near(scan, then)
        places_m = np.concatenate([places_m[old], found])[-MOST:]
        seen_ns = np.concatenate([seen_ns[old], np.full(len(found), scan.stamp_ns)])[-MOST:]
    kept = (np.abs(now_ns - seen_ns) <= remember_ns) & (_distances_m(_from(pose, places_m)) <= REACH_M)
    return Nearby(places_m[kept], seen_ns[kept], scan.stamp_ns, track)


def around(nearby: Nearby, scan: Scan, pose: Pose) -> Around:
    """Return the scan and the remembered places where it does not look. pose: of the base now, by the odometry."""
    places_m = _from(pose, nearby.places_m)
    return Around(scan, places_m[~(zones.looked(scan)[_bins(places_m)] & _told(scan, places_m))])


def filled(scan: Scan, out_of_view: Points) -> Scan:
    """Return the scan for the policy: ahead, where no camera looks or not so near, what was seen there before.

    Behind, it stays what it is on every drive, by which policies are trained: nothing.
    """
    if len(out_of_view) == 0:
        return scan
    bins = bins_of(out_of_view[:, 0], out_of_view[:, 1])
    ahead = AHEAD[bins] & ~(zones.looked(scan)[bins] & _told(scan, out_of_view))
    ranges_m, seen = scan.ranges_m.copy(), scan.seen.copy()
    np.minimum.at(ranges_m, bins[ahead], _distances_m(out_of_view[ahead]).astype(np.float32))
    seen[bins[ahead]] = True
    return replace(scan, ranges_m=ranges_m, seen=seen)


def _near(scan: Scan, pose: Pose) -> Points:
    """Return what a scan sees within reach, in the odometry's frame."""
    seen = zones.obstacles(scan)
    near = seen[_distances_m(seen) <= REACH_M]
    to = planar(pose)
    places_m: Points = near @ to[:2, :2].T + to[:2, 2]
    return places_m


def _from(pose: Pose, places_m: Points) -> Points:
    """Return places in the base frame."""
    to = planar(inverse(pose))
    seen: Points = places_m @ to[:2, :2].T + to[:2, 2]
    return seen


def _judged(scan: Scan, points: Points) -> npt.NDArray[np.bool_]:
    """Return (n,) of which points a scan says whether they stand: in bins looked at, but for an empty one at the edge.

    There one hole in an image is the whole bin, and the next scan may have it out of view.
    """
    looked = zones.looked(scan)
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
