"""One owner of all tasks: when any ends with an error, all are cancelled and awaited, and the error is raised.

Python 3.10 has no asyncio.TaskGroup; this is the part of it that the runtime needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class TaskOwner:
    """Runs a main coroutine with helpers beside it; nothing that it started outlives `run`."""

    def __init__(self) -> None:
        self._helpers: list[tuple[Coroutine[Any, Any, None], str]] = []

    def beside(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Add a helper that runs as long as the main coroutine does. One that fails ends everything."""
        self._helpers.append((coroutine, name))

    async def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Return when `main` returns; raise what `main` or a helper raised first. All tasks are done by then."""
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
