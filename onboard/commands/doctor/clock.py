"""The wall clock: whether the kernel calls it synchronised, and how far other machines' stamps are from it.

The control path uses the monotonic clock and does not mind. Names of recordings, stamps of what is published, and the
comparison of odometry with a localisation from another machine do.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from onboard.commands.doctor.finding import Finding, amber, green

UNSYNCHRONISED = 0x40
"""STA_UNSYNC of adjtimex(2)."""
APART_S = 0.1
"""Clocks of two machines farther apart than this are named."""
NS_PER_S = 1e9


class _Timex(ctypes.Structure):
    """`struct timex` of Linux, 64 bits; `modes` 0 asks and changes nothing."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")),
        ("status", ctypes.c_int),
        *((name, ctypes.c_long) for name in ("constant", "precision", "tolerance", "seconds", "fraction", "tick")),
        *((name, ctypes.c_long) for name in ("ppsfreq", "jitter")),
        ("shift", ctypes.c_int),
        *((name, ctypes.c_long) for name in ("stabil", "jitcnt", "calcnt", "errcnt", "stbcnt")),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """What the kernel says of its clock; max_error_s is its own bound."""

    synchronised: bool
    max_error_s: float


def kept() -> Kept | None:
    """Return what the kernel says of its clock; None where it may not be asked."""
    table, library = _Timex(), ctypes.CDLL(None)
    if library.adjtimex(ctypes.byref(table)) < 0:
        return None
    return Kept(not table.status & UNSYNCHRONISED, table.maxerror / 1e6)


def clock(state: Kept | None, stamp_ahead_s: float | None, *, localised: bool) -> Finding:
    """Return whether the clock can be relied on.

    stamp_ahead_s: how far the stamps of odometry are ahead of this clock; None when none came
    localised:     whether somebody publishes a pose in the map, which is compared with odometry by stamps
    """
    values = {
        "synchronised": None if state is None else state.synchronised,
        "odometry_ahead_s": None if stamp_ahead_s is None else round(stamp_ahead_s, 3),
    }
    said = "" if stamp_ahead_s is None else f"; odometry is stamped {stamp_ahead_s * 1e3:+.0f} ms off it"
    if stamp_ahead_s is not None and abs(stamp_ahead_s) > APART_S and localised:
        return amber(
            "clock",
            f"odometry is stamped {stamp_ahead_s:+.2f} s off this machine's clock",
            "synchronise both machines (chrony); poses in the map are compared with odometry by their stamps",
            **values,
        )
    if state is None:
        return amber("clock", f"the kernel may not be asked{said}", "see `timedatectl`", **values)
    if not state.synchronised:
        return amber(
            "clock",
            f"not synchronised{said}",
            "`timedatectl set-ntp true`; chrony needs `rtcsync` to say so to the kernel. Recordings are named by it",
            **values,
        )
    return green("clock", f"synchronised, off by {state.max_error_s * 1e3:.0f} ms at the most{said}", **values)
