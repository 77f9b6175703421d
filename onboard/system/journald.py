"""Events as entries of systemd's journal, with their fields: its native protocol, one datagram an entry.

https://systemd.io/JOURNAL_NATIVE_PROTOCOL/. An event `recovery` with the field `what` becomes MESSAGE, PRIORITY,
SYSLOG_IDENTIFIER, ONBOARD_EVENT=recovery and ONBOARD_WHAT=..., which `journalctl` finds and prints (`-o json`).
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
import termios
import time
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

SOCKET = "/run/systemd/journal/socket"
STREAM = "JOURNAL_STREAM"
IDENTIFIER = "onboard"
PREFIX = "ONBOARD_"
"""Before the name of every field, so that none is taken for one of systemd's own."""

NAME_CHARACTERS = 64
"""journald leaves out fields with longer names."""
VALUE_BYTES = 8192
"""Longer values are cut: an entry must fit in one datagram."""

READ_TIMEOUT_S = 2.0
READ_POLL_S = 0.001

#   level of structlog   priority of syslog
PRIORITIES: Mapping[str, int] = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
NOTICE = 5


def is_ours(descriptor: int, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether what is written to a descriptor goes to the journal, as systemd says it of a service's output."""
    device, _, inode = environment.get(STREAM, "").partition(":")
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return (device, inode) == (str(found.st_dev), str(found.st_ino))


def connect(path: str = SOCKET) -> int | None:
    """Return a descriptor that takes one entry a write, for the rest of the process; None when there is no journal."""
    sending = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        sending.connect(path)
    except OSError:
        sending.close()
        return None
    return sending.detach()


def wait_until_read(descriptor: int, within_s: float = READ_TIMEOUT_S) -> bool:
    """Wait until the journal has read what was sent, `within_s` at most; return whether it has.

    It looks up the unit of an entry's sender when it has read it, so one of a process that is gone by then has none,
    and `journalctl -u` does not show it (systemd issue 2913). Reading is what can be seen from here: who ends within
    the moment of the look-up may still lose the last entry. The robot's last zero has been sent before all this.
    """
    ends = time.monotonic() + within_s
    while _unread_bytes(descriptor):
        if time.monotonic() > ends:
            return False
        time.sleep(READ_POLL_S)
    return True


def _unread_bytes(descriptor: int) -> int:
    (unread,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(struct.calcsize("i"))))
    return int(unread)


def entry(_logger: object, method: str, event: MutableMapping[str, Any]) -> bytes:
    """Return an event as one entry: structlog's last processor."""
    level = str(event.pop("level", method))
    name = str(event.pop("event", ""))
    if event.get("exc_info"):
        event = structlog.processors.format_exc_info(None, method, event)
    told = " ".join(f"{key}={value}" for key, value in event.items() if key != "exception")
    fields = {
        "MESSAGE": f"{name} {told}".rstrip(),
        "PRIORITY": str(PRIORITIES.get(level, NOTICE)),
        "SYSLOG_IDENTIFIER": IDENTIFIER,
        **{_field(key): str(value) for key, value in event.items()},
        f"{PREFIX}EVENT": name,
    }
    return b"".join(_encoded(field, value) for field, value in fields.items())


def _field(key: str) -> str:
    """Return the name of a field: capitals, digits and underscores."""
    return f"{PREFIX}{re.sub('[^A-Z0-9_]', '_', key.upper())}"[:NAME_CHARACTERS]


def _encoded(field: str, value: str) -> bytes:
    """Return one field; one of several lines goes with its length in front."""
    data = value.encode(errors="replace")[:VALUE_BYTES]
    if b"\n" in data:
        return field.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
    return field.encode() + b"=" + data + b"\n"
