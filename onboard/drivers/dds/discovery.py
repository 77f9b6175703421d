"""Participants and endpoints of a DDS domain, from discovery, and other drivers of this robot. Sends no message."""

from __future__ import annotations

import re
import socket
import threading
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import DDSException, InstanceState, Policy, Qos

from onboard.config.config import DdsSection
from onboard.drivers.dds.domain import hold_domain, join
from onboard.drivers.dds.participant import HANDLES, Wire
from onboard.drivers.dds.topics import Topic, dds_topic, domain_id, ros_topic, topic, type_of
from onboard.values import reasons
from onboard.values.errors import DriverError
from onboard.values.interfaces import InputFault
from onboard.values.reasons import of_topic

BATCH = 4096
ROS_PREFIX = "rt/"
ROS_TYPE = re.compile(r"(\w+)::(msg|srv|action)::dds_::(\w+)_")
VENDORS = {"0101": "RTI Connext", "010f": "Fast DDS", "0110": "Cyclone DDS"}
"""By the first four digits of a participant's key (vendor number of the DDSI standard). Zenoh's bridge is a Cyclone."""
FAST_DDS_PID = "fastdds.physical_data.process"
LOOPBACK = "/127."
"""Part of an address of a participant of this machine."""
NAME_LENGTH = 120
DURABILITIES = ("Volatile", "TransientLocal", "Transient", "Persistent")
LIVELINESS = ("Automatic", "ManualByParticipant", "ManualByTopic")


@dataclass(frozen=True, slots=True)
class Member:
    """A participant, usually one process. host, process, pid and address are "" if its DDS does not send them.

    For a process of this machine, `process` is its command ("onboard run"), and host is "".
    """

    key: str
    vendor: str
    host: str
    process: str
    pid: str
    address: str

    def __str__(self) -> str:
        process = f"{self.process or self.vendor or 'unknown'}{f' pid {self.pid}' if self.pid else ''}"
        return f"{process} on {self.host}" if self.host else process


@dataclass(frozen=True, slots=True)
class EndpointQos:
    """QoS that a writer offers or a reader requests. Durability and liveliness: larger is stricter."""

    reliable: bool
    durability: int
    deadline_ns: int
    liveliness: int
    lease_ns: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A writer or reader. Topic and kind of ROS endpoints have ROS's names: "/odom", "std_msgs/msg/Bool"."""

    topic: str
    kind: str
    member: str
    writes: bool
    offer: EndpointQos


@dataclass(frozen=True, slots=True)
class Graph:
    """All participants but the asking one, by key, and their endpoints."""

    members: Mapping[str, Member]
    endpoints: tuple[Endpoint, ...]


def qos_mismatch(writer: EndpointQos, reader: EndpointQos) -> str:
    """Return why DDS does not connect a writer and a reader, "" if it does."""
    if reader.reliable and not writer.reliable:
        return "its reader wants reliable delivery, its writer offers best effort"
    if reader.durability > writer.durability:
        return "its reader wants old messages (transient local), its writer keeps none"
    if reader.deadline_ns < writer.deadline_ns:
        return f"its reader wants a message every {reader.deadline_ns / 1e6:g} ms, its writer does not promise it"
    if reader.liveliness > writer.liveliness or reader.lease_ns < writer.lease_ns:
        return "its reader wants another liveliness than its writer promises"
    return ""


def other_type(who: str, theirs: str, ours: str, row: Topic, *, writes: bool) -> tuple[str, str]:
    """Return the type of an end of a topic, which is not ours, and what to do. row: the topic"""
    end = f"{who} {'publishes' if writes else 'expects'} {theirs}"
    if not writes and {theirs, ours} == {row.kind, row.stamped_kind}:
        stamped = str(theirs == row.stamped_kind).lower()
        return end, f"set dds.stamped_cmd_vel = {stamped} to fit the base, or make it use {ours}"
    if theirs.endswith("/CustomMsg"):  # of a Livox
        return end, f"set xfer_format = 0 in the launch file of the Livox driver, which then publishes {ours}"
    return end, f"let it use {ours}, or give it another topic"


def look_around(section: DdsSection, seconds: float) -> Graph:
    """Return the participants and endpoints found within `seconds`. Raises ConfigError, DriverError."""
    domain = domain_id(section)
    hold_domain(domain, section)
    participant = join(domain)
    topics = (BuiltinTopicDcpsParticipant, BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription)
    try:
        readers = [BuiltinDataReader(participant, topic) for topic in topics]
        threading.Event().wait(seconds)
        members, writers, others = (_alive(reader) for reader in readers)
    except DDSException as error:
        raise DriverError(f"dds: domain {domain} cannot be inspected: {error}") from error
    own = str(participant.guid)
    return Graph(
        {str(member.key): member_of(member) for member in members if str(member.key) != own},
        tuple(
            _endpoint(end, writes)
            for ends, writes in ((writers, True), (others, False))
            for end in ends
            if str(end.participant_key) != own
        ),
    )


