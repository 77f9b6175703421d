"""What keeps ticks on time: FIFO scheduling, locked memory, a core for the tick. Each is used where it is permitted."""

from __future__ import annotations

import ctypes
import os
import re
import resource
from dataclasses import dataclass
from pathlib import Path

import structlog

from onboard.values.errors import ConfigError

log = structlog.get_logger()

MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT = 1, 2, 4
CAP_IPC_LOCK = 14
LOCK_REMEDY = "LimitMEMLOCK=infinity, as the service's unit has it"


@dataclass(frozen=True, slots=True)
class Punctuality:
    """What this run has of it. missing: what it may not have, each with its remedy"""

    scheduler: str
    memory: str
    core: str
    missing: tuple[str, ...]

    def values(self) -> dict[str, object]:
        """Return the values for the log and for `/diagnostics`."""
        return {"scheduler": self.scheduler, "memory": self.memory, "core": self.core}

    def diagnostic(self) -> tuple[str, int, str, dict[str, object]]:
        """Return the row of `/diagnostics`; a warning if something is missing."""
        return ("realtime", 1 if self.missing else 0, "; ".join(self.missing) or "all in use", self.values())


def may_lock() -> bool:
    """Return whether this user may lock all its memory: no limit, or CAP_IPC_LOCK."""
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    granted = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    capable = granted is not None and bool(int(granted[1], 16) >> CAP_IPC_LOCK & 1)
    return capable or resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY


def lock_memory() -> str:
    """Lock pages in memory, so that no tick waits for the disk; return why that is not permitted, or "".

    A page is locked at its first use (MCL_ONFAULT), because libraries map far more memory than they use. Under a limit
    nothing is locked: a later allocation beyond it would fail.
    """
    if not may_lock():
        return f"memory is not locked (limit): {LOCK_REMEDY}"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0:
        return f"memory is not locked ({os.strerror(ctypes.get_errno())}): {LOCK_REMEDY}"
    return ""


def check_core(core: int | None) -> None:
    """Raise ConfigError if this process may not use a core, or has no other core."""
    allowed = sorted(os.sched_getaffinity(0))
    if core is not None and (core not in allowed or len(allowed) < 2):
        raise ConfigError(
            f"rates.core: {core}: this process may use the cores {', '.join(map(str, allowed))}; state one of "
            "them, and leave at least one other"
        )


def leave_core(core: int | None) -> None:
    """Keep this thread, and the threads and processes that it starts later, off the tick's core."""
    if core is not None:
        os.sched_setaffinity(0, os.sched_getaffinity(0) - {core})


def settled(core: int | None) -> Punctuality:
    """Lock the memory, take the tick's core, and log in one line what this thread has."""
    unlocked = lock_memory()
    if core is not None:
        os.sched_setaffinity(0, {core})
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    priority = os.sched_getparam(0).sched_priority
    name = {os.SCHED_FIFO: "FIFO", os.SCHED_RR: "RR"}.get(policy)
    missing = (unlocked,) if unlocked else ()
    found = Punctuality(
        scheduler="not first" if name is None else f"{name} {priority}",
        memory="not locked" if unlocked else "locked",
        core=", ".join(map(str, sorted(os.sched_getaffinity(0)))),
        missing=missing,
    )
    (log.warning if missing else log.info)("realtime", **found.values(), missing="; ".join(missing) or "nothing")
    return found
