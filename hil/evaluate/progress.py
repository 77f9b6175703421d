"""Progress of a campaign on standard error: a bar on a terminal; elsewhere a line every `LINE_EVERY_S`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from hil.evaluate.result import Row

LINE_EVERY_S = 10.0
BAR = 12
"""Width of the bar [characters]: with it the line fits a terminal of 80."""


class CampaignProgress:
    """Counts rows and shows success rate and contacts so far. Use as a context manager."""

    def __init__(self, title: str, total: int) -> None:
        self._console = Console(stderr=True)
        self._title = title
        self._total = total
        self._done = self._arrived = self._contacts = 0
        self._line_due_s = 0.0
        self._progress = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            BarColumn(bar_width=BAR),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}", table_column=Column(no_wrap=True)),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            expand=True,
            console=self._console,
        )
        self._task = self._progress.add_task(title, total=total, figures="")

    def __enter__(self) -> CampaignProgress:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def resume(self, rows: Sequence[Row]) -> None:
        """Count the rows of earlier starts."""
        if rows:
            self._console.print(f"{self._title}: going on after {len(rows)} of {self._total} episodes", highlight=False)
        for row in rows:
            self._count(row)
        if self._done:
            self._progress.update(self._task, completed=self._done, figures=self._figures())

    def add(self, row: Row) -> None:
        """Count a row and update the display."""
        self._count(row)
        if self._console.is_terminal:
            self._progress.update(self._task, completed=self._done, figures=self._figures())
        elif time.monotonic() >= self._line_due_s or self._done == self._total:
            self._line_due_s = time.monotonic() + LINE_EVERY_S
            line = f"{self._title}: {self._done} of {self._total} episodes, {self._figures()}"
            self._console.print(line, highlight=False, soft_wrap=True)

    def _count(self, row: Row) -> None:
        self._done += 1
        self._arrived += row.success
        self._contacts += row.contacts

    def _figures(self) -> str:
        return f"SR {100.0 * self._arrived / self._done:.0f} %, {self._contacts} contacts"
