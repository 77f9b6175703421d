"""Somebody else on the domain who drives, too: told, and with `other_drivers = "refuse"` the robot stands."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from onboard.assembly.inbox import HEARD_BY_NS, LOG_EVERY_NS, DeviceInbox, GuardedInbox
from onboard.config.config import DEFAULT_ROBOT, CamerasSection, DdsSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.camera_input import DdsColorCamera, DdsDepthCamera
from onboard.drivers.dds.discovery import PEER_BATCH, Peers
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.robot_link import DdsDrive, DdsInputs, DdsOutputs
from onboard.drivers.dds.sole_writer import PublisherNames, PublisherWatch
from onboard.drivers.dds.topics import ros_topic, scan_source, topic
from onboard.service.input_watch import InputWatch, causes
from onboard.service.publisher import with_faults
from onboard.values.messages import STOP, Inputs
from tests.rigs.network.loopback import DOMAIN, PATIENCE_S, SECTION
from tests.rigs.runtime_bench import Bench


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
    wait_until(lambda: len(peers.poll()) == count, PATIENCE_S)
    return peers.poll()


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
    assert not wait_until(lambda: bool(peers.poll()), 0.5)
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
        said = [fault.reason for fault in inbox.faults() if fault.standing]
        inbox.take(2 + LOG_EVERY_NS)
        other.close()
        seen(peers, 0)
        assert inbox.take(3 + LOG_EVERY_NS).e_stop is None
    assert (name, level, list(values)) == ("other drivers", 2, ["0 /cmd_vel"])
    assert ("stands" in message) is refuse
    assert [f"pid {os.getpid()} publishes /cmd_vel: stop it" in reason for reason in said] == [True] * refuse
    assert inbox.faults() == []
    assert [entry["event"] for entry in logs] == ["other_driver", "other_driver", "other_driver_gone"]
    assert logs[0]["log_level"] == "error"
    assert logs[0]["topic"] == "/cmd_vel"


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
    wire.writer("cmd_vel")
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


MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
STRING = "std_msgs/msg/String"


@pytest.fixture
def runtime(wires):
    """The wire of a whole runtime, with all its topics, and another robot's part."""
    DdsInputs(wires[0], {"laser": None})
    DdsDepthCamera(wires[0], MOUNTS.depth["front"], CamerasSection())
    DdsColorCamera(wires[0], CamerasSection())
    DdsDrive(wires[0])
    DdsOutputs(wires[0], MOUNTS, "robot", 10.0)
    return wires


#   topic                       publishes   row of /diagnostics   in the state   the robot stands
OTHER_TYPES = [
    ("e_stop", True, "topic /e_stop", True, True),
    ("obstacle", True, "topic /obstacle", True, True),
    ("speed_limit", True, "topic /speed_limit", True, True),
    (scan_source("laser"), True, "scan", True, True),
    ("front/depth/image", True, "camera front", True, True),
    ("odom", True, "odometry", True, False),
    ("amcl_pose", True, "pose", True, False),
    ("goal_pose", True, "topic /goal_pose", True, False),
    ("cancel", True, "topic /onboard/cancel", True, False),
    ("cmd_vel_teleop", True, "topic /cmd_vel_teleop", True, False),
    ("color/image", True, "camera color", True, False),
    ("scan", True, "topic /scan", False, False),
    ("scan", False, "topic /scan", False, False),
    ("tf", False, "topic /tf", False, False),
    ("front/depth/camera_info", False, "topic /front/depth/camera_info", False, False),
]


@pytest.mark.parametrize(("name", "writes", "part", "standing", "stops"), OTHER_TYPES)
def test_another_type_on_any_of_our_topics_is_named_until_it_goes(runtime, name, writes, part, standing, stops):
    """With the right type there too, the robot still stands for what keeps people safe, and only warns of the rest."""
    ours, right = runtime
    peers, stranger, row = Peers(ours), Wire(SECTION), topic(name)
    guard = GuardedInbox(Nothing(), peers, refuse=False)
    other = replace(row, kind=STRING if row.kind != STRING else "std_msgs/msg/Bool")
    stranger.writer(other) if writes else stranger.reader(other)
    with capture_logs() as logs:
        assert wait_until(lambda: guard.take(1).now_ns and bool(guard.faults()), PATIENCE_S)
        (fault,) = guard.faults()
        assert (fault.row, fault.standing, fault.holds) == (part, standing, stops)
        verb = "publishes" if writes else "expects"
        assert fault.reason.startswith(f"{ros_topic(SECTION, row)}: ")
        assert f"pid {os.getpid()} {verb} {other.kind}, ours is {row.kind}: let it use {row.kind}, or" in fault.reason
        assert not peers.publishes(row)
    right.writer(row) if writes else right.reader(row)
    assert wait_until(lambda: guard.take(1).now_ns and peers.publishes(row) == writes, PATIENCE_S)
    assert [(one.standing, one.holds) for one in guard.faults()] == [(stops, stops)]
    with capture_logs() as later:
        stranger.close()
        assert wait_until(lambda: guard.take(1).now_ns and not guard.faults(), PATIENCE_S)
    assert ([entry["event"] for entry in logs], later) == (["topic_fault"], []), "not in every tick, nor at its end"


