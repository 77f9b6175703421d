"""Signals that end a command: while it starts they end it at once, once it runs they ask it to stop.

SIGHUP is among them: a terminal that is closed must not end a drive without a stop.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
KILLED_BY = 128
"""Shells tell a command that a signal ended by this plus the signal's number."""


class Signals:
    """Takes these signals while it is entered, in the main thread, and gives them back afterwards.

    Unlike asyncio's own handlers it also covers what comes before the loop (compiling, loading a model) and after it.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        self._before = {number: signal.signal(number, self._arrived) for number in ENDING}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stop_with(self, stop: Callable[[], None]) -> None:
        """Call `stop` for every signal from now on, instead of ending whatever is under way."""
        self._stop = stop

    def _arrived(self, number: int, _frame: FrameType | None) -> None:
        if self._stop is not None:
            self._stop()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            raise SystemExit(KILLED_BY + number)
