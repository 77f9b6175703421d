"""The DDS domain of this process: one interface, unicast discovery, and a configuration that stays."""

from __future__ import annotations

import ctypes
import fcntl
import html
import os
import socket
import stat
import struct
from collections.abc import Collection
from importlib.metadata import version
from typing import TYPE_CHECKING

from cyclonedds.core import DDSException
from cyclonedds.domain import Domain, DomainParticipant

from onboard.drivers.dds.security import NO_PLUGINS, SECURED, check_enclave, plugins_loaded, security_xml
from onboard.system.resolver import Hosts, unknown_host
from onboard.values.errors import DriverError

if TYPE_CHECKING:
    from onboard.config.config import DdsSection

SO_ATTACH_FILTER = 26
ANCILLARY, DEVICE_INDEX = 0xFFFFF000, 8
"""A packet's device as a socket filter reads it (`linux/filter.h`: SKF_AD_OFF, SKF_AD_IFINDEX)."""

LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
WHOLE, NOTHING = 0xFFFFFFFF, 0
_INSTRUCTION = struct.Struct("HBBI")
_PROGRAM = struct.Struct("HP")


def accept_only_devices(listener: socket.socket, devices: Collection[str]) -> None:
    """Let a socket drop packets of all other devices. Raises OSError, also for an unknown device.

    A device that is removed and comes back has another index, so its packets are dropped then.
    """
    indices = [socket.if_nametoindex(name) for name in devices]
    rows = [(LOAD_WORD, 0, 0, ANCILLARY + DEVICE_INDEX)]
    rows += [(JUMP_IF_EQUAL, len(indices) - at, 0, index) for at, index in enumerate(indices)]
    rows += [(RETURN, 0, 0, NOTHING), (RETURN, 0, 0, WHOLE)]
    code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*row) for row in rows))
    program = _PROGRAM.pack(len(rows), ctypes.addressof(code))
    listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


LOOPBACK = "lo"
DEVICE_BYTES = 16
"""The longest name of a network device, with its end (the kernel's IFNAMSIZ)."""

ASK_FLAGS, ASK_ADDRESS = 0x8913, 0x8915
"""Requests to the kernel about a network device (`netdevice(7)`: SIOCGIFFLAGS, SIOCGIFADDR)."""
IS_UP = 0x1
REQUEST = struct.Struct("16sH22x")
"""A device's name and, in the answer, its flags (`struct ifreq`)."""

PORT_BASE = 7400
PORTS_PER_DOMAIN = 250
"""Where the DDSI standard puts a domain's ports."""

MAX_PARTICIPANTS = 20
"""Participants of one domain on one host that find each other without multicast."""

RESENDING = (
    "<Internal><NackDelay>5ms</NackDelay>"
    '<HeartbeatInterval min="5ms" minsched="20ms" max="1s">20ms</HeartbeatInterval></Internal>'
)
"""Delays of heartbeats and of requests for lost packets; Cyclone's default of 100 ms is longer than an image period."""

PACKET_BYTES = 1456
"""With `dds.resend`, a datagram fits into one Ethernet packet. Cyclone's default of 14,720 bytes needs ten packets, and
one lost packet loses the datagram. The kernel also keeps its other fragments for 30 s, until the buffer for fragments
is full (ROS's notes on tuning DDS). Resent data has packets of this size anyway."""

FAST_DDS = "1.15"
"""Its vendor number in the DDSI standard."""

KNOWS_DESCRIPTIONS = 11
"""Cyclone's first release that can ignore type descriptions."""
BINDING = int(version("cyclonedds").split(".")[0])
"""Release of the installed one, read at the import: later the process may lack the right to read it."""

_domains: dict[int, tuple[str, Domain]] = {}
"""The configured domains of this process, never released: a garbage-collected `Domain` loses its configuration, and the
next participant uses every interface without a warning."""


def cyclone_xml(section: DdsSection) -> str:
    """Return Cyclone's configuration: one interface, multicast only if configured, peers found by unicast.

    Type descriptions of Fast DDS (the usual ROS 2 middleware) are ignored, so that type names alone decide, as in ROS.
    Cyclone rejects Fast DDS's description of sequences and arrays (Cyclone's pull request 2333).
    """
    multicast = "true" if section.multicast else "false"
    peers = "".join(f"<Peer address={_quoted(peer)}/>" for peer in section.peers)
    packets = f"<MaxMessageSize>{PACKET_BYTES}B</MaxMessageSize>" if section.resend else ""
    return (
        '<CycloneDDS><Domain Id="any"><General><Interfaces>'
        f'<NetworkInterface name={_quoted(section.interface)} multicast="{multicast}"/>'
        f"</Interfaces><AllowMulticast>{multicast}</AllowMulticast>{packets}</General>"
        "<Discovery><ParticipantIndex>auto</ParticipantIndex>"
        f"<MaxAutoParticipantIndex>{MAX_PARTICIPANTS}</MaxAutoParticipantIndex>"
        f"<Peers>{peers}</Peers></Discovery>{RESENDING if section.resend else ''}"
        f"{_compatibility()}{security_xml(section.security)}</Domain></CycloneDDS>"
    )


