"""Signals that end a command: at once during its start, by a stop request while it runs.

SIGHUP is one of them, because a closed terminal must not end a drive without a stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType, TracebackType
from typing import Any, NoReturn

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
KILLED_BY = 128
"""A shell's exit code for a signal is this plus the signal's number."""


class Signals:
    """A context that handles these signals in the main thread and restores the old handlers at its end.

    Unlike asyncio's own handlers, it also works before the loop (compiling, loading a model) and after it.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        self._number: int | None = None
        self._deferred = False
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
        """Call `stop` for every later signal, instead of ending the process. Raises as `check`."""
        self.check()
        self._stop = stop

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Only note a signal that comes within; `check`, called within and at the end, raises for it."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        self.check()

    def check(self) -> None:
        """Raise for an earlier signal: one that was deferred, or whose exception was lost.

        Python drops an exception that rises in a finalizer or a C callback.
        """
        if self._number is not None:
            self._end(self._number)

    def _arrived(self, number: int, _frame: FrameType | None) -> None:
        if self._stop is not None:
            self._stop()
        else:
            self._number = number
            if not self._deferred:
                self._end(number)

    @staticmethod
    def _end(number: int) -> NoReturn:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(KILLED_BY + number)


async def run_beside(main: Coroutine[Any, Any, None], helper: Coroutine[Any, Any, None]) -> None:
    """Run `main` and `helper` concurrently; return when `main` returns.

    An error in one ends the other too. The first error is raised after both have ended.
    """
    main_task, helper_task = tasks = asyncio.create_task(main), asyncio.create_task(helper)
    main_task.add_done_callback(lambda _: helper_task.cancel())
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if task in done and not task.cancelled():
            task.result()  # raises its error
    main_task.result()  # raises CancelledError if `main` was cancelled
