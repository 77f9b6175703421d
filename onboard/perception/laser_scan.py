"""Conversion of a laser scan into the 180-bin scan: the nearest range of each bin. Pure.

Drivers differ, and no two have the same header. Ray i points to angle_min + i * angle_increment; of angle_max only a
value far off is an error. `joined` joins the parts of a laser that sends a turn in several messages. `blind_reason`
says why bins are blind.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from onboard.config.config import NoReturn
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.messages import BIN_RAD, BINS, STOP, Scan, Twist
from onboard.values.reasons import NO_REASON, Said

MOST_RAYS = 100_000
SLACK_RAYS = 3.5
"""Drivers repeat rays of a full turn, and round the number of rays: `angle_max` may be a few rays off the last one."""
WIDEST_RAD = math.radians(6.0)
"""Rays are at most this far apart where the bins between them take up their ranges."""
POST_M = 0.2
"""What is nearer to a laser than this, and below its range_min, and within `WIDEST_RAD`, is a post of the robot."""
SHADOW_RAD = math.radians(90.0)
"""A shadow is at most this wide, seen from the base."""
NEAR_M = np.arange(0.3, 2.05, 0.1)
"""Distances from the base at which a laser that is not at its origin must look."""
FARTHEST_M = 1000.0
"""Stands for a laser's reach that is infinite."""
LONGEST_S = 0.25
"""A scan that takes longer is not corrected by the motion: its stamps are hardly right."""
TOO_CLOSE_M = 0.01
"""Range of an obstacle below range_min, for a laser whose range_min is 0."""


@dataclass(frozen=True, slots=True)
class Rays:
    """The fields of a `sensor_msgs/LaserScan`: ray i points to angle_min + i * increment about the base's z axis [rad].

    ranges_m: (n,); NaN is invalid, inf is free, -inf is nearer than range_min (REP 117)
    step_s:   time from a ray to the next [s]; 0 if unknown
    """

    angle_min_rad: float
    angle_max_rad: float
    increment_rad: float
    range_min_m: float
    range_max_m: float
    ranges_m: npt.NDArray[np.float32]
    step_s: float = 0.0


def scan_of_rays(
    rays: Rays,
    stamp_ns: int,
    base_from_laser: npt.NDArray[np.float64] | None = None,
    no_return: Collection[NoReturn] = (),
    twist: Twist = STOP,
    band_m: tuple[float, float] | None = None,
) -> Scan:
    """Return the nearest range in each bin; a bin is seen when at least one of its rays is valid.

    Rays through the bins' centres, as in our own scans, map one to one. By REP 117 a range outside range_min..range_max
    is invalid. So is 0, which many lasers send for no return. A bin between two valid rays that are farther apart than
    a bin takes up the smaller range of both. So does a ray that ends at a post of the robot: a range below range_min
    and `POST_M`, with a valid ray within `WIDEST_RAD` on both sides. Raises InputError that names the invalid field.

    no_return: values that mean no return, and free space, as `scan.no_return` of the configuration

    base_from_laser: (4, 4) pose of a laser that is not at the base frame's origin. A ray without a hit then marks the
        bin at the laser's reach as seen. A bin in the shadow of a near edge has the range at which the shadow begins. A
        bin is not seen if a place near the base in it is beside the laser's view

    twist: of the base. Each ray is moved to where the base is at the last ray, by `step_s`

    band_m: lowest and highest obstacle [m]; a return of a tilted laser at another height is free
    """
    _check(rays)
    age_s = _ages_s(rays) if twist != STOP else None
    ranges = rays.ranges_m
    azimuth: npt.NDArray[np.floating] = rays.angle_min_rad + np.arange(len(ranges)) * rays.increment_rad
    ranges = np.where(np.isneginf(ranges), np.float32(max(rays.range_min_m, TOO_CLOSE_M)), ranges)
    ranges = _behind_posts(rays, ranges)
    with np.errstate(invalid="ignore"):
        measured = (ranges > 0.0) & (ranges >= rays.range_min_m) & (ranges <= rays.range_max_m)
    free = np.isposinf(ranges) | _free(rays, no_return)
    ranges = np.where(free, np.float32(np.inf), ranges)
    valid = free | measured
    if base_from_laser is not None or age_s is not None:
        lengths_m = np.where(measured, ranges, rays.range_max_m)
        x, y, z = _ends(azimuth, lengths_m, np.eye(4) if base_from_laser is None else base_from_laser)
        if band_m is not None:
            ranges = np.where((z < band_m[0]) | (z > band_m[1]), np.float32(np.inf), ranges)
        if age_s is not None:
            x, y = advanced(x, y, twist, age_s)
        azimuth, ends_m = np.arctan2(y, x), np.hypot(x, y)
        ranges = np.where(np.isfinite(ranges), ends_m.astype(np.float32), ranges)
    bins = np.floor((azimuth + math.pi) / BIN_RAD).astype(np.int64) % BINS
    nearest = np.full(BINS, np.inf, dtype=np.float32)
    np.minimum.at(nearest, bins[valid], ranges[valid])
    seen = np.zeros(BINS, dtype=np.bool_)
    seen[bins[valid]] = True
    seam_rad = WIDEST_RAD + (0.0 if age_s is None else abs(twist.w_radps) * float(age_s[0]))
    _fill_between(nearest, seen, azimuth, bins, ranges, valid, seam_rad if _is_turn(rays) else None)
    if base_from_laser is not None:
        beside = _beside_view(rays, base_from_laser)
        if abs(rays.increment_rad) <= WIDEST_RAD:
            _fill_shadows(nearest, seen, beside, azimuth, bins, ends_m, valid, closed=_is_turn(rays))
        seen &= ~beside | np.isfinite(nearest)
    return Scan(stamp_ns, nearest, seen)


