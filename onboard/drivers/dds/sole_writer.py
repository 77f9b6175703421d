"""Inputs that must have one publisher and one frame: odometry, fixes, scans, depth and colour images.

Two robots in one domain, two drivers on one topic, or one topic with the scans of two lasers, would mix. So with a
second publisher, or a second `frame_id`, the whole input is withheld, and the robot stands until one has gone:

    a source counts   a writer and the frames of its messages. It counts until the newest message of the input is
                      HEARD_NS newer than its own, or 1.5 of its last period (at most LONGEST_NS) for a slow topic
    it has gone       when it does not count, or when DDS no longer lists its writer. A killed writer keeps its lease of
                      DDS for 10 s and more; it stops to count when the other one is heard for HEARD_NS

While both are silent, both stay: two localisations are silent while the robot stands, and stay two. When one of them
has gone, the newest message of the other one is delivered, as it may be its last. That holds only for topics whose
senders keep their last message for late readers (`Quality.read_latched`: fixes). Of a stream, such as odometry, scans
and images, an old message would pass for a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import structlog
from cyclonedds.core import DDSException, Policy, Qos
from cyclonedds.internal import InvalidSample
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic as DdsTopic

from onboard.drivers.dds.discovery import End, Peers, printable
from onboard.drivers.dds.domain import ignores_descriptions
from onboard.drivers.dds.participant import InputWire, Messages, Reader, ReceivedMessage, Wire
from onboard.drivers.dds.ros_convert import ns_from_time
from onboard.drivers.dds.ros_types import NodeGraph
from onboard.drivers.dds.topics import Topic, ros_topic, topic
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.interfaces import InputFault
from onboard.values.messages import GoalRequest
from onboard.values.reasons import NO_REASON, Said, joined, refused_goal

log = structlog.get_logger()

HEARD_NS = 2 * NS_PER_S
LONGEST_NS = 10 * NS_PER_S
PERIODS = 1.5
DEPTH, IMAGE_DEPTH = 16, 4
"""Least queues of a reader: a quick publisher must not hide a slow one within a tick."""
IMAGE = "sensor_msgs/msg/Image"
MOST_HEARD = 256
NAMED_NS = NS_PER_S
"""Period in which the publishers are named anew: a ROS node may be known later than its messages."""
REFUSED_NS = 3 * NS_PER_S
"""How long the state shows that a goal was refused."""


GRAPH_TOPIC = "ros_discovery_info"
"""The topic, without ROS's prefix, on which each ROS 2 process lists its nodes and their endpoints."""
GRAPH_DEPTH = 256
MOST_PROCESSES = 256


class Source(NamedTuple):
    """A publisher of an input. frames: `frame_id`, and `child_frame_id` where there is one."""

    writer: int
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _SourceActivity:
    """Arrival of a source's newest message [ns], and how long it counts after that."""

    newest_ns: int
    counts_ns: int = HEARD_NS

    def again(self, now_ns: int) -> _SourceActivity:
        if now_ns == self.newest_ns:
            return self
        period_ns = now_ns - self.newest_ns
        return _SourceActivity(now_ns, min(max(HEARD_NS, round(PERIODS * period_ns)), LONGEST_NS))


def frames_of(sample: Any) -> tuple[str, ...]:
    """Return the frames of a message, without ROS 1's leading slash."""
    names = (sample.header.frame_id, getattr(sample, "child_frame_id", None))
    return tuple(name.lstrip("/") for name in names if name is not None)


def source_of(message: ReceivedMessage) -> Source:
    """Return the source of a message."""
    return Source(message.writer, frames_of(message.sample))


