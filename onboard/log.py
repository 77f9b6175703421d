"""Structured logging: events with fields, on standard error; per-tick data goes to the recording instead.

Lines are written by a thread of their own (`background_text.py`), because the tick logs too.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO, cast

import structlog

from onboard.background_text import BackgroundText


def configure(*, json_lines: bool = False, level: int = logging.INFO) -> BackgroundText:
    """Set up structlog once for a process: readable lines, or one JSON object a line for journald and machines.

    Returns the stream of standard error, for a status line that must not wait either.
    """
    stream = BackgroundText()
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if json_lines else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=cast(TextIO, stream)),
        cache_logger_on_first_use=False,
    )
    return stream
