"""The journal of a training: a progress bar, curves for TensorBoard, and rows of JSON in a file.

A row has the stage, the step, the number of the `call` that wrote it, `at_s` (time since that call began [s]), and the
numbers of the step by name.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from onboard.values.clock import NS_PER_S
from onboard.values.errors import MissingExtraError, naming

ROWS, CURVES = "journal.jsonl", "tensorboard"


class Journal:
    """The journal of one stage. Use as a context, which ends the progress bar."""

    def __init__(self, folder: Path, stage: str, total: int, done: int | None, console: Console | None = None) -> None:
        """Open the journal in a folder. done: steps of `total` made before, None if unknown.

        The first `note` writes first: it hides later curves of a stopped call, and cuts off a torn last row.
        Raises MissingExtraError without TensorBoard, InputError if the folder cannot be written.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise MissingExtraError(error.name or "tensorboard", "train") from error
        self._folder, self._stage, self._done, self._began_ns = folder, stage, done, time.monotonic_ns()
        self._open: Any = SummaryWriter
        self._curves: Any = None
        self._call = 0
        self._console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"), console=self._console, transient=True,
        )  # fmt: skip
        self._task: TaskID = self._bar.add_task(stage, total=total, completed=done or 0, note="")

    def __enter__(self) -> Journal:
        self._hook, threading.excepthook = threading.excepthook, self._died
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()
        try:
            if self._curves is not None:
                with self._writing():
                    self._curves.close()
        finally:
            threading.excepthook = self._hook

    def advance(self, note: str) -> None:
        """Advance the bar by one step."""
        self._bar.update(self._task, advance=1, note=note)

    def show(self, step: int, total: int, numbers: Mapping[str, float]) -> None:
        """Set the bar to a step and show its numbers."""
        text = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        self._bar.update(self._task, completed=step, total=total, note=text)

    def note(self, step: int, numbers: Mapping[str, float], *, echo: bool = False) -> None:
        """Write the numbers of a step by name. echo: also print them.

        step: steps of the stage so far, this step included
        Raises InputError if the folder cannot be written.
        """
        if self._curves is None:
            self._take_up(step)
        at_s = round((time.monotonic_ns() - self._began_ns) / NS_PER_S, 3)
        row: dict[str, Any] = {"stage": self._stage, "step": step, "call": self._call, "at_s": at_s, **numbers}
        with self._writing():
            with (self._folder / ROWS).open("a", encoding="utf-8") as rows:
                rows.write(json.dumps(row) + "\n")
            for name, value in numbers.items():
                self._curves.add_scalar(f"{self._stage}/{name}", value, step)
        if echo:
            text = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
            self._console.print(f"{self._stage} {step}: {text}", highlight=False)

    def _take_up(self, step: int) -> None:
        """Open rows and curves. Each stage has its folder of curves, because TensorBoard hides steps by folder."""
        hidden = step if self._done is None else self._done + 1
        with self._writing():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._call = 1 + _last_call(self._folder / ROWS)
            self._curves = self._open(str(self._folder / CURVES / self._stage), purge_step=hidden)

    def _died(self, hook: threading.ExceptHookArgs) -> None:
        """Suppress the traceback of TensorBoard's thread on a failed write; `_writing` reports the same error."""
        writes = type(hook.thread).__module__.startswith("tensorboard")
        if not (writes and isinstance(hook.exc_value, OSError)):
            self._hook(hook)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Raise InputError if the folder cannot be written."""
        with naming(self._folder, "written"):
            yield


def _last_call(file: Path) -> int:
    """Return the last call's number in a file, 0 without any, and cut off a torn last row."""
    if not file.exists():
        return 0
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(file, len(whole))
    calls = (_call_of(line) for line in reversed(whole.splitlines()))
    return next((call for call in calls if call is not None), 0)


def _call_of(line: bytes) -> int | None:
    """Return the call of a row; None for a damaged row, and for a row of an older version."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    call = row.get("call") if isinstance(row, dict) else None
    return call if isinstance(call, int) else None
