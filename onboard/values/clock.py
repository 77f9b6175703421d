"""Clocks, the fixed-rate grid of ticks, histograms of durations. The control path has one clock, monotonic [ns]."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

# ---- Latency of a message relative to the fastest message; the sender's clock may have any offset

DRIFT = 2e-4
"""Maximum relative drift of two clocks: the reference latency rises at this rate."""


@dataclass(frozen=True, slots=True)
class FastestMessage:
    """The message with the lowest latency so far, as the reference.

    took_ns: arrival minus stamp, each by its own clock [ns]; then_ns: arrival, monotonic [ns]
    """

    took_ns: int
    then_ns: int


def lateness(quickest: FastestMessage | None, stamp_ns: int, now_ns: int) -> tuple[int, FastestMessage]:
    """Return a message's latency relative to the fastest message [ns], at least 0, and the new fastest message.

    quickest: fastest message of this sender's clock so far, None before the first
    now_ns:   arrival, monotonic
    """
    took_ns = now_ns - stamp_ns
    if quickest is None:
        return 0, FastestMessage(took_ns, now_ns)
    least_ns = quickest.took_ns + round(DRIFT * max(0, now_ns - quickest.then_ns))
    if took_ns <= least_ns:
        return 0, FastestMessage(took_ns, now_ns)
    return took_ns - least_ns, quickest


NS_PER_S = 1_000_000_000
AHEAD_NS = 50_000_000
"""A message that is quicker than the quickest by more has a clock that was set forward."""
INTERVALS, LEAST_INTERVALS = 9, 4
"""Number of newest intervals of stamps whose median is the sender's period, and from which it is known."""
LONGEST_PERIOD_NS = NS_PER_S
"""Messages that are rarer have no period."""


@dataclass(frozen=True, slots=True)
class Sender:
    """The clock of a sender whose messages are even. stamp_ns, arrival_ns: of the newest message

    intervals_ns: newest intervals of its stamps, without those in which its clock was set
    """

    quickest: FastestMessage
    stamp_ns: int
    arrival_ns: int
    intervals_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """A message's excess latency, and whether its sender's clock was set since the message before."""

    late_ns: int = 0
    was_set: bool = False


def timed(sender: Sender | None, stamp_ns: int, now_ns: int) -> tuple[Timing, Sender]:
    """Return the timing of a message, and the sender after it. Setting the clock, however often, makes nothing late.

        set forward   the message is quicker than the quickest by more than `AHEAD_NS`
        set back      the stamp is older; or newer by at most three quarters of the period, though the message came no
                      earlier. The quickest latency grows by what is missing of a period

    Messages that queue have even stamps, so they stay late, and those that were held up and come at once come early.

    sender: before it, None at first; now_ns: arrival, monotonic
    """
    if sender is None:
        return Timing(), Sender(FastestMessage(now_ns - stamp_ns, now_ns), stamp_ns, now_ns)
    quickest, back_ns = sender.quickest, _set_back_ns(sender, stamp_ns, now_ns)
    was_set = back_ns > 0 or now_ns - stamp_ns < quickest.took_ns - AHEAD_NS
    if back_ns:
        quickest = FastestMessage(quickest.took_ns + back_ns, quickest.then_ns)
    late_ns, quickest = lateness(quickest, stamp_ns, now_ns)
    intervals_ns = sender.intervals_ns
    if not was_set:
        intervals_ns = (*intervals_ns[1 - INTERVALS :], stamp_ns - sender.stamp_ns)
    return Timing(late_ns, was_set), Sender(quickest, stamp_ns, now_ns, intervals_ns)