def _behind_posts(rays: Rays, ranges: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return ranges with those of rays that end at a post replaced by the smaller range of the rays beside it.

    What a post hides is at most 2 cm wide at `POST_M`, as wide as what a laser with rays `WIDEST_RAD` apart misses.
    """
    if rays.range_min_m > POST_M:
        return ranges
    with np.errstate(invalid="ignore"):
        post = (ranges > 0.0) & (ranges < rays.range_min_m)
        measured = np.isposinf(ranges) | ((ranges >= rays.range_min_m) & (ranges <= rays.range_max_m))
    count, most = len(ranges), math.floor(WIDEST_RAD / abs(rays.increment_rad) + 1e-6)
    starts = np.flatnonzero(post & ~np.roll(post, 1))
    filled: npt.NDArray[np.float32] = ranges.copy()
    for start in starts:
        wide = next((n for n in range(1, min(most, count)) if not post[(start + n) % count]), 0)
        before, after = start - 1, start + wide
        if wide and (_is_turn(rays) or (before >= 0 and after < count)):
            before, after = before % count, after % count
            if measured[before] and measured[after]:
                filled[np.arange(start, start + wide) % count] = min(ranges[before], ranges[after])
    return filled


def _ages_s(rays: Rays) -> npt.NDArray[np.float64] | None:
    """Return (n,) how long before the last ray each one was taken [s]; None if the message does not say."""
    if not 0.0 < rays.step_s * len(rays.ranges_m) <= LONGEST_S:
        return None
    age_s: npt.NDArray[np.float64] = np.arange(len(rays.ranges_m) - 1, -1, -1) * np.float64(rays.step_s)
    return age_s


def advanced(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], twist: Twist, age_s: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return places seen `age_s` ago, in the base as it is now, after an arc of constant twist."""
    turn = twist.w_radps * age_s
    half = 0.5 * turn
    chord_m = twist.v_mps * age_s * np.sinc(half / math.pi)
    x, y = x - chord_m * np.cos(half), y - chord_m * np.sin(half)
    return x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)


def _free(rays: Rays, no_return: Collection[NoReturn]) -> npt.NDArray[np.bool_]:
    """Return (n,) bool, the rays that mean no return."""
    kinds = _kinds(rays)
    free = np.zeros(len(rays.ranges_m), np.bool_)
    for kind in no_return:
        free |= kinds[kind]
    return free


