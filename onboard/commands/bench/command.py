"""The command `onboard bench`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from onboard.commands.bench.computing import decisions, engine, fusion, resizing
from onboard.commands.bench.lateness import KERNEL, MISSING, lateness
from onboard.commands.bench.output import commands, recording
from onboard.commands.bench.rows import Row
from onboard.commands.bench.slowdowns import limits
from onboard.commands.bench.start import starts
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, finite, write_json
from onboard.commands.doctor.finding import Finding
from onboard.commands.doctor.report import console_for
from onboard.config.config import load_config
from onboard.recording.retention import check_usable
from onboard.system.log import configure

EXIT_OVER_BUDGET = 1


def bench(
    config: ConfigOption = None,
    json_file: JsonOption = None,
    seconds: Annotated[
        float,
        typer.Option("--for", min=0.1, max=600.0, help="Time for which lateness is measured, in s.", callback=finite),
    ] = 40.0,
) -> None:
    """Measure this machine: each figure beside its peer and its budget, and what limits it. Exit 1: over a budget."""
    configure()
    check_json_target(json_file)
    loaded = load_config(config)
    check_usable(loaded.record.directory)
    found = limits()
    measured = [
        *starts(loaded),
        *fusion(loaded),
        *resizing(),
        *engine(loaded),
        *decisions(loaded),
        *commands(),
        *recording(loaded),
        *lateness(loaded.rates.control_hz, seconds),
    ]
    if json_file is not None:
        write_json(json_file, as_json(measured, found))
    if json_file != STANDARD_OUTPUT:
        _show(measured, found)
    raise typer.Exit(0 if all(one.ok for one in measured) else EXIT_OVER_BUDGET)


def as_json(measured: Sequence[Row], found: Sequence[Finding]) -> dict[str, Any]:
    """Return the result as plain values."""
    limiting = [{"part": one.part, "found": one.found, "remedy": one.remedy} for one in found]
    return {"rows": [asdict(one) for one in measured], "limits": limiting}


def _show(measured: Sequence[Row], found: Sequence[Finding]) -> None:
    console = console_for(sys.stdout)
    table = Table("", "what", "figure", "budget", "peer", "figure / peer", "", box=None, padding=(0, 2, 0, 0))
    for one in measured:
        peer = ("-", "-") if one.peer is None else (f"{one.peer:.3g}", f"{one.ratio:.3g}")
        verdict = "ok" if one.ok else "OVER"
        table.add_row(verdict, one.name, f"{one.value:.3g} {one.unit}", f"{one.budget:g}", *peer, one.note)
    console.print(table)
    if not any(one.name.endswith(KERNEL) for one in measured):
        console.print(MISSING)
    for finding in found:
        console.print(f"limits: {finding.found} -> {finding.remedy}")
