"""Reports of faults and verdicts: console tables, Markdown and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hil.reliability.faults.expectations import Reaction
from hil.reliability.faults.fault import Fault
from hil.reliability.faults.verdict import Mode, Status, Verdict
from onboard.commands.cli import markdown_table
from onboard.config.config import Config

# ---- Markdown table of verdicts for `docs/reliability.md`

HEADINGS = (
    "fault", "injected fault", "required reaction", "what stopped it", "zero from tick", "at the latest", "from m/s",
    "stood at tick", "rolled m",
)  # fmt: skip


def markdown(verdicts: Sequence[Verdict]) -> str:
    """Return the Markdown table of verdicts. A cell without a value is empty."""
    return markdown_table(HEADINGS, map(_row, verdicts), words=4) + "\n"


def _row(one: Verdict) -> list[str]:
    must, way = one.fault.must, one.rolled
    timed = must.during in (Reaction.STANDS, Reaction.NOT_FORWARD, Reaction.SLOWS)
    cells = [f"`{one.fault.name}`", one.fault.what, must.text(), *_stopped(one)]
    cells.append("" if one.within is None or not timed else f"{one.within}")
    return cells + (["", "", ""] if way is None else [f"{way.from_mps:.2f}", f"{way.ticks}", f"{way.way_m:.2f}"])


def _stopped(one: Verdict) -> list[str]:
    """Return two cells: the reason of the stop with the timeouts before it, and the first tick of the stop."""
    if one.status is not Status.PASSED:
        return [f"**{one.status.value}**: {'; '.join(one.problems) or one.happened}", ""]
    why = f"`{one.reason}`: {one.fault.why}" if one.reason else one.fault.why
    waits = [f"`{key}`" for key in one.fault.must.timeouts]
    return [", ".join([why, *waits]), "" if one.settled is None else f"{one.settled}"]


STYLES = {Status.PASSED: "green", Status.FAILED: "bold red", Status.NOT_SHOWN: "yellow", Status.NOT_RUN: "yellow"}


def fault_table(faults: Sequence[Fault], config: Config, short: bool) -> Table:
    """Return the table of faults. short: without deadlines, reasons and where they run, for a terminal."""
    headings = ["fault", "injected fault", "required reaction"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in headings if short else [*headings, "at the latest", "why", "runs in"]:
        table.add_column(name, no_wrap=name == "fault", overflow="fold")
    for fault in faults:
        cells = [fault.name, fault.what, fault.must.text(), _within(fault, config), fault.why, _where(fault)]
        table.add_row(*map(Text, cells[: len(table.columns)]))
    return table


def print_verdicts(console: Console, verdicts: Sequence[Verdict], config: Config) -> None:
    """Print the verdict on each fault, and the count of each status. A column names the modes if there are several."""
    modes = {verdict.mode for verdict in verdicts if verdict.status is not Status.NOT_RUN}
    apart = len(modes) > 1
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=None if apart else _title(modes), title_justify="left")
    for name in ("fault", *(["ran on"] if apart else []), "must", "what happened", ""):
        table.add_column(name, no_wrap=name in ("fault", ""), overflow="fold")
    for verdict in verdicts:
        must = Text(verdict.fault.must.text(verdict.within))
        where = "" if verdict.status is Status.NOT_RUN else verdict.mode.value
        text = Text("\n".join([verdict.happened, *verdict.problems]))
        status = Text(verdict.status.value, STYLES[verdict.status])
        table.add_row(verdict.fault.name, *([where] if apart else []), must, text, status)
    console.print(table)
    counts = Counter(verdict.status for verdict in verdicts)
    console.print(", ".join(f"{counts[status]} {status.value}" for status in Status), markup=False)


def _title(modes: Collection[Mode]) -> str | None:
    return next((f"ran on: {mode.value}" for mode in modes), None)


def as_json(source: str, config: Config, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the verdicts as plain values, with the timeouts of the configuration [ms]."""
    counts = Counter(verdict.status for verdict in verdicts)
    return {
        "source": source,
        "control_hz": config.rates.control_hz,
        "timeouts_ms": {
            "cameras.stale_ms": config.cameras.stale_ms,
            "limits.scan_stale_ms": config.limits.scan_stale_ms,
            "odometry.stale_ms": config.odometry.stale_ms,
        },
        "passed": counts[Status.PASSED],
        "failed": counts[Status.FAILED],
        "nothing_shown": counts[Status.NOT_SHOWN],
        "not_run": counts[Status.NOT_RUN],
        "faults": [verdict.as_json() for verdict in verdicts],
    }


def _within(fault: Fault, config: Config) -> str:
    """Return the deadline of the reaction as a tick, with the parts of its sum; "" without a deadline."""
    must = fault.must
    if must.during not in (Reaction.STANDS, Reaction.NOT_FORWARD, Reaction.SLOWS):
        return ""
    waits = [*must.timeouts, *(["decisions"] if must.decisions else [])]
    why = f": {', '.join(waits)} + {must.ticks} ticks" if waits else ""
    return f"by tick {must.within_ticks(config)}{why}"


def _where(fault: Fault) -> str:
    """Return the modes in which a fault can run."""
    where = {"simulation": fault.make is not None, "recording": fault.in_recordings, "process": bool(fault.process)}
    return ", ".join(name for name, there in where.items() if there)
