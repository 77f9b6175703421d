"""Structured logging: events with fields, on standard error; per-tick data goes to the recording instead.

Lines are written by a thread of their own (`log.py`), because the tick logs too. A service's events go to
the journal as entries with fields (`journald.py`): `journalctl -u onboard ONBOARD_EVENT=recovery`.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, TextIO, cast

import structlog

from onboard.system import journald

# ---- Keeping the runtime's own log off the screen where many runs are driven, or one is driven again


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Let only what is critical through."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


# ---- Text for people, written by a thread of its own: a terminal that stalls or a full disk never holds up a tick

WAITING_TEXTS = 1000
CLOSE_TIMEOUT_S = 0.5
STANDARD_ERROR = 2


class BackgroundText:
    """A text stream over a file descriptor whose `write` never waits: what does not fit in the queue is dropped.

    dropped: texts that were not written, because the queue was full or the descriptor failed
    """

    def __init__(self, descriptor: int = STANDARD_ERROR) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._texts: queue.Queue[str | bytes | None] = queue.Queue(WAITING_TEXTS)
        self._thread = threading.Thread(target=self._run, name="text", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def write(self, text: str | bytes) -> int:
        """Queue the text, or bytes as they are, and return the length."""
        try:
            self._texts.put_nowait(text)
        except queue.Full:
            self.dropped += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes as fast as the descriptor takes."""

    def close(self) -> None:
        """Give the thread a moment to write what is queued; leave it behind when it is stalled. Safe to call twice."""
        try:
            self._texts.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (text := self._texts.get()) is not None:
            try:
                rest = text.encode(errors="replace") if isinstance(text, str) else text
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError:
                self.dropped += 1


def configure(*, json_lines: bool = False, level: int = logging.INFO) -> BackgroundText:
    """Set up structlog once for a process: readable lines, or one JSON object a line for machines.

    Where standard error is the journal's, and no JSON was asked for, events become entries with fields instead.
    Returns the stream of standard error, for a status line that must not wait either.
    """
    stream = BackgroundText()
    entries = None if json_lines or not journald.is_ours(sys.stderr.fileno()) else journald.connect()
    if entries is not None:
        atexit.register(journald.wait_until_read, entries)  # after the thread has written what is queued
        _configure(level, [journald.entry], structlog.BytesLoggerFactory(cast(BinaryIO, BackgroundText(entries))))
        return stream
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if json_lines else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    written = structlog.PrintLoggerFactory(file=cast(TextIO, stream))
    _configure(level, [stamp, structlog.processors.format_exc_info, renderer], written)
    return stream


def _configure(level: int, processors: Sequence[structlog.typing.Processor], factory: Callable[..., Any]) -> None:
    structlog.configure(
        processors=[structlog.processors.add_log_level, *processors],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )
