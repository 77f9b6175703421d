"""Shows the progress of a demo: a live panel on a terminal, otherwise one line for each new state."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from onboard.navigation.mission import state_word

LEAVE_S = 1.0
"""Longest wait at the end for a terminal that does not read."""
COMPILING = "the first run on a machine compiles kernels: a minute or two"
COLORS = {"navigating": "cyan", "recovering": "yellow", "reached": "green", "stopped": "red"}


@contextlib.contextmanager
def preparing(what: str) -> Iterator[None]:
    """On a terminal, show the name of the prepared item and why the preparation may be slow. Otherwise show nothing."""
    console = Console(stderr=True)
    with console.status(f"preparing {what} ({COMPILING})") if console.is_terminal else contextlib.nullcontext():
        yield


@dataclass(slots=True)
class View:
    """Newest known values: the published state, the reason of the command, and the values of `/diagnostics`.

    waiting: what the demo waits for before it drives, "" if for nothing
    """

    title: str
    state: str = ""
    reason: str = ""
    elapsed_s: float = 0.0
    waiting: str = ""
    values: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The state; before the drive without its faults, which are of processes that only start."""
        return self.state if self.elapsed_s > 0.0 else state_word(self.state)

    def number(self, name: str) -> float | None:
        """Return the value `name` as a number, or None if it is unknown."""
        return float(self.values[name]) if name in self.values else None


class Dashboard:
    """Context manager that shows a View on standard error.

    A thread of its own writes, so a terminal that stops reading never delays the caller.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._shown = view
        self._console = Console(stderr=True)
        self._total_m: float | None = None
        self._new = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._write, name="dashboard", daemon=True)

    def __enter__(self) -> Dashboard:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over = True
        self._new.set()
        self._thread.join(LEAVE_S)

    def show(self) -> None:
        """Hand the current view to the thread. A view that it has not shown yet is replaced."""
        self._shown = replace(self._view, values=dict(self._view.values))
        self._new.set()

    def _write(self) -> None:
        if not self._console.is_terminal:
            shown = None
            while not self._over:
                self._wait()
                if (self._shown.text, self._shown.waiting) != shown:
                    shown = self._shown.text, self._shown.waiting
                    self._console.print(self._line(), highlight=False, soft_wrap=True)
            return
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            while not self._over:
                self._wait()
                live.update(self._panel(), refresh=True)

    def _wait(self) -> None:
        """Wait for the next view, or for the end, which shows the last view again."""
        self._new.wait()
        self._new.clear()

    def _line(self) -> str:
        view = self._shown
        goal = view.number("goal_distance_m")
        away = "" if goal is None else f"  goal {goal:.2f} m"
        return f"{view.elapsed_s:6.1f} s  {view.text or 'starting'}{away}  {view.waiting or view.reason}"

    def _panel(self) -> Panel:
        view = self._shown
        table = Table.grid(padding=(0, 2))
        for name, text in self._rows():
            table.add_row(Text(name, style="bold"), text)
        color = COLORS.get(state_word(view.state), "white")
        return Panel(Group(table, self._bar()), title=view.title, border_style=color, width=78)

    def _rows(self) -> list[tuple[str, str]]:
        view, values = self._shown, self._shown.values
        if not view.state:
            return [("state", f"starting ({COMPILING})"), ("waiting", view.waiting)]
        waiting = [("waiting", view.waiting)] if view.waiting else []
        return [
            *waiting,
            ("state", f"{view.text}   {view.elapsed_s:.1f} s"),
            ("goal", f"{values.get('goal_distance_m', '-')} m away"),
            ("pose", f"x {values.get('x_m', '-')}  y {values.get('y_m', '-')}  yaw {values.get('yaw_rad', '-')}"),
            ("command", f"v {values.get('v_mps', '-')} m/s  w {values.get('w_radps', '-')} rad/s   {view.reason}"),
            ("decisions", f"{values.get('decisions', '-')}, p99 {values.get('decision_p99_ms', '-')} ms"),
            ("missed", f"{values.get('missed_slots', '-')} slots, {values.get('deadline_misses', '-')} deadlines"),
        ]

    def _bar(self) -> ProgressBar:
        away = self._shown.number("goal_distance_m")
        if self._total_m is None and away is not None:
            self._total_m = away
        total = self._total_m or 1.0
        return ProgressBar(total=total, completed=max(0.0, total - (total if away is None else away)), width=74)
