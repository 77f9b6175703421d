"""A bag instead of the DDS network: the runtime's inputs and cameras read its messages at their time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hil.recordings.recording import TopicMessage
from onboard.assembly.inbox import DeviceInbox
from onboard.config.config import DdsSection
from onboard.drivers.dds.participant import ReceivedMessage
from onboard.drivers.dds.topics import Topic, topic
from onboard.values.messages import Inputs

WRITER = 1
"""Identity of the bag's writer, which is always present."""


@dataclass(slots=True)
class BagReader:
    """Reader of one topic; replaces `participant.Reader`."""

    undecodable: int = 0
    full: bool = False
    _waiting: list[ReceivedMessage] = field(default_factory=list)

    def put(self, sample: Any) -> None:
        """Add a message."""
        self._waiting.append(ReceivedMessage(sample, WRITER))

    def take(self) -> list[ReceivedMessage]:
        """Return the messages since the last call, oldest first."""
        taken, self._waiting = self._waiting, []
        return taken

    def overflowed(self, _messages: list[ReceivedMessage]) -> frozenset[int]:
        """Return no writer: the queue is never full."""
        return frozenset()

    def writers(self) -> frozenset[int]:
        """Return the identities of the present writers."""
        return frozenset({WRITER})


class BagWire:
    """Readers over the messages of a bag; replaces `participant.Wire`.

    arrived: messages in order, with the runtime's topic names and clock [ns]
    """

    def __init__(self, section: DdsSection, arrived: Iterator[TopicMessage]) -> None:
        self.section = section
        self._arrived = arrived
        self._next = next(arrived, None)
        self._readers: dict[str, list[BagReader]] = {}

    @property
    def ended(self) -> bool:
        """Whether all messages have arrived."""
        return self._next is None

    def reader(self, name: str | Topic) -> BagReader:
        """Return a new reader of a topic."""
        reader = BagReader()
        self._readers.setdefault(topic(name).name, []).append(reader)
        return reader

    def advance(self, now_ns: int) -> None:
        """Deliver the messages up to a time. Raises InputError for an unreadable message."""
        while self._next is not None and self._next.time_ns <= now_ns:
            for reader in self._readers.get(self._next.topic, ()):
                reader.put(self._next.sample)
            self._next = next(self._arrived, None)


class BagInbox:
    """`interfaces.Inbox` over a bag: the robot's devices, fed by the bag."""

    def __init__(self, wire: BagWire, devices: DeviceInbox) -> None:
        self._wire, self._devices = wire, devices

    def take(self, now_ns: int) -> Inputs:
        """Return the inputs since the last call."""
        self._wire.advance(now_ns)
        return self._devices.take(now_ns)

    def blind(self) -> Mapping[str, str]:
        """Return the reason of each camera that does not work now."""
        return {health.camera: health.reason for health in self._devices.cameras() if not health.working}

    def close(self) -> None:
        """Close the devices."""
        self._devices.close()
