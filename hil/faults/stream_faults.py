"""What goes wrong with whatever comes as a stream of stamped messages: the images of a camera, a ready-made scan."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeVar

from hil.faults.schedule import Injection
from onboard.drivers.ros_types import Image, LaserScan
from onboard.scheduler import NS_PER_S

LATE_NS = NS_PER_S // 2

Sample = TypeVar("Sample", Image, LaserScan)


class OfSources(Injection):
    """A fault of some sources: cameras by their names, scans by their topics. Others go on."""

    def __init__(self, sources: Collection[str]) -> None:
        self.sources = frozenset(sources)

    def image(self, camera: str, sample: Image, now_ns: int) -> Image | None:
        """Return what comes of an image."""
        return self.spoilt(camera, sample, now_ns) if camera in self.sources else sample

    def scan(self, topic: str, sample: LaserScan, now_ns: int) -> LaserScan | None:
        """Return what comes of a scan."""
        return self.spoilt(topic, sample, now_ns) if topic in self.sources else sample

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample | None:
        """Return the message in place of one of these sources'."""
        raise NotImplementedError


class Gone(OfSources):
    """Nothing comes any more."""

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> None:
        """Return nothing."""
        return


class Frozen(OfSources):
    """The last message comes again and again. stamped: with a stamp that goes on, so that it looks like a new one."""

    def __init__(self, sources: Collection[str], *, stamped: bool = False) -> None:
        super().__init__(sources)
        self._stamped = stamped
        self._held: dict[str, Any] = {}

    def saw(self, source: str, sample: Sample) -> None:
        """Keep the newest message."""
        self._held[source] = sample

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample:
        """Return the last message from before; the first of this fault where none came."""
        held: Sample = self._held.setdefault(source, sample)
        return replace(held, header=sample.header) if self._stamped else held


class Late(OfSources):
    """What is sent arrives `late_ns` later, each message as it was sent; `period_ns` apart at the least, others not."""

    def __init__(self, sources: Collection[str], late_ns: int = LATE_NS, period_ns: int = 0) -> None:
        super().__init__(sources)
        self._late_ns, self._period_ns = late_ns, period_ns
        self._next_ns: dict[str, int] = {}
        self._under_way: dict[str, deque[tuple[int, Any]]] = {}

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample | None:
        """Return the newest message that has been under way for long enough."""
        under_way = self._under_way.setdefault(source, deque())
        if now_ns >= self._next_ns.get(source, now_ns):
            under_way.append((now_ns + self._late_ns, sample))
            self._next_ns[source] = now_ns + self._period_ns
        arrived: Sample | None = None
        while under_way and under_way[0][0] <= now_ns:
            arrived = under_way.popleft()[1]
        return arrived
