"""Thread priorities for a runtime scheduled FIFO or RR: the tick, then recorder, inference and cameras.

Under these schedulers a thread keeps its core until it waits. At equal priority a tick would wait for a whole decision,
so all other threads step down. A thread that holds the GIL must not wait for a core behind a thread without the GIL,
because the tick would wait for that GIL. So the recorder, with short work, has a higher priority than inference.
Cameras have their own interpreters and come last. Niceness has no effect under FIFO.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal

# ---- A child process that ends with its parent, also when the parent is killed

PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process, even if it hangs, when the thread that started it ends.

    Linux ties this to the starting thread, not to its process, so that thread must live as long as the child.
    Raises OSError if the kernel refuses, ProcessLookupError if the parent has ended.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if os.getppid() != parent_pid:
        raise ProcessLookupError(f"parent {parent_pid} is gone")


RECORDER_BELOW, INFERENCE_BELOW, CAMERAS_BELOW = 1, 2, 3
"""Priority steps below the tick. Threads that wait for DDS or the journal keep the tick's priority."""

OPTIONS = {os.SCHED_FIFO: "--fifo", os.SCHED_RR: "--rr"}
"""The schedulers with priorities, and the option of `chrt` for each."""


def step_down(steps: int) -> None:
    """Lower the priority of this thread and its later threads by `steps`; do nothing under other schedulers."""
    scheduled = _below(steps)
    if scheduled is not None:
        policy, priority = scheduled
        os.sched_setscheduler(0, policy, os.sched_param(priority))


def lower(steps: int) -> tuple[str, ...]:
    """Return a prefix for a child's command that starts the child `steps` below this thread's priority.

    Empty under other schedulers or without `chrt`; the child then has this thread's priority.
    """
    scheduled, chrt = _below(steps), shutil.which("chrt")
    if scheduled is None or chrt is None:
        return ()
    policy, priority = scheduled
    return chrt, OPTIONS[policy], str(priority)


def _below(steps: int) -> tuple[int, int] | None:
    """Return this thread's scheduler and its priority minus `steps`; None under other schedulers."""
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    if policy not in OPTIONS:
        return None
    return policy, max(os.sched_getparam(0).sched_priority - steps, os.sched_get_priority_min(policy))
