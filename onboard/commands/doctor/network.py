"""The wire: participants, publishers and listeners of commands, endpoints whose type or QoS does not match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from onboard.commands.doctor.finding import Finding, Level, Problem, combined, green, red
from onboard.config.config import DdsSection
from onboard.drivers.dds.discovery import NO_BASE, Endpoint, Graph, other_type, qos_mismatch
from onboard.drivers.dds.topics import CAMERA, TOPICS, Topic, domain_id, ros_topic, type_of

OPEN_NETWORK = "use a separate network for the robot: every machine that reaches this interface can drive it"
LOOPBACK = "lo"


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic of the domain for the table, with its publishers and listeners as text."""

    topic: str
    kind: str
    publishers: tuple[str, ...]
    listeners: tuple[str, ...]


def peers(section: DdsSection, graph: Graph) -> Finding:
    """Return the participants of the domain, and whether the interface is open to other machines."""
    domain = domain_id(section)
    where = f"domain {domain} on {section.interface}"
    members = sorted(map(str, graph.members.values()))
    summary = f"{where}: {', '.join(members) if members else 'nobody else'}"
    exposed = section.interface != LOOPBACK
    problems = [Problem(Level.AMBER, f"{section.interface} is open to its network", OPEN_NETWORK)] if exposed else []
    return combined(
        "dds", summary, problems, domain=domain, members=[asdict(member) for member in graph.members.values()]
    )


def command(section: DdsSection, graph: Graph, *, serial: bool) -> Finding:
    """Return whether only the runtime publishes commands, and a base listens. serial: the base is on a serial port."""
    name, state = ros_topic(section, "cmd_vel"), ros_topic(section, "state")
    drivers, listeners = _members(graph, name, writes=True), _members(graph, name, writes=False)
    runtimes = _members(graph, state, writes=True)
    foreign = [key for key in drivers if key not in runtimes]
    problems = []
    if foreign:
        text = f"{_words(graph, foreign)} publishes {name}{' too' if runtimes else ''}"
        level = Level.RED if runtimes else Level.AMBER
        problems.append(
            Problem(level, text, "stop it before the robot drives: a base obeys the command that it receives last")
        )
    if len(runtimes) > 1:
        who = _words(graph, runtimes)
        problems.append(Problem(Level.RED, f"{len(runtimes)} runtimes: {who}", "stop all but one"))
    if not listeners and not serial:
        problems.append(
            Problem(
                Level.RED,
                f"no base listens to {name}",
                NO_BASE,
            )
        )
    sent = f"sent by {_words(graph, runtimes)}" if runtimes else "no runtime is sending commands"
    receivers = "goes to the serial base" if serial else f"received by {_words(graph, listeners)}" if listeners else ""
    summary = f"{name}: {', '.join(filter(None, [sent, receivers]))}"
    return combined("command", summary, problems, publishers=drivers, listeners=listeners, runtimes=runtimes)


def fitting(section: DdsSection, graph: Graph, of_robot: Sequence[Topic] = ()) -> list[Finding]:
    """Return a finding for each of our topics with a wrong type, or with an endpoint that DDS does not connect.

    of_robot: the topics of this robot's cameras and ready-made scans
    """
    runtimes = _members(graph, ros_topic(section, "state"), writes=True)
    found = []
    for row in (*TOPICS, *of_robot):
        if CAMERA in row.name:
            continue
        name, kind = ros_topic(section, row), type_of(section, row)
        ends = [endpoint for endpoint in graph.endpoints if endpoint.topic == name]
        problems = [_other_type(graph, end, kind, row) for end in ends if end.kind != kind]
        problems += _unconnected(graph, [end for end in ends if end.kind == kind], runtimes)
        if problems:
            found.append(combined(f"topic {name}", "", problems))
    return found or [green("topics", "all publishers and subscribers of our topics are compatible")]


def table(graph: Graph) -> list[TopicRow]:
    """Return every ROS topic of the domain, by name."""
    kinds = sorted({(endpoint.topic, endpoint.kind) for endpoint in graph.endpoints if endpoint.topic.startswith("/")})
    return [TopicRow(*of, _at(graph, *of, writes=True), _at(graph, *of, writes=False)) for of in kinds]


def publishes(section: DdsSection, graph: Graph, name: str | Topic) -> list[str]:
    """Return the publishers of one of our topics as text."""
    return [_word(graph, key) for key in _members(graph, ros_topic(section, name), writes=True)]


def unreachable(error: Exception) -> Finding:
    """Return the finding that the domain cannot be joined."""
    return red("dds", str(error), "check [dds] in the configuration, ROS_DOMAIN_ID, and `ip link`")


def _at(graph: Graph, topic: str, kind: str, *, writes: bool) -> tuple[str, ...]:
    """Return the participants at one side of a topic as text."""
    ends = [
        endpoint
        for endpoint in graph.endpoints
        if (endpoint.topic, endpoint.kind, endpoint.writes) == (topic, kind, writes)
    ]
    return tuple(sorted({_word(graph, end.member) for end in ends}))


def _other_type(graph: Graph, end: Endpoint, kind: str, row: Topic) -> Problem:
    what, remedy = other_type(_word(graph, end.member), end.kind, kind, row, writes=end.writes)
    return Problem(Level.RED, f"{what}, ours is {kind}", remedy)


def _unconnected(graph: Graph, ends: Sequence[Endpoint], runtimes: Sequence[str]) -> list[Problem]:
    """Return why DDS does not connect a runtime's endpoint, for each writer and each participant with readers.

    One matching reader of a participant is enough: our inputs read with several QoS on purpose.
    """
    found = []
    for writer in (end for end in ends if end.writes):
        readers = [end for end in ends if not end.writes and end.member != writer.member]
        for member in dict.fromkeys(reader.member for reader in readers):
            if not {writer.member, member} & set(runtimes):
                continue
            reasons = [qos_mismatch(writer.offer, reader.offer) for reader in readers if reader.member == member]
            if all(reasons):
                text = f"{_word(graph, writer.member)} -> {_word(graph, member)} are not connected: {reasons[0]}"
                found.append(Problem(Level.RED, text, "change the QoS of the publisher or of the subscriber"))
    return found


def _members(graph: Graph, topic: str, *, writes: bool) -> list[str]:
    return list(
        dict.fromkeys(
            endpoint.member for endpoint in graph.endpoints if (endpoint.topic, endpoint.writes) == (topic, writes)
        )
    )


def _words(graph: Graph, keys: Sequence[str]) -> str:
    return ", ".join(_word(graph, key) for key in keys)


def _word(graph: Graph, key: str) -> str:
    return str(graph.members[key]) if key in graph.members else f"participant {key[:8]}"
