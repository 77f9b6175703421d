"""Waits at the start for network, hosts and the base's serial port, which may come up later than the service.

A robot's computer often boots before its base is on or its radio has an address. A service that failed each time would
reach systemd's start limit and stay down. So the service waits before it opens a device. Its status names the cause.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import structlog

from onboard.config.config import Config, DdsSection, OdometrySection
from onboard.drivers.dds.domain import not_usable
from onboard.service.systemd import Notifier
from onboard.system.resolver import Hosts, unknown_host
from onboard.values.errors import DriverError

log = structlog.get_logger()

LOOK_EVERY_S = 1.0
PATIENCE_S = 600.0
"""Longer than the unit's StartLimitIntervalSec=, so that failed waits never reach the start limit.

Shorter than its TimeoutStartSec= by the duration of a start.
"""

ANSWER_S = 1.0
"""Timeout of each request to the resolver."""


def network_to_come(section: DdsSection, hosts: Hosts) -> list[str]:
    """Return a line for an interface that is not usable yet and for each host that is unknown yet.

    hosts: resolver, with a timeout of ANSWER_S per host. Raises ConfigError for an invalid host name.
    """
    unknown = hosts.unknown(section.peers, ANSWER_S)
    return [line for line in (not_usable(section.interface), *map(unknown_host, unknown)) if line]


def base_to_come(section: OdometrySection) -> list[str]:
    """Return a line if the serial port does not exist. Does not check whether the base answers."""
    port = section.serial_port
    if section.input != "serial" or os.access(port, os.F_OK):
        return []
    return [f"odometry.serial_port: {port} does not exist; is the base plugged in?"]


def await_machine(
    config: Config,
    notifier: Notifier,
    pause: Callable[[float], object] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> None:
    """Return when nothing is missing. Until then status and log name the missing parts.

    Raises DriverError with the missing parts after PATIENCE_S, and ConfigError like `network_to_come`.
    """
    reported: list[str] = []
    began_s, hosts = now_s(), Hosts()
    while missing := network_to_come(config.dds, hosts) + base_to_come(config.odometry):
        if now_s() - began_s >= PATIENCE_S:
            raise DriverError(f"{'; '.join(missing)} (waited for {PATIENCE_S:g} s)")
        if missing != reported:
            notifier.send(f"STATUS=waiting: {'; '.join(missing)}")
        for line in missing:
            if line not in reported:
                log.warning("waiting", missing=line)
        reported = missing
        pause(LOOK_EVERY_S)
    if reported:
        log.info("waited", waited_s=round(now_s() - began_s, 1))
