"""The base: odometry's rate and publishers; the port of a serial base."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from onboard.commands.doctor.finding import Finding, Level, Problem, combined, green, red
from onboard.config.config import Config
from onboard.drivers.dds.participant import wait_until
from onboard.drivers.kobuki_base import KobukiBase
from onboard.values.errors import OnboardError

ENOUGH = 0.9
"""Required share of ticks with a new message; the rest allows for measurement error."""
PLUG_IN = "plug the base in and switch it on; `ls -l /dev/serial/by-id` shows what is there"


def over_dds(config: Config, rate_hz: float, publishers: Sequence[str]) -> Finding:
    """Return whether odometry comes often enough, and from one publisher."""
    needed_hz = 1e3 / config.odometry.stale_ms
    problems = []
    if not publishers:
        problems.append(Problem(Level.RED, "odometry has no publisher", unheard(config)))
    elif rate_hz == 0.0:
        problems.append(
            Problem(Level.RED, "odometry has a publisher, but no message is received", "restart the base's driver")
        )
    elif rate_hz < needed_hz:
        text = f"slower than odometry.stale_ms = {config.odometry.stale_ms:g} allows"
        problems.append(Problem(Level.RED, text, f"publish it at more than {needed_hz:g} Hz"))
    elif rate_hz < ENOUGH * config.rates.control_hz:
        text = f"less than one message per tick ({config.rates.control_hz:g} Hz)"
        problems.append(Problem(Level.AMBER, text, "raise the rate of the base's driver"))
    if len(publishers) > 1:
        problems.append(Problem(Level.RED, "odometry has several publishers", "stop all but one"))
    summary = f"{rate_hz:.1f} odometry messages/s from {', '.join(publishers)}" if publishers else ""
    return combined("base", summary, problems, odometry_hz=round(rate_hz, 1), publishers=list(publishers))


def unheard(config: Config) -> str:
    """Return the usual reasons why a base that runs is not heard, and the gateway, which ends the last of them."""
    where = f"topic {config.dds.odometry_topic}, interface {config.dds.interface}"
    return (
        f"start the base's driver; if it runs: (1) domain, namespace or name differ: compare {where} with `ros2 topic "
        "list` ([dds] domain, namespace, remap); (2) ROS 2 uses another interface, or only its own machine "
        "(ROS_AUTOMATIC_DISCOVERY_RANGE, docs/ros2-loopback.xml); (3) it uses a Discovery Server or rmw_zenoh, which "
        "plain DDS cannot reach: use `onboard gateway` (docs/gateway.md)"
    )


def missing_port(port: str) -> Finding | None:
    """Return a finding if the port does not exist, else None. Does not open the port."""
    return None if Path(port).exists() else red("base", f"{port} does not exist", PLUG_IN, port=port)


def over_serial(port: str, seconds: float, *, taken: bool) -> Finding:
    """Return whether the base at the port sends packets. Opening it sends a stop; a `taken` port is not opened."""
    missing = missing_port(port)
    if missing is not None:
        return missing
    if not os.access(port, os.R_OK | os.W_OK):
        remedy = "add this user to the port's group (`ls -l` names it, dialout most often), or install the udev rules"
        return red("base", f"this user may not open {port}", remedy, port=port)
    if taken:
        return green("base", f"{port}, in use by the runtime", port=port)
    try:
        with closing(KobukiBase(port)) as base:
            return _talk(base, port, seconds)
    except OnboardError as error:
        return red("base", str(error), PLUG_IN, port=port)


def _talk(base: KobukiBase, port: str, seconds: float) -> Finding:
    received = 0

    def take() -> bool:
        nonlocal received
        received += len(base.take(time.monotonic_ns()).odometry)
        return False

    wait_until(take, seconds)
    rate_hz = received / seconds
    if not received:
        return red(
            "base", f"{port} opens, but the base sends nothing", "switch the base on; is it a Kobuki?", port=port
        )
    return green("base", f"{rate_hz:.1f} packets/s on {port}", port=port, odometry_hz=round(rate_hz, 1))