def printable(text: str) -> str:
    """Return a name from the network that is safe for a terminal: no control characters, at most NAME_LENGTH."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:NAME_LENGTH])


def _alive(reader: BuiltinDataReader) -> list[Any]:
    return [one for one in reader.read(BATCH) if one.sample_info.instance_state == InstanceState.Alive]


def member_of(sample: Any) -> Member:
    """Return the participant in a sample of discovery."""
    key, qos = str(sample.key), cast(Qos, sample.qos)
    properties = {policy.key: printable(policy.value) for policy in qos if isinstance(policy, Policy.Property)}
    host, process, pid = (properties.get(name, "") for name in ("__Hostname", "__ProcessName", "__Pid"))
    pid, address = pid or properties.get(FAST_DDS_PID, ""), properties.get("__NetworkAddresses", "")
    if host == socket.gethostname() or LOOPBACK in address:
        host, process = "", _command(pid) or process
    return Member(
        key=key,
        vendor=VENDORS.get(key[:4], ""),
        host=host,
        process=process,
        pid=pid,
        address=address,
    )


def _command(pid: str) -> str:
    """Return program and first argument of a process of this machine, "" if they cannot be read."""
    try:
        words = Path(f"/proc/{int(pid)}/cmdline").read_text(errors="replace").split("\0")
    except (OSError, ValueError):
        return ""
    if Path(words[0]).name.startswith("python"):
        words = [word for word in words[1:] if not word.startswith("-")]
    named = [word for word in words[1:2] if word and not word.startswith("-")]
    return printable(" ".join([Path(words[0]).name, *named])) if words else ""


def _endpoint(sample: Any, writes: bool) -> Endpoint:
    name = printable(sample.topic_name)
    return Endpoint(
        topic=name[len(ROS_PREFIX) - 1 :] if name.startswith(ROS_PREFIX) else name,
        kind=ros_kind(printable(sample.type_name)),
        member=str(sample.participant_key),
        writes=writes,
        offer=_offer(cast(Qos, sample.qos)),
    )


def ros_kind(kind: str) -> str:
    """Return ROS's name of a type on the wire: "std_msgs/msg/Bool"; any other as it is."""
    ros = ROS_TYPE.fullmatch(kind)
    return "/".join(ros.groups()) if ros else kind


def _offer(qos: Qos) -> EndpointQos:
    policies: dict[str, Any] = cast(Any, qos).asdict()
    liveliness = policies["Liveliness"]
    return EndpointQos(
        reliable=policies["Reliability"]["kind"] == "Reliable",
        durability=DURABILITIES.index(policies["Durability"]["kind"]),
        deadline_ns=int(policies["Deadline"]["deadline"]),
        liveliness=LIVELINESS.index(liveliness["kind"]),
        lease_ns=int(liveliness["lease_duration"]),
    )


# ---- Other drivers of this robot: other writers of its command and of its state

OURS = ("cmd_vel", "state")
"""Topics that only one runtime may write: the command, and the state by which runtimes find each other."""

PEER_BATCH, MEMBER_BATCH = 4, 2
"""Writers and as many readers, or participants, handled in one tick: 0.1 and 0.3 ms each. The rest waits."""
LOOKS = BATCH // PEER_BATCH

NO_BASE = "start the base's driver with the same ROS_DOMAIN_ID, interface and namespace, or set dds.remap.cmd_vel"


@dataclass(frozen=True, slots=True)
class Rival:
    """Another writer of one of our topics.

    topic: its ROS name; who: printable description of the writer's process, or its key
    """

    topic: str
    who: str


@dataclass(frozen=True, slots=True)
class End:
    """Another participant's writer or reader of one of our topics.

    row: the topic; kind: its ROS type there; handle: of a writer, as in `Received.writer`
    member: its participant, kept after it left, or a fault would change its name at the end; None: DDS listed none
    """

    row: Topic
    kind: str
    writes: bool
    key: uuid.UUID
    participant: uuid.UUID
    handle: int
    member: Member | None

    def who(self) -> str:
        """Return the description of its participant."""
        return f"participant {self.participant}" if self.member is None else str(self.member)


class _Reader(BuiltinDataReader):
    """A reader of endpoints without their QoS, whose decoding would take most of the time."""

    def _make_constructors(self) -> None:
        cast(Any, super())._make_constructors()
        self._cqos_conv = lambda _qos: None


