"""What goes from where messages come to where they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

SMALL_BYTES = 2_000
"""What a message without an image takes, roughly."""


TWIN_PREFIX = "twin/"
"""In front of the names of the twin's topics."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One message.

    topic:   our name of its topic (`dds_topics.TOPICS`); "twin/scan" and the like; "tick", the recording's own message
    time_ns: when it came, wall time [ns since 1970]
    sample:  of a type of `drivers.ros_types`, or of `drivers.onboard_types`
    """

    topic: str
    time_ns: int
    sample: Any

    @property
    def size_bytes(self) -> int:
        """What it holds in memory, roughly."""
        data = getattr(self.sample, "data", b"")
        return SMALL_BYTES + (len(data) if isinstance(data, bytes) else 0)


class Screen(Protocol):
    """Where messages are shown; it may take its time."""

    def show(self, heard: Heard) -> None:
        """Show one message. Raises InputError for one that cannot be shown."""

    def close(self) -> None:
        """Show what is left and let go. Safe to call twice."""
