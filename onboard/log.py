"""Structured logging: events with fields, on standard error; per-tick data goes to the recording instead.

Lines are written by a thread of their own (`background_text.py`), because the tick logs too. A service's events go to
the journal as entries with fields (`journald.py`): `journalctl -u onboard ONBOARD_EVENT=recovery`.
"""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, TextIO, cast

import structlog

from onboard import journald
from onboard.background_text import BackgroundText


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
