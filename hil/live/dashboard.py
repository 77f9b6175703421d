"""Shows the progress of a demo: a live panel on a terminal, otherwise a line every `LINE_EVERY_S` seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

LINE_EVERY_S = 2.0
COMPILING = "the first time on a machine, kernels are compiled: a minute or two"
COLORS = {"navigating": "cyan", "recovering": "yellow", "reached": "green", "stopped": "red"}


@contextlib.contextmanager
def preparing(what: str) -> Iterator[None]:
    """On a terminal, show the name of the prepared item and why the preparation may be slow. Otherwise show nothing."""
    console = Console(stderr=True)
    with console.status(f"preparing {what} ({COMPILING})") if console.is_terminal else contextlib.nullcontext():
        yield


@dataclass(slots=True)
class View:
    """Newest known values: the published state, the reason of the command, and the values of `/diagnostics`."""

    title: str
    state: str = ""
    reason: str = ""
    elapsed_s: float = 0.0
    values: dict[str, str] = field(default_factory=dict)

    def number(self, name: str) -> float | None:
        """Return the value `name` as a number, or None if it is unknown."""
        return float(self.values[name]) if name in self.values else None


class Dashboard:
    """Context manager that shows a View on standard error."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._total_m: float | None = None
        self._line_due_s = 0.0

    def __enter__(self) -> Dashboard:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self) -> None:
        """Show the current view. Without a terminal, skip calls until the next line is due."""
        if self._console.is_terminal:
            self._live.update(self._panel(), refresh=True)
        elif time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + LINE_EVERY_S
            self._console.print(self._line(), highlight=False, soft_wrap=True)

    def _line(self) -> str:
        view = self._view
        goal = view.number("goal_distance_m")
        away = "" if goal is None else f"  goal {goal:.2f} m"
        return f"{view.elapsed_s:6.1f} s  {view.state or 'starting'}{away}  {view.reason}"

    def _panel(self) -> Panel:
        view = self._view
        table = Table.grid(padding=(0, 2))
        for name, text in self._rows():
            table.add_row(Text(name, style="bold"), text)
        color = COLORS.get(view.state.split(":")[0], "white")
        return Panel(Group(table, self._bar()), title=view.title, border_style=color, width=78)

    def _rows(self) -> list[tuple[str, str]]:
        view, values = self._view, self._view.values
        if not view.state:
            return [("state", f"starting ({COMPILING})")]
        return [
            ("state", f"{view.state}   {view.elapsed_s:.1f} s"),
            ("goal", f"{values.get('goal_distance_m', '-')} m away"),
            ("pose", f"x {values.get('x_m', '-')}  y {values.get('y_m', '-')}  yaw {values.get('yaw_rad', '-')}"),
            ("command", f"v {values.get('v_mps', '-')} m/s  w {values.get('w_radps', '-')} rad/s   {view.reason}"),
            ("decisions", f"{values.get('decisions', '-')}, p99 {values.get('decision_p99_ms', '-')} ms"),
            ("missed", f"{values.get('missed_slots', '-')} slots, {values.get('deadline_misses', '-')} deadlines"),
        ]

    def _bar(self) -> ProgressBar:
        away = self._view.number("goal_distance_m")
        if self._total_m is None and away is not None:
            self._total_m = away
        total = self._total_m or 1.0
        return ProgressBar(total=total, completed=max(0.0, total - (total if away is None else away)), width=74)
