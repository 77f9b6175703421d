"""Waiting for another process, without sleeping blindly: ask until it is so, or fail."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

LIMIT_S = 30.0
PERIOD_S = 0.005


def until(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Return as soon as `condition` holds; fail the test when it does not within `limit_s`."""
    pause = threading.Event()
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, "what was waited for did not happen"
        pause.wait(PERIOD_S)


def alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    """Return the processes that a process began, none of one that has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def open_descriptors() -> int:
    """Return how many descriptors this process holds."""
    return len(os.listdir("/proc/self/fd"))
