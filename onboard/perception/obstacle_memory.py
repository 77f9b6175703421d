"""Memory of nearby obstacles that no camera sees now. Pure: scan and pose in, obstacle points out.

The front camera has seen a post that the robot now passes with a failed side camera, or backs up to between two posts.
The memory keeps it in place until a camera sees that place again, or for `remember_s`. It also keeps obstacles that are
too near for the cameras (`Scan.from_m`), until a scan shows something there or nearer.

At such a short range a camera cannot see that a place is free, so only good evidence stops the robot:

    seen often in full view           for `remember_s`
    seen often, but only near by      for `BRIEF_NS` (a hand)
    a single pixel                    never

Where no camera looks, every remembered place stops the robot: it turns, and a camera sees the place again.
While the robot must stand or turn in place, slow motion of the odometry may be creep or slip of the wheels. It
must not carry an obstacle past the robot, so the memory then keeps each place twice: by the odometry, and as if the
base had only turned. Either one stops the robot, and the place is forgotten when cameras have seen both.

Near by a camera sees the floor below a table, but not its top, or it sees over a low box. There an empty bin does not
clear a place with good evidence: the camera must see the heights at which the place was last seen. So a robot that
stands still, or backs off, sees that somebody has left. The time is `limits.remember_s` in `onboard/config/config.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard.perception import collision
from onboard.perception.collision import Points
from onboard.perception.kernels import bins_of, planar
from onboard.perception.min_range import HEIGHT_STEP_M, HEIGHT_STEPS, Heights
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import distance, interpolate, inverse, wrap
from onboard.values.messages import BIN_RAD, BINS, Pose, Scan, bins_within

# ---- The base's odometry poses in the last second, for the pose at the time of an image

TRACK_NS = 1_000_000_000
"""How far back poses are remembered."""

Track = tuple[tuple[int, Pose], ...]
"""(time [ns], pose), oldest first."""


def followed(track: Track, now_ns: int, pose: Pose) -> Track:
    """Return the track with the newest pose, without old poses and, after a clock jump, without future poses."""
    return (*(then for then in track if now_ns - TRACK_NS <= then[0] < now_ns), (now_ns, pose))


def pose_at(track: Track, stamp_ns: int) -> Pose:
    """Return the pose at a time: interpolated between two stored poses, beyond the ends the nearest."""
    after = next((i for i, (time_ns, _) in enumerate(track) if time_ns >= stamp_ns), len(track) - 1)
    if after == 0 or track[after][0] < stamp_ns:
        return track[after][1]
    (start_ns, start), (end_ns, end) = track[after - 1], track[after]
    return interpolate(start, end, (stamp_ns - start_ns) / (end_ns - start_ns))


REACH_M = 1.5
"""Least range of the memory. It is longer where cameras lose a height of the body farther away (`Scan.memory_m`). No
command leads farther before the next check, and a configuration with a longer stopping distance is refused
(`check_reach` of `onboard/assembly/robot.py`)."""
CAPACITY = 1000
"""Capacity in places; the oldest are dropped first."""
AHEAD: npt.NDArray[np.bool_] = np.abs(collision.BIN_CENTERS_RAD) <= collision.LEAD_RAD + collision.FLANK_RAD
"""The bins that cameras must see when the robot drives ahead."""
SAME_M = 0.05
"""A return at most this far behind a place is the same obstacle."""
JOLT_M = 0.03
"""The robot comes so much nearer to an obstacle between two scans while it drives slowly before it."""
STILL_M, STILL_RAD = 0.005, 0.005
CREEP_MPS = 0.1
"""Faster motion of a base that is commanded to stand is real: somebody pushes it, or another driver drives."""
SPOT_M, SPOT_NS = 0.1, NS_PER_S // 2
"""A return this near to an obstacle's first position, and this soon after its last return, is the same obstacle."""
OFTEN = 3
"""Noise does not repeat in one spot in this many scans: within `SPOT_NS` there are five scans at 10 Hz."""
BRIEF_NS = 6 * NS_PER_S
"""Longer than the default of `recovery.blocked_s`: the robot first backs off, where it can, and looks again."""
FLANK_DEG = 16.0
FLANK_BINS = bins_within(FLANK_DEG)
"""At this distance from the edge of its view, a camera covers the whole height band; nearer to it, a pitched
camera has only its lower rows."""
EDGE_BINS = bins_within(2.0)
"""Nearer to the edge of a view, one hole in an image empties a bin."""
NOWHERE: Points = np.empty((0, 2), np.float64)


