"""Starting processes that leave Ctrl-C to the one that started them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def interrupts_unheard() -> Iterator[None]:
    """Let what is started meanwhile never hear Ctrl-C, which a terminal sends to every process."""
    # What multiprocessing starts with the first process would unblock the signal in between.
    resource_tracker.ensure_running()
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)
