"""What a start needs of the machine and may come up later than it does: network, hosts, the base's serial port.

A robot's computer is often up before its base is switched on or its radio has an address. A service that ended for that
would use up its starts and stay down; so it waits, before it opens anything, and says for what.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import structlog

from onboard.config.config import Config, DdsSection, OdometrySection
from onboard.drivers.dds.domain import not_usable
from onboard.service.systemd import Notifier
from onboard.system.resolver import Hosts, nobody_knows
from onboard.values.errors import DriverError

log = structlog.get_logger()

LOOK_EVERY_S = 1.0
PATIENCE_S = 600.0
"""Longer than the unit's StartLimitIntervalSec=, so that starts that only waited are never five within it, and shorter
than its TimeoutStartSec= by the time that a start takes."""

ANSWER_S = 1.0
"""For so long each look waits for the resolver."""


def network_to_come(section: DdsSection, hosts: Hosts) -> list[str]:
    """Return a line for the interface that is not usable yet and for each host that nobody knows yet.

    hosts: who is asked, for ANSWER_S each. Raises ConfigError for what is no host's name and will never be one.
    """
    unknown = hosts.unknown(section.peers, ANSWER_S)
    return [line for line in (not_usable(section.interface), *map(nobody_knows, unknown)) if line]


def base_to_come(section: OdometrySection) -> list[str]:
    """Return a line when the serial base is not plugged in. Whether it answers is not asked."""
    port = section.serial_port
    if section.input != "serial" or os.access(port, os.F_OK):
        return []
    return [f"odometry.serial_port: {port} is not there; is the base plugged in?"]


def await_machine(
    config: Config,
    notifier: Notifier,
    pause: Callable[[float], object] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> None:
    """Return once all is there; until then the status names what is missing, and the log does so once.

    Raises DriverError that names it after PATIENCE_S, and ConfigError as `network_to_come`.
    """
    told: list[str] = []
    began_s, hosts = now_s(), Hosts()
    while missing := network_to_come(config.dds, hosts) + base_to_come(config.odometry):
        if now_s() - began_s >= PATIENCE_S:
            raise DriverError(f"{'; '.join(missing)} (waited for {PATIENCE_S:g} s)")
        if missing != told:
            notifier.say(f"STATUS=waiting: {'; '.join(missing)}")
        for line in missing:
            if line not in told:
                log.warning("waiting", missing=line)
        told = missing
        pause(LOOK_EVERY_S)
    if told:
        log.info("waited", waited_s=round(now_s() - began_s, 1))
