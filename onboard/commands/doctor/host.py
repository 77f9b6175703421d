"""The computer: memory, load, temperature, power.

Temperature and power come from kernel files below `root`, since psutil reads no thermal zone of a Jetson that has other
sensors too, and may take a mouse's battery for the robot's. A missing sensor or file is no fault.

The control path uses the monotonic clock. Names of recordings, stamps of published messages, and the comparison of
odometry with a localisation from another machine need the wall clock.
"""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path

import psutil

from onboard.commands.doctor.finding import Finding, Level, Problem, amber, combined, green

ROOT = Path("/")


def text_of(path: Path) -> str | None:
    """Return a small file's stripped text; None if it is missing or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:  # thermal zones of disabled parts fail to read
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
"""For thermal zones without trip points."""
NEAR_CRITICAL_C = 5.0
MILLI = 1e-3
TRIP = re.compile(r"trip_point_(\d+)_type")


def memory() -> Finding:
    """Return how much memory is available."""
    now = psutil.virtual_memory()
    total_gb, free_gb = now.total / GB, now.available / GB
    share, found = free_gb / total_gb, f"{free_gb:.1f} of {total_gb:.1f} GB available"
    values = {"available_gb": round(free_gb, 2), "total_gb": round(total_gb, 2)}
    if share >= MEMORY_AMBER:
        return green("memory", found, **values)
    level = Level.RED if share < MEMORY_RED else Level.AMBER
    return Finding("memory", level, found, "find what uses it with `ps aux --sort=-rss | head`", values)


def load() -> Finding:
    """Return whether more programs are ready to run than there are cores."""
    mean, cores = psutil.getloadavg()[0], os.cpu_count() or 1
    values = {"load_1min": mean, "cores": cores}
    found = f"load average {mean:.1f} on {cores} cores"
    if mean <= cores:
        return green("load", found, **values)
    return amber("load", found, "find other programs with `top`; a busy machine delays decisions", **values)


@dataclass(frozen=True, slots=True)
class Zone:
    """One sensor [degC]; slows_c, ends_c: temperatures of throttling and of shutdown, None if unknown."""

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
        return green("temperature", "this machine has no readable temperature sensor")
    problems = [one for zone in found for one in _heat(zone)]
    hottest = max(found, key=lambda zone: zone.at_c)
    summary = f"hottest: {hottest.name}, {hottest.at_c:.0f} degC"
    return combined("temperature", summary, problems, **{zone.name: round(zone.at_c, 1) for zone in found})


def _heat(zone: Zone) -> list[Problem]:
    ends = HOT_RED_C if zone.ends_c is None else zone.ends_c - NEAR_CRITICAL_C
    slows = HOT_AMBER_C if zone.slows_c is None else zone.slows_c
    text = f"{zone.name} is at {zone.at_c:.0f} degC"
    if zone.at_c >= ends:
        return [
            Problem(
                Level.RED, f"{text} and is close to its shutdown temperature", "let it cool down; check fan and vents"
            )
        ]
    if zone.at_c >= slows:
        return [Problem(Level.AMBER, f"{text} and is throttled", "check fan and vents, or use a lower power mode")]
    return []


# ---- Power: mode of a Jetson, clocks of the cores, charge of a battery

CAPPED = 0.95
"""A core is capped if its clock may not reach this share of its maximum."""
BATTERY_AMBER = 25
BATTERY_RED = 10
"""Charge in percent while discharging."""
MODE = re.compile(r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+)\s*>")
DEFAULT_MODE = re.compile(r"<\s*PM_CONFIG\s+DEFAULT=(\d+)\s*>")
CHOSEN_MODE = re.compile(r"pmode:(\d+)")
UNCAPPED = "MAXN"
"""Prefix of Jetson's power modes without a cap: MAXN, MAXN_SUPER."""
CLOCKS = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq"


def power(root: Path = ROOT) -> Finding:
    """Return the Jetson's power mode, capped core clocks, and the battery's charge."""
    mode, problems = _mode(root)
    capped = [path.parent.parent.name for path in root.glob(CLOCKS) if _is_capped(path.parent)]
    if capped:
        problems.append(
            Problem(
                Level.AMBER,
                f"clocks of {', '.join(sorted(capped))} are capped",
                "raise scaling_max_freq (`sudo jetson_clocks` on a Jetson)",
            )
        )
    battery, more = _battery(root)
    summary = ", ".join(filter(None, [mode, battery])) or "no power modes and no battery on this machine"
    return combined("power", summary, problems + more, mode=mode, battery=battery)