@dataclass(frozen=True, slots=True)
class ObstacleMemory:
    """The remembered obstacles.

    places_m: (n, 2) in the odometry frame [m], oldest first
    seen_ns:  (n,) time of the last return
    spots_m:  (n, 2) position of the first return: an obstacle that moves soon counts as another
    scans:    (n, 2) number of scans with a return (0 if older than `BRIEF_NS`), and of those in full view
    scan_ns:  stamp of the newest scan that was entered
    track:    poses of the base in the last second
    heights_m: (n, 2) lowest and highest point that cameras saw there at the last return: a scan that does not see
               them all does not show that the obstacle has gone
    crept_m:   (n, 2) slow motion of the odometry while the robot was commanded to stand, since the last return [m]

    Old recordings have no spots and scans: all their places count as good evidence. Nor have they heights: any view
    shows that an obstacle has gone. Raises ValueError if the arrays
    differ in length.
    """

    places_m: npt.NDArray[np.float64] = field(default_factory=NOWHERE.copy)
    seen_ns: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    spots_m: npt.NDArray[np.float64] = field(default_factory=NOWHERE.copy)
    scans: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), np.int64))
    scan_ns: int = 0
    track: Track = ()
    heights_m: npt.NDArray[np.float64] = field(default_factory=NOWHERE.copy)
    crept_m: npt.NDArray[np.float64] = field(default_factory=NOWHERE.copy)

    def __post_init__(self) -> None:
        count = len(self.places_m)
        if count and not len(self.spots_m) and not len(self.scans):
            object.__setattr__(self, "spots_m", self.places_m)
            object.__setattr__(self, "scans", np.full((count, 2), OFTEN, np.int64))
        if count and not len(self.heights_m):
            object.__setattr__(self, "heights_m", np.tile([np.inf, -np.inf], (count, 1)))
        if count and not len(self.crept_m):
            object.__setattr__(self, "crept_m", np.zeros((count, 2)))
        rows = (self.places_m, self.spots_m, self.scans, self.heights_m, self.crept_m)
        if self.seen_ns.shape != (count,) or any(row.shape != (count, 2) for row in rows):
            raise ValueError(f"places, spots, scans, heights and creep of shapes {[row.shape for row in rows]}")

    @property
    def trusted(self) -> npt.NDArray[np.bool_]:
        """(n,) bool, places with good evidence: they stop the robot where cameras look but cannot see so near."""
        trusted: npt.NDArray[np.bool_] = self.scans.max(axis=1, initial=0) >= OFTEN
        return trusted


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Input of limits and recovery: the newest scan, and points in the base frame [m].

    out_of_view: (n, 2) remembered places out of the scan's view
    unknown:     (k, 2) ground in blind sectors that was not seen free lately; None: all of it (`free_ground.py`)
    """

    scan: Scan
    out_of_view: Points
    unknown: Points | None = None


MOVED_NS = 60_000_000
"""Least time between two entries of images moved to now: the recorder writes each of them. Images at 15 Hz are all
entered, faster ones in part."""


def is_due(nearby: ObstacleMemory, now_ns: int) -> bool:
    """Return whether moved images are entered in this tick."""
    return not 0 <= now_ns - nearby.scan_ns < MOVED_NS


def advance(
    nearby: ObstacleMemory, scan: Scan, pose: Pose, now_ns: int, remember_ns: int, standing: bool = False
) -> ObstacleMemory:
    """Return the memory after a tick.

    scan:        the newest; each scan is entered once, at the base's pose at its stamp; images moved to now have the
                 stamp of now
    pose:        of the base now, in a frame without jumps (odometry)
    remember_ns: lifetime of a place; 0 turns the memory off
    standing:    whether the last command was to stand or to turn in place
    """
    if remember_ns == 0:
        return nearby
    if standing and nearby.track:
        nearby = _crept(nearby, pose, now_ns)
    track = followed(nearby.track, now_ns, pose)
    if scan.stamp_ns != nearby.scan_ns:
        then = pose_at(track, scan.stamp_ns)
        covered, past = _judged(nearby, scan, track, then)
        if nearby.crept_m.any():
            covered_too, past_too = _judged(_only_turned(nearby), scan, track, then)
            covered, past = covered & covered_too, np.concatenate([past, past_too])
        kept = _subset(nearby, ~covered)
        nearby = _merged(kept, _from_scan(nearby, _without_rest(scan, past), then))
    near = _distances_m(_from(pose, nearby.places_m)) <= max(REACH_M, scan.memory_m)
    kept = _subset(nearby, near & (np.abs(now_ns - nearby.seen_ns) <= remember_ns))
    scans = kept.scans.copy()
    scans[now_ns - kept.seen_ns > BRIEF_NS, 0] = 0
    return replace(kept, scans=scans, scan_ns=scan.stamp_ns, track=track)


def surroundings(nearby: ObstacleMemory, scan: Scan, pose: Pose) -> Surroundings:
    """Return the scan and the remembered places that it does not cover. pose: of the base now, by the odometry.

    Where a camera looks but cannot see so near, or not at these heights, only places with good evidence are returned.
    """
    out_of_view = _out_of_view(nearby, scan, pose)
    if nearby.crept_m.any():
        out_of_view = np.concatenate([out_of_view, _out_of_view(_only_turned(nearby), scan, pose)])
    return Surroundings(scan, out_of_view)


def filled(scan: Scan, out_of_view: Points) -> Scan:
    """Return the policy's scan: ahead, remembered places fill the bins that cameras do not cover.

    Bins behind stay empty, as in training.
    """
    if len(out_of_view) == 0:
        return scan
    bins = bins_of(out_of_view[:, 0], out_of_view[:, 1])
    whole = scan.heights_m is None  # else it may see past a place
    ahead = AHEAD[bins] & ~(collision.looked(scan)[bins] & _observed(scan, out_of_view) & whole)
    ranges_m, seen = scan.ranges_m.copy(), scan.seen.copy()
    np.minimum.at(ranges_m, bins[ahead], _distances_m(out_of_view[ahead]).astype(np.float32))
    seen[bins[ahead]] = True
    return replace(scan, ranges_m=ranges_m, seen=seen)


def _crept(nearby: ObstacleMemory, pose: Pose, now_ns: int) -> ObstacleMemory:
    """Return the memory after the odometry of a robot that was commanded to stand has come to `pose`."""
    before_ns, before = nearby.track[-1]
    moved = np.array([pose.x_m - before.x_m, pose.y_m - before.y_m])
    if np.hypot(*moved) > CREEP_MPS * (now_ns - before_ns) / NS_PER_S:
        return nearby
    return replace(nearby, crept_m=nearby.crept_m + moved)


def _only_turned(nearby: ObstacleMemory) -> ObstacleMemory:
    """Return the memory with each place where it is if the base has only turned while it was commanded to stand."""
    return replace(nearby, places_m=nearby.places_m + nearby.crept_m)


def _out_of_view(nearby: ObstacleMemory, scan: Scan, pose: Pose) -> Points:
    """Return the remembered places in the base frame that `scan` does not cover."""
    places_m = _from(pose, nearby.places_m)
    looked = collision.looked(scan)[_bins(places_m)]
    unseen = ~_observed(scan, places_m) | _hidden(scan, places_m, nearby.heights_m, JOLT_M)
    out_of_view: Points = places_m[~looked | (nearby.trusted & unseen)]
    return out_of_view


def _judged(nearby: ObstacleMemory, scan: Scan, track: Track, pose: Pose) -> tuple[npt.NDArray[np.bool_], Points]:
    """Return (n,) whether a scan taken at `pose` confirms or clears each place, and the points it only sees past."""
    seen = _from(pose, nearby.places_m)
    past = _hidden(scan, seen, nearby.heights_m) & nearby.trusted & ~_still(nearby, track, pose)
    return _covered(scan, seen, nearby.trusted, past), seen[past]


def _from_scan(nearby: ObstacleMemory, scan: Scan, pose: Pose) -> ObstacleMemory:
    """Return the obstacles of a scan within reach, with the history of those that were known before."""
    seen = collision.obstacles(scan)
    near = seen[_distances_m(seen) <= max(REACH_M, scan.memory_m)]
    to = planar(pose)
    places_m: Points = near @ to[:2, :2].T + to[:2, 2]
    spots_m, scans = places_m.copy(), np.zeros((len(near), 2), np.int64)
    heights_m = heights_at(scan.heights_m, near)[:, 2:]
    known = (scan.stamp_ns - nearby.seen_ns <= SPOT_NS) | (nearby.scans[:, 1] >= OFTEN)
    if known.any() and len(near):
        of = _subset(nearby, known)
        x_m, y_m = (np.subtract.outer(places_m[:, axis], of.spots_m[:, axis]) for axis in (0, 1))
        squares = x_m * x_m + y_m * y_m
        nearest, there = np.argmin(squares, axis=1), squares <= SPOT_M * SPOT_M
        again = there.any(axis=1)
        spots_m[again] = of.spots_m[nearest[again]]
        scans = np.stack([(there * column).max(axis=1) for column in of.scans.T], axis=1)
    scans = scans + np.stack([np.ones(len(near), np.int64), _in_full_view(scan, near)], axis=1)
    return ObstacleMemory(places_m, np.full(len(near), scan.stamp_ns), spots_m, scans, heights_m=heights_m)


def _without_rest(scan: Scan, past: Points) -> Scan:
    """Return the scan without returns just behind places that it sees past: they are of the same obstacle.

    From below, a camera sees the underside of a table: always the part that is just in view, so it recedes.
    """
    bins, ranges_m = _bins(past), scan.ranges_m.copy()
    rest = bins[ranges_m[bins] <= _distances_m(past) + SAME_M]
    ranges_m[rest] = np.inf
    return replace(scan, ranges_m=ranges_m)


def _subset(nearby: ObstacleMemory, which: npt.NDArray[np.bool_]) -> ObstacleMemory:
    """Return a subset of the places. which: (n,) bool."""
    return replace(
        nearby,
        places_m=nearby.places_m[which],
        seen_ns=nearby.seen_ns[which],
        spots_m=nearby.spots_m[which],
        scans=nearby.scans[which],
        heights_m=nearby.heights_m[which],
        crept_m=nearby.crept_m[which],
    )


def _merged(old: ObstacleMemory, new: ObstacleMemory) -> ObstacleMemory:
    """Return the old and the new places; the oldest beyond `CAPACITY` are dropped."""
    return replace(
        old,
        places_m=np.concatenate([old.places_m, new.places_m])[-CAPACITY:],
        seen_ns=np.concatenate([old.seen_ns, new.seen_ns])[-CAPACITY:],
        spots_m=np.concatenate([old.spots_m, new.spots_m])[-CAPACITY:],
        scans=np.concatenate([old.scans, new.scans])[-CAPACITY:],
        heights_m=np.concatenate([old.heights_m, new.heights_m])[-CAPACITY:],
        crept_m=np.concatenate([old.crept_m, new.crept_m])[-CAPACITY:],
    )


def _in_full_view(scan: Scan, points: Points) -> npt.NDArray[np.bool_]:
    """Return (n,) bool, points beyond the minimum range of a camera that looks there or in a bin beside it."""
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


def _covered(
    scan: Scan, points: Points, trusted: npt.NDArray[np.bool_], past: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return (n,) bool, points that a scan confirms or clears: those in its bins, without empty bins at a view's edge.

    past: (n,) places that it only sees past

    At the edge, one hole in an image empties the bin, and the bin may be out of view in the next scan. Near the edge,
    only the image's lower rows look, and they look below a table's top: there no scan clears a place that is trusted.
    """
    looked = collision.looked(scan)
    inside: npt.NDArray[np.bool_] = np.all([np.roll(looked, side) for side in range(-EDGE_BINS, EDGE_BINS + 1)], axis=0)
    bins = inside | (looked & np.isfinite(scan.ranges_m))
    at, away_m = _bins(points), _distances_m(points)
    blind_near = np.any([np.roll(~looked, side) for side in range(-FLANK_BINS, FLANK_BINS + 1)], axis=0)
    under = trusted & blind_near[at] & (scan.ranges_m[at] > away_m + SAME_M)
    covered: npt.NDArray[np.bool_] = bins[at] & _observed(scan, points) & ~under & ~past
    return covered