def _kinds(rays: Rays) -> dict[NoReturn, npt.NDArray[np.bool_]]:
    """Return (n,) bool of each kind of invalid ray that may mean no return."""
    ranges = rays.ranges_m
    with np.errstate(invalid="ignore"):
        return {
            "zero": ranges == 0.0,
            "nan": np.isnan(ranges),
            "beyond": (ranges > rays.range_max_m) & np.isfinite(ranges),
        }


def _is_turn(rays: Rays) -> bool:
    """Return whether the last ray is next to the first one."""
    return (len(rays.ranges_m) + 0.5) * abs(rays.increment_rad) >= 2.0 * math.pi


def _fill_between(
    nearest: npt.NDArray[np.float32],
    seen: npt.NDArray[np.bool_],
    azimuth: npt.NDArray[np.floating],
    bins: npt.NDArray[np.int64],
    ranges: npt.NDArray[np.float32],
    valid: npt.NDArray[np.bool_],
    seam_rad: float | None,
) -> None:
    """Fill in place the bins between neighbouring valid rays that no ray meets: the smaller range of both.

    That is the nearest place of a surface that goes on from ray to ray, and of an edge it is on the safe side.
    seam_rad: widest angle from the last ray to the first one; None: they are not neighbours
    """
    start, end, turn = _neighbours(azimuth, closed=seam_rad is not None)
    apart = (bins[end] - bins[start] + BINS // 2) % BINS - BINS // 2
    widest = np.where(end == 0, seam_rad or 0.0, WIDEST_RAD)
    wide = valid[start] & valid[end] & (np.abs(turn) <= widest) & (np.abs(apart) > 1)
    missed = np.ones(BINS, np.bool_)
    missed[bins] = False
    smaller = np.minimum(ranges[start], ranges[end])
    for step in range(1, int(np.abs(apart[wide]).max(initial=0))):
        inside = wide & (np.abs(apart) > step)
        between = (bins[start[inside]] + step * np.sign(apart[inside])) % BINS
        kept = missed[between]
        np.minimum.at(nearest, between[kept], smaller[inside][kept])
        seen[between[kept]] = True


def _neighbours(
    azimuth: npt.NDArray[np.floating], *, closed: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.floating]]:
    """Return the indices of neighbouring rays, and the turn from each to the next one [rad], within half a turn.

    closed: the last ray is next to the first one
    """
    start = np.arange(len(azimuth) - (not closed))
    end = (start + 1) % len(azimuth)
    return start, end, np.remainder(azimuth[end] - azimuth[start] + math.pi, 2.0 * math.pi) - math.pi


def _fill_shadows(
    nearest: npt.NDArray[np.float32],
    seen: npt.NDArray[np.bool_],
    beside: npt.NDArray[np.bool_],
    azimuth: npt.NDArray[np.floating],
    bins: npt.NDArray[np.int64],
    ends_m: npt.NDArray[np.float64],
    valid: npt.NDArray[np.bool_],
    closed: bool,
) -> None:
    """Fill in place the bins in the shadow that a near edge throws, for a laser that is not at the base's origin.

    From the base, the shadow is between the ends of two neighbouring rays. The laser has seen all that is nearer than
    the line from end to end. So a bin has the smallest range at which this line crosses it.
    beside: (180,) bins with places beside the laser's view; they stay as they are
    """
    start, end, turns = _neighbours(azimuth, closed=closed)
    shadows = valid[start] & valid[end] & (np.abs(turns) > WIDEST_RAD) & (np.abs(turns) < SHADOW_RAD)
    left = ~seen & ~beside
    left[bins] = False
    for i in np.flatnonzero(shadows):
        side, turn_rad = math.copysign(1.0, turns[i]), abs(float(turns[i]))
        first_m, last_m, bin_ = float(ends_m[start[i]]), float(ends_m[end[i]]), int(bins[start[i]])
        while (bin_ := (bin_ + int(side)) % BINS) != bins[end[i]]:
            middle = side * math.remainder((bin_ + 0.5) * BIN_RAD - math.pi - azimuth[start[i]], 2.0 * math.pi)
            if left[bin_]:
                edges = [min(max(middle + part * BIN_RAD, 0.0), turn_rad) for part in (-0.5, 0.5)]
                nearest[bin_] = min(nearest[bin_], *(_crossing_m(first_m, last_m, turn_rad, edge) for edge in edges))
                seen[bin_] = True