def _is_capped(folder: Path) -> bool:
    top, allowed = number_of(folder / "cpuinfo_max_freq"), number_of(folder / "scaling_max_freq")
    return top is not None and allowed is not None and allowed < CAPPED * top


def _mode(root: Path) -> tuple[str, list[Problem]]:
    """Return the power mode's name, "" without power modes. nvpmodel keeps its list and the chosen mode in files."""
    table = text_of(root / "etc/nvpmodel.conf")
    if table is None:
        return "", []
    names = {int(number): name for number, name in MODE.findall(table)}
    chosen = CHOSEN_MODE.search(text_of(root / "var/lib/nvpmodel/status") or "") or DEFAULT_MODE.search(table)
    number = None if chosen is None else int(chosen[1])
    if number is None:
        return "", [Problem(Level.AMBER, "nvpmodel does not report the active power mode", "run `sudo nvpmodel -q`")]
    name = names.get(number, str(number))
    best = next((one for one, known in names.items() if known.startswith(UNCAPPED)), None)
    if best is None or name.startswith(UNCAPPED):
        return f"power mode {name}", []
    remedy = f"`sudo nvpmodel -m {best}` for {names[best]}, if battery and cooling allow"
    return f"power mode {name}", [Problem(Level.AMBER, f"power mode {name} caps the clocks", remedy)]


def _battery(root: Path) -> tuple[str, list[Problem]]:
    """Return the charge as text, "" without a battery. Batteries of keyboards and mice (scope Device) do not count."""
    for folder in sorted(root.glob("sys/class/power_supply/*")):
        charge, status = number_of(folder / "capacity"), text_of(folder / "status") or ""
        if text_of(folder / "type") != "Battery" or text_of(folder / "scope") == "Device" or charge is None:
            continue
        words = f"battery {charge:.0f} %, {status.lower() or 'status unknown'}"
        if status != "Discharging" or charge >= BATTERY_AMBER:
            return words, []
        level = Level.RED if charge < BATTERY_RED else Level.AMBER
        return words, [Problem(level, "the battery is low", "charge it")]
    return "", []


UNSYNCHRONISED = 0x40
"""STA_UNSYNC of adjtimex(2)."""
TIMEX_WORDS, MAX_ERROR_WORD, STATUS_WORD = 32, 3, 5
"""`struct timex` as 64-bit words: `maxerror` [us], and `status` in the low half of its word."""
MAX_OFFSET_S = 0.1
"""Larger offsets between two machines' clocks are reported."""


@dataclass(frozen=True, slots=True)
class KernelClock:
    """The kernel's clock state; max_error_s is the kernel's own bound."""

    synchronised: bool
    max_error_s: float


def kernel_clock() -> KernelClock | None:
    """Return the kernel's clock state; None if this process may not read it."""
    timex = (ctypes.c_long * TIMEX_WORDS)()  # `modes` is 0: read only
    if ctypes.CDLL(None).adjtimex(ctypes.byref(timex)) < 0:
        return None
    return KernelClock(not timex[STATUS_WORD] & UNSYNCHRONISED, timex[MAX_ERROR_WORD] / 1e6)


def clock(state: KernelClock | None, stamp_ahead_s: float | None, *, localised: bool) -> Finding:
    """Return whether the clock is reliable.

    stamp_ahead_s: offset of odometry's stamps from this clock; None without odometry
    localised:     whether a localisation publishes a pose in the map, which is compared with odometry by stamps
    """
    values = {
        "synchronised": None if state is None else state.synchronised,
        "odometry_ahead_s": None if stamp_ahead_s is None else round(stamp_ahead_s, 3),
    }
    offset = "" if stamp_ahead_s is None else f"; odometry stamps are off by {stamp_ahead_s * 1e3:+.0f} ms"
    if stamp_ahead_s is not None and abs(stamp_ahead_s) > MAX_OFFSET_S and localised:
        return amber(
            "clock",
            f"odometry stamps are {stamp_ahead_s:+.2f} s off this machine's clock",
            "synchronise both machines (chrony); poses in the map are matched with odometry by their stamps",
            **values,
        )
    if state is None:
        return amber("clock", f"the kernel's clock state cannot be read{offset}", "see `timedatectl`", **values)
    if not state.synchronised:
        return amber(
            "clock",
            f"not synchronised{offset}",
            "`timedatectl set-ntp true`; with chrony, also set `rtcsync`. Recordings are named by this clock",
            **values,
        )
    return green("clock", f"synchronised, off by {state.max_error_s * 1e3:.0f} ms at most{offset}", **values)
