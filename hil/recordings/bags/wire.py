"""A bag in the place of the wire: the runtime's own inputs and cameras take from it what had arrived by then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hil.recordings.bags.bag import Arrived
from onboard.assembly.inbox import DeviceInbox
from onboard.config.config import DdsSection
from onboard.drivers.dds.participant import Received
from onboard.drivers.dds.topics import Topic, topic
from onboard.values.messages import Inputs

WRITER = 1
"""The identity of whoever wrote the bag; it is there all the time."""


@dataclass(slots=True)
class BagReader:
    """The receiving end of one topic, as `drivers.wire.Reader`."""

    undecodable: int = 0
    full: bool = False
    _waiting: list[Received] = field(default_factory=list)

    def put(self, sample: Any) -> None:
        """Let a message arrive."""
        self._waiting.append(Received(sample, WRITER))

    def take(self) -> list[Received]:
        """Return what arrived since the last call, oldest first."""
        taken, self._waiting = self._waiting, []
        return taken

    def unheard(self, _messages: list[Received]) -> frozenset[int]:
        """No queue of it is ever full."""
        return frozenset()

    def writers(self) -> frozenset[int]:
        """Return the identities of the writers that are there now."""
        return frozenset({WRITER})


class BagWire:
    """The readers of our topics over the messages of a bag, as `drivers.wire.Wire`.

    arrived: the messages under our names of their topics, at the runtime's own time [ns], in their order
    """

    def __init__(self, section: DdsSection, arrived: Iterator[Arrived]) -> None:
        self.section = section
        self._arrived = arrived
        self._next = next(arrived, None)
        self._readers: dict[str, list[BagReader]] = {}

    @property
    def ended(self) -> bool:
        """Return whether everything has arrived."""
        return self._next is None

    def reader(self, name: str | Topic) -> BagReader:
        """Return a new reader of a topic of ours."""
        reader = BagReader()
        self._readers.setdefault(topic(name).name, []).append(reader)
        return reader

    def advance(self, now_ns: int) -> None:
        """Let arrive what came until then. Raises InputError for a message that cannot be read."""
        while self._next is not None and self._next.time_ns <= now_ns:
            for reader in self._readers.get(self._next.topic, ()):
                reader.put(self._next.sample)
            self._next = next(self._arrived, None)


class BagInbox:
    """`interfaces.Inbox` over a bag: the robot's own devices, which take from the bag's wire."""

    def __init__(self, wire: BagWire, devices: DeviceInbox) -> None:
        self._wire, self._devices = wire, devices

    def take(self, now_ns: int) -> Inputs:
        """Return what arrived since the last call."""
        self._wire.advance(now_ns)
        return self._devices.take(now_ns)

    def blind(self) -> Mapping[str, str]:
        """Return why each camera that does not work now does not."""
        return {health.camera: health.reason for health in self._devices.cameras() if not health.working}

    def close(self) -> None:
        """Close the devices."""
        self._devices.close()
