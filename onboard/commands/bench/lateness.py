"""Lateness of ticks, of a loop of asyncio.sleep, and of the kernel alone (`cyclictest`), in the same run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator

from onboard.commands.bench.rows import Row, row
from onboard.values.clock import NS_PER_S, Clock, Histogram, MonotonicClock

TURN_S = 2.0
"""Part of the lateness that is measured at once, in turns with the peers [s]."""
CYCLICTEST = "cyclictest"
MISSING = f"{CYCLICTEST} is not installed (package rt-tests) or lacks permission: the kernel alone was not measured"
KERNEL = ", kernel"
"""End of the names of rows that compare with cyclictest."""
FIFO_PRIORITY = 40
"""That of the unit (`systemd/onboard.service`)."""
LONGEST_US = 20_000
"""Length of cyclictest's histogram; what is later counts as so late."""
MANY = 1000
"""Number of ticks needed for a 99.9th percentile."""
PATIENCE_S = 30.0
_BUCKET = re.compile(r"^(\d+)\s+(\d+)\s*$", re.MULTILINE)
_LATER = re.compile(r"^# Histogram Overflows:\s*(\d+)", re.MULTILINE)
_MAX = re.compile(r"^# Max Latencies:\s*(\d+)", re.MULTILINE)


class AsyncioClock(MonotonicClock):
    """The peer of the runtime's clock: asyncio's own timer."""

    async def sleep_until(self, deadline_ns: int) -> None:
        """Return after asyncio's timer has ended."""
        await asyncio.sleep(max(0.0, (deadline_ns - self.now_ns()) / NS_PER_S))


async def count(clock: Clock, period_ns: int, ticks: int, counted: Histogram) -> None:
    """Add the lateness of each tick to a histogram; a tick that asyncio starts early counts with its distance."""
    deadline_ns = clock.now_ns()
    for _ in range(ticks):
        deadline_ns += period_ns
        await clock.sleep_until(deadline_ns)
        counted.add(abs(clock.now_ns() - deadline_ns))
    clock.close()


def lateness(control_hz: float, seconds: float) -> Iterator[Row]:
    """Yield the lateness of the runtime's clock and of its peers, in turns, for `seconds` each [ms].

    All have the scheduler that this user may have: FIFO, as the service, or the normal one.
    """
    ours, peer, kernel = Histogram(), Histogram(), Histogram()
    period_ns, ticks = round(NS_PER_S / control_hz), max(1, round(min(seconds, TURN_S) * control_hz))
    with _first() as fifo:
        for _ in range(max(1, round(seconds * control_hz / ticks))):
            asyncio.run(count(MonotonicClock(), period_ns, ticks, ours))
            asyncio.run(count(AsyncioClock(), period_ns, ticks, peer))
            cyclictest(period_ns, ticks, fifo, kernel)
    note = f"{ours.count} ticks of an idle loop each, {f'FIFO {FIFO_PRIORITY} as the service' if fifo else 'no FIFO'}"
    rows = [("p50", 0.5, None), ("p99", 0.99, None), ("p99.9", 0.999, None), ("max", 1.0, 1e3 / control_hz)]
    for name, fraction, most in rows:
        if name != "p99.9" or ours.count >= MANY:
            values = [histogram.quantile_ns(fraction) / 1e6 for histogram in (ours, peer)]
            yield row(f"tick lateness {name}", values[0], "ms", values[1], f"peer: asyncio.sleep; {note}", most)
    for name, fraction, most in (rows[1], rows[3]) if kernel.count else ():
        values = [histogram.quantile_ns(fraction) / 1e6 for histogram in (ours, kernel)]
        yield row(f"tick lateness {name}{KERNEL}", values[0], "ms", values[1], f"peer: {CYCLICTEST}; {note}", most)


@contextlib.contextmanager
def _first() -> Iterator[bool]:
    """Let this thread run as the service's tick does, and yield whether it may."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO_PRIORITY))
    except PermissionError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, *before)


def cyclictest(period_ns: int, ticks: int, fifo: bool, counted: Histogram) -> None:
    """Add the lateness of this many periods of `cyclictest` to a histogram; nothing where it is missing or refuses."""
    program = shutil.which(CYCLICTEST)
    if program is None:
        return
    pace = ["-t1", f"-i{period_ns // 1000}", f"-l{ticks}", f"-h{LONGEST_US}"]
    scheduler = [f"-p{FIFO_PRIORITY}"] if fifo else []
    command = [program, "-q", "--default-system", *pace, *scheduler]
    limit_s = period_ns * ticks / NS_PER_S + PATIENCE_S
    run = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if run.returncode == 0:
        count_cyclictest(run.stdout, counted)


def count_cyclictest(text: str, counted: Histogram) -> None:
    """Add what cyclictest's histogram says to a histogram, its largest latency as it is; nothing from other text."""
    found = _MAX.search(text)
    if found is None:
        return
    largest_us, later = int(found[1]), _LATER.search(text)
    latencies_us = [int(us) for us, count in _BUCKET.findall(text) for _ in range(int(count))]
    for us in [*latencies_us, *[largest_us] * (int(later[1]) if later else 0)]:
        counted.add(us * 1000)