def _set_back_ns(sender: Sender, stamp_ns: int, now_ns: int) -> int:
    """Return by how much the sender's clock was set back since its newest message, 0 if it was not [ns]."""
    elapsed_ns, waited_ns, intervals_ns = stamp_ns - sender.stamp_ns, now_ns - sender.arrival_ns, sender.intervals_ns
    known = len(intervals_ns) >= LEAST_INTERVALS
    period_ns = sorted(intervals_ns)[len(intervals_ns) // 2] if known else waited_ns
    if elapsed_ns < 0:
        return max(0, period_ns) - elapsed_ns
    if not known or period_ns > LONGEST_PERIOD_NS:
        return 0
    missing_ns = period_ns - elapsed_ns - max(0, intervals_ns[-1] - period_ns)
    early = 2 * waited_ns < max(period_ns, 2 * elapsed_ns + missing_ns)
    return 0 if early or 4 * missing_ns < period_ns else missing_ns


def wall_ns() -> int:
    """Return the wall time [ns since 1970]. Only for files and messages that leave the robot."""
    return time.time_ns()


class Clock(Protocol):
    """The time of the control path."""

    def now_ns(self) -> int:
        """Return the time, monotonic [ns]."""

    async def sleep_until(self, deadline_ns: int) -> None:
        """Return at or just after an absolute deadline; at once if it has passed. Only one task may sleep."""

    def hold_until(self, deadline_ns: int) -> None:
        """Stop this thread until an absolute deadline, some milliseconds at most; return at once if it has passed."""

    def close(self) -> None:
        """Release the timer. Safe to call twice."""


class MonotonicClock:
    """CLOCK_MONOTONIC, paced by a Linux timerfd that the event loop reads.

    asyncio's own timers have epoll's resolution of 1 ms. A timerfd wakes the loop within about 0.1 ms
    (`onboard bench` prints both).
    """

    def __init__(self) -> None:
        self._fd: int | None = _timerfd_create()

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC [ns]."""
        return time.monotonic_ns()

    async def sleep_until(self, deadline_ns: int) -> None:
        """Return once CLOCK_MONOTONIC has reached `deadline_ns`."""
        if self._fd is None:
            raise RuntimeError("the clock is closed")
        if deadline_ns <= self.now_ns():
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        expired = loop.create_future()
        fd = self._fd
        _timerfd_set(fd, deadline_ns)
        loop.add_reader(fd, _expire, fd, expired)
        try:
            await expired
        finally:
            loop.remove_reader(fd)

    def hold_until(self, deadline_ns: int) -> None:
        """Stop this thread until CLOCK_MONOTONIC has reached `deadline_ns`. Other threads run."""
        while (left_ns := deadline_ns - self.now_ns()) > 0:
            time.sleep(left_ns / NS_PER_S)

    def close(self) -> None:
        """Close the timer. Safe to call twice."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _expire(fd: int, expired: asyncio.Future[None]) -> None:
    try:
        os.read(fd, 8)
    except BlockingIOError:  # the timer was set again and has not expired
        return
    if not expired.done():
        expired.set_result(None)


class SimulatedClock:
    """A clock that jumps to each deadline, so a run is as fast as the machine allows."""

    def __init__(self, start_ns: int = NS_PER_S) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return the simulated time [ns]."""
        return self._now_ns

    def advance(self, duration_ns: int) -> None:
        """Advance the time, to simulate slow work."""
        if duration_ns < 0:
            raise ValueError(f"duration_ns {duration_ns} must not be negative")
        self._now_ns += duration_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        """Jump to the deadline, after letting the other tasks of the loop run."""
        await asyncio.sleep(0)
        self.hold_until(deadline_ns)

    def hold_until(self, deadline_ns: int) -> None:
        """Jump to the deadline."""
        self._now_ns = max(self._now_ns, deadline_ns)

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One tick of the grid.

    number:      slot on the grid, ascending, with gaps where slots were missed
    deadline_ns: planned start; before its place on the grid where `grid` starts earlier
    start_ns:    actual start
    missed:      slots skipped just before this slot
    """

    number: int
    deadline_ns: int
    start_ns: int
    missed: int

    @property
    def lateness_ns(self) -> int:
        """Actual minus planned start [ns]."""
        return self.start_ns - self.deadline_ns


def punctual(number: int) -> int:
    """Return how much earlier a slot starts [ns]: not at all."""
    return 0


async def grid(clock: Clock, period_ns: int, early_ns: Callable[[int], int] = punctual) -> AsyncIterator[Slot]:
    """Yield one Slot per period, at absolute deadlines start + number * period.

    A slot whose successor is due is skipped and counted; there is no burst to catch up. The newest due slot runs late.
    early_ns: how much earlier a slot starts, by its number; below a period [ns]
    """
    if period_ns <= 0:
        raise ValueError(f"period_ns {period_ns} must be positive")
    origin_ns = clock.now_ns()
    number = 0
    while True:
        due = max(number, (clock.now_ns() - origin_ns) // period_ns)
        missed, number = due - number, due
        deadline_ns = origin_ns + number * period_ns - early_ns(number)
        await clock.sleep_until(deadline_ns)
        yield Slot(number, deadline_ns, clock.now_ns(), missed)
        number += 1


class Histogram:
    """Counts of durations in logarithmic buckets, 32 per octave: 3 % resolution, constant memory and time."""

    _STEPS = 32
    _OCTAVES = 44

    def __init__(self) -> None:
        self._counts = np.zeros(self._STEPS * self._OCTAVES, dtype=np.int64)
        self.count = 0
        self.max_ns = 0

    def add(self, duration_ns: int) -> None:
        """Count a duration [ns]; a negative duration counts as 0."""
        duration_ns = max(duration_ns, 0)
        self._counts[self._bucket(duration_ns)] += 1
        self.count += 1
        self.max_ns = max(self.max_ns, duration_ns)

    def quantile_ns(self, fraction: float) -> int:
        """Return the upper edge of the quantile's bucket [ns]; 0 for an empty histogram."""
        if self.count == 0:
            return 0
        rank = max(1, int(np.ceil(fraction * self.count)))
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        return min(self._upper_edge(bucket), self.max_ns)

    def summary_ms(self) -> dict[str, float]:
        """Return count, p50, p99 and max, durations in milliseconds."""
        return {
            "count": self.count,
            "p50": round(self.quantile_ns(0.50) / 1e6, 3),
            "p99": round(self.quantile_ns(0.99) / 1e6, 3),
            "max": round(self.max_ns / 1e6, 3),
        }

    @classmethod
    def _bucket(cls, value: int) -> int:
        if value < cls._STEPS:
            return value
        octave = value.bit_length() - cls._STEPS.bit_length()
        bucket = cls._STEPS * (octave + 1) + ((value >> octave) - cls._STEPS)
        return min(bucket, cls._STEPS * cls._OCTAVES - 1)

    @classmethod
    def _upper_edge(cls, bucket: int) -> int:
        if bucket < cls._STEPS:
            return bucket
        octave, step = divmod(bucket, cls._STEPS)
        return ((cls._STEPS + step + 1) << (octave - 1)) - 1


if sys.version_info >= (3, 13):

    def _timerfd_create() -> int:
        return os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)

    def _timerfd_set(fd: int, deadline_ns: int) -> None:
        os.timerfd_settime_ns(fd, flags=os.TFD_TIMER_ABSTIME, initial=deadline_ns)

else:
    _TIMER_ABSTIME = 1
    _LIBC = ctypes.CDLL(None, use_errno=True)

    class _Timespec(ctypes.Structure):
        _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))

    class _Itimerspec(ctypes.Structure):
        _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))

    def _timerfd_create() -> int:
        fd: int = _LIBC.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        return fd

    def _timerfd_set(fd: int, deadline_ns: int) -> None:
        seconds, nanoseconds = divmod(deadline_ns, NS_PER_S)
        spec = _Itimerspec(_Timespec(0, 0), _Timespec(seconds, nanoseconds))
        if _LIBC.timerfd_settime(fd, _TIMER_ABSTIME, ctypes.byref(spec), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")
