"""The command `onboard bench`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.table import Table

from onboard.commands.bench.computing import decisions, engine, fusion, resizing
from onboard.commands.bench.lateness import KERNEL, MISSING, lateness
from onboard.commands.bench.output import commands, recording
from onboard.commands.bench.rows import Row
from onboard.commands.bench.start import starts
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, finite, write_json
from onboard.commands.doctor import host, service
from onboard.commands.doctor.finding import Finding, Level, amber, findings_of, green
from onboard.commands.doctor.host import GB, ROOT, text_of
from onboard.commands.doctor.report import console_for
from onboard.config.config import load_config
from onboard.drivers.realsense.device import list_devices
from onboard.recording.retention import check_usable
from onboard.system.log import configure
from onboard.values.errors import MissingExtraError

EXIT_OVER_BUDGET = 1


def bench(
    config: ConfigOption = None,
    json_file: JsonOption = None,
    seconds: Annotated[
        float,
        typer.Option("--for", min=0.1, max=600.0, help="Duration of the lateness measurement, in s.", callback=finite),
    ] = 40.0,
) -> None:
    """Benchmark this machine: each figure next to its peer and budget, and what slows it. Exit 1: over a budget."""
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


# ---- What limits the speed of this machine, by the doctor's checks and a few of the kernel's files

GOVERNORS = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
BEST = "performance"
USB_2 = "2"


def limits(root: Path = ROOT) -> list[Finding]:
    """Return what slows this machine or makes it late: only findings that are not green."""
    rows: Sequence[tuple[str, Callable[[], Finding]]] = (
        ("governor", lambda: governor(root)),
        ("rights", lambda: service.rights(service.unit_state())),
        ("kernel", lambda: kernel(root)),
        ("swap", swap),
        ("load", host.load),
        ("temperature", lambda: host.thermal(root)),
        ("power", lambda: host.power(root)),
        ("cameras", cameras),
    )
    found = [finding for part, look in rows for finding in findings_of(part, partial(_only, look))]
    return [one for one in found if one.level is not Level.GREEN]


def _only(look: Callable[[], Finding]) -> list[Finding]:
    return [look()]


def governor(root: Path = ROOT) -> Finding:
    """Return whether a governor lowers the clock of a core that is idle between ticks."""
    named = sorted({text for path in root.glob(GOVERNORS) if (text := text_of(path))} - {BEST})
    if not named:
        return green("governor", "no governor lowers the clocks")
    return amber("governor", f"governor {', '.join(named)} lowers the clocks between ticks", f"choose {BEST}")


def kernel(root: Path = ROOT) -> Finding:
    """Return whether the kernel is built with PREEMPT_RT."""
    if text_of(root / "sys/kernel/realtime") == "1":
        return green("kernel", "PREEMPT_RT")
    return amber("kernel", "no PREEMPT_RT: drivers may delay a tick", "use a kernel with PREEMPT_RT if p99.9 matters")


def swap() -> Finding:
    """Return whether memory may be swapped out."""
    total = psutil.swap_memory().total
    if not total:
        return green("swap", "none")
    return amber("swap", f"{total / GB:.1f} GB: a tick may wait for a disk", "`sudo swapoff -a`, or memory lock")


def cameras() -> Finding:
    """Return which RealSense cameras are connected over USB 2."""
    try:
        slow = [device.serial for device in list_devices() if device.usb_type.startswith(USB_2)]
    except MissingExtraError:
        return green("cameras", "librealsense is not installed")
    if not slow:
        return green("cameras", "none over USB 2")
    return amber("cameras", f"USB 2 limits the images of {', '.join(slow)}", "use a USB 3 cable and port")
