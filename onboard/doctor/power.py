"""Power mode of a Jetson, clocks of the cores, charge of a battery; read from files, changing nothing."""

from __future__ import annotations

import re
from pathlib import Path

from onboard.doctor.finding import Complaint, Finding, Level, judged
from onboard.doctor.sysfs import ROOT, number_of, text_of

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
