"""The wall clock: whether it is synchronised, and its offset from the stamps of odometry.

The control path uses the monotonic clock. Names of recordings, stamps of published messages, and the comparison of
odometry with a localisation from another machine need the wall clock.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from onboard.commands.doctor.finding import Finding, amber, green

UNSYNCHRONISED = 0x40
"""STA_UNSYNC of adjtimex(2)."""
TIMEX_WORDS, MAX_ERROR_WORD, STATUS_WORD = 32, 3, 5
"""`struct timex` as 64-bit words: `maxerror` [us], and `status` in the low half of its word."""
MAX_OFFSET_S = 0.1
"""Larger offsets between two machines' clocks are reported."""


@dataclass(frozen=True, slots=True)
class KernelClock:
    """The kernel's clock state; max_error_s is the kernel's own bound."""

    synchronised: bool
    max_error_s: float


def kernel_clock() -> KernelClock | None:
    """Return the kernel's clock state; None if this process may not read it."""
    timex = (ctypes.c_long * TIMEX_WORDS)()  # `modes` is 0: read only
    if ctypes.CDLL(None).adjtimex(ctypes.byref(timex)) < 0:
        return None
    return KernelClock(not timex[STATUS_WORD] & UNSYNCHRONISED, timex[MAX_ERROR_WORD] / 1e6)


def clock(state: KernelClock | None, stamp_ahead_s: float | None, *, localised: bool) -> Finding:
    """Return whether the clock is reliable.

    stamp_ahead_s: offset of odometry's stamps from this clock; None without odometry
    localised:     whether a localisation publishes a pose in the map, which is compared with odometry by stamps
    """
    values = {
        "synchronised": None if state is None else state.synchronised,
        "odometry_ahead_s": None if stamp_ahead_s is None else round(stamp_ahead_s, 3),
    }
    offset = "" if stamp_ahead_s is None else f"; odometry stamps are off by {stamp_ahead_s * 1e3:+.0f} ms"
    if stamp_ahead_s is not None and abs(stamp_ahead_s) > MAX_OFFSET_S and localised:
        return amber(
            "clock",
            f"odometry stamps are {stamp_ahead_s:+.2f} s off this machine's clock",
            "synchronise both machines (chrony); poses in the map are matched with odometry by their stamps",
            **values,
        )
    if state is None:
        return amber("clock", f"the kernel's clock state cannot be read{offset}", "see `timedatectl`", **values)
    if not state.synchronised:
        return amber(
            "clock",
            f"not synchronised{offset}",
            "`timedatectl set-ntp true`; with chrony, also set `rtcsync`. Recordings are named by this clock",
            **values,
        )
    return green("clock", f"synchronised, off by {state.max_error_s * 1e3:.0f} ms at most{offset}", **values)