class Peers:
    """The other participants' ends of the topics that a wire has opened, kept up to date by `poll` in every tick.

    `poll` takes a few samples of discovery and never waits, so that a flood of endpoints does not delay the tick.
    """

    def __init__(self, wire: Wire, unused: Collection[str] = ()) -> None:
        """Start discovery. unused: opened topics that do not count. Raises DriverError if the wire is closed."""
        self._wire, self._own, self._unused = wire, wire.participant().guid, unused
        self._rows = {dds_topic(wire.section, name): topic(name) for name in OURS}
        self._ends: dict[uuid.UUID, End] = {}
        self._known: dict[uuid.UUID, Member] = {}
        self._rivals: tuple[Rival, ...] = ()
        self._faults: list[InputFault] = []
        try:
            self._readers = _Reader(wire.participant(), BuiltinTopicDcpsSubscription)
            self._writers = _Reader(wire.participant(), BuiltinTopicDcpsPublication)
            self._members = BuiltinDataReader(wire.participant(), BuiltinTopicDcpsParticipant)
        except DDSException as error:
            raise DriverError(f"dds: domain {wire.domain} cannot be inspected: {error}") from error

    def poll(self) -> tuple[Rival, ...]:
        """Return the other writers of our command and state now. Raises DriverError if the link is gone."""
        self._take()
        return self._rivals

    def faults(self) -> list[InputFault]:
        """Return a fault for each end with another type than ours, as of the last `poll`.

        One that publishes what people rely on (`Topic.guards`) holds the robot.
        """
        return self._faults

    def publishes(self, name: str | Topic) -> bool:
        """Return whether another participant publishes a topic, with our type."""
        return any(end.writes and self._fits(end) for end in self._of(topic(name)))

    def listens(self, name: str | Topic) -> bool:
        """Return whether another participant listens to a topic, whatever type it expects."""
        return any(not end.writes for end in self._of(topic(name)))

    def ends(self) -> list[End]:
        """Return all ends that discovery knows now. Raises DriverError if the link is gone."""
        for _ in range(LOOKS):
            if not self._take():
                break
        return list(self._ends.values())

    def _take(self) -> int:
        """Take the next samples, participants first, so that their ends have names; return their number."""
        try:
            members = self._members.take(MEMBER_BATCH)
            ends = [] if members else [(one, True) for one in self._writers.take(PEER_BATCH)]
            ends += [] if members else [(one, False) for one in self._readers.take(PEER_BATCH)]
        except DDSException as error:
            raise DriverError(f"dds: other writers cannot be listed: {error}") from error
        for member in members:
            if member.sample_info.instance_state != InstanceState.Alive:
                self._known.pop(member.key, None)
            elif member.qos is not None:
                self._known[member.key] = member_of(member)
        for end, writes in ends:
            self._note(end, writes)
        if ends:
            self._judge()
        return len(members) + len(ends)

    def _note(self, sample: Any, writes: bool) -> None:
        row = self._wire.opened.get(sample.topic_name) or self._rows.get(sample.topic_name)
        if sample.sample_info.instance_state != InstanceState.Alive:
            self._ends.pop(sample.key, None)
        elif row is not None and sample.participant_key != self._own:
            handle = sample.sample_info.instance_handle % HANDLES
            kind, member = ros_kind(printable(sample.type_name)), self._known.get(sample.participant_key)
            self._ends[sample.key] = End(row, kind, writes, sample.key, sample.participant_key, handle, member)

    def _judge(self) -> None:
        section = self._wire.section
        ours = [end for end in self._ends.values() if end.writes and end.row.name in OURS]
        self._rivals = tuple(Rival(ros_topic(section, end.row), end.who()) for end in ours)
        wrong = [end for end in self._ends.values() if not (self._fits(end) or end in ours or self._is_unused(end))]
        self._faults = list(dict.fromkeys(self._fault(end) for end in wrong))

    def _fault(self, end: End) -> InputFault:
        row, section = end.row, self._wire.section
        name, ours = ros_topic(section, row), type_of(section, row)
        is_ours = self._wire.writes(row)  # then the base's end matters, and for others only the publishers
        fits = any(other.writes == end.writes and self._fits(other) for other in self._of(row))
        needed = end.writes != is_ours and (end.writes or row.name == "cmd_vel")
        what, remedy = other_type(end.who(), end.kind, ours, row, writes=end.writes)
        reason = of_topic(name, reasons.OTHER_TYPE.say(end=what, ours=ours, remedy=remedy), ":")
        holds = end.writes and row.guards
        return InputFault(row.part or f"topic {name}", reason, holds or (needed and not fits), holds=holds)

    def _of(self, row: Topic) -> list[End]:
        return [end for end in self._ends.values() if end.row.name == row.name]

    def _fits(self, end: End) -> bool:
        return end.kind in (type_of(self._wire.section, end.row), end.row.also)

    def _is_unused(self, end: End) -> bool:
        return end.row.name in self._unused or dds_topic(self._wire.section, end.row) not in self._wire.opened
