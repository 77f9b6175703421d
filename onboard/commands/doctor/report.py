"""The doctor's report: page, JSON and exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onboard.commands.doctor.finding import Finding, Level, worst
from onboard.commands.doctor.network import TopicRow

EXIT_WELL = 0
EXIT_RED = 1
EXIT_BAD_INPUT = 2
COLORS = {Level.GREEN: "green", Level.AMBER: "yellow", Level.RED: "bold red"}
LEAST_WIDTH = 72
"""On narrower terminals the terminal breaks the lines."""
FILE_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Report:
    """All findings in the order of the page, and the table of topics.

    readable: whether the configuration could be read; otherwise only the machine was checked
    """

    robot: str
    findings: tuple[Finding, ...]
    topics: tuple[TopicRow, ...]
    readable: bool = True

    @property
    def level(self) -> Level:
        """Return the worst level of all findings."""
        return worst(self.findings)

    @property
    def exit_code(self) -> int:
        """Return 0 without a red finding, 1 with one, 2 if the configuration cannot be read."""
        if not self.readable:
            return EXIT_BAD_INPUT
        return EXIT_RED if self.level is Level.RED else EXIT_WELL

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "robot": self.robot,
            "level": word(self.level),
            "findings": [{**asdict(finding), "level": word(finding.level)} for finding in self.findings],
            "topics": [asdict(topic) for topic in self.topics],
        }


def word(level: Level) -> str:
    """Return "green", "amber" or "red"."""
    return level.name.lower()


def show(report: Report, console: Console) -> None:
    """Print the page: findings, the worst first, each with its remedy; then the topics."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    for finding in sorted(report.findings, key=lambda one: -one.level):
        text = Text(finding.found)
        if finding.remedy:
            text.append(f"\n-> {finding.remedy}", style="bold")
        rows.add_row(Text(word(finding.level), style=COLORS[finding.level]), Text(finding.part), text)
    console.print(rows)
    if report.topics:
        console.print(_topics(report.topics))
    console.print(Text(summary(report), style=COLORS[report.level]))


def summary(report: Report) -> str:
    """Return the last line."""
    counts = {level: sum(finding.level is level for finding in report.findings) for level in reversed(Level)}
    text = ", ".join(f"{count} {word(level)}" for level, count in counts.items())
    return f"{report.robot}: {text}"


def console_for(stream: Any) -> Console:
    """Return a console for a stream that prints names from the network literally, without markup and emoji."""
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    console.width = max(console.width, LEAST_WIDTH) if console.is_terminal else FILE_WIDTH
    return console


def _topics(rows: Sequence[TopicRow]) -> Table:
    table = Table("topic", "type", "published by", "received by", box=None, padding=(0, 2, 0, 0), title_justify="left")
    for row in rows:
        cells = (row.topic, row.kind, ", ".join(row.publishers) or "-", ", ".join(row.listeners) or "-")
        table.add_row(*map(Text, cells))
    return table
