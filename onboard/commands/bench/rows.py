"""A row of `onboard bench`: one figure, a peer of the same run, and a budget of the table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

BUDGETS = {
    "start to READY, first": 5.0,
    "start to READY": 2.5,
    "memory": 700.0,
    "fusion of four 848x480": 10.0,
    "colour resize": 5.0,
    "engine p50": 30.0,
    "engine p99": 70.0,
    "decision p50": 70.0,
    "decision p99": 70.0,
    "decision, a core busy p50": 70.0,
    "decision, a core busy p99": 70.0,
    "command p50": 1.0,
    "command p99": 5.0,
    "recording of a second": 300.0,
    "tick lateness p50": 1.0,
    "tick lateness p99": 2.0,
    "tick lateness p99.9": 5.0,
    "tick lateness max": 33.0,
    "tick lateness p99, kernel": 2.0,
    "tick lateness max, kernel": 33.0,
}
"""The largest value of each row that passes, in the row's unit."""
ROUNDED = 4
"""Digits after the point."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    peer:   the same by other means, `note` says which; ratio: value / peer; both None without a peer
    budget: of `BUDGETS`, or of the configuration
    """

    name: str
    value: float
    unit: str
    peer: float | None
    ratio: float | None
    budget: float
    ok: bool
    note: str = ""


def row(
    name: str, value: float, unit: str, peer: float | None = None, note: str = "", budget: float | None = None
) -> Row:
    """Return a row with its budget, ratio and verdict. budget: of the robot's configuration; None for the table's."""
    most = BUDGETS[name] if budget is None else round(budget, ROUNDED)
    ratio = round(value / peer, ROUNDED) if peer else None
    shown = None if peer is None else round(peer, ROUNDED)
    return Row(name, round(value, ROUNDED), unit, shown, ratio, most, value <= most, note)


def quantiles(
    name: str, times_ms: Sequence[float], peer_ms: Sequence[float] | None, note: str, budget_ms: float | None = None
) -> Iterator[Row]:
    """Yield p50 and p99 of durations and of a peer's [ms]. budget_ms: as in `row`."""
    for shown, percent in (("p50", 50), ("p99", 99)):
        peer = None if peer_ms is None else float(np.percentile(peer_ms, percent))
        yield row(f"{name} {shown}", float(np.percentile(times_ms, percent)), "ms", peer, note, budget_ms)


def duration_ms(call: Callable[[], object]) -> float:
    """Return how long a call takes [ms]."""
    begun_ns = time.monotonic_ns()
    call()
    return (time.monotonic_ns() - begun_ns) / 1e6


def median_ms(call: Callable[[], object], rounds: int) -> float:
    """Return the median duration of a call [ms]."""
    return statistics.median(duration_ms(call) for _ in range(rounds))
