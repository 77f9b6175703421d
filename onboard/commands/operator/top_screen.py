"""The screen of `onboard top`. The only file that imports `textual`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Protocol

from rich.markup import escape
from rich.table import Table
from textual import work
from textual.app import App, ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Footer, Sparkline, Static
from textual.worker import get_current_worker

from onboard.commands.operator.figures import ABSENT, DiagnosticsSample, Figures, figures, is_bad
from onboard.commands.operator.robot import LEVELS, Status
from onboard.service.publisher import LATENESS
from onboard.values.errors import OnboardError
from onboard.values.reasons import in_words

WAIT_S = 0.5
"""Longest wait for a message, so that the screen ends at once."""
SILENT_S = 3.0
"""The robot counts as silent after this time without a message; it sends one a second."""
KEPT = 60
BAR = 24
"""Length of a bar that stands for a whole tick."""


class Source(Protocol):
    """A running robot."""

    def status(self, within_s: float) -> Status:
        """Return the next diagnostics. Raises OnboardError if there are none within that time."""


class Top(App[None]):
    """Shows a robot until `q`. period_ms: of a tick, the whole length of a bar"""

    TITLE = "onboard top"
    BINDINGS = [("q", "quit", "Quit"), ("p", "pause", "Pause")]  # noqa: RUF012 - textual's own way
    CSS = """
    Horizontal { height: auto; }
    Horizontal > Static { width: 1fr; padding: 0 1; }
    #times { padding: 0 1; }
    #worst { height: 2; margin: 0 1; }
    """

    def __init__(self, robot: Source, period_ms: float) -> None:
        super().__init__()
        self._robot, self._period_ms = robot, period_ms
        self._before: DiagnosticsSample | None = None
        self._worst_ms: deque[float] = deque(maxlen=KEPT)
        self._held = False

    def compose(self) -> ComposeResult:
        """Return the parts of the screen, from top to bottom."""
        yield Static(id="state")
        with VerticalScroll():
            yield Static(id="times")
            yield Sparkline(id="worst")
            with Horizontal():
                yield Static(id="counts")
                yield Static(id="inputs")
                yield Static(id="reasons")
            yield Static(id="parts")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to listen."""
        self.query_one("#state", Static).update("waiting for the first diagnostics")
        self._listen()

    def action_pause(self) -> None:
        """Keep the screen as it is, or let it follow the robot again."""
        self._held = not self._held
        if self._held:
            self.query_one("#state", Static).update("[bold yellow]paused; p continues[/]")

    @work(thread=True, exit_on_error=True)
    def _listen(self) -> None:
        """Take messages in a thread until the screen ends."""
        worker, heard_s = get_current_worker(), time.monotonic()
        while not worker.is_cancelled:
            try:
                status = self._robot.status(WAIT_S)
            except OnboardError:
                silent_s = time.monotonic() - heard_s
                if silent_s >= SILENT_S and not worker.is_cancelled:
                    self.call_from_thread(self._tell_silent, silent_s)
                continue
            heard_s = time.monotonic()
            if not worker.is_cancelled:
                self.call_from_thread(self._hear, DiagnosticsSample(status, heard_s))

    def _tell_silent(self, silent_s: float) -> None:
        self.query_one("#state", Static).update(
            f"[bold red]no message from the robot for {silent_s:.0f} s; last values below[/]"
        )

    def _hear(self, seen: DiagnosticsSample) -> None:
        shown, self._before = figures(seen, self._before), seen
        worst = shown.times[LATENESS][2]
        self._worst_ms.append(0.0 if worst == ABSENT else float(worst))
        if not self._held:
            self._show(seen.status, shown)

    def _show(self, status: Status, shown: Figures) -> None:
        state = escape(in_words(shown.state))
        rates = f"{shown.rates['ticks']:.1f} ticks/s  {shown.rates['decisions']:.1f} decisions/s"
        self.query_one("#state", Static).update(
            f"[bold]{escape(status.robot)}[/], domain {status.domain}: [bold]{state}[/]   {rates}"
        )
        self.query_one("#times", Static).update(_times(shown, self._period_ms))
        self.query_one("#worst", Sparkline).data = list(self._worst_ms)
        counts = {name.replace("_", " "): count for name, count in shown.counts.items()}
        self.query_one("#counts", Static).update(_table("counts", counts))
        self.query_one("#inputs", Static).update(_table("age [ms]", shown.ages_ms))
        reasons = {name: str(count) for name, count in shown.reasons.items()}
        self.query_one("#reasons", Static).update(_table("reasons", reasons))
        self.query_one("#parts", Static).update(_parts(shown))


def _times(shown: Figures, period_ms: float) -> Table:
    """Return lateness and stages: median and 99th percentile of the run, the slowest of the last second as a bar."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(escape("stage [ms]"))
    for name in ("p50", "p99", "last s"):
        table.add_column(name, justify="right")
    table.add_column(f"of a tick of {period_ms:.0f} ms")
    for name, (p50, p99, worst) in shown.times.items():
        share = 0.0 if worst == ABSENT else min(1.0, float(worst) / period_ms)
        color = "green" if share < 1 / 3 else "yellow" if share < 2 / 3 else "red"
        table.add_row(name, p50, p99, worst, f"[{color}]{'█' * round(share * BAR)}[/]")
    return table


def _table(title: str, rows: Mapping[str, str]) -> Table:
    table = Table(box=None, show_header=False, title=escape(title), title_justify="left", padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(escape(name), escape(value))
    return table


def _parts(shown: Figures) -> Table:
    table = Table(box=None, show_header=False, title="parts", title_justify="left", padding=(0, 2, 0, 0))
    colors = dict(zip(LEVELS, ("green", "yellow", "red"), strict=True))
    for name, level, message in sorted(shown.parts, key=lambda part: not is_bad(part[1])):
        table.add_row(escape(name), f"[{colors[level]}]{level}[/]", escape(message))
    return table
