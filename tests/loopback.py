"""What the tests of the wire share: a domain of this test process, on loopback."""

from __future__ import annotations

import os

from onboard.config import DdsSection
from onboard.drivers.wire import Reader, Received, wait_until

DOMAIN = 1 + os.getpid() % 100
SECTION = DdsSection(domain=DOMAIN)
PATIENCE_S = 5.0


def hear(reader: Reader, count: int = 1) -> list[Received]:
    """Return the next messages, at least so many unless they do not come within PATIENCE_S."""
    messages: list[Received] = []

    def enough() -> bool:
        messages.extend(reader.take())
        return len(messages) >= count

    wait_until(enough, PATIENCE_S)
    return messages
