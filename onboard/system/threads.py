"""Who goes first where threads share a core: the tick, then those that work for it. For a runtime scheduled FIFO or RR.

There a thread keeps its core until it waits, and one of equal priority does not take it away: a tick would wait for a
whole decision. So all others step down. One that holds the interpreter's lock must not wait for its core behind one
that computes without it, for the tick would wait with it: the recorder, whose work is short, comes before the
decisions, and the cameras, which have interpreters of their own, come last. Niceness says nothing under FIFO.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal

# ---- A child process that does not outlive its parent, however the parent ended

PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process, even one that hangs, when the thread that started it ends.

    Linux ties this to the starting thread, not to its process: start children from a thread that lives as long as they
    should. Raises OSError when the kernel refuses, ProcessLookupError when the parent is gone already.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if os.getppid() != parent_pid:
        raise ProcessLookupError(f"parent {parent_pid} is gone")


RECORDER_BELOW, INFERENCE_BELOW, CAMERAS_BELOW = 1, 2, 3
"""So many steps below the tick. Threads that wait for the wire or the journal stay beside it."""

OPTIONS = {os.SCHED_FIFO: "--fifo", os.SCHED_RR: "--rr"}
"""The policies under which priorities count, as `chrt` calls them."""


def step_down(steps: int) -> None:
    """Schedule this thread, and those that it starts, so many steps lower; do nothing where priorities do not count."""
    scheduled = _below(steps)
    if scheduled is not None:
        policy, priority = scheduled
        os.sched_setscheduler(0, policy, os.sched_param(priority))


def lower(steps: int) -> tuple[str, ...]:
    """Return what stands before the command of a child, so that it begins so many steps lower than this thread.

    Nothing where priorities do not count, or `chrt` is missing: then it is scheduled as this thread.
    """
    scheduled, chrt = _below(steps), shutil.which("chrt")
    if scheduled is None or chrt is None:
        return ()
    policy, priority = scheduled
    return chrt, OPTIONS[policy], str(priority)


def _below(steps: int) -> tuple[int, int] | None:
    """Return the policy of this thread and a priority so many steps lower; None where priorities do not count."""
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    if policy not in OPTIONS:
        return None
    return policy, max(os.sched_getparam(0).sched_priority - steps, os.sched_get_priority_min(policy))
