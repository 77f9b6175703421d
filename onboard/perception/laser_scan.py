"""Conversion of a laser scan into the 180-bin scan: the nearest range of each bin. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.values.errors import InputError
from onboard.values.messages import BINS, Scan

BIN_RAD = 2.0 * math.pi / BINS
MOST_RAYS = 100_000
TURN_SLACK_RAYS = 1.5
"""A full turn may repeat its first ray, and `angle_max` may lie one ray beyond the last."""
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


def scan_of_rays(rays: Rays, stamp_ns: int, base_from_laser: npt.NDArray[np.float64] | None = None) -> Scan:
    """Return the nearest range in each bin; a bin is seen when at least one of its rays is valid.

    Rays through the bins' centres, as in our own scans, map one to one. By REP 117 a range outside range_min..range_max
    is invalid. So is 0, which many lasers send for no return. Raises InputError that names the invalid field.

    base_from_laser: (4, 4) pose of a laser that is not at the base frame's origin. A ray without a hit then marks the
        bin at the laser's reach as seen. A bin is not seen if a place near the base in it is beside the laser's view
    """
    _check(rays)
    ranges = rays.ranges_m
    azimuth: npt.NDArray[np.floating] = rays.angle_min_rad + np.arange(len(ranges)) * rays.increment_rad
    ranges = np.where(np.isneginf(ranges), np.float32(max(rays.range_min_m, TOO_CLOSE_M)), ranges)
    with np.errstate(invalid="ignore"):
        measured = (ranges > 0.0) & (ranges >= rays.range_min_m) & (ranges <= rays.range_max_m)
    valid = np.isposinf(ranges) | measured
    if base_from_laser is not None:
        azimuth, ranges = _moved(azimuth, ranges, np.where(measured, ranges, rays.range_max_m), base_from_laser)
    bins = np.floor((azimuth + math.pi) / BIN_RAD).astype(np.int64) % BINS
    nearest = np.full(BINS, np.inf, dtype=np.float32)
    np.minimum.at(nearest, bins[valid], ranges[valid])
    seen = np.zeros(BINS, dtype=np.bool_)
    seen[bins[valid]] = True
    if base_from_laser is not None:
        seen &= ~_beside_view(rays, base_from_laser) | np.isfinite(nearest)
    return Scan(stamp_ns, nearest, seen)


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
    if count * abs(increment) > 2.0 * math.pi + TURN_SLACK_RAYS * abs(increment):
        raise InputError(f"{count} ranges every {increment:g} rad are more than a turn")
    if abs(rays.angle_min_rad + (count - 1) * increment - rays.angle_max_rad) > TURN_SLACK_RAYS * abs(increment):
        raise InputError(f"{count} ranges every {increment:g} rad do not end at angle_max {rays.angle_max_rad:g}")
    if not (0.0 <= rays.range_min_m < math.inf and rays.range_min_m < rays.range_max_m):
        raise InputError(f"range_min is {rays.range_min_m}, range_max {rays.range_max_m}")
