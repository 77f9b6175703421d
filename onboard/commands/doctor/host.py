"""The computer itself: memory, load, temperature.

Everything is read from files of the kernel below `root`; what a machine does not have is not reported as a fault.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from onboard.commands.doctor.finding import Complaint, Finding, Level, amber, green, judged

# ---- Small files of the kernel, read without a complaint where there are none

ROOT = Path("/")


def text_of(path: Path) -> str | None:
    """Return a small file's text without its ends' blanks; None when it is not there or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:  # thermal zones of parts that are switched off answer with an error
        return None


def number_of(path: Path) -> float | None:
    """Return the number in a file, None when there is none."""
    try:
        return float(text_of(path) or "")
    except ValueError:
        return None


GB = 1e9

MEMORY_AMBER = 0.15
MEMORY_RED = 0.05
"""Share of the memory that is available."""
HOT_AMBER_C = 80.0
HOT_RED_C = 95.0
"""Where a thermal zone names no trip points of its own."""
NEAR_CRITICAL_C = 5.0
MILLI = 1e-3
TRIP = re.compile(r"trip_point_(\d+)_type")


def memory(root: Path = ROOT) -> Finding:
    """Return how much memory is available."""
    rows = dict(re.findall(r"^(\w+):\s+(\d+) kB", text_of(root / "proc/meminfo") or "", re.MULTILINE))
    if "MemTotal" not in rows or "MemAvailable" not in rows:
        return green("memory", "this system does not say")
    total_gb, free_gb = (float(rows[name]) * 1024 / GB for name in ("MemTotal", "MemAvailable"))
    share, found = free_gb / total_gb, f"{free_gb:.1f} of {total_gb:.1f} GB available"
    values = {"available_gb": round(free_gb, 2), "total_gb": round(total_gb, 2)}
    if share >= MEMORY_AMBER:
        return green("memory", found, **values)
    level = Level.RED if share < MEMORY_RED else Level.AMBER
    return Finding("memory", level, found, "see with `ps aux --sort=-rss | head` what takes it", values)


def load(root: Path = ROOT) -> Finding:
    """Return whether more programs want to run than there are cores."""
    words, cores = (text_of(root / "proc/loadavg") or "").split(), os.cpu_count() or 1
    if not words:
        return green("load", "this system does not say")
    mean, values = float(words[0]), {"load_1min": float(words[0]), "cores": cores}
    found = f"{mean:.1f} programs want to run, {cores} cores"
    if mean <= cores:
        return green("load", found, **values)
    return amber("load", found, "see with `top` what else runs here; decisions come late on a busy machine", **values)


@dataclass(frozen=True, slots=True)
class Zone:
    """One sensor [degC]; slows, ends: where the system slows down and where it switches off, None where not told."""

    name: str
    at_c: float
    slows_c: float | None
    ends_c: float | None


def zones(root: Path = ROOT) -> list[Zone]:
    """Return the thermal zones that can be read."""
    found = []
    for folder in sorted(root.glob("sys/class/thermal/thermal_zone*")):
        at = number_of(folder / "temp")
        if at is None:
            continue
        trips: dict[str, float] = {}
        for path in folder.glob("trip_point_*_type"):
            named, limit = TRIP.fullmatch(path.name), number_of(path.with_name(path.name.replace("_type", "_temp")))
            if named and limit is not None and limit > 0:
                kind = text_of(path) or ""
                trips[kind] = min(limit, trips.get(kind, limit))
        passive, critical = trips.get("passive"), trips.get("critical")
        found.append(
            Zone(
                text_of(folder / "type") or folder.name,
                at * MILLI,
                None if passive is None else passive * MILLI,
                None if critical is None else critical * MILLI,
            )
        )
    return found


def thermal(root: Path = ROOT) -> Finding:
    """Return whether the machine is too hot to keep its speed."""
    found = zones(root)
    if not found:
        return green("temperature", "this machine has no sensors that can be read")
    complaints = [one for zone in found for one in _heat(zone)]
    hottest = max(found, key=lambda zone: zone.at_c)
    summary = f"hottest is {hottest.name} with {hottest.at_c:.0f} degC"
    return judged("temperature", summary, complaints, **{zone.name: round(zone.at_c, 1) for zone in found})