class Front:
    """The front depth camera of a bench."""

    name, frame = "front", None

    def latest(self, now_ns):
        return self.frame


@pytest.mark.parametrize("name", [row[0] for row in OTHER_TYPES if row[4]])
def test_the_runtime_holds_and_refuses_goals_beside_another_type_and_drives_on_when_it_has_gone(runtime, name):
    """As beside a second publisher: the drive does not end, and no word says that the e-stop is pressed."""
    ours, _ = runtime
    bench, inner, camera, peers = Bench(scan={"cameras": ["front"]}), Nothing(), Front(), Peers(ours)
    watch = PublisherWatch([], PublisherNames(ours, peers), peers.faults)
    guard = GuardedInbox(inner, peers, refuse=False)
    inputs = InputWatch(bench.config, list, lambda _row: True, dict, lambda: (0, ""))
    devices = DeviceInbox(guard, [camera], None, watch=watch)
    bench.runtime._listeners = (inputs,)

    def through_the_inbox(came):
        camera.frame, inner.take = came.depth["front"], lambda _now_ns: replace(came, depth={})
        return devices.take(came.now_ns)

    def state(tick):
        for row in inputs.rows():
            row()
        return with_faults(tick.state, causes([*watch.faults(), *guard.faults(), *inputs.faults()]))

    bench.alter = through_the_inbox
    assert bench.driving(x_m=20.0).seconds(1.0)[-1].command.v_mps > 0.0
    stranger, row = Wire(SECTION), topic(name)
    stranger.writer(replace(row, kind=STRING))
    assert wait_until(lambda: peers.poll() == () and bool(peers.faults()), PATIENCE_S)
    why = f"{ros_topic(SECTION, row)}: {peers.faults()[0].reason.partition(': ')[2]}"
    assert f"publishes {STRING}, ours is {row.kind}" in why
    held = [bench.seconds(1.0)[-1] for _ in range(4)][-1]
    assert (held.command, held.odometry.twist, state(held)) == (STOP, STOP, f"navigating; {why}")
    bench.ask(1.0, 1.0)
    with capture_logs() as logs:
        assert state(bench.tick()) == f"navigating; goal refused: {why}"
    assert [(entry["event"], entry["reason"]) for entry in logs if "goal" in entry["event"]] == [("goal_refused", why)]
    stranger.close()
    assert wait_until(lambda: peers.poll() == () and not peers.faults(), PATIENCE_S)
    on = bench.seconds(1.0)[-1]
    assert (state(on), on.episode) == ("navigating", held.episode)
    assert on.command.v_mps > 0.0


def test_with_a_serial_base_topics_that_are_not_used_do_not_count(wires):
    DdsInputs(wires[0])
    guard = GuardedInbox(Nothing(), Peers(wires[0], ("odom",)), refuse=False)
    wires[1].writer(replace(topic("odom"), kind=STRING))
    wires[1].reader(replace(topic("cmd_vel"), kind=STRING))
    wires[1].writer(replace(topic("goal_pose"), kind=STRING))
    assert wait_until(lambda: guard.take(1).now_ns and bool(guard.faults()), PATIENCE_S)
    guard.take(1 + 2 * HEARD_BY_NS)
    assert [fault.row for fault in guard.faults()] == ["topic /goal_pose"]


def test_commands_that_nobody_hears_are_a_warning_after_a_while(wires):
    guard = GuardedInbox(Nothing(), Peers(wires[0]), refuse=False, commands="/r7/cmd_vel")
    wires[0].writer("cmd_vel")
    guard.take(5)
    guard.take(4 + HEARD_BY_NS)
    assert guard.faults() == []
    guard.take(5 + HEARD_BY_NS)
    (fault,) = guard.faults()
    assert (fault.row, fault.standing, fault.warning) == ("command", True, True)
    assert fault.reason.startswith("no base listens to /r7/cmd_vel: start the base's driver")
    wires[1].reader("cmd_vel")
    assert wait_until(lambda: guard.take(6 + HEARD_BY_NS).now_ns and not guard.faults(), PATIENCE_S)


def test_a_flood_of_endpoints_does_not_delay_a_tick(runtime):
    for number in range(10 * PEER_BATCH):
        runtime[1].writer(replace(topic("odom"), name=f"odom{number}"))
    peers = Peers(runtime[0])
    assert wait_until(lambda: bool(peers._take()), PATIENCE_S)
    assert all(peers._take() <= 2 * PEER_BATCH for _ in range(5))
    assert len(peers.ends()) == 10 * PEER_BATCH