def _quoted(text: str) -> str:
    """Return an attribute's value. `xml.sax.saxutils` would import `urllib.request`, which takes 4 % of a start."""
    return f'"{html.escape(text)}"'


def ignores_descriptions() -> bool:
    """Return whether this Cyclone DDS has a setting to ignore Fast DDS's type descriptions."""
    return BINDING >= KNOWS_DESCRIPTIONS


def _compatibility() -> str:
    """Return the setting that ignores Fast DDS's type descriptions; a library before 11.0 would refuse it."""
    if not ignores_descriptions():
        return ""
    return f"<Compatibility><IgnoreTypeInformation>{FAST_DDS}</IgnoreTypeInformation></Compatibility>"


def not_usable(interface: str) -> str:
    """Return why DDS cannot use an interface now, in one line; "" if it can.

    Cyclone needs an interface that is up and has an IPv4 address, but no cable or radio link.
    """
    available = [name for _, name in socket.if_nameindex()]
    if interface not in available:
        return f"dds.interface: there is no {interface!r}; available: {', '.join(available)}"
    request = REQUEST.pack(os.fsencode(interface), 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            _, flags = REQUEST.unpack(fcntl.ioctl(asking, ASK_FLAGS, request))
            fcntl.ioctl(asking, ASK_ADDRESS, request)
        except OSError:  # or it was removed meanwhile
            return f"dds.interface: {interface!r} has no IPv4 address"
    return "" if flags & IS_UP else f"dds.interface: {interface!r} is down"


def hold_domain(domain: int, section: DdsSection) -> None:
    """Configure a domain for the rest of the process's life; a repeated call with the same settings does nothing.

    Raises DriverError if the interface cannot be used, a peer's host name cannot be resolved, or the domain is open
    with other settings.
    """
    missing = not_usable(section.interface)
    if missing:
        raise DriverError(missing)
    check_enclave(section.security)
    xml = cyclone_xml(section)
    if domain in _domains:
        if _domains[domain][0] != xml:
            raise DriverError(f"dds: domain {domain} is already open in this process with other settings")
        return
    for peer in Hosts().unknown(section.peers):  # Cyclone would end the process
        raise DriverError(unknown_host(peer))
    try:
        opened = Domain(domain, xml)
    except (DDSException, UnicodeEncodeError) as error:
        cause = NO_PLUGINS if section.security is not None else str(error)
        raise DriverError(f"dds: domain {domain} cannot be opened on {section.interface}: {cause}") from error
    _confine(domain, section.interface)
    _domains[domain] = (xml, opened)


def receiving_sockets(domain: int) -> list[socket.socket]:
    """Return this process's sockets on the domain's UDP ports, as duplicates that the caller closes."""
    first = PORT_BASE + PORTS_PER_DOMAIN * domain
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            twin = socket.socket(fileno=os.dup(int(name)))
        except OSError:  # closed meanwhile: the listing's own descriptor, or another thread's
            continue
        inet = twin.family in (socket.AF_INET, socket.AF_INET6) and twin.type == socket.SOCK_DGRAM
        if inet and first <= twin.getsockname()[1] < first + PORTS_PER_DOMAIN:
            found.append(twin)
        else:
            twin.close()
    return found


def _confine(domain: int, interface: str) -> None:
    """Let the domain's receiving sockets accept packets of the interface and of this machine only.

    Cyclone binds them to 0.0.0.0 whatever the interface (its issues 1923, 2090), so machines on the robot's other
    networks could send to them. Raises DriverError.
    """
    twins, device = receiving_sockets(domain), LOOPBACK.encode()
    try:
        for twin in twins:
            if interface != LOOPBACK:
                accept_only_devices(twin, (interface, LOOPBACK))
            # Cyclone has one of them under two descriptors, and only CAP_NET_RAW may bind a socket a second time.
            elif _device_of(twin) != device:
                twin.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
    except OSError as error:  # kernels before 5.7 want CAP_NET_RAW
        raise DriverError(f"dds: domain {domain} cannot be confined to {interface}: {error.strerror}") from error
    finally:
        for twin in twins:
            twin.close()


def _device_of(twin: socket.socket) -> bytes | None:
    """Return the device that a socket is bound to, None where the kernel does not say (an emulated one, qemu-user)."""
    try:
        return twin.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, DEVICE_BYTES).rstrip(b"\0")
    except OSError:
        return None


def join(domain: int) -> DomainParticipant:
    """Return a new participant of a configured domain. Raises DriverError, also if security would not be active."""
    secured = domain in _domains and SECURED in _domains[domain][0]
    try:
        participant = DomainParticipant(domain)
        if secured and not plugins_loaded():
            raise DriverError(f"dds: domain {domain} would not be secured: {NO_PLUGINS}")
        return participant
    except DDSException as error:
        if secured:
            raise DriverError(f"dds: domain {domain} cannot be joined with these keys: {error}") from error
        raise DriverError(
            f"dds: domain {domain} cannot be joined (more than {MAX_PARTICIPANTS} participants here?): {error}"
        ) from error
