"""Charts of the page that need no script, as plain numbers; the template draws them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.report.session_metrics import Times
from onboard.values.messages import BINS, Scan

WIDTH, HEIGHT = 300.0, 90.0
BARS = 48
LEAST_PX = 1.5
"""Least height of a bar, so that small counts stay visible."""
SHOWN_QUANTILE = 99.9
LEAST_MS = 1e-3
MARKS = 4
FAR_FROM_ZERO, LEAST_WIDE = 0.5, 0.9
"""A histogram begins at 0 unless all values lie beyond this share of its width."""
PICTURE_PX = 150.0
"""Radius of a picture of scans."""
LEAST_M = 1.0
AZIMUTHS_RAD = np.deg2rad(-180.0 + 360.0 / BINS * (np.arange(BINS) + 0.5))
MOST_RANGES = 90.0
"""Percentile of the ranges that a picture always shows."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram [px]; hint: its tooltip; over: it lies above the limit."""

    x: float
    width: float
    height: float
    hint: str
    over: bool


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars, axis marks (x [px], text), position of the limit [px], and the count of the highest bar."""

    times: Times
    bars: tuple[Bar, ...]
    marks: tuple[tuple[float, str], ...]
    limit_x: float | None
    most: int


@dataclass(frozen=True, slots=True)
class Dot:
    """A range of a scan as a point [px]; the robot is at (0, 0), ahead is up."""

    x: float
    y: float
    differs: bool


@dataclass(frozen=True, slots=True)
class ScanPicture:
    """Two scans in one picture, and distance rings (radius [px], text)."""

    recorded: tuple[Dot, ...]
    replayed: tuple[Dot, ...]
    rings: tuple[tuple[float, str], ...]
    differing: int


def histogram(times: Times) -> Histogram:
    """Return the distribution up to its 99.9th percentile or its limit.

    The first bar also counts all smaller values, the last bar all larger values.
    """
    values, limit = times.values, times.limit_ms
    top = max(float(np.percentile(values, SHOWN_QUANTILE)), 1.1 * (limit or 0.0), LEAST_MS)
    low = min(float(values.min()), LEAST_WIDE * top) if values.min() > FAR_FROM_ZERO * top else 0.0
    step = nice(max(top - low, LEAST_MS) / BARS)
    first = math.floor(low / step)
    count = max(math.ceil(top / step) - first, 1)
    places = np.clip(np.floor(values / step) - first, 0, count).astype(np.int64)
    counts = np.bincount(places, minlength=count + 1)
    most, width = max(int(counts.max()), 1), WIDTH / (count + 1)
    bars = tuple(
        Bar(
            place * width, max(width - 0.8, 0.6), max(HEIGHT * found / most, LEAST_PX),
            f"{_stretch((first + place) * step, None if place == count else step)}: {found:,}",
            limit is not None and (first + place) * step >= limit,
        )
        for place, found in enumerate(counts.tolist()) if found
    )  # fmt: skip
    apart = nice(count * step / MARKS)
    marks = tuple(
        ((one * apart / step - first) * width, f"{one * apart:g}")
        for one in range(math.ceil(first * step / apart), int((first + count) * step / apart) + 1)
    )
    return Histogram(times, bars, marks, None if limit is None else (limit / step - first) * width, most)


def _stretch(begin: float, step: float | None) -> str:
    return f"from {begin:g} ms" if step is None else f"{begin:g} to {begin + step:g} ms"


def nice(value: float) -> float:
    """Return the least 1, 2 or 5 times a power of ten that is not below `value`."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(one * power for one in (1.0, 2.0, 5.0, 10.0) if one * power >= 0.999 * value)


def scan_picture(recorded: Scan, replayed: Scan) -> ScanPicture:
    """Return both scans in one picture that shows all differing ranges and most of the others."""
    differs = (recorded.ranges_m != replayed.ranges_m) | (recorded.seen != replayed.seen)
    both = np.stack([recorded.ranges_m, replayed.ranges_m])
    finite = both[np.isfinite(both)]
    apart = both[:, differs][np.isfinite(both[:, differs])]
    most = float(np.percentile(finite, MOST_RANGES)) if len(finite) else 0.0
    far = max(LEAST_M, most, 1.05 * float(apart.max(initial=0.0)))
    ring, scale = nice(far / 4.0), PICTURE_PX / far
    rings = tuple((one * ring * scale, f"{one * ring:g} m") for one in range(1, int(far / ring) + 1))
    return ScanPicture(_dots(recorded, differs, far), _dots(replayed, differs, far), rings, int(differs.sum()))


def _dots(scan: Scan, differs: npt.NDArray[np.bool_], far_m: float) -> tuple[Dot, ...]:
    found = []
    for bearing, range_m, other in zip(AZIMUTHS_RAD, scan.ranges_m.tolist(), differs.tolist(), strict=True):
        if math.isfinite(range_m) and range_m <= far_m:
            away = range_m / far_m * PICTURE_PX
            found.append(Dot(-away * math.sin(bearing), -away * math.cos(bearing), bool(other)))
    return tuple(found)
