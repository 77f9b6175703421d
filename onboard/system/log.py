"""Structured logging: events with fields, on standard error. Per-tick data goes to the recording instead.

An event about a reason has its code (`onboard/values/reasons.py`).

A thread writes the lines, so that a tick that logs never waits. A service's events go to the journal as entries with
fields (`journald.py`): `journalctl -u onboard ONBOARD_EVENT=recovery`.
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
from onboard.values.reasons import NONE, rows_in

# ---- Simulation and replay suppress the runtime's log


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Log only critical events inside this context."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


# ---- Text from a thread: a stalled terminal or a full disk never delays a tick

WAITING_TEXTS = 1000
CLOSE_TIMEOUT_S = 0.5
STANDARD_ERROR = 2


class BackgroundText:
    """A text stream over a file descriptor. `write` never waits; a full queue drops the text.

    dropped: number of texts lost to a full queue or an error of the descriptor
    """

    def __init__(self, descriptor: int = STANDARD_ERROR) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._texts: queue.Queue[str | bytes | None] = queue.Queue(WAITING_TEXTS)
        self._thread = threading.Thread(target=self._run, name="text", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def write(self, text: str | bytes) -> int:
        """Queue text or bytes and return the length."""
        try:
            self._texts.put_nowait(text)
        except queue.Full:
            self.dropped += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes at once."""

    def close(self) -> None:
        """Let the thread write the queue for at most CLOSE_TIMEOUT_S. Safe to call twice."""
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
    """Set up structlog for this process: readable lines, or one JSON object per line.

    If standard error is the journal's stream and `json_lines` is False, events become journal entries with fields.
    Returns the background stream of standard error, for a status line that must not wait.
    """
    stream = BackgroundText()
    entries = None if json_lines or not journald.is_ours(sys.stderr.fileno()) else journald.connect()
    if entries is not None:
        atexit.register(journald.wait_until_read, entries)  # after the thread has written its queue
        _configure(level, [journald.entry], structlog.BytesLoggerFactory(cast(BinaryIO, BackgroundText(entries))))
        return stream
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if json_lines else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    written = structlog.PrintLoggerFactory(file=cast(TextIO, stream))
    _configure(level, [stamp, structlog.processors.format_exc_info, renderer], written)
    return stream


WORDED = ("reason", "detail", "state", "cause", "doubt")
"""Fields of an event that may hold a reason."""


def with_code(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Return an event with the field `code`: the codes of the reasons in its fields, else of its name."""
    texts = [str(event[name]) for name in WORDED if name in event]
    for text in (*texts, f"{event['event']}_{event.get('what', '')}", str(event["event"])):
        if codes := ", ".join(row.code for row in rows_in(text) if row is not NONE):
            return {**event, "code": codes}
    return event


def _configure(level: int, processors: Sequence[structlog.typing.Processor], factory: Callable[..., Any]) -> None:
    structlog.configure(
        processors=[structlog.processors.add_log_level, with_code, *processors],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )
