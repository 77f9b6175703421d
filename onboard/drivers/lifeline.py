"""A child process that does not outlive its parent, however the parent ended."""

from __future__ import annotations

import ctypes
import os
import signal

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
