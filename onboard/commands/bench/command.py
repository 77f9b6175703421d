"""The command `onboard bench`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from onboard.commands.bench import rows
from onboard.commands.bench.limits import limits
from onboard.commands.bench.rows import CYCLICTEST, Row
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, finite, write_json
from onboard.commands.doctor.finding import Finding
from onboard.commands.doctor.report import console_for
from onboard.config.config import load_config
from onboard.system.log import configure

EXIT_OVER_BUDGET = 1
MISSING = f"{CYCLICTEST} is not installed (package rt-tests) or may not run: no figure of the kernel alone"


def bench(
    config: ConfigOption = None,
    json_file: JsonOption = None,
    seconds: Annotated[
        float,
        typer.Option("--for", min=0.1, max=600.0, help="Time for which lateness is measured, in s.", callback=finite),
    ] = 30.0,
) -> None:
    """Measure this machine: each figure beside its peer and its budget, and what limits it. Exit 1: over a budget."""
    configure()
    check_json_target(json_file)
    loaded = load_config(config)
    found = limits()
    measured = [
        *rows.fusion(loaded),
        *rows.resizing(),
        *rows.decisions(loaded),
        *rows.lateness(loaded.rates.control_hz, seconds),
        *rows.memory(),
    ]
    alone_ms = rows.cyclictest_max_ms(loaded.rates.control_hz, seconds)
    if json_file is not None:
        write_json(json_file, as_json(measured, found, alone_ms))
    if json_file != STANDARD_OUTPUT:
        _show(measured, found, alone_ms)
    raise typer.Exit(0 if all(one.ok for one in measured) else EXIT_OVER_BUDGET)


def as_json(measured: Sequence[Row], found: Sequence[Finding], cyclictest_max_ms: float | None) -> dict[str, Any]:
    """Return the result as plain values."""
    limiting = [{"part": one.part, "found": one.found, "remedy": one.remedy} for one in found]
    return {
        "rows": [asdict(one) for one in measured],
        "cyclictest_max_ms": cyclictest_max_ms,
        "limits": limiting,
    }


def _show(measured: Sequence[Row], found: Sequence[Finding], cyclictest_max_ms: float | None) -> None:
    console = console_for(sys.stdout)
    table = Table("", "what", "figure", "budget", "peer", "figure / peer", "", box=None, padding=(0, 2, 0, 0))
    for one in measured:
        peer = ("-", "-") if one.peer is None else (f"{one.peer:.3g}", f"{one.ratio:.3g}")
        verdict = "ok" if one.ok else "OVER"
        table.add_row(verdict, one.name, f"{one.value:.3g} {one.unit}", f"{one.budget:g}", *peer, one.note)
    console.print(table)
    console.print(MISSING if cyclictest_max_ms is None else f"{CYCLICTEST}: max {cyclictest_max_ms:.3g} ms")
    for finding in found:
        console.print(f"limits: {finding.found} -> {finding.remedy}")