def _hidden(
    scan: Scan, points: Points, heights_m: npt.NDArray[np.float64], behind_m: float = 0.0
) -> npt.NDArray[np.bool_]:
    """Return (n,) bool, points that a scan sees past, as it does not see all heights (n, 2) at which they were seen.

    behind_m: a return farther behind a point than this is of something else
    """
    past: npt.NDArray[np.bool_] = scan.ranges_m[_bins(points)] > _distances_m(points) + behind_m
    if scan.heights_m is None:
        return np.zeros_like(past)
    return past & ~within(heights_m, heights_at(scan.heights_m, points)[:, :2])


def _still(nearby: ObstacleMemory, track: Track, pose: Pose) -> npt.NDArray[np.bool_]:
    """Return (n,) bool, places that were seen from where the base is now: nothing but they can have moved."""
    still = np.zeros(len(nearby.seen_ns), np.bool_)
    for stamp_ns in np.unique(nearby.seen_ns[nearby.seen_ns >= track[0][0]]).tolist():
        then = pose_at(track, stamp_ns)
        moved = distance(pose, then) > STILL_M or abs(wrap(pose.yaw_rad - then.yaw_rad)) > STILL_RAD
        still[nearby.seen_ns == stamp_ns] = not moved
    return still


def _observed(scan: Scan, points: Points) -> npt.NDArray[np.bool_]:
    """Return (n,) bool, points beyond the minimum range, or with a return at their place or before it."""
    bins, away_m = _bins(points), _distances_m(points)
    far: npt.NDArray[np.bool_] = away_m >= (0.0 if scan.from_m is None else scan.from_m[bins])
    return far | (scan.ranges_m[bins] <= away_m + SAME_M)


