"""Listens to the wire: participants, odometry, and the diagnostics of a running runtime.

The doctor reads `/diagnostics` instead of opening a runtime's devices. They come once a second; two of them give rates.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from onboard.assembly.robot import lidar_rows
from onboard.commands.doctor.finding import Finding, Level, red
from onboard.commands.doctor.host import ROOT, text_of
from onboard.config.config import Config
from onboard.drivers.dds.discovery import Graph, look_around
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_convert import ns_from_time
from onboard.drivers.dds.ros_types import DiagnosticArray, LaserScan, PointCloud2
from onboard.drivers.dds.topics import SENSOR
from onboard.values.clock import wall_ns

CAMERA = "camera "
RUNTIME = "runtime"
NS_PER_S = 1e9
MOST_DIGITS = 19
"""Longer counters are rejected."""
LEVELS = (Level.GREEN, Level.AMBER, Level.RED, Level.RED)
"""Indexed by the diagnostics' level: ok, warning, error, stale."""
START_IT = "start the named publisher or driver, on the runtime's domain and interface; its log says more (`waiting`)"
#   row         called here   what to do when it is not well
ROWS = {
    "runtime": ("runtime", "the message gives the reason; `journalctl -u onboard -b` has more"),
    "scan": ("scan", START_IT),
    "limits_scan": ("limits_scan", START_IT),
    "waiting": ("inputs", START_IT),
    "policy": ("decisions", "stop other programs, or use the highest power mode"),
    "odometry": (
        "odometry",
        "check the base's clock and the network's load; `systemctl restart onboard` accepts its clock as it is",
    ),
    "recorder": ("recorder", "free disk space, or record less"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of diagnostics: level 0 to 3, message, values as text."""

    level: int
    message: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """One diagnostics message of a runtime: wall time [ns], rows by name."""

    stamp_ns: int
    rows: Mapping[str, Row]


def statuses_of(robot: str, samples: Sequence[DiagnosticArray]) -> list[RuntimeStatus]:
    """Return the messages of one robot's runtime, oldest first; other senders are left out."""
    found = []
    for sample in samples:
        rows = {
            one.name: Row(one.level, one.message, {pair.key: pair.value for pair in one.values})
            for one in sample.status
            if one.hardware_id == robot
        }
        if RUNTIME in rows:
            found.append(RuntimeStatus(ns_from_time(sample.header.stamp), rows))
    return found


def is_claimed(domain: int, config: Config, root: Path = ROOT) -> bool:
    """Return whether a process of this machine has claimed the robot (`robot_link.Claim`)."""
    parts = ("@onboard", str(domain), config.dds.namespace.strip("/"), config.robot.name)
    name = re.escape("/".join(filter(None, parts)))
    return re.search(rf" {name}$", text_of(root / "proc/net/unix") or "", re.MULTILINE) is not None


def findings(statuses: Sequence[RuntimeStatus], *, claimed: bool) -> list[Finding]:
    """Return the findings from the runtime's own diagnostics."""
    if not statuses:
        if not claimed:
            return []
        remedy = "`systemctl status onboard` shows what it is waiting for; if it hangs: `systemctl restart onboard`"
        return [red("runtime", "a runtime process of this robot is running but does not answer", remedy)]
    newest = statuses[-1].rows
    return [_finding(name, newest[name]) for name in ROWS if name in newest]


def rate_hz(statuses: Sequence[RuntimeStatus], row: str, counter: str) -> float | None:
    """Return the rate of a counter between the first and the last message [1/s]; None if unknown."""
    if len(statuses) < 2:
        return None
    span_s = (statuses[-1].stamp_ns - statuses[0].stamp_ns) / NS_PER_S
    first, last = (count(one, row, counter) for one in (statuses[0], statuses[-1]))
    if first is None or last is None or span_s <= 0:
        return None
    return (last - first) / span_s


def count(statuses: RuntimeStatus, row: str, counter: str) -> int | None:
    """Return a counter of a row; None if it is missing or not a plain number."""
    text = statuses.rows[row].values.get(counter, "") if row in statuses.rows else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def _finding(name: str, row: Row) -> Finding:
    level = LEVELS[row.level] if 0 <= row.level < len(LEVELS) else Level.RED
    part, remedy = ROWS[name]
    return Finding(part, level, row.message, remedy if level is not Level.GREEN else "", dict(row.values))


DISCOVERY_S = 2.0
"""Enough to discover all participants; on loopback one second is."""


@dataclass(frozen=True, slots=True)
class WireSurvey:
    """The result of listening to the wire.

    statuses:      messages of this robot's runtime, oldest first
    odometry_hz:   messages of odometry a second
    stamp_ahead_s: smallest offset of odometry's stamps from this machine's clock; None without odometry
    scans:         messages a second and the newest message of each topic of ready-made scans
    """

    graph: Graph
    statuses: tuple[RuntimeStatus, ...]
    odometry_hz: float
    stamp_ahead_s: float | None
    scans: Mapping[str, tuple[float, LaserScan | PointCloud2 | None]] = field(default_factory=dict)


def survey_wire(config: Config, seconds: float) -> WireSurvey:
    """Listen for DISCOVERY_S plus `seconds`. Raises ConfigError, DriverError."""
    graph = look_around(config.dds, DISCOVERY_S)
    wire = Wire(config.dds)
    try:
        diagnostics, odometry = wire.reader("diagnostics"), wire.reader("odom")
        lidars = {name: wire.reader(replace(row, quality=SENSOR)) for name, row in lidar_rows(config).items()}
        scans: dict[str, list[LaserScan | PointCloud2]] = {name: [] for name in lidars}
        samples: list[DiagnosticArray] = []
        ahead_s: list[float] = []

        def take() -> bool:
            samples.extend(message.sample for message in diagnostics.take())
            for name, reader in lidars.items():
                scans[name].extend(message.sample for message in reader.take())
            now_ns = wall_ns()
            ahead_s.extend((ns_from_time(one.sample.header.stamp) - now_ns) / NS_PER_S for one in odometry.take())
            return False

        wait_until(lambda: bool(odometry.writers()), DISCOVERY_S if _odometry_expected(graph) else 0.0)
        began_s = time.monotonic()
        wait_until(take, seconds)
        took_s = time.monotonic() - began_s
    finally:
        wire.close()
    nearest_s = min(ahead_s, key=abs) if ahead_s else None
    heard = {name: (len(came) / took_s, came[-1] if came else None) for name, came in scans.items()}
    return WireSurvey(graph, tuple(statuses_of(config.robot.name, samples)), len(ahead_s) / took_s, nearest_s, heard)


def _odometry_expected(graph: Graph) -> bool:
    return any(endpoint.writes and endpoint.kind == "nav_msgs/msg/Odometry" for endpoint in graph.endpoints)
