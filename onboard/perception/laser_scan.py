"""Conversion of a laser scan into the 180-bin scan: the nearest range of each bin. Pure.

Drivers differ, and no two have the same header. Ray i points to angle_min + i * angle_increment; of angle_max only a
value far off is an error. `joined` joins the parts of a laser that sends a turn in several messages. `blind_reason`
says why bins are blind.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from onboard.config.config import NoReturn
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.messages import BIN_RAD, BINS, Scan

MOST_RAYS = 100_000
SLACK_RAYS = 3.5
"""Drivers repeat rays of a full turn, and round the number of rays: `angle_max` is a few rays beside the last one."""
WIDEST_RAD = math.radians(6.0)
"""Rays are at most this far apart where the bins between them take up their ranges."""
NEAR_M = np.arange(0.3, 2.05, 0.1)
"""Distances from the base at which a laser that is not at its origin must look."""
FARTHEST_M = 1000.0
"""Stands for a laser's reach that is infinite."""
TOO_CLOSE_M = 0.01
"""Range of an obstacle below range_min, for a laser whose range_min is 0."""


@dataclass(frozen=True, slots=True)
class Rays:
    """The fields of a `sensor_msgs/LaserScan`: ray i points to angle_min + i * increment about the base's z axis [rad].

    ranges_m: (n,); NaN is invalid, inf is free, -inf is nearer than range_min (REP 117)
    """

    angle_min_rad: float
    angle_max_rad: float
    increment_rad: float
    range_min_m: float
    range_max_m: float
    ranges_m: npt.NDArray[np.float32]