def _crossing_m(first_m: float, last_m: float, turn_rad: float, part_rad: float) -> float:
    """Return the distance to the line between two points, `part_rad` of the `turn_rad` from the first to the last."""
    to_first, to_last = first_m * math.sin(part_rad), last_m * math.sin(turn_rad - part_rad)
    return first_m * last_m * math.sin(turn_rad) / (to_first + to_last)


WORDS: dict[NoReturn, str] = {"zero": "0.0", "nan": "NaN", "beyond": "beyond range_max"}


def blind_reason(scan: Scan, rays: Rays, no_return: Collection[NoReturn] = ()) -> Said:
    """Return how many bins are blind and why, "" if none is. rays: of the scan's newest message."""
    blind, count = int((~scan.seen).sum()), len(rays.ranges_m)
    if not blind:
        return NO_REASON
    kinds = {kind: int(which.sum()) for kind, which in _kinds(rays).items() if kind not in no_return and which.any()}
    causes = [f"{number} of {count} rays are {WORDS[kind]}" for kind, number in kinds.items()]
    with np.errstate(invalid="ignore"):
        below = int(((rays.ranges_m < rays.range_min_m) & (rays.ranges_m != 0.0) & np.isfinite(rays.ranges_m)).sum())
    if below:
        causes.append(f"{below} of {count} rays are below range_min {rays.range_min_m:g} m")
    step = abs(rays.increment_rad)
    if step > WIDEST_RAD:
        causes.append(f"rays are {math.degrees(step):.1f} deg apart, limit {math.degrees(WIDEST_RAD):g} deg")
    if not _is_turn(rays):
        most_s = TURN_NS / NS_PER_S
        causes.append(f"a message covers {math.degrees(count * step):.0f} deg, parts are joined within {most_s:g} s")
    key = f"; if that means nothing in range, set scan.no_return = {list(kinds)}".replace("'", '"') if kinds else ""
    why = f"{', '.join(causes) or 'outside the field of view of the laser'}{key}"
    return reasons.BINS_BLIND.say(blind=blind, bins=BINS, why=why)


def mostly_blind(scan: Scan, rays: Rays) -> bool:
    """Return whether more than half of the bins in a laser's view are blind. rays: of the scan's newest message"""
    view = min(BINS, round(len(rays.ranges_m) * abs(rays.increment_rad) / BIN_RAD))
    return 2 * int(scan.seen.sum()) < view


# ---- Several lidars


def fused(scans: Iterable[Scan], oldest_ns: int) -> Scan:
    """Return the nearest range of each bin in scans taken at `oldest_ns` or later, else in the newest one.

    The stamp is the oldest one's: a lidar that falls silent leaves blind bins, as a camera does.
    """
    newest = sorted(scans, key=lambda scan: -scan.stamp_ns)
    used = [scan for scan in newest if scan.stamp_ns >= oldest_ns] or newest[:1]
    return replace(
        used[-1],
        ranges_m=np.minimum.reduce([scan.ranges_m for scan in used]),
        seen=np.logical_or.reduce([scan.seen for scan in used]),
        arrival_ns=max(scan.stamp_ns if scan.arrival_ns is None else scan.arrival_ns for scan in used),
    )


# ---- A turn in several messages

TURN_NS = 200_000_000
"""Older parts of a turn are dropped: the robot moves between the parts."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The newest message in each direction of a laser that sends a turn in several messages.

    rays:     of the newest message
    scan:     all directions together, its stamp the oldest part's
    taken_ns: (180,) time of the message that each bin is from
    """

    rays: Rays
    scan: Scan
    taken_ns: npt.NDArray[np.int64]


