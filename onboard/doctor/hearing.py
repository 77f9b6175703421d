"""Listens for a few seconds: who is on the domain, what a runtime says, and whether odometry comes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from onboard.config import Config
from onboard.doctor.running import Said, said_by
from onboard.drivers.dds_graph import Graph, look_around
from onboard.drivers.ros_messages import ns_from_time
from onboard.drivers.ros_types import DiagnosticArray
from onboard.drivers.wire import Wire, wait_until
from onboard.scheduler import wall_ns

NS_PER_S = 1e9
DISCOVERY_S = 2.0
"""Everybody is known by then: on loopback within one second."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What came within the time.

    said:          messages of this robot's runtime, oldest first
    odometry_hz:   messages of odometry a second; 0.0 when none came
    stamp_ahead_s: how far their stamps were ahead of this machine's clock, the nearest one; None when none came
    """

    graph: Graph
    said: tuple[Said, ...]
    odometry_hz: float
    stamp_ahead_s: float | None


def hear(config: Config, seconds: float) -> Heard:
    """Return what is heard in DISCOVERY_S and `seconds` more. Raises ConfigError, DriverError."""
    graph = look_around(config.dds, DISCOVERY_S)
    wire = Wire(config.dds)
    try:
        diagnostics, odometry = wire.reader("diagnostics"), wire.reader("odom")
        samples: list[DiagnosticArray] = []
        ahead_s: list[float] = []

        def take() -> bool:
            samples.extend(message.sample for message in diagnostics.take())
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
    return Heard(graph, tuple(said_by(config.robot.name, samples)), len(ahead_s) / took_s, nearest_s)


def _odometry_expected(graph: Graph) -> bool:
    return any(one.writes and one.kind == "nav_msgs/msg/Odometry" for one in graph.endpoints)