def _bins(points: Points) -> npt.NDArray[np.intp]:
    bins: npt.NDArray[np.intp] = bins_of(points[:, 0], points[:, 1])
    return bins


def _distances_m(points: Points) -> npt.NDArray[np.float64]:
    distances: npt.NDArray[np.float64] = np.hypot(points[:, 0], points[:, 1])
    return distances


def heights_at(table: Heights | None, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return (n, 4) of `joined` at points (n, 2) in the base frame; all heights without a table.

    Linear between the entries about a point, in bearing and distance; where one of them has no view, the nearest entry.
    """
    if table is None:
        return np.tile([-np.inf, np.inf, -np.inf, np.inf], (len(points), 1))
    across = (np.arctan2(points[:, 1], points[:, 0]) + math.pi) / BIN_RAD - 0.5
    along = np.minimum(np.hypot(points[:, 0], points[:, 1]) / HEIGHT_STEP_M, HEIGHT_STEPS - 1.001)
    i, k = np.floor(across).astype(np.int64), np.floor(along).astype(np.int64)
    a, b = (across - i)[:, np.newaxis], (along - k)[:, np.newaxis]
    corners = [table[(i + side) % BINS, k + step].astype(np.float64) for side in (0, 1) for step in (0, 1)]
    with np.errstate(invalid="ignore"):
        mixed = (1.0 - a) * ((1.0 - b) * corners[0] + b * corners[1]) + a * ((1.0 - b) * corners[2] + b * corners[3])
    nearest = table[np.round(across).astype(np.int64) % BINS, np.round(along).astype(np.int64)]
    complete = np.all([np.isfinite(corner).all(axis=1) for corner in corners], axis=0)
    return np.where(complete[:, np.newaxis], mixed, nearest)


def within(inner: npt.NDArray[np.float64], outer: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return (n,) whether heights (n, 2) are all among others (n, 2)."""
    inside: npt.NDArray[np.bool_] = (outer[:, 0] <= inner[:, 0]) & (outer[:, 1] >= inner[:, 1])
    return inside
