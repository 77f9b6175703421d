"""One DDS participant and its topics, by our names: `wire.writer("cmd_vel")`, `wire.reader("odom")`.

The runtime and the simulator use the same table (`topics.py`). There are no listeners (they deadlock in the Python
binding) and no threads: the caller takes messages with `Reader.take`, or waits with `Reader.wait`.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.internal import DDS, InvalidSample, dds_c_t
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic as DdsTopic

from onboard.drivers.dds.domain import hold_domain, ignores_descriptions, join
from onboard.drivers.dds.ros_types import BY_ROS_NAME
from onboard.drivers.dds.topics import (
    Quality,
    Topic,
    check_names,
    dds_topic,
    domain_id,
    reader_qos,
    reader_quality,
    topic,
    type_of,
    writer_qos,
)
from onboard.values.errors import DriverError

if TYPE_CHECKING:
    from onboard.config.config import DdsSection

NS_PER_S = 1_000_000_000
POLL_S = 0.01
NEW = SampleState.NotRead | ViewState.Any | InstanceState.Any
BUILTIN_BATCH = 512
UNDECODABLE: tuple[type[Exception], ...] = (UnicodeDecodeError, struct.error, OverflowError)
"""Errors of cyclonedds on bytes that are no message of the type (`tests/fuzz/test_fuzz.py`)."""
HANDLES = 1 << 64
"""Handles are 64 bits: cyclonedds gives those of entities signed, and those of samples unsigned."""

USUAL_ENDS = 16
"""Of one topic; where there are more, the library is asked a second time."""


def _ask(function: str, entity: Any, *arguments: Any) -> int:
    """Return what a function of libddsc says about an entity. Raises DDSException where it says an error.

    Binding 11 has methods for these, binding 0.10 has not; the library's own functions are the same in both.
    """
    code = int(getattr(cast(Any, DDS)._dll_handle, function)(dds_c_t.entity(entity._ref), *arguments))
    if code < 0:
        raise DDSException(code, f"{function} of {entity!r}")
    return code


def matched(entity: DataReader[Any] | DataWriter[Any]) -> list[int]:
    """Return the handles of the other ends of a topic, as they are now. Raises DDSException."""
    ends = "publications" if isinstance(entity, DataReader) else "subscriptions"
    function, room = f"dds_get_matched_{ends}", USUAL_ENDS
    while True:
        handles = (dds_c_t.instance_handle * room)()
        there = _ask(function, entity, handles, ctypes.c_size_t(room))
        if there <= room:
            return [handle % HANDLES for handle in handles[:there]]
        room = there  # more than there was room for: ask again


def liveliness(entity: DataReader[Any]) -> Any:
    """Return DDS's `liveliness_changed_status` of a reader, with changes since the last call. Raises DDSException."""
    status = dds_c_t.liveliness_changed_status()
    _ask("dds_get_liveliness_changed_status", entity, ctypes.byref(status))
    return status


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One message.

    sample:     a type of `ros_types`
    writer:     the identity of its writer in this process
    written_ns: source time, in wall time of the writer's machine [ns]; 0 if unknown
    held_ns:    how long a second publisher withheld it (`sole_writer.py`) [ns]
    """

    sample: Any
    writer: int
    written_ns: int = 0
    held_ns: int = 0


class Writer:
    """The sending end of one topic."""

    def __init__(self, name: str, kind: type[IdlStruct], entity: DataWriter[Any]) -> None:
        self.name = name
        self.kind = kind
        self._entity: DataWriter[Any] | None = entity

    def write(self, sample: IdlStruct, written_ns: int | None = None) -> None:
        """Send the sample without waiting. Raises DriverError if the link is gone or the writer closed.

        written_ns: source time to state, wall time [ns]; None is now
        """
        try:
            self._open().write(sample, written_ns)
        except DDSException as error:
            raise DriverError(f"dds: {self.name} cannot be sent: {error}") from error

    def readers(self) -> int:
        """Return how many readers there are now."""
        return len(matched(self._open()))

    def wait_for_reader(self, timeout_s: float) -> bool:
        """Return whether a reader was there within the time."""
        return wait_until(lambda: self.readers() > 0, timeout_s)

    def wait_for_acks(self, timeout_s: float) -> bool:
        """Return whether every reliable reader acknowledged everything within the time."""
        try:
            return bool(self._open().wait_for_acks(int(timeout_s * NS_PER_S)))
        except AttributeError:  # how cyclonedds 11.0.1 reports a timeout, by a bug
            return False
        except DDSException as error:
            raise DriverError(f"dds: {self.name} cannot be acknowledged: {error}") from error

    def close(self) -> None:
        """Release the writer. Safe to call twice."""
        self._entity = None

    def _open(self) -> DataWriter[Any]:
        if self._entity is None:
            raise DriverError(f"dds: {self.name} is closed")
        return self._entity


class Messages(Protocol):
    """The part of `Reader` that drivers of cameras and scans need, so that bags can replace it."""

    @property
    def undecodable(self) -> int: ...

    def take(self) -> list[ReceivedMessage]: ...

    def writers(self) -> frozenset[int]: ...


class WriterMessages(Messages, Protocol):
    """The part of `Reader` that inputs with several writers need: operators, alarms, speed limits."""

    @property
    def full(self) -> bool: ...

    def overflowed(self, messages: list[ReceivedMessage], /) -> frozenset[int]: ...


MessagesT = TypeVar("MessagesT", bound=Messages, covariant=True)


class InputWire(Protocol[MessagesT]):
    """The part of `Wire` that listening drivers need."""

    @property
    def section(self) -> DdsSection: ...

    def reader(self, name: str | Topic, /) -> MessagesT: ...


class Reader:
    """The receiving end of one topic.

    undecodable: invalid messages so far (bad UTF-8, for example); they are skipped
    full:        the last `take` found a full queue, so that older messages may be lost (`overflowed`)
    """

    def __init__(self, name: str, entities: list[DataReader[Any]], quality: Quality) -> None:
        """entities: the readers, the strictest QoS first; quality: of the topic."""
        self.name = name
        self.undecodable = 0
        self._full: set[int] = set()
        self._queue_of: dict[int, int] = {}
        self._entities = entities
        self._depth, self._judges = quality.depth, quality.alive_s is not None
        self._lapsed: set[int] = set()
        self._better_writers: list[set[int]] = [set() for _ in entities]

    def take(self) -> list[ReceivedMessage]:
        """Return the messages since the last call, without waiting; each writer's messages oldest first.

        With several readers, a writer's messages come from its strictest matching reader only, in order. Raises
        DriverError if the link is gone or the reader closed.
        """
        if not self._entities:
            raise DriverError(f"dds: {self.name} is closed")
        self._full = set()
        came = [
            list(self._drain(queue)) for queue in reversed(range(len(self._entities)))
        ]  # the best last: it has repeats by now
        messages = came.pop()
        for better, casual in enumerate(reversed(came)):
            writers = {message.writer for message in messages}
            if casual:
                left_out = writers | self._better_writers[better] | self._matched(self._entities[: better + 1])
                messages += [message for message in casual if message.writer not in left_out]
            self._better_writers[better] = writers
        self._lapsed -= {message.writer for message in messages}
        return messages

    @property
    def full(self) -> bool:
        return bool(self._full)

    def overflowed(self, messages: list[ReceivedMessage]) -> frozenset[int]:
        """Return the writers whose queue the last `take` found full and that have none of its `messages`.

        With several readers, a writer's queue is its strictest reader's. Writers that left since the last call of
        `writers` are included.
        """
        if not self._full:
            return frozenset()
        queue_of = {**self._queue_of, **self._queues()}
        lost = frozenset(writer for writer, queue in queue_of.items() if queue in self._full)
        return lost - {message.writer for message in messages}

    def wait(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` for a new message; return whether there is one."""
        if not self._entities:
            raise DriverError(f"dds: {self.name} is closed")
        return wait_for_any([self], timeout_s)

    def writers(self) -> frozenset[int]:
        """Return the identities of the current writers, without those that broke their promise (`Quality.alive_s`)."""
        self._queue_of = self._queues()
        if self._judges and self._entities:
            self._note_lapsed()
        return frozenset(self._queue_of) - self._lapsed

    def _note_lapsed(self) -> None:
        """Note the writer of the newest change. DDS names only that one; another is noticed when its process is lost.

        A writer that is noted by mistake counts again with its next message.
        """
        now = liveliness(self._entities[-1])
        writer = now.last_publication_handle % HANDLES
        if now.not_alive_count_change > 0:
            self._lapsed.add(writer)
        elif now.alive_count_change > 0:
            self._lapsed.discard(writer)
        if now.not_alive_count == 0:
            self._lapsed.clear()

    def alive(self) -> int:
        """Return the number of live writers, by each writer's promised lease (`Quality.lease_s`).

        Raises DriverError when the link is gone or the reader closed.
        """
        if not self._entities:
            raise DriverError(f"dds: {self.name} is closed")
        try:
            return int(liveliness(self._entities[-1]).alive_count)
        except DDSException as error:
            raise DriverError(f"dds: {self.name} cannot read its live writers: {error}") from error

    def close(self) -> None:
        """Release the readers. Safe to call twice."""
        self._entities = []

    def _drain(self, queue: int) -> Iterator[ReceivedMessage]:
        """Yield at most one full queue of messages, so that a flooding sender does not block the tick.

        Takes single messages, because one bad message would spoil a whole batch.
        """
        entity = self._entities[queue]
        for taken in range(self._depth + 1):
            if taken == self._depth:
                self._full.add(queue)
            try:
                samples = entity.take(1)
            except UNDECODABLE:
                self.undecodable += entity is self._entities[-1]  # count it once for several readers
                continue
            except DDSException as error:
                raise DriverError(f"dds: {self.name} cannot be received: {error}") from error
            if not samples:
                return
            if not isinstance(samples[0], InvalidSample):  # an InvalidSample only reports a writer's state
                info = samples[0].sample_info
                yield ReceivedMessage(samples[0], info.publication_handle, info.source_timestamp)

    def _queues(self) -> dict[int, int]:
        queues = reversed(list(enumerate(self._entities)))
        return {writer: queue for queue, entity in queues for writer in self._matched([entity])}

    def _matched(self, entities: list[DataReader[Any]]) -> frozenset[int]:
        return frozenset(handle for entity in entities for handle in matched(entity))


