"""What a start needs of the machine and may come up later than it does: network, hosts, the base's serial port.

A robot's computer is often up before its base is switched on or its radio has an address. A service that ended for that
would use up its starts and stay down; so it waits, before it opens anything, and says for what.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

import structlog

from onboard.config import Config, DdsSection, OdometrySection
from onboard.drivers.dds_domain import not_usable
from onboard.errors import ConfigError, DriverError
from onboard.service import Notifier

log = structlog.get_logger()

LOOK_EVERY_S = 1.0
PATIENCE_S = 600.0
"""Longer than the unit's StartLimitIntervalSec=, so that starts that only waited are never five within it, and shorter
than its TimeoutStartSec= by the time that a start takes."""

OTHER_THAN_A_HOST = frozenset(":/,@")
"""In Cyclone's other ways to name a peer: with a port, with a transport, several."""


def network_to_come(section: DdsSection) -> list[str]:
    """Return a line for the interface that is not usable yet and for each host that nobody knows yet.

    Cyclone would end the process for such a host; other ways to name a peer it judges itself. Raises ConfigError for
    what is no host's name and will never be one.
    """
    unknown = [peer for peer in section.peers if not _is_known(peer)]
    lines = [not_usable(section.interface), *(f"dds.peers: {_unknown(peer)}" for peer in unknown)]
    return [line for line in lines if line]


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
    began_s = now_s()
    while missing := network_to_come(config.dds) + base_to_come(config.odometry):
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


def _is_known(peer: str) -> bool:
    if not peer or not OTHER_THAN_A_HOST.isdisjoint(peer):
        return True
    try:
        socket.getaddrinfo(peer, None, socket.AF_INET)
    except OSError:
        return False
    except ValueError as error:  # a name that is too long
        raise ConfigError(f"dds.peers: {_unknown(peer)}") from error
    return True


def _unknown(peer: str) -> str:
    return f"{peer!r} is no host that this machine knows"
