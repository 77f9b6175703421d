"""What limits the speed of this machine, by the doctor's checks and a few of the kernel's files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psutil

from onboard.commands.doctor import host, service
from onboard.commands.doctor.finding import Finding, Level, amber, findings_of, green
from onboard.commands.doctor.host import GB, ROOT, text_of
from onboard.drivers.realsense.device import list_devices
from onboard.values.errors import MissingExtraError

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
    found = [one for part, look in rows for one in findings_of(part, partial(_only, look))]
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
    return amber("kernel", "no PREEMPT_RT: drivers may delay a tick", "take a kernel with PREEMPT_RT if p99.9 matters")


def swap() -> Finding:
    """Return whether memory may be swapped out."""
    total = psutil.swap_memory().total
    if not total:
        return green("swap", "none")
    return amber("swap", f"{total / GB:.1f} GB: a tick may wait for a disk", "`sudo swapoff -a`, or memory lock")


def cameras() -> Finding:
    """Return which RealSense cameras are plugged in by USB 2."""
    try:
        slow = [device.serial for device in list_devices() if device.usb_type.startswith(USB_2)]
    except MissingExtraError:
        return green("cameras", "librealsense is not installed")
    if not slow:
        return green("cameras", "none by USB 2")
    return amber("cameras", f"USB 2 limits the images of {', '.join(slow)}", "use a USB 3 cable and port")
