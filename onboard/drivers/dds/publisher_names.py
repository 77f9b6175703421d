"""Names of publishers for an operator: the ROS node, its process, its machine. From discovery; sends no message.

Annotations are evaluated here and now, as in `ros_types.py`.
"""

import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import structlog
from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsParticipant, BuiltinTopicDcpsPublication
from cyclonedds.core import DDSException, Policy, Qos
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, uint8
from cyclonedds.internal import InvalidSample
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from onboard.drivers.dds.discovery import BATCH, Member, member_of, printable
from onboard.drivers.dds.participant import HANDLES, Wire

log = structlog.get_logger()

GRAPH_TOPIC = "ros_discovery_info"
"""The topic, without ROS's prefix, on which each ROS 2 process lists its nodes and their endpoints."""
GRAPH_DEPTH = 256
GUID_BYTES = 16
GID_BYTES = (GUID_BYTES, 24)
"""Size of an endpoint's identity in ROS 2 since Iron, and before. It begins with DDS's GUID."""
MOST_PROCESSES = 256


@dataclass
class NodeGraph(IdlStruct, typename="rmw_dds_common.msg.dds_.ParticipantEntitiesInfo_"):
    """The nodes of one ROS 2 process. The type has two layouts, so `deserialize` reads it.

    nodes: name of the node of each writer, by the writer's GUID
    """

    gid: Annotated[Sequence[int], array(uint8, GUID_BYTES)] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = b""
        self.nodes: dict[bytes, str] = {}

    @classmethod
    def deserialize(cls, data: bytes, *_: Any, **__: Any) -> "NodeGraph":
        """Return the graph in a message; an empty graph for other bytes."""
        graph = cls()
        for gid_bytes in GID_BYTES:
            try:
                graph.process, graph.nodes = _nodes(data, gid_bytes)
                break
            except (struct.error, ValueError):  # the other layout, or no such message
                continue
        return graph


def _nodes(data: bytes, gid_bytes: int) -> tuple[bytes, dict[bytes, str]]:
    """Return the process's GUID and its writers' nodes. Raises struct.error or ValueError for another layout."""
    order, at = "<" if data[1] & 1 else ">", 4 + gid_bytes
    nodes: dict[bytes, str] = {}

    def number() -> int:
        nonlocal at
        at += -at % 4
        at += 4
        return int(struct.unpack_from(f"{order}I", data, at - 4)[0])

    def block(size: int) -> bytes:
        nonlocal at
        if at + size > len(data):
            raise ValueError("longer than the message")
        at += size
        return data[at - size : at]

    for _ in range(number()):
        namespace, name = (block(number()).rstrip(b"\0").decode(errors="replace") for _ in range(2))
        block(number() * gid_bytes)  # its readers
        full = printable(f"{namespace.strip('/')}/{name}".strip("/"))
        nodes |= dict.fromkeys((block(gid_bytes)[:GUID_BYTES] for _ in range(number())), full)
    if len(data) - at >= 4:
        raise ValueError("shorter than the message")
    return data[4 : 4 + GUID_BYTES], nodes


class PublisherNames:
    """Names publishers of one wire by the handles of `Received.writer`."""

    def __init__(self, wire: Wire) -> None:
        """Listen to the ROS graph, where DDS security allows it. Raises DriverError if the wire is closed."""
        self._participant = wire.participant()
        self._processes: dict[bytes, Mapping[bytes, str]] = {}
        self._graph: DataReader[Any] | None = None
        reliable, queue = Policy.Reliability.Reliable(0), Policy.History.KeepLast(GRAPH_DEPTH)
        try:
            topic = Topic(self._participant, GRAPH_TOPIC, NodeGraph)
            self._graph = DataReader(self._participant, topic, Qos(reliable, Policy.Durability.TransientLocal, queue))
        except DDSException as error:
            log.debug("ros_graph_not_read", error=str(error))

    def listen(self) -> None:
        """Take what ROS processes said of their nodes, without waiting."""
        if self._graph is None:
            return
        try:
            for graph in self._graph.take(GRAPH_DEPTH):
                if not isinstance(graph, InvalidSample) and graph.nodes:
                    self._processes[graph.process] = graph.nodes
        except DDSException as error:
            log.debug("ros_graph_not_read", error=str(error))
        while len(self._processes) > MOST_PROCESSES:
            del self._processes[next(iter(self._processes))]

    def of(self, writers: Iterable[int]) -> dict[int, str]:
        """Return a name for each writer; no two are the same."""
        try:
            ends = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication).read(BATCH)
            members = BuiltinDataReader(self._participant, BuiltinTopicDcpsParticipant).read(BATCH)
        except DDSException as error:
            log.debug("publishers_not_named", error=str(error))
            ends, members = [], []
        keys = {end.sample_info.instance_handle % HANDLES: end for end in ends}
        known = {member.key: member_of(member) for member in members if member.qos is not None}
        named = {
            writer: self._name(keys[writer].key, known.get(keys[writer].participant_key))
            if writer in keys
            else "a publisher that DDS no longer lists"
            for writer in writers
        }
        names = list(named.values())
        return {
            writer: name if names.count(name) == 1 else f"{name}, writer {_end(keys, writer)}"
            for writer, name in named.items()
        }

    def _name(self, key: uuid.UUID, member: Member | None) -> str:
        node = next((nodes[key.bytes] for nodes in self._processes.values() if key.bytes in nodes), "")
        if member is None:
            return node or f"participant {str(key)[:-9]}"
        if not node:
            return str(member)
        details = [f"pid {member.pid}" if member.pid else "", f"on {member.host}" if member.host else ""]
        return f"{node} ({' '.join(filter(None, details))})" if any(details) else node


def _end(keys: Mapping[int, Any], writer: int) -> str:
    """Return the last digits of a writer's GUID, or of its handle if DDS no longer lists it."""
    return str(keys[writer].key)[-8:] if writer in keys else f"{writer:x}"[-8:]
