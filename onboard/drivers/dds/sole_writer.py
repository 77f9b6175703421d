"""Inputs that must have one publisher and one frame: odometry, fixes, scans, depth and colour images.

Two robots in one domain, two drivers on one topic, or one topic with the scans of two lasers, would mix. So with a
second publisher, or a second `frame_id`, the whole input is withheld, and the robot stands until one has gone:

    a source counts   a writer and the frames of its messages. It counts until the newest message of the input is
                      HEARD_NS newer than its own, or 1.5 of its last period (at most LONGEST_NS) for a slow topic
    it has gone       when it does not count, or when DDS no longer lists its writer. A killed writer keeps its lease of
                      DDS for 10 s and more; it stops to count when the other one is heard for HEARD_NS

While both are silent, both stay: two localisations are silent while the robot stands, and stay two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import structlog

from onboard.drivers.dds.discovery import printable
from onboard.drivers.dds.participant import InputWire, Messages, Received
from onboard.drivers.dds.publisher_names import PublisherNames
from onboard.drivers.dds.topics import Topic, ros_topic, topic
from onboard.values.clock import NS_PER_S
from onboard.values.interfaces import InputFault
from onboard.values.messages import GoalRequest

log = structlog.get_logger()

SECOND = "second publisher"
HEARD_NS = 2 * NS_PER_S
LONGEST_NS = 10 * NS_PER_S
PERIODS = 1.5
DEPTH, IMAGE_DEPTH = 16, 4
"""Least queues of a reader: a quick publisher must not hide a slow one within a tick."""
IMAGE = "sensor_msgs/msg/Image"
NAMED_NS = NS_PER_S
"""Period in which the publishers are named anew: a ROS node may be known later than its messages."""
REFUSED_NS = 3 * NS_PER_S
"""How long the state shows that a goal was refused."""


class Source(NamedTuple):
    """A publisher of an input. frames: `frame_id`, and `child_frame_id` where there is one."""

    writer: int
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Heard:
    """Arrival of a source's newest message [ns], and how long it counts after that."""

    newest_ns: int
    counts_ns: int = HEARD_NS

    def again(self, now_ns: int) -> _Heard:
        if now_ns == self.newest_ns:
            return self
        period_ns = now_ns - self.newest_ns
        return _Heard(now_ns, min(max(HEARD_NS, round(PERIODS * period_ns)), LONGEST_NS))


def frames_of(sample: Any) -> tuple[str, ...]:
    """Return the frames of a message, without ROS 1's leading slash."""
    names = (sample.header.frame_id, getattr(sample, "child_frame_id", None))
    return tuple(name.lstrip("/") for name in names if name is not None)


class SoleReader:
    """Reader of an input that must have one publisher.

    rivals: the sources that count, while there are several; () otherwise
    row:    name of the input's row of `/diagnostics`
    """

    def __init__(self, wire: InputWire[Messages], name: str | Topic, row: str) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        wanted = topic(name)
        least = IMAGE_DEPTH if wanted.kind == IMAGE else DEPTH
        quality = replace(wanted.quality, depth=max(least, wanted.quality.depth))
        self._reader = wire.reader(replace(wanted, quality=quality))
        self._heard: dict[Source, _Heard] = {}
        self.topic = ros_topic(wire.section, wanted)
        self.row = row
        self.rivals: tuple[Source, ...] = ()

    def take(self, now_ns: int) -> list[Received]:
        """Return the messages since the last call, none while there is a second publisher. Raises DriverError."""
        messages = self._reader.take()
        for message in messages:
            source = Source(message.writer, frames_of(message.sample))
            heard = self._heard.get(source)
            self._heard[source] = _Heard(now_ns) if heard is None else heard.again(now_ns)
        self.rivals = self._counting() if len(self._heard) > 1 else ()
        return [] if self.rivals else messages

    @property
    def undecodable(self) -> int:
        """Undecodable messages so far."""
        return self._reader.undecodable

    def _counting(self) -> tuple[Source, ...]:
        """Return the sources that count, if there are several. Forgets those that have gone."""
        listed, newest_ns = self._reader.writers(), max(heard.newest_ns for heard in self._heard.values())
        self._heard = {
            source: heard
            for source, heard in self._heard.items()
            if source.writer in listed and newest_ns - heard.newest_ns <= LONGEST_NS
        }
        counting = [one for one, heard in self._heard.items() if newest_ns - heard.newest_ns <= heard.counts_ns]
        return tuple(sorted(counting)) if len(counting) > 1 else ()


def whose(rivals: Sequence[Source], names: Mapping[int, str]) -> str:
    """Return the publishers of rivals, and what to do. names: of each writer"""
    writers = list(dict.fromkeys(source.writer for source in rivals))
    frames = list(dict.fromkeys(printable(" to ".join(source.frames)) or "''" for source in rivals))
    if len(writers) == 1:
        return f"frame_id {_and(frames)} from {names[writers[0]]}: give each its own topic"
    differing = f", frame_id {_and(frames)}" if len(frames) > 1 else ""
    return f"{_and([names[one] for one in writers])}{differing}: stop one of them, or remap it"


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


class PublisherWatch:
    """Names the second publishers of a robot's inputs, in the log and for `/diagnostics`, and refuses goals then."""

    def __init__(self, readers: Iterable[SoleReader], names: PublisherNames) -> None:
        self._readers, self._names = tuple(readers), names
        self._whose: dict[SoleReader, str] = {}
        self._named_ns = 0
        self._refused_ns: int | None = None

    def look(self, now_ns: int) -> bool:
        """Return whether an input has a second publisher now. Call it after the inputs were taken."""
        self._names.listen()
        again = now_ns - self._named_ns >= NAMED_NS
        for reader in self._readers:
            known = reader in self._whose
            if reader.rivals and (again or not known):
                names, self._named_ns = self._names.of(dict.fromkeys(one.writer for one in reader.rivals)), now_ns
                self._whose[reader] = whose(reader.rivals, names)
            if reader.rivals and not known:
                reason = f"{SECOND} on {reader.topic}: {self._whose[reader]}"
                log.warning("second_publisher", topic=reader.topic, reason=reason)
            elif known and not reader.rivals:
                del self._whose[reader]
                log.info("second_publisher_gone", topic=reader.topic, note=f"no {SECOND} any more")
        return bool(self._whose)

    def refuse(self, goals: Sequence[GoalRequest], now_ns: int) -> None:
        """Log goals that came meanwhile, and show it in the state for REFUSED_NS."""
        for goal in goals:
            reason = "; ".join(dict.fromkeys(self._reasons().values()))
            log.warning("goal_refused", x_m=goal.pose.x_m, y_m=goal.pose.y_m, frame=goal.frame_id, reason=reason)
        if goals:
            self._refused_ns = now_ns
        elif self._refused_ns is not None and now_ns - self._refused_ns > REFUSED_NS:
            self._refused_ns = None

    def faults(self) -> list[InputFault]:
        """Return the faults of the inputs now."""
        refused = "goal refused: " if self._refused_ns is not None else ""
        return [InputFault(reader.row, refused + reason) for reader, reason in self._reasons().items()]

    def _reasons(self) -> dict[SoleReader, str]:
        """Return the reason for each input; the same text for inputs with the same publishers."""
        return {
            reader: f"{SECOND} on {_and([one.topic for one, other in self._whose.items() if other == who])}: {who}"
            for reader, who in self._whose.items()
        }
