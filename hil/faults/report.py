"""Faults and verdicts as a person reads them, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hil.faults.fault import Fault
from hil.faults.musts import During
from hil.faults.verdict import Status, Verdict
from onboard.config import Config

STYLES = {Status.PASSED: "green", Status.FAILED: "bold red", Status.NOT_SHOWN: "yellow", Status.NOT_RUN: "yellow"}


def list_faults(console: Console, faults: Sequence[Fault], config: Config) -> None:
    """Print the table of faults."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("fault", "what is done", "what must happen, and why", "where"):
        table.add_column(name, no_wrap=name == "fault", overflow="fold")
    for fault in faults:
        must = Text("; ".join(filter(None, [fault.must.text(), _within(fault, config)])))
        must.append(f"\n{fault.why}", "dim")
        table.add_row(fault.name, fault.what, must, _where(fault))
    console.print(table)


def print_verdicts(console: Console, verdicts: Sequence[Verdict], config: Config) -> None:
    """Print what came of each fault, and how many passed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("fault", "ran on", "must", "within", "what happened", ""):
        table.add_column(name, no_wrap=name in ("fault", ""), overflow="fold")
    for one in verdicts:
        told = [one.happened, *one.problems]
        where = "" if one.status is Status.NOT_RUN else one.mode.value
        table.add_row(
            one.fault.name,
            where,
            Text(one.fault.must.text()),
            "" if one.within is None else f"tick {one.within}",
            Text("\n".join(told)),
            Text(one.status.value, STYLES[one.status]),
        )
    console.print(table)
    counts = Counter(one.status for one in verdicts)
    console.print(", ".join(f"{counts[status]} {status.value}" for status in Status), markup=False)


def as_json(source: str, config: Config, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the verdicts as plain values, with the times that they were judged by."""
    counts = Counter(one.status for one in verdicts)
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
        "faults": [one.as_json() for one in verdicts],
    }


def _within(fault: Fault, config: Config) -> str:
    """Return the tick by which it must be so, and what that is made of."""
    must = fault.must
    if must.during not in (During.STANDS, During.NOT_FORWARD, During.SLOWS):
        return ""
    waits = [*must.timeouts, *(["decisions"] if must.decisions else [])]
    why = f": {', '.join(waits)} + {must.ticks} ticks" if waits else ""
    return f"by tick {must.within_ticks(config)}{why}"


def _where(fault: Fault) -> str:
    """Return in which modes a fault can run."""
    where = {"simulation": fault.make is not None, "recording": fault.in_recordings, "process": bool(fault.process)}
    return ", ".join(name for name, there in where.items() if there)
