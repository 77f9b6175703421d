"""Somebody else on the domain who drives, too: told, and with `other_drivers = "refuse"` the robot stands."""

from __future__ import annotations

import os

import pytest
from structlog.testing import capture_logs

from onboard.config.config import DdsSection
from onboard.drivers.dds.discovery import LOG_EVERY_NS, GuardedInbox, Peers
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.values.messages import Inputs
from tests.rigs.network.loopback import DOMAIN, PATIENCE_S, SECTION


class Nothing:
    """An inbox that brings nothing."""

    def __init__(self):
        self.closed = 0

    def take(self, now_ns):
        return Inputs(now_ns=now_ns)

    def close(self):
        self.closed += 1


def seen(peers, count):
    """Return who is there once there are so many, or after all patience."""
    wait_until(lambda: len(peers.look()) == count, PATIENCE_S)
    return peers.look()


def test_alone_there_is_nobody_else(wires):
    wires[0].writer("cmd_vel")
    wires[0].writer("state")
    wires[1].writer("odom")
    peers = Peers(wires[0])
    wires[1].reader("odom")
    assert not wait_until(lambda: bool(peers.look()), 0.5)


@pytest.mark.parametrize(("name", "topic"), [("cmd_vel", "/cmd_vel"), ("state", "/onboard/state")])
def test_another_writer_is_seen_with_its_name_and_seen_to_go(wires, name, topic):
    peers, other = Peers(wires[0]), Wire(SECTION)
    other.writer(name)
    (rival,) = seen(peers, 1)
    assert rival.topic == topic
    assert f"pid {os.getpid()}" in rival.who
    other.close()
    assert seen(peers, 0) == ()


def test_one_that_was_there_before_is_seen(wires):
    wires[1].writer("cmd_vel")
    assert len(seen(Peers(wires[0]), 1)) == 1


def test_another_robot_of_the_domain_is_nobody_else(wires):
    neighbour = Wire(DdsSection(domain=DOMAIN, namespace="other"))
    neighbour.writer("cmd_vel")
    neighbour.writer("state")
    peers = Peers(wires[0])
    assert not wait_until(lambda: bool(peers.look()), 0.5)
    neighbour.close()


#   refuse  e-stop while a rival is there
CONSEQUENCES = [(False, None), (True, True)]


@pytest.mark.parametrize(("refuse", "e_stop"), CONSEQUENCES)
def test_a_rival_is_told_and_refused_if_so_configured(wires, refuse, e_stop):
    peers = Peers(wires[0])
    inbox = GuardedInbox(Nothing(), peers, refuse=refuse)
    with capture_logs() as logs:
        assert inbox.take(1).e_stop is None
        assert inbox.diagnostic()[1:3] == (0, "none")
        other = Wire(SECTION)
        other.writer("cmd_vel")
        seen(peers, 1)
        assert inbox.take(2).e_stop is e_stop
        assert inbox.take(3).e_stop is e_stop
        assert [entry["event"] for entry in logs] == ["other_driver"], "not in every tick"
        name, level, message, values = inbox.diagnostic()
        inbox.take(2 + LOG_EVERY_NS)
        other.close()
        seen(peers, 0)
        assert inbox.take(3 + LOG_EVERY_NS).e_stop is None
    assert (name, level, list(values)) == ("other drivers", 2, ["0 /cmd_vel"])
    assert ("stands" in message) is refuse
    assert [entry["event"] for entry in logs] == ["other_driver", "other_driver", "other_driver_gone"]
    assert logs[0]["log_level"] == "error"
    assert logs[0]["topic"] == "/cmd_vel"


def test_closing_closes_what_is_within(wires):
    inner = Nothing()
    GuardedInbox(inner, Peers(wires[0]), refuse=True).close()
    assert inner.closed == 1


#   our type          listeners' types                      faults, and whether the robot cannot drive for them
TYPES = [
    (False, [False], []),
    (False, [], []),
    (False, [True], [("set dds.stamped_cmd_vel = true", True)]),
    (True, [False], [("set dds.stamped_cmd_vel = false", True)]),
    (False, [True, False], [("set dds.stamped_cmd_vel = true", False)]),
]


@pytest.mark.parametrize(("ours", "theirs", "wanted"), TYPES)
def test_a_base_that_expects_another_type_of_command_is_named(ours, theirs, wanted):
    wire = Wire(SECTION.model_copy(update={"stamped_cmd_vel": ours}))
    others = [Wire(SECTION.model_copy(update={"stamped_cmd_vel": stamped})) for stamped in theirs]
    guard = GuardedInbox(Nothing(), Peers(wire), refuse=False)
    for other in others:
        other.reader("cmd_vel")
    wait_until(lambda: (guard.take(1), len(guard.faults()) == len(wanted))[1], PATIENCE_S)
    wait_until(lambda: (guard.take(1), [one.standing for one in guard.faults()] == [it[1] for it in wanted])[1], 2.0)
    found = guard.faults()
    assert [(fault.row, fault.standing) for fault in found] == [("command", standing) for _, standing in wanted]
    for fault, (remedy, _) in zip(found, wanted, strict=True):
        assert fault.reason.startswith("/cmd_vel: ")
        assert f"pid {os.getpid()} expects geometry_msgs/msg/Twist" in fault.reason
        assert remedy in fault.reason
    for other in others:
        other.close()
    assert wait_until(lambda: (guard.take(1), not guard.faults())[1], PATIENCE_S)
    wire.close()
