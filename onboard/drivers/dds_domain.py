"""The DDS domain of this process: one interface, unicast discovery, and a configuration that stays."""

from __future__ import annotations

import socket
from xml.sax.saxutils import quoteattr

from cyclonedds.core import DDSException
from cyclonedds.domain import Domain, DomainParticipant

from onboard.config import DdsSection
from onboard.errors import DriverError

MAX_PARTICIPANTS = 20
"""Participants of one domain on one host that find each other without multicast."""

_domains: dict[int, tuple[str, Domain]] = {}
"""The configured domains of this process, never let go: once a `Domain` is garbage-collected its configuration is
gone, and the next participant quietly comes up on every interface."""


def cyclone_xml(section: DdsSection) -> str:
    """Return Cyclone's configuration: one interface, multicast only if asked for, peers found by unicast."""
    multicast = "true" if section.multicast else "false"
    peers = "".join(f"<Peer address={quoteattr(peer)}/>" for peer in section.peers)
    return (
        '<CycloneDDS><Domain Id="any"><General><Interfaces>'
        f'<NetworkInterface name={quoteattr(section.interface)} multicast="{multicast}"/>'
        f"</Interfaces><AllowMulticast>{multicast}</AllowMulticast></General>"
        "<Discovery><ParticipantIndex>auto</ParticipantIndex>"
        f"<MaxAutoParticipantIndex>{MAX_PARTICIPANTS}</MaxAutoParticipantIndex>"
        f"<Peers>{peers}</Peers></Discovery></Domain></CycloneDDS>"
    )


def hold_domain(domain: int, section: DdsSection) -> None:
    """Configure a domain for the rest of the process's life; again with the same settings is no work.

    Raises DriverError when the interface does not exist, or when the domain is open here with other settings.
    """
    available = [name for _, name in socket.if_nameindex()]
    if section.interface not in available:
        raise DriverError(f"dds.interface: there is no {section.interface!r}; there is {', '.join(available)}")
    xml = cyclone_xml(section)
    if domain in _domains:
        if _domains[domain][0] != xml:
            raise DriverError(f"dds: domain {domain} is already open in this process with other settings")
        return
    try:
        _domains[domain] = (xml, Domain(domain, xml))
    except (DDSException, UnicodeEncodeError) as error:
        raise DriverError(f"dds: domain {domain} cannot be opened on {section.interface}: {error}") from error


def join(domain: int) -> DomainParticipant:
    """Return a new participant of a domain that is held. Raises DriverError."""
    try:
        return DomainParticipant(domain)
    except DDSException as error:
        raise DriverError(
            f"dds: domain {domain} cannot be joined (more than {MAX_PARTICIPANTS} participants here?): {error}"
        ) from error