def joined(turn: Turn | None, rays: Rays, scan: Scan, base_from_laser: npt.NDArray[np.float64] | None = None) -> Turn:
    """Return the turn with a new message, and its scan. turn: before it, None at first.

    A message that begins within half its own view of the one before is a turn of its own, whatever its view.
    Otherwise each bin that it does not cover keeps what an earlier one showed, at most for `TURN_NS`. A part that was
    not repeated in this time is blind: a laser that turns slower has blind bins always.
    """
    now_ns = scan.stamp_ns
    span = len(rays.ranges_m) * abs(rays.increment_rad)
    if turn is None or abs(math.remainder(rays.angle_min_rad - turn.rays.angle_min_rad, 2.0 * math.pi)) < 0.5 * span:
        return Turn(rays, scan, np.full(BINS, now_ns))
    covered = scan_of_rays(replace(rays, ranges_m=np.full_like(rays.ranges_m, np.inf)), 0, base_from_laser).seen
    older = ~(covered | np.isfinite(scan.ranges_m)) & (turn.taken_ns > now_ns - TURN_NS)
    ranges_m = np.where(older, turn.scan.ranges_m, scan.ranges_m)
    seen = np.where(older, turn.scan.seen, scan.seen)
    taken_ns = np.where(older, turn.taken_ns, now_ns)
    stamp_ns = int(taken_ns[seen].min(initial=now_ns))
    return Turn(rays, replace(scan, stamp_ns=stamp_ns, ranges_m=ranges_m, seen=seen), taken_ns)


def _ends(
    azimuth: npt.NDArray[np.floating], ends_m: npt.NDArray[np.float32], base_from_laser: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return (3, n) the end of each ray in the base frame."""
    lengths = np.minimum(ends_m.astype(np.float64), FARTHEST_M)
    ends = np.stack([lengths * np.cos(azimuth), lengths * np.sin(azimuth), np.zeros(len(azimuth))])
    found: npt.NDArray[np.float64] = base_from_laser[:3, :3] @ ends + base_from_laser[:3, 3:]
    return found


def _beside_view(rays: Rays, base_from_laser: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return (180,) whether a place of the bin, up to `NEAR_M` away, is outside the angles of the laser."""
    step = abs(rays.increment_rad)
    turn = (len(rays.ranges_m) - 1) * step
    bearings = (np.arange(BINS) + 0.5)[:, np.newaxis] * BIN_RAD - math.pi
    away_m = np.full(NEAR_M.shape, base_from_laser[2, 3])
    places = np.stack(np.broadcast_arrays(NEAR_M * np.cos(bearings), NEAR_M * np.sin(bearings), away_m))
    x, y, _ = np.tensordot(base_from_laser[:3, :3].T, places - base_from_laser[:3, 3][:, np.newaxis, np.newaxis], 1)
    first = rays.angle_min_rad if rays.increment_rad > 0.0 else rays.angle_min_rad - turn
    beyond = (np.arctan2(y, x) - first) % (2.0 * math.pi)
    outside: npt.NDArray[np.bool_] = ((beyond > turn + step) & (beyond < 2.0 * math.pi - step)).any(axis=1)
    return outside


def _check(rays: Rays) -> None:
    count, increment = len(rays.ranges_m), rays.increment_rad
    if not 0 < count <= MOST_RAYS:
        raise InputError(f"it has {count} ranges, expected 1 to {MOST_RAYS}")
    for name, value in (("angle_min", rays.angle_min_rad), ("angle_max", rays.angle_max_rad)):
        if not abs(value) <= 4.0 * math.pi:
            raise InputError(f"{name} is {value}")
    if not 0.0 < abs(increment) <= 2.0 * math.pi:
        raise InputError(f"angle_increment is {increment}")
    if (count - SLACK_RAYS) * abs(increment) > 2.0 * math.pi:
        raise InputError(f"angle_increment: {count} ranges every {increment:g} rad are more than a turn")
    last = rays.angle_min_rad + (count - 1) * increment
    off = math.remainder(last - rays.angle_max_rad, 2.0 * math.pi)
    if abs(off) > SLACK_RAYS * abs(increment):
        raise InputError(
            f"angle_max is {rays.angle_max_rad:g}, but {count} ranges every {increment:g} rad from angle_min "
            f"{rays.angle_min_rad:g} end at {last:g}"
        )
    if not 0.0 <= rays.range_min_m < math.inf:
        raise InputError(f"range_min is {rays.range_min_m}")
    if not rays.range_min_m < rays.range_max_m:
        raise InputError(f"range_max is {rays.range_max_m}, range_min is {rays.range_min_m}")