def _heat(zone: Zone) -> list[Complaint]:
    ends = HOT_RED_C if zone.ends_c is None else zone.ends_c - NEAR_CRITICAL_C
    slows = HOT_AMBER_C if zone.slows_c is None else zone.slows_c
    said = f"{zone.name} has {zone.at_c:.0f} degC"
    if zone.at_c >= ends:
        return [
            Complaint(Level.RED, f"{said} and is about to be switched off", "let it cool down; check fan and vents")
        ]
    if zone.at_c >= slows:
        return [Complaint(Level.AMBER, f"{said} and is slowed down", "check fan and vents, or take a lower power mode")]
    return []


# ---- Power mode of a Jetson, clocks of the cores, charge of a battery; read from files, changing nothing

CAPPED = 0.95
"""A core whose clock may not reach this share of its top is held down."""
BATTERY_AMBER = 25
BATTERY_RED = 10
"""Charge in percent while discharging."""
MODE = re.compile(r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+)\s*>")
DEFAULT_MODE = re.compile(r"<\s*PM_CONFIG\s+DEFAULT=(\d+)\s*>")
CHOSEN_MODE = re.compile(r"pmode:(\d+)")
UNCAPPED = "MAXN"
"""How the names of Jetson's power modes without a cap begin: MAXN, MAXN_SUPER."""
CLOCKS = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq"


def power(root: Path = ROOT) -> Finding:
    """Return the Jetson's power mode, whether the cores' clocks are held down, and the battery's charge."""
    mode, complaints = _mode(root)
    capped = [path.parent.parent.name for path in root.glob(CLOCKS) if _is_capped(path.parent)]
    if capped:
        complaints.append(
            Complaint(
                Level.AMBER,
                f"clocks of {', '.join(sorted(capped))} are held down",
                "raise scaling_max_freq (`sudo jetson_clocks` on a Jetson)",
            )
        )
    battery, more = _battery(root)
    summary = ", ".join(filter(None, [mode, battery])) or "no power modes and no battery on this machine"
    return judged("power", summary, complaints + more, mode=mode, battery=battery)


def _is_capped(folder: Path) -> bool:
    top, allowed = number_of(folder / "cpuinfo_max_freq"), number_of(folder / "scaling_max_freq")
    return top is not None and allowed is not None and allowed < CAPPED * top


def _mode(root: Path) -> tuple[str, list[Complaint]]:
    """Return the power mode in words, "" where there are none. nvpmodel keeps the chosen one and the list in files."""
    table = text_of(root / "etc/nvpmodel.conf")
    if table is None:
        return "", []
    names = {int(number): name for number, name in MODE.findall(table)}
    chosen = CHOSEN_MODE.search(text_of(root / "var/lib/nvpmodel/status") or "") or DEFAULT_MODE.search(table)
    number = None if chosen is None else int(chosen[1])
    if number is None:
        return "", [Complaint(Level.AMBER, "nvpmodel does not say which mode is in force", "ask `sudo nvpmodel -q`")]
    name = names.get(number, str(number))
    best = next((one for one, known in names.items() if known.startswith(UNCAPPED)), None)
    if best is None or name.startswith(UNCAPPED):
        return f"power mode {name}", []
    remedy = f"`sudo nvpmodel -m {best}` for {names[best]}, if battery and cooling allow"
    return f"power mode {name}", [Complaint(Level.AMBER, f"power mode {name} caps the clocks", remedy)]


def _battery(root: Path) -> tuple[str, list[Complaint]]:
    """Return the charge in words, "" without a battery. Batteries of keyboards and mice (scope Device) do not count."""
    for folder in sorted(root.glob("sys/class/power_supply/*")):
        charge, status = number_of(folder / "capacity"), text_of(folder / "status") or ""
        if text_of(folder / "type") != "Battery" or text_of(folder / "scope") == "Device" or charge is None:
            continue
        words = f"battery {charge:.0f} %, {status.lower() or 'status unknown'}"
        if status != "Discharging" or charge >= BATTERY_AMBER:
            return words, []
        level = Level.RED if charge < BATTERY_RED else Level.AMBER
        return words, [Complaint(level, "the battery is low", "charge it")]
    return "", []