def scan_of_rays(
    rays: Rays,
    stamp_ns: int,
    base_from_laser: npt.NDArray[np.float64] | None = None,
    no_return: Collection[NoReturn] = (),
) -> Scan:
    """Return the nearest range in each bin; a bin is seen when at least one of its rays is valid.

    Rays through the bins' centres, as in our own scans, map one to one. By REP 117 a range outside range_min..range_max
    is invalid. So is 0, which many lasers send for no return. A bin between two valid rays that are farther apart than
    a bin takes up the smaller range of both. Raises InputError that names the invalid field.

    no_return: values that mean no return, and free space, as `scan.no_return` of the configuration

    base_from_laser: (4, 4) pose of a laser that is not at the base frame's origin. A ray without a hit then marks the
        bin at the laser's reach as seen. A bin is not seen if a place near the base in it is beside the laser's view
    """
    _check(rays)
    ranges = rays.ranges_m
    azimuth: npt.NDArray[np.floating] = rays.angle_min_rad + np.arange(len(ranges)) * rays.increment_rad
    ranges = np.where(np.isneginf(ranges), np.float32(max(rays.range_min_m, TOO_CLOSE_M)), ranges)
    with np.errstate(invalid="ignore"):
        measured = (ranges > 0.0) & (ranges >= rays.range_min_m) & (ranges <= rays.range_max_m)
    free = np.isposinf(ranges) | _free(rays, no_return)
    ranges = np.where(free, np.float32(np.inf), ranges)
    valid = free | measured
    if base_from_laser is not None:
        azimuth, ranges = _moved(azimuth, ranges, np.where(measured, ranges, rays.range_max_m), base_from_laser)
    bins = np.floor((azimuth + math.pi) / BIN_RAD).astype(np.int64) % BINS
    nearest = np.full(BINS, np.inf, dtype=np.float32)
    np.minimum.at(nearest, bins[valid], ranges[valid])
    seen = np.zeros(BINS, dtype=np.bool_)
    seen[bins[valid]] = True
    _fill_between(nearest, seen, azimuth, bins, ranges, valid, closed=_is_turn(rays))
    if base_from_laser is not None:
        seen &= ~_beside_view(rays, base_from_laser) | np.isfinite(nearest)
    return Scan(stamp_ns, nearest, seen)


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
    closed: bool,
) -> None:
    """Fill in place the bins between neighbouring valid rays that no ray meets: the smaller range of both.

    That is the nearest place of a surface that goes on from ray to ray, and of an edge it is on the safe side.
    closed: the last ray is next to the first one
    """
    start = np.arange(len(ranges) - (not closed))
    end = (start + 1) % len(ranges)
    turn = np.remainder(azimuth[end] - azimuth[start] + math.pi, 2.0 * math.pi) - math.pi
    apart = (bins[end] - bins[start] + BINS // 2) % BINS - BINS // 2
    wide = valid[start] & valid[end] & (np.abs(turn) <= WIDEST_RAD) & (np.abs(apart) > 1)
    missed = np.ones(BINS, np.bool_)
    missed[bins] = False
    smaller = np.minimum(ranges[start], ranges[end])
    for step in range(1, int(np.abs(apart[wide]).max(initial=0))):
        inside = wide & (np.abs(apart) > step)
        between = (bins[start[inside]] + step * np.sign(apart[inside])) % BINS
        kept = missed[between]
        np.minimum.at(nearest, between[kept], smaller[inside][kept])
        seen[between[kept]] = True


WORDS: dict[NoReturn, str] = {"zero": "0.0", "nan": "NaN", "beyond": "beyond range_max"}


def blind_reason(scan: Scan, rays: Rays, no_return: Collection[NoReturn] = ()) -> str:
    """Return how many bins are blind and why, "" if none is. rays: of the scan's newest message."""
    blind, count = int((~scan.seen).sum()), len(rays.ranges_m)
    if not blind:
        return ""
    kinds = {kind: int(which.sum()) for kind, which in _kinds(rays).items() if kind not in no_return and which.any()}
    causes = [f"{number} of {count} rays are {WORDS[kind]}" for kind, number in kinds.items()]
    with np.errstate(invalid="ignore"):
        below = int(((rays.ranges_m < rays.range_min_m) & (rays.ranges_m != 0.0) & np.isfinite(rays.ranges_m)).sum())
    if below:
        causes.append(f"{below} of {count} rays are below range_min {rays.range_min_m:g} m")
    step = abs(rays.increment_rad)
    if step > WIDEST_RAD:
        causes.append(f"rays are {math.degrees(step):.1f} deg apart, at most {math.degrees(WIDEST_RAD):g} are taken")
    if not _is_turn(rays):
        most_s = TURN_NS / NS_PER_S
        causes.append(f"a message covers {math.degrees(count * step):.0f} deg, parts are joined within {most_s:g} s")
    key = f"; if that means nothing in range, set scan.no_return = {list(kinds)}".replace("'", '"') if kinds else ""
    return f"{blind} of {BINS} bins are blind: {', '.join(causes) or 'beside the view of the laser'}{key}"


def mostly_blind(scan: Scan, rays: Rays) -> bool:
    """Return whether more than half of the bins in a laser's view are blind. rays: of the scan's newest message"""
    view = min(BINS, round(len(rays.ranges_m) * abs(rays.increment_rad) / BIN_RAD))
    return 2 * int(scan.seen.sum()) < view


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


def _moved(
    azimuth: npt.NDArray[np.floating],
    ranges: npt.NDArray[np.float32],
    ends_m: npt.NDArray[np.float32],
    base_from_laser: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.float32]]:
    """Return azimuth and range of each ray's end about the base's z axis; an infinite range stays infinite."""
    lengths = np.minimum(ends_m.astype(np.float64), FARTHEST_M)
    ends = np.stack([lengths * np.cos(azimuth), lengths * np.sin(azimuth), np.zeros(len(azimuth))])
    x, y, _ = base_from_laser[:3, :3] @ ends + base_from_laser[:3, 3:]
    moved = np.where(np.isfinite(ranges), np.hypot(x, y), ranges)
    return np.arctan2(y, x), moved.astype(np.float32)


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
        raise InputError(f"it has {count} ranges, from 1 to {MOST_RAYS} are taken")
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
