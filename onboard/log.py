"""Structured logging: events with fields, on standard error; per-tick data goes to the recording instead."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(*, json_lines: bool = False, level: int = logging.INFO) -> None:
    """Set up structlog once for a process: readable lines, or one JSON object a line for journald and machines."""
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
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
