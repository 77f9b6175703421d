"""What a training tells while it runs: a line and a bar on the terminal, curves for TensorBoard, rows in a file."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from onboard.errors import InputError, MissingExtraError
from onboard.scheduler import NS_PER_S

ROWS = "journal.jsonl"


class Journal:
    """One stage of a training. Use as a context: the bar goes when it ends."""

    def __init__(self, folder: Path, stage: str, total: int, done: int, console: Console | None = None) -> None:
        """Open the journal in a folder, `done` of `total` steps having been made before.

        Raises MissingExtraError without TensorBoard, InputError when the folder cannot be written.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise MissingExtraError(error.name or "tensorboard", "train") from error
        self._stage, self._file, self._began_ns = stage, folder / ROWS, time.monotonic_ns()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._curves = SummaryWriter(str(folder / "tensorboard"), purge_step=done)
        except OSError as error:
            raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
        self._console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"), console=self._console, transient=True,
        )  # fmt: skip
        self._task: TaskID = self._bar.add_task(stage, total=total, completed=done, note="")

    def __enter__(self) -> Journal:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        self._curves.close()

    def advance(self, note: str) -> None:
        """Show that another step has been made."""
        self._bar.update(self._task, advance=1, note=note)

    def show(self, step: int, total: int, numbers: Mapping[str, float]) -> None:
        """Show how far it is, where that is counted elsewhere."""
        told = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        self._bar.update(self._task, completed=step, total=total, note=told)

    def note(self, step: int, numbers: Mapping[str, float], *, say: bool = False) -> None:
        """Keep numbers of a step by name, with the time since this journal was opened; `say` also prints them."""
        for name, value in numbers.items():
            self._curves.add_scalar(f"{self._stage}/{name}", value, step)
        at_s = round((time.monotonic_ns() - self._began_ns) / NS_PER_S, 3)
        row: dict[str, Any] = {"stage": self._stage, "step": step, "at_s": at_s, **numbers}
        with self._file.open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(row) + "\n")
        if say:
            told = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
            self._console.print(f"{self._stage} {step}: {told}", highlight=False)
