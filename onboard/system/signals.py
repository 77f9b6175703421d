"""Signals that end a command: at once during its start, by a stop request while it runs.

SIGHUP is one of them, because a closed terminal must not end a drive without a stop.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType, TracebackType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
KILLED_BY = 128
"""A shell's exit code for a signal is this plus the signal's number."""


class Signals:
    """A context that handles these signals in the main thread and restores the old handlers at its end.

    Unlike asyncio's own handlers, it also works before the loop (compiling, loading a model) and after it.
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
        """Call `stop` for every later signal, instead of ending the process."""
        self._stop = stop

    def _arrived(self, number: int, _frame: FrameType | None) -> None:
        if self._stop is not None:
            self._stop()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            raise SystemExit(KILLED_BY + number)


# ---- One owner of all tasks: an error in any task cancels all others and is raised after they have ended


class TaskOwner:
    """Runs a main coroutine and helpers. All its tasks end before `run` returns."""

    def __init__(self) -> None:
        self._helpers: list[tuple[Coroutine[Any, Any, None], str]] = []

    def beside(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Add a helper that runs as long as the main coroutine. An error in a helper ends all tasks."""
        self._helpers.append((coroutine, name))

    async def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Return when `main` returns; raise the first error of `main` or a helper. All tasks have ended by then."""
        main_task = asyncio.create_task(main, name="main")
        tasks = {main_task} | {asyncio.create_task(work, name=name) for work, name in self._helpers}
        pending = set(tasks)
        try:
            while main_task in pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                failed = [task for task in done if task.cancelled() or task.exception() is not None]
                if failed:
                    break
        finally:
            for task in pending:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [result for result in results if isinstance(result, Exception)]
        if errors:
            first = next((task.exception() for task in failed if not task.cancelled()), None)
            raise first or errors[0]
        if main_task.cancelled():
            raise asyncio.CancelledError
