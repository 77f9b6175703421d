"""What the doctor says of the wire: real participants on loopback, and tables of what DDS would not connect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from cyclonedds.core import Policy, Qos
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic as DdsTopic
from hypothesis import given
from hypothesis import strategies as st

from onboard.commands.doctor import network
from onboard.commands.doctor.finding import Level
from onboard.config.config import DdsSection
from onboard.drivers.dds.discovery import Endpoint, EndpointQos, Graph, Member, look_around, printable, qos_mismatch
from onboard.drivers.dds.domain import join
from onboard.drivers.dds.participant import Wire, matched, wait_until
from onboard.drivers.dds.ros_types import Twist
from onboard.drivers.dds.topics import TOPICS, imu_source, scan_source
from tests.rigs.network.loopback import SECTION, free_domain

FOREVER = 2**63 - 1
PLAIN = EndpointQos(reliable=True, durability=0, deadline_ns=FOREVER, liveliness=0, lease_ns=FOREVER)
BEST_EFFORT = replace(PLAIN, reliable=False)
DISCOVERY_S = 1.5

#   name                        writer                                      reader                              why not
OFFERS = [
    ("the same", PLAIN, PLAIN, ""),
    ("asks for less", PLAIN, BEST_EFFORT, ""),
    ("asks for resending", BEST_EFFORT, PLAIN, "best effort"),
    ("asks for history", PLAIN, replace(PLAIN, durability=1), "transient local"),
    ("is offered history", replace(PLAIN, durability=1), PLAIN, ""),
    ("asks for a deadline", PLAIN, replace(PLAIN, deadline_ns=10**8), "every 100 ms"),
    ("is promised a shorter one", replace(PLAIN, deadline_ns=5 * 10**7), replace(PLAIN, deadline_ns=10**8), ""),
    ("asks for a sign of life", PLAIN, replace(PLAIN, liveliness=2, lease_ns=10**9), "liveliness"),
    ("asks for one sooner", replace(PLAIN, lease_ns=2 * 10**9), replace(PLAIN, lease_ns=10**9), "liveliness"),
]


def qos_of(offer: EndpointQos) -> Qos:
    """Return an offer as DDS takes it."""
    kinds = (Policy.Liveliness.Automatic, Policy.Liveliness.ManualByParticipant, Policy.Liveliness.ManualByTopic)
    return Qos(
        Policy.Reliability.Reliable(0) if offer.reliable else Policy.Reliability.BestEffort,
        Policy.Durability.TransientLocal if offer.durability else Policy.Durability.Volatile,
        Policy.Deadline(offer.deadline_ns),
        kinds[offer.liveliness](offer.lease_ns),
    )


@pytest.mark.parametrize(("writer", "reader", "why"), [row[1:] for row in OFFERS], ids=[row[0] for row in OFFERS])
def test_dds_itself_refuses_just_those(
    writer: EndpointQos, reader: EndpointQos, why: str, wires: tuple[Wire, Wire]
) -> None:
    """The real thing: Cyclone refuses what `qos_mismatch` names. `wires` holds the domain open."""
    assert why in qos_mismatch(writer, reader)
    participant = join(wires[0].domain)
    topic = DdsTopic(participant, f"rt/offer_{abs(hash((writer, reader)))}", Twist)
    out, _into = DataWriter(participant, topic, qos_of(writer)), DataReader(participant, topic, qos_of(reader))
    assert bool(matched(out)) == (not why)


@pytest.fixture
def section() -> DdsSection:
    """A domain on which nobody else is."""
    return DdsSection(domain=free_domain())


@pytest.fixture
def robot(section: DdsSection) -> Iterator[tuple[Wire, Wire]]:
    """A runtime's ends and a base's, as far as discovery sees them."""
    runtime, base = Wire(section), Wire(section)
    for name in ("cmd_vel", "state"):
        runtime.writer(name)
    for name in ("odom", "e_stop"):
        runtime.reader(name)
    base.writer("odom")
    reader = base.reader("cmd_vel")
    assert wait_until(lambda: bool(reader.writers()), 5.0)
    yield runtime, base
    runtime.close()
    base.close()


@pytest.mark.usefixtures("robot")
def test_a_healthy_wire_is_green(section: DdsSection) -> None:
    graph = look_around(section, DISCOVERY_S)
    assert {(member.pid, member.vendor, member.host) for member in graph.members.values()} == {
        (str(os.getpid()), "Cyclone DDS", "")
    }
    assert len(graph.members) == 2
    findings = [network.peers(section, graph), network.command(section, graph, serial=False)]
    assert [one.level for one in [*findings, *network.fitting(section, graph)]] == [Level.GREEN] * 3
    assert len(network.publishes(section, graph, "odom")) == 1
    rows = {one.topic: one for one in network.table(graph)}
    assert rows["/cmd_vel"].kind == "geometry_msgs/msg/Twist"
    assert (len(rows["/cmd_vel"].publishers), len(rows["/cmd_vel"].listeners)) == (1, 1)
    assert (rows["/e_stop"].publishers, len(rows["/e_stop"].listeners)) == ((), 1)


@pytest.mark.usefixtures("robot")
def test_a_base_of_another_type_is_named(section: DdsSection) -> None:
    other = Wire(section.model_copy(update={"stamped_cmd_vel": True}))
    other.reader("cmd_vel")
    (found,) = network.fitting(section, look_around(section, DISCOVERY_S))
    other.close()
    assert (found.part, found.level) == ("topic /cmd_vel", Level.RED)
    assert "expects geometry_msgs/msg/TwistStamped, ours is geometry_msgs/msg/Twist" in found.found
    assert "dds.stamped_cmd_vel" in found.remedy


def test_the_topics_of_a_lidar_and_an_imu_are_looked_at_too() -> None:
    """Their rows are not in the table of topics."""
    wrong = Endpoint("/imu", "std_msgs/msg/String", "driver", True, EndpointQos(True, 0, 0, 0, 0))
    graph = Graph({"driver": Member("driver", "", "", "driver", "", "")}, (wrong,))
    (found,) = network.fitting(DdsSection(), graph, [scan_source("/scan"), imu_source("/imu")])
    assert (found.part, found.level) == ("topic /imu", Level.RED)
    assert "ours is sensor_msgs/msg/Imu" in found.found


KINDS = {row.wire if row.wire.startswith("/") else f"/{row.wire}": row.kind for row in TOPICS}


def graph_of(*ends: tuple[str, str, bool, EndpointQos]) -> Graph:
    """Return a graph of ends: member, topic, whether it writes, QoS."""
    members = {name: Member(name, "", "", name, "", "") for name, *_ in ends}
    ordered = [Endpoint(topic, KINDS[topic], who, writes, offer) for who, topic, writes, offer in ends]
    return Graph(members, tuple(ordered))


RUNTIME = [("runtime", "/onboard/state", True, PLAIN), ("runtime", "/cmd_vel", True, PLAIN)]
BASE = ("base", "/cmd_vel", False, PLAIN)

#   name                      ends                                                             level        words
WIRES = [
    ("healthy", [*RUNTIME, BASE], Level.GREEN, "received by base"),
    ("no base", RUNTIME, Level.RED, "no base listens"),
    ("nobody drives", [BASE], Level.GREEN, "no runtime"),
    ("a joystick alone", [BASE, ("joy", "/cmd_vel", True, PLAIN)], Level.AMBER, "joy publishes /cmd_vel"),
    ("a joystick too", [*RUNTIME, BASE, ("joy", "/cmd_vel", True, PLAIN)], Level.RED, "joy publishes /cmd_vel too"),
    ("two runtimes", [*RUNTIME, BASE, ("second", "/onboard/state", True, PLAIN)], Level.RED, "2 runtimes"),
]


@pytest.mark.parametrize(("ends", "level", "words"), [row[1:] for row in WIRES], ids=[row[0] for row in WIRES])
def test_who_drives(ends: list, level: Level, words: str) -> None:
    found = network.command(SECTION, graph_of(*ends), serial=False)
    assert found.level is level
    assert words in found.found


def test_a_serial_base_listens_to_no_topic() -> None:
    assert network.command(SECTION, graph_of(*RUNTIME), serial=True).level is Level.GREEN


def test_ends_that_dds_does_not_connect_are_red() -> None:
    strict = ("base", "/cmd_vel", False, replace(PLAIN, deadline_ns=10**8))
    (found,) = network.fitting(SECTION, graph_of(*RUNTIME, strict))
    assert found.level is Level.RED
    assert "runtime -> base are not connected" in found.found


def test_of_two_readers_one_is_enough() -> None:
    """Our own readers of events come in pairs; a best-effort bumper fits just one of them."""
    pair = [("runtime", "/e_stop", False, PLAIN), ("runtime", "/e_stop", False, BEST_EFFORT)]
    bumper = ("bumper", "/e_stop", True, BEST_EFFORT)
    assert network.fitting(SECTION, graph_of(*RUNTIME, *pair, bumper))[0].level is Level.GREEN


def test_what_others_have_between_them_is_theirs() -> None:
    deaf = [("a", "/scan", True, BEST_EFFORT), ("b", "/scan", False, PLAIN)]
    assert [one.level for one in network.fitting(SECTION, graph_of(*RUNTIME, *deaf))] == [Level.GREEN]


def test_an_open_interface_is_amber() -> None:
    found = network.peers(SECTION.model_copy(update={"interface": "eth0"}), graph_of())
    assert found.level is Level.AMBER
    assert "eth0 is open" in found.found


@given(st.text())
def test_names_from_the_network_cannot_steer_a_terminal(text: str) -> None:
    assert printable(text).isprintable()
