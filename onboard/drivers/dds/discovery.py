"""Participants and endpoints of a DDS domain, from discovery, and other drivers of this robot. Sends no message."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import structlog
from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import DDSException, InstanceState, Policy, Qos

from onboard.config.config import DdsSection
from onboard.drivers.dds.domain import hold_domain, join
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.topics import dds_topic, domain_id, ros_topic, type_of
from onboard.values.clock import NS_PER_S
from onboard.values.errors import DriverError
from onboard.values.interfaces import Diagnostic, Inbox, InputFault
from onboard.values.messages import Inputs

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
class Offer:
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
    offer: Offer


@dataclass(frozen=True, slots=True)
class Graph:
    """All participants but the asking one, by key, and their endpoints."""

    members: Mapping[str, Member]
    endpoints: tuple[Endpoint, ...]


def qos_mismatch(writer: Offer, reader: Offer) -> str:
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


def other_type(who: str, theirs: str, ours: str, *, writes: bool) -> tuple[str, str]:
    """Return what is wrong with an end of a topic whose type is not ours, and what to do."""
    found = f"{who} {'publishes' if writes else 'expects'} {theirs}, ours is {ours}"
    if "Twist" not in ours:
        return found, f"use {ours}"
    stamped = str("Stamped" in theirs).lower()
    return found, f"set dds.stamped_cmd_vel = {stamped} to fit the base, or have it speak {ours}"


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
        raise DriverError(f"dds: domain {domain} cannot be looked at: {error}") from error
    own = str(participant.guid)
    return Graph(
        {str(one.key): member_of(one) for one in members if str(one.key) != own},
        tuple(
            _endpoint(one, writes)
            for ends, writes in ((writers, True), (others, False))
            for one in ends
            if str(one.participant_key) != own
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
    name, kind = printable(sample.topic_name), printable(sample.type_name)
    ros = ROS_TYPE.fullmatch(kind)
    return Endpoint(
        topic=name[len(ROS_PREFIX) - 1 :] if name.startswith(ROS_PREFIX) else name,
        kind="/".join(ros.groups()) if ros else kind,
        member=str(sample.participant_key),
        writes=writes,
        offer=_offer(cast(Qos, sample.qos)),
    )


def _offer(qos: Qos) -> Offer:
    policies: dict[str, Any] = cast(Any, qos).asdict()
    liveliness = policies["Liveliness"]
    return Offer(
        reliable=policies["Reliability"]["kind"] == "Reliable",
        durability=DURABILITIES.index(policies["Durability"]["kind"]),
        deadline_ns=int(policies["Deadline"]["deadline"]),
        liveliness=LIVELINESS.index(liveliness["kind"]),
        lease_ns=int(liveliness["lease_duration"]),
    )


# ---- Other drivers of this robot: other writers of its command and of its state

log = structlog.get_logger()

OURS = ("cmd_vel", "state")
"""Topics that only one runtime may write: the command, and the state by which runtimes find each other."""

PEER_BATCH = 64
"""Endpoints handled in one tick; the rest waits, so that a flood does not delay the tick."""

LOG_EVERY_NS = 10 * NS_PER_S
OK, ERROR = 0, 2


@dataclass(frozen=True, slots=True)
class Rival:
    """Another writer of one of our topics.

    topic: its ROS name; who: printable description of the writer's process, or its key
    """

    topic: str
    who: str


class Peers:
    """Tracks other writers of our topics. The runtime calls `look` in every tick; it never waits."""

    def __init__(self, wire: Wire) -> None:
        """Start discovery. Raises DriverError if the wire is closed."""
        participant = wire.participant()
        self._own = participant.guid
        self._watched = {dds_topic(wire.section, name): ros_topic(wire.section, name) for name in OURS}
        self._rivals: dict[Any, Rival] = {}
        self._command, self._kind = dds_topic(wire.section, "cmd_vel"), type_of(wire.section, "cmd_vel")
        self._listeners: dict[Any, tuple[str, str]] = {}
        try:
            self._readers = BuiltinDataReader(participant, BuiltinTopicDcpsSubscription)
            self._writers = BuiltinDataReader(participant, BuiltinTopicDcpsPublication)
            self._members = BuiltinDataReader(participant, BuiltinTopicDcpsParticipant)
        except DDSException as error:
            raise DriverError(f"dds: domain {wire.domain} cannot be looked at: {error}") from error

    def look(self) -> tuple[Rival, ...]:
        """Return the other writers of our topics now. Raises DriverError if the link is gone."""
        try:
            for endpoint in self._writers.take(PEER_BATCH):
                self._note(endpoint)
            for endpoint in self._readers.take(PEER_BATCH):
                self._note_listener(endpoint)
        except DDSException as error:
            raise DriverError(f"dds: who else writes cannot be seen: {error}") from error
        return tuple(self._rivals.values())

    def faults(self) -> list[InputFault]:
        """Return the fault of each listener to our command, as of the last `look`, that expects another type."""
        others = dict.fromkeys(one for one in self._listeners.values() if one[1] != self._kind)
        texts = [": ".join(other_type(who, kind, self._kind, writes=False)) for who, kind in others]
        fits = any(kind == self._kind for _, kind in self._listeners.values())
        return [InputFault("command", f"{self._watched[self._command]}: {text}", standing=not fits) for text in texts]

    def _note_listener(self, endpoint: Any) -> None:
        if endpoint.sample_info.instance_state != InstanceState.Alive:
            self._listeners.pop(endpoint.key, None)
        elif endpoint.participant_key != self._own and endpoint.topic_name == self._command:
            self._listeners[endpoint.key] = self._name(endpoint.participant_key), _endpoint(endpoint, False).kind

    def _note(self, endpoint: Any) -> None:
        if endpoint.sample_info.instance_state != InstanceState.Alive:
            self._rivals.pop(endpoint.key, None)
        elif endpoint.participant_key != self._own and endpoint.topic_name in self._watched:
            self._rivals[endpoint.key] = Rival(self._watched[endpoint.topic_name], self._name(endpoint.participant_key))

    def _name(self, key: Any) -> str:
        """Return the description of a participant."""
        for member in self._members.read(PEER_BATCH):
            if member.key == key and member.qos is not None:
                return str(member_of(member))
        return f"participant {key}"


class GuardedInbox:
    """An `interfaces.Inbox` that reports other drivers, and stops the robot beside them if `refuse`."""

    def __init__(self, inner: Inbox, peers: Peers, *, refuse: bool) -> None:
        self._inner, self._peers, self._refuse = inner, peers, refuse
        self._rivals: tuple[Rival, ...] = ()
        self._logged_ns = 0

    def take(self, now_ns: int) -> Inputs:
        """Return what arrived since the last call. Raises DriverError if the link is gone."""
        inputs = self._inner.take(now_ns)
        self._log(self._peers.look(), now_ns)
        return replace(inputs, e_stop=True) if self._rivals and self._refuse else inputs

    def close(self) -> None:
        """Release what it holds. Safe to call twice."""
        self._inner.close()

    def faults(self) -> list[InputFault]:
        """Return the faults of the link to the base."""
        return self._peers.faults()

    def diagnostic(self) -> Diagnostic:
        """Return the row of `/diagnostics` about other drivers."""
        values = {f"{number} {rival.topic}": rival.who for number, rival in enumerate(self._rivals)}
        if not self._rivals:
            return ("other drivers", OK, "none", values)
        consequence = "the robot stands" if self._refuse else "a base obeys whoever spoke last"
        return ("other drivers", ERROR, f"somebody else drives this robot: {consequence}", values)

    def _log(self, rivals: Sequence[Rival], now_ns: int) -> None:
        """Log new and vanished drivers at once, and remaining drivers every LOG_EVERY_NS."""
        again = now_ns - self._logged_ns >= LOG_EVERY_NS
        for rival in rivals:
            if again or rival not in self._rivals:
                log.error("other_driver", topic=rival.topic, who=rival.who, stands=self._refuse)
                self._logged_ns = now_ns
        for rival in self._rivals:
            if rival not in rivals:
                log.info("other_driver_gone", topic=rival.topic, who=rival.who)
        self._rivals = tuple(rivals)