class SoleReader:
    """Reader of an input that must have one publisher.

    rivals: the sources that count, while there are several; () otherwise
    heard:  header stamp and arrival of each message [ns], for `input_pace.py`, which takes them
    row:    name of the input's row of `/diagnostics`
    """

    def __init__(self, wire: InputWire[Messages], name: str | Topic) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        wanted = topic(name)
        least = IMAGE_DEPTH if wanted.kind == IMAGE else DEPTH
        quality = replace(wanted.quality, depth=max(least, wanted.quality.depth))
        self._reader = wire.reader(replace(wanted, quality=quality))
        self._heard: dict[Source, _SourceActivity] = {}
        self._keeps = quality.read_latched
        self._withheld: dict[Source, ReceivedMessage] = {}
        self.topic = ros_topic(wire.section, wanted)
        self.row = wanted.part
        self.rivals: tuple[Source, ...] = ()
        self.heard: deque[tuple[int, int]] = deque(maxlen=MOST_HEARD)

    def take(self, now_ns: int) -> list[ReceivedMessage]:
        """Return the messages since the last call, none while there is a second publisher. Raises DriverError."""
        messages = self._reader.take()
        newest = {source_of(message): message for message in messages}
        for source in newest:
            heard = self._heard.get(source)
            self._heard[source] = _SourceActivity(now_ns) if heard is None else heard.again(now_ns)
        for message in messages:
            self.heard.append((ns_from_time(message.sample.header.stamp), now_ns))
        counting = self._counting() if len(self._heard) > 1 else tuple(self._heard)
        self.rivals = counting if len(counting) > 1 else ()
        if self.rivals:
            self._withheld |= newest if self._keeps else {}
            self.heard.clear()
            return []
        withheld, self._withheld = self._withheld, {}
        came = [message for message in messages if source_of(message) in counting]
        held_ns = {source: now_ns - self._heard[source].newest_ns for source in counting if source in withheld}
        return came or [replace(withheld[source], held_ns=since_ns) for source, since_ns in held_ns.items()]

    def wait(self, timeout_s: float) -> bool:
        """Wait for a message; return whether there is one. Only over a `Wire`. Raises DriverError."""
        return cast(Reader, self._reader).wait(timeout_s)

    @property
    def undecodable(self) -> int:
        """Undecodable messages so far."""
        return self._reader.undecodable

    def _counting(self) -> tuple[Source, ...]:
        """Return the sources that count. Forgets those that have gone."""
        listed, newest_ns = self._reader.writers(), max(heard.newest_ns for heard in self._heard.values())
        self._heard = {
            source: heard
            for source, heard in self._heard.items()
            if source.writer in listed and newest_ns - heard.newest_ns <= LONGEST_NS
        }
        counting = [one for one, heard in self._heard.items() if newest_ns - heard.newest_ns <= heard.counts_ns]
        return tuple(sorted(counting))


class PublisherNames:
    """Names publishers of one wire by the handles of `Received.writer`."""

    def __init__(self, wire: Wire, peers: Peers) -> None:
        """Listen to the ROS graph, where DDS security allows it. Raises DriverError if the wire is closed."""
        participant, self._peers = wire.participant(), peers
        self._processes: dict[bytes, Mapping[bytes, str]] = {}
        self._graph: DataReader[Any] | None = None
        reliable, queue = Policy.Reliability.Reliable(0), Policy.History.KeepLast(GRAPH_DEPTH)
        try:
            if not ignores_descriptions():  # as in `Wire`
                cast(Any, NodeGraph).__idl__.fill_type_data = lambda: None
            topic = DdsTopic(participant, GRAPH_TOPIC, NodeGraph)
            self._graph = DataReader(participant, topic, Qos(reliable, Policy.Durability.TransientLocal, queue))
        except DDSException as error:
            log.debug("ros_graph_not_read", error=str(error))

    def listen(self) -> None:
        """Take what ROS processes said of their nodes, without waiting."""
        if self._graph is None:
            return
        try:
            for graph in self._graph.take(GRAPH_DEPTH):
                if not isinstance(graph, InvalidSample) and graph.nodes:
                    self._processes[graph.process] = {key: printable(node) for key, node in graph.nodes.items()}
        except DDSException as error:
            log.debug("ros_graph_not_read", error=str(error))
        while len(self._processes) > MOST_PROCESSES:
            del self._processes[next(iter(self._processes))]

    def of(self, writers: Iterable[int]) -> dict[int, str]:
        """Return a name for each writer; no two are the same. Raises DriverError if the link is gone."""
        keys = {end.handle: end for end in self._peers.ends()}
        named = {
            writer: self._name(keys[writer]) if writer in keys else "a publisher that DDS no longer lists"
            for writer in writers
        }
        return {
            writer: name if list(named.values()).count(name) == 1 else f"{name}, {_apart(writer, name, named, keys)}"
            for writer, name in named.items()
        }

    def _name(self, end: End) -> str:
        member, key = end.member, end.key
        node = next((nodes[key.bytes] for nodes in self._processes.values() if key.bytes in nodes), "")
        if member is None:
            return node or f"participant {key.hex[16:24]}"
        if not node:
            return str(member)
        details = [f"pid {member.pid}" if member.pid else "", f"on {member.host}" if member.host else ""]
        return f"{node} ({' '.join(filter(None, details))})" if any(details) else node