def wait_for_any(readers: Sequence[Reader], timeout_s: float) -> bool:
    """Wait at most `timeout_s` for a new message of some open readers; return whether there is one."""
    entities = [entity for reader in readers for entity in reader._entities]
    if not entities:
        raise DriverError("dds: the readers are closed")
    waitset = WaitSet(cast(DomainParticipant, entities[0].participant))
    for entity in entities:
        waitset.attach(ReadCondition(entity, NEW))
    return waitset.wait(int(timeout_s * NS_PER_S)) > 0


class Wire:
    """A participant on one domain.

    domain: its number
    opened: the rows of the topics that it reads or writes, by their names on the wire
    """

    def __init__(self, section: DdsSection) -> None:
        """Join the domain. Raises ConfigError for bad names, DriverError when the interface is not there."""
        check_names(section)
        self.section = section
        self.domain = domain_id(section)
        hold_domain(self.domain, section)
        self._participant: DomainParticipant | None = join(self.domain)
        self.opened: dict[str, Topic] = {}
        self._topics: dict[str, DdsTopic[Any]] = {}
        self._writers: dict[str, Writer] = {}
        self._readers: list[Reader] = []

    def writer(self, name: str | Topic) -> Writer:
        """Return the writer of a topic; one writer for each topic. Raises ConfigError, DriverError."""
        row = topic(name)
        if row.name not in self._writers:
            kind, wanted = self._topic(row)
            try:
                entity = DataWriter(self._open(), wanted, writer_qos(row.quality))
            except DDSException as error:
                raise DriverError(f"dds: {row.name} cannot be written: {error}") from error
            self._writers[row.name] = Writer(row.name, kind, entity)
        return self._writers[row.name]

    def writes(self, name: str | Topic) -> bool:
        """Return whether it has a writer of a topic."""
        return topic(name).name in self._writers

    def reader(self, name: str | Topic) -> Reader:
        """Return a new reader of a topic. Raises ConfigError, DriverError."""
        row = topic(name)
        _, wanted = self._topic(row)
        try:
            qualities = reader_qos(reader_quality(self.section, row.quality))
            entities = [DataReader(self._open(), wanted, qos) for qos in qualities]
        except DDSException as error:
            raise DriverError(f"dds: {row.name} cannot be read: {error}") from error
        self._readers.append(Reader(row.name, entities, row.quality))
        return self._readers[-1]

    def foreign_writer(self, name: str | Topic, timeout_s: float) -> bool:
        """Return whether another participant writes one of our topics; waits at most `timeout_s`."""
        participant = self._open()
        wanted, own = dds_topic(self.section, name), participant.guid
        reader = BuiltinDataReader(participant, BuiltinTopicDcpsPublication)

        def found() -> bool:
            return any(
                endpoint.topic_name == wanted
                and endpoint.participant_key != own
                and endpoint.sample_info.instance_state == InstanceState.Alive
                for endpoint in reader.read(BUILTIN_BATCH)
            )

        return wait_until(found, timeout_s)

    def participant(self) -> DomainParticipant:
        """Return the participant, for discovery. Raises DriverError if closed."""
        return self._open()

    def close(self) -> None:
        """Leave the domain; all readers and writers are closed. Safe to call twice."""
        for writer in self._writers.values():
            writer.close()
        for reader in self._readers:
            reader.close()
        self._writers, self._readers, self._topics = {}, [], {}
        if self._participant is not None:
            # The binding has no close, and leaves in the domain what only the garbage collector finds: its table of
            # entities holds weak references, which are gone before the finalizer looks there.
            self._participant.__del__()
        self._participant = None

    def _topic(self, row: Topic) -> tuple[type[IdlStruct], DdsTopic[Any]]:
        kind = BY_ROS_NAME[type_of(self.section, row)]
        if row.name not in self._topics:
            if not ignores_descriptions():  # where one end describes no type, Cyclone goes by names alone
                cast(Any, kind).__idl__.fill_type_data = lambda: None
            try:
                self._topics[row.name] = DdsTopic(self._open(), dds_topic(self.section, row), kind)
                self.opened.setdefault(dds_topic(self.section, row), row)
            except DDSException as error:
                raise DriverError(f"dds: {row.name} cannot be opened: {error}") from error
        return kind, self._topics[row.name]

    def _open(self) -> DomainParticipant:
        if self._participant is None:
            raise DriverError(f"dds: the participant on domain {self.domain} is closed")
        return self._participant


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait at most `timeout_s` for the condition, polled every 10 ms; return whether it became true."""
    pause, deadline_s = threading.Event(), time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline_s:
            return False
        pause.wait(POLL_S)
    return True
