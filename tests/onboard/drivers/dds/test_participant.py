"""The link itself: which devices it hears, how its ends find each other, and what happens when things go wrong."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from onboard.config.config import DdsSection
from onboard.drivers.dds import domain as dds_domain
from onboard.drivers.dds.domain import cyclone_xml, receiving_sockets
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_types import Bool, String, Twist
from onboard.values.errors import ConfigError, DriverError
from tests.rigs.network.loopback import DOMAIN, PATIENCE_S, SECTION, hear, participants

SO_BINDTODEVICE_BYTES = 16
LOOPBACK_ADDRESSES = ("0100007F", "0000000000000000FFFF00000100007F")
"""127.0.0.1, and the same of a socket for both families."""


def matched(writer, reader):
    """Return whether two ends found each other, both ways."""
    return wait_until(lambda: bool(writer.readers() and reader.writers()), PATIENCE_S)


@dataclass(frozen=True)
class Bound:
    """A UDP socket of this process: its address in hex as /proc/net/udp prints it, and its device, "" for all."""

    address: str
    device: str


def bound_sockets() -> list[Bound]:
    """Return all inet sockets of this process, UDP and TCP, as the kernel lists them."""
    inodes = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes[target[8:-1]] = int(name)
    found = []
    for table in ("udp", "udp6", "tcp", "tcp6"):
        with open(f"/proc/net/{table}", encoding="ascii") as lines:
            rows = [line.split() for line in list(lines)[1:]]
        for row in rows:
            if row[9] in inodes:
                with socket.socket(fileno=os.dup(inodes[row[9]])) as twin:
                    device = twin.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, SO_BINDTODEVICE_BYTES)
                found.append(Bound(row[1].split(":")[0], device.rstrip(b"\0").decode()))
    return found


def hears_loopback_only(bound: Bound) -> bool:
    return bound.address in LOOPBACK_ADDRESSES or bound.device == "lo"


def test_every_socket_hears_loopback_only(wires):
    wires[0].reader("odom")
    sockets = bound_sockets()
    assert len(sockets) >= 3
    assert [bound for bound in sockets if not hears_loopback_only(bound)] == []


TRAP = """
import gc, sys
sys.path[:0] = {path!r}
from tests.onboard.drivers.dds.test_participant import bound_sockets, hears_loopback_only
from tests.rigs.network.loopback import SECTION
from onboard.drivers.dds import domain as dds_domain
from onboard.drivers.dds.participant import Wire
Wire(SECTION).close()
dds_domain._domains = dict.fromkeys(dds_domain._domains, ("", None)) if {let_go} else dds_domain._domains
gc.collect()
participant = dds_domain.join(SECTION.domain)
sys.exit(0 if all(map(hears_loopback_only, bound_sockets())) else 3)
"""


@pytest.mark.parametrize(("let_go", "code"), [(False, 0), (True, 3)])
def test_only_a_held_domain_stays_confined(let_go, code):
    script = TRAP.format(path=[str(Path(__file__).parents[4])], let_go=let_go)
    environment = {**os.environ, "CYCLONEDDS_URI": cyclone_xml(SECTION)}  # even the trap sends to nobody outside
    run = subprocess.run([sys.executable, "-c", script], env=environment, timeout=60, check=False)
    assert run.returncode == code


def test_unknown_interface_is_named_with_those_there_are():
    with pytest.raises(DriverError, match=r"no 'wlan7'; available: .*lo"):
        Wire(DdsSection(domain=DOMAIN, interface="wlan7"))


def test_other_settings_on_an_open_domain_are_refused(wires):
    with pytest.raises(DriverError, match=f"domain {DOMAIN} is already open"):
        Wire(DdsSection(domain=DOMAIN, peers=["127.0.0.1", "127.0.0.2"]))


def test_a_domain_that_cannot_be_confined_is_not_kept(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    domain = DOMAIN + 100
    monkeypatch.setattr(socket.socket, "setsockopt", refuse)
    for _ in range(2):
        with pytest.raises(DriverError, match="cannot be confined to lo: Operation not permitted"):
            Wire(DdsSection(domain=domain))
    assert domain not in dds_domain._domains


def test_domain_follows_the_environment(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    wire = Wire(DdsSection())
    assert wire.domain == DOMAIN
    assert receiving_sockets(DOMAIN)
    wire.close()


def test_bad_remapping_is_refused_before_joining():
    with pytest.raises(ConfigError, match="nothing"):
        Wire(DdsSection(domain=DOMAIN, remap={"nothing": "x"}))


def test_only_the_newest_command_is_kept(wires):
    reader, writer = wires[0].reader("cmd_vel"), wires[1].writer("cmd_vel")
    assert matched(writer, reader)
    for i in range(5):
        sample = Twist()
        sample.linear.x = float(i)
        writer.write(sample)
    assert writer.wait_for_acks(PATIENCE_S)
    assert [message.sample.linear.x for message in hear(reader)] == [4.0]


def test_an_event_is_heard_once_though_two_readers_listen(wires):
    reader, writer = wires[0].reader("e_stop"), wires[1].writer("e_stop")
    assert matched(writer, reader)
    writer.write(Bool(True))
    writer.write(Bool(False))
    writer.wait_for_acks(PATIENCE_S)
    assert [message.sample.data for message in hear(reader, 2)] == [True, False]
    assert not reader.wait(0.1)
    assert reader.take() == []


def test_the_state_waits_for_late_readers(wires):
    writer = wires[0].writer("state")
    writer.write(String("idle"))
    writer.write(String("navigating"))
    reader = wires[1].reader("state")
    assert [message.sample.data for message in hear(reader)] == ["navigating"]


def test_namespaces_keep_robots_apart(wires):
    other = Wire(DdsSection(domain=DOMAIN, namespace="other"))
    stranger, reader = other.writer("e_stop"), wires[0].reader("e_stop")
    ours = wires[1].writer("e_stop")
    assert matched(ours, reader)
    assert stranger.readers() == 0
    other.close()


def test_a_writer_that_leaves_is_noticed_and_one_that_comes_is_heard(wires):
    reader = wires[0].reader("e_stop")
    for word in (True, False, True):
        peer = Wire(SECTION)
        writer = peer.writer("e_stop")
        assert matched(writer, reader)
        writer.write(Bool(word))
        assert [message.sample.data for message in hear(reader)] == [word]
        peer.close()
        assert wait_until(lambda: not reader.writers(), PATIENCE_S)


def test_the_last_word_of_a_writer_that_left_is_heard_once(wires):
    reader = wires[0].reader("e_stop")
    peer = Wire(SECTION)
    writer = peer.writer("e_stop")
    assert matched(writer, reader)
    writer.write(Bool(True))
    peer.close()
    assert wait_until(lambda: not reader.writers(), PATIENCE_S)
    assert [message.sample.data for message in reader.take()] == [True]


def test_a_closed_wire_says_so(wires):
    ours, _ = wires
    reader, writer = ours.reader("odom"), ours.writer("cmd_vel")
    ours.close()
    ours.close()
    for use in (
        reader.take,
        lambda: reader.wait(0.0),
        lambda: writer.write(Twist()),
        lambda: ours.reader("odom"),
        lambda: ours.writer("cmd_vel"),
    ):
        with pytest.raises(DriverError, match="closed"):
            use()


def test_closing_leaves_the_domain_though_the_garbage_collector_has_the_rest():
    wire = Wire(SECTION)
    cycle: list[object] = [wire.participant()]
    cycle.append(cycle)
    wire.writer("odom")
    wire.close()
    assert participants() == 0
    del cycle
    gc.collect()
    assert participants() == 0


def test_foreign_writer_is_found_and_own_is_not(wires):
    ours, theirs = wires
    ours.writer("state")
    assert not ours.foreign_writer("state", 0.1)
    theirs.writer("state")
    assert ours.foreign_writer("state", PATIENCE_S)
    theirs.close()
    assert wait_until(lambda: not ours.foreign_writer("state", 0.0), PATIENCE_S)
