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

ROWS, CURVES = "journal.jsonl", "tensorboard"


class Journal:
    """One stage of a training. Use as a context: the bar goes when it ends."""

    def __init__(self, folder: Path, stage: str, total: int, done: int | None, console: Console | None = None) -> None:
        """Open the journal in a folder, `done` of `total` steps having been made before; None where that is not known.

        Nothing is written before the first `note`. Curves of later steps, of a call that was stopped, are hidden then.
        Raises MissingExtraError without TensorBoard, InputError when the folder cannot be written.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise MissingExtraError(error.name or "tensorboard", "train") from error
        self._folder, self._stage, self._done, self._began_ns = folder, stage, done, time.monotonic_ns()
        self._open: Any = SummaryWriter
        self._curves: Any = None
        self._console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"), console=self._console, transient=True,
        )  # fmt: skip
        self._task: TaskID = self._bar.add_task(stage, total=total, completed=done or 0, note="")

    def __enter__(self) -> Journal:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        if self._curves is not None:
            self._curves.close()

    def advance(self, note: str) -> None:
        """Show that another step has been made."""
        self._bar.update(self._task, advance=1, note=note)

    def show(self, step: int, total: int, numbers: Mapping[str, float]) -> None:
        """Show how far it is, where that is counted elsewhere."""
        told = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        self._bar.update(self._task, completed=step, total=total, note=told)

    def note(self, step: int, numbers: Mapping[str, float], *, say: bool = False) -> None:
        """Keep numbers of a step by name, with the time since this journal was opened; `say` also prints them.

        step: steps of the stage so far, this one included
        Raises InputError when the folder cannot be written.
        """
        curves = self._writer(step)
        for name, value in numbers.items():
            curves.add_scalar(f"{self._stage}/{name}", value, step)
        at_s = round((time.monotonic_ns() - self._began_ns) / NS_PER_S, 3)
        row: dict[str, Any] = {"stage": self._stage, "step": step, "at_s": at_s, **numbers}
        with (self._folder / ROWS).open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(row) + "\n")
        if say:
            told = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
            self._console.print(f"{self._stage} {step}: {told}", highlight=False)

    def _writer(self, step: int) -> Any:
        """Return what draws the stage's curves, in a folder of its own: TensorBoard hides steps folder by folder."""
        if self._curves is None:
            hidden = step if self._done is None else self._done + 1
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._curves = self._open(str(self._folder / CURVES / self._stage), purge_step=hidden)
            except OSError as error:
                raise InputError(f"{self._folder}: cannot be written: {error.strerror}") from error
        return self._curves
