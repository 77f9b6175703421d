"""What the tests of the wire share: a domain of this test process, on loopback, and others that nobody has."""

from __future__ import annotations

import ctypes
import os
import socket

from cyclonedds.internal import load_cyclonedds

from onboard.config.config import DdsSection
from onboard.drivers.dds import domain as domains
from onboard.drivers.dds.participant import Reader, ReceivedMessage, Wire, wait_until

LAST_DOMAIN = 100
"""The ports of higher domains are among those that Linux lends to anybody."""

MOST = 80 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
"""A process that has taken so many takes the first of them again, but for its own: their users have ended long ago."""

_taken: list[tuple[int, socket.socket]] = []


def free_domain() -> int:
    """Return a domain that no other test of this machine has, nor the last MOST tests of this process.

    A domain that this process has opened keeps its settings, so others are taken again before it.
    """
    if len(_taken) >= MOST:
        again = next((k for k in range(1, MOST) if _taken[k][0] not in domains._domains), 1)
        _taken.append(_taken.pop(again))
        return _taken[-1][0]
    for step in range(LAST_DOMAIN):
        domain = 1 + (os.getpid() + step) % LAST_DOMAIN
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(f"\0onboard-test/{domain}")
        except OSError:
            holder.close()
            continue
        _taken.append((domain, holder))
        return domain
    raise AssertionError("all domains are taken")


DOMAIN = free_domain()
SECTION = DdsSection(domain=DOMAIN)
PATIENCE_S = 5.0
_cyclone = load_cyclonedds()


def participants() -> int:
    """Return how many participants this process has in the domain of the tests."""
    return max(0, int(_cyclone.dds_lookup_participant(ctypes.c_uint32(DOMAIN), None, ctypes.c_size_t(0))))


def hear(reader: Reader, count: int = 1) -> list[ReceivedMessage]:
    """Return the next messages, at least so many unless they do not come within PATIENCE_S."""
    messages: list[ReceivedMessage] = []

    def enough() -> bool:
        messages.extend(reader.take())
        return len(messages) >= count

    wait_until(enough, PATIENCE_S)
    return messages


class Sender:
    """The other side's writers, with proof of delivery: a witness reader beside the one under test."""

    def __init__(self, ours: Wire, theirs: Wire) -> None:
        self._ours, self._theirs = ours, theirs
        self._witnesses = {}

    def send(self, name, *samples):
        writer = self._theirs.writer(name)
        if name not in self._witnesses:
            self._witnesses[name] = self._ours.reader(name)
        witness = self._witnesses[name]
        assert wait_until(lambda: bool(writer.readers() and witness.writers()), PATIENCE_S)
        for sample in samples:
            writer.write(sample)
        assert hear(witness)
