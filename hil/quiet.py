"""Keeping the runtime's own log off the screen where many runs are driven, or one is driven again."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import structlog


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Let only what is critical through."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
