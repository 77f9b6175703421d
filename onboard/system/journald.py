"""Writes events with their fields to systemd's journal: its native protocol, one datagram per entry.

https://systemd.io/JOURNAL_NATIVE_PROTOCOL/. An event `recovery` with the field `what` becomes MESSAGE, PRIORITY,
SYSLOG_IDENTIFIER, ONBOARD_EVENT=recovery and ONBOARD_WHAT=... (`journalctl -o json` prints them).
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
"""Prefix of every field name, different from systemd's own fields."""

NAME_CHARACTERS = 64
"""Maximum length of a field name; journald drops longer fields."""
VALUE_BYTES = 8192
"""Longer values are cut, so that an entry fits in a datagram."""

READ_TIMEOUT_S = 2.0
READ_POLL_S = 0.001

#   level of structlog   priority of syslog
PRIORITIES: Mapping[str, int] = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
NOTICE = 5


def is_ours(descriptor: int, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a descriptor is the journal's stream, by systemd's JOURNAL_STREAM."""
    device, _, inode = environment.get(STREAM, "").partition(":")
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return (device, inode) == (str(found.st_dev), str(found.st_ino))


def connect(path: str = SOCKET) -> int | None:
    """Return a descriptor that takes one entry per write, open until the process ends; None without a journal."""
    sending = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        sending.connect(path)
    except OSError:
        sending.close()
        return None
    return sending.detach()


def wait_until_read(descriptor: int, within_s: float = READ_TIMEOUT_S) -> bool:
    """Wait at most `within_s` until the journal has read all entries; return whether it has.

    After reading an entry, journald looks up the unit of its sender. If the process has ended by then, the entry has no
    unit and `journalctl -u` does not show it (systemd issue 2913). This function sees only the reading, so a process
    that ends during the look-up may still lose its last entry. The robot's last zero is sent earlier.
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
    text = " ".join(f"{key}={value}" for key, value in event.items() if key != "exception")
    fields = {
        "MESSAGE": f"{name} {text}".rstrip(),
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
    """Return an encoded field. A value with several lines has its length in front."""
    data = value.encode(errors="replace")[:VALUE_BYTES]
    if b"\n" in data:
        return field.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
    return field.encode() + b"=" + data + b"\n"