def _apart(writer: int, name: str, named: Mapping[int, str], keys: Mapping[int, End]) -> str:
    """Return what distinguishes a writer from others of the same name: its participant, else itself, by its GUID."""
    if writer not in keys:
        return f"{writer:x}"[-8:]
    same = {keys[one].participant for one, other in named.items() if other == name and one in keys}
    return f"participant {keys[writer].key.hex[16:24]}" if len(same) > 1 else f"writer {keys[writer].key.hex[24:]}"


def whose(rivals: Sequence[Source], names: Mapping[int, str]) -> str:
    """Return the publishers of rivals, and what to do. names: of each writer"""
    writers = list(dict.fromkeys(source.writer for source in rivals))
    frames = list(dict.fromkeys(printable(" to ".join(source.frames)) or "''" for source in rivals))
    if len(writers) == 1:
        return f"frame_id {_and(frames)} from {names[writers[0]]}: give each its own topic"
    differing = f", frame_id {_and(frames)}" if len(frames) > 1 else ""
    return f"{_and(sorted(names[writer] for writer in writers))}{differing}: stop one of them, or remap it"


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


class PublisherWatch:
    """Names the second publishers of a robot's inputs, in the log and for `/diagnostics`, and refuses goals then.

    wrong: returns the faults of publishers of another type; those that hold the robot count as second publishers
    """

    def __init__(
        self,
        readers: Iterable[SoleReader],
        names: PublisherNames,
        wrong: Callable[[], Sequence[InputFault]] = tuple,
    ) -> None:
        self._readers, self._names, self._wrong = tuple(readers), names, wrong
        self._whose: dict[SoleReader, str] = {}
        self._named_ns = 0
        self._refused_ns: int | None = None

    def poll(self, now_ns: int) -> bool:
        """Return whether there is a second publisher, or one of another type. Call it after the inputs were taken."""
        self._names.listen()
        again = now_ns - self._named_ns >= NAMED_NS
        for reader in self._readers:
            known = reader in self._whose
            if reader.rivals and (again or not known):
                names, self._named_ns = self._names.of(dict.fromkeys(rival.writer for rival in reader.rivals)), now_ns
                self._whose[reader] = whose(reader.rivals, names)
            if reader.rivals and not known:
                reason = reasons.SECOND_PUBLISHER.say(topics=reader.topic, who=self._whose[reader])
                log.warning("second_publisher", topic=reader.topic, reason=reason)
            elif known and not reader.rivals:
                del self._whose[reader]
                log.info("second_publisher_gone", topic=reader.topic, note="no second publisher any more")
        return bool(self._whose or self._holding())

    def refuse(self, goals: Sequence[GoalRequest], now_ns: int) -> None:
        """Log goals that came meanwhile, and show it in the state for REFUSED_NS."""
        for goal in goals:
            reason = self._line()
            log.warning("goal_refused", x_m=goal.pose.x_m, y_m=goal.pose.y_m, frame=goal.frame_id, reason=reason)
        if goals:
            self._refused_ns = now_ns
        elif self._refused_ns is not None and now_ns - self._refused_ns > REFUSED_NS:
            self._refused_ns = None

    def reason(self, now_ns: int) -> Said:
        """Look, and return the second publishers of all inputs in one line; "" without one."""
        return self._line() if self.poll(now_ns) else NO_REASON

    def faults(self) -> list[InputFault]:
        """Return the faults of the inputs now; those of another type only with a refused goal, as others name them."""
        if self._refused_ns is None:
            return [InputFault(reader.row, reason) for reader, reason in self._reasons().items()]
        wrong = [replace(fault, reason=refused_goal(fault.reason)) for fault in self._holding()]
        own = [InputFault(reader.row, refused_goal(reason)) for reader, reason in self._reasons().items()]
        return [*own, *wrong]

    def _holding(self) -> list[InputFault]:
        return [fault for fault in self._wrong() if fault.holds]

    def _line(self) -> Said:
        return joined(*self._reasons().values(), *(fault.reason for fault in self._holding()))

    def _reasons(self) -> dict[SoleReader, Said]:
        """Return the reason for each input; the same text for inputs with the same publishers."""
        return {
            reader: reasons.SECOND_PUBLISHER.say(
                topics=_and([one.topic for one, other in self._whose.items() if other == who]), who=who
            )
            for reader, who in self._whose.items()
        }
