"""The robot's end of the wire against the simulator's, in one process."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from onboard.config.config import DEFAULT_ROBOT, DdsSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds import robot_link
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.robot_link import SECOND_NS, Claim, DdsDrive, DdsInputs, DdsOutputs
from onboard.drivers.dds.ros_convert import ros_fix, ros_goal, ros_odometry, ros_twist
from onboard.drivers.dds.ros_types import Bool, Empty
from onboard.drivers.dds.topics import EVENT, LATCHED, topic
from onboard.values.clock import NS_PER_S
from onboard.values.errors import ConfigError, DriverError
from onboard.values.messages import BINS, STOP, Pose, Scan, Twist
from tests.rigs.network.loopback import DOMAIN, PATIENCE_S, SECTION, Sender, hear

MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
STAMP_NS = 1_700_000_000_000_000_000
RECEIVED_NS = 1000


def test_a_tick_takes_everything_once(wires):
    inputs, sender = DdsInputs(wires[0]), Sender(*wires)
    pose, twist = Pose(1.0, 2.0, 0.5), Twist(0.5, -1.0)
    odometry = [ros_odometry(STAMP_NS + i, "odom", "base_link", pose, Twist(0.1 * i, 0.0)) for i in range(3)]
    sender.send("odom", *odometry)
    sender.send("amcl_pose", ros_fix(STAMP_NS, "map", pose, (0.1, 0.1, 0.1)))
    sender.send("goal_pose", ros_goal(STAMP_NS, "odom", pose), ros_goal(STAMP_NS, "map", pose))
    sender.send("cancel", Empty())
    sender.send("obstacle", Bool(True))
    sender.send("e_stop", Bool(False))
    sender.send("cmd_vel_teleop", ros_twist(twist))
    taken = inputs.take(RECEIVED_NS)
    assert [message.stamp_ns - STAMP_NS for message in taken.odometry] == [0, 1, 2]
    assert [message.twist.v_mps for message in taken.odometry] == [0.0, 0.1, 0.2]
    assert {message.arrival_ns for message in taken.odometry} == {RECEIVED_NS}
    assert taken.fixes[0].pose.y_m == 2.0
    assert [goal.frame_id for goal in taken.goals] == ["odom", "map"]
    assert (taken.cancel, taken.obstacle, taken.e_stop) == (True, True, False)
    assert (taken.teleop.arrival_ns, taken.teleop.twist) == (RECEIVED_NS, twist)
    again = inputs.take(RECEIVED_NS + 1)
    assert (again.odometry, again.fixes, again.goals, again.cancel) == ((), (), (), False)
    assert (again.obstacle, again.e_stop, again.teleop) == (True, False, taken.teleop)


def test_a_fix_in_another_frame_is_left_out_and_counted(wires):
    inputs, sender = DdsInputs(wires[0]), Sender(*wires)
    sender.send("amcl_pose", ros_fix(STAMP_NS, "odom", Pose(0.0, 0.0, 0.0), (0.1, 0.1, 0.1)))
    assert inputs.take(RECEIVED_NS).fixes == ()
    assert inputs.dropped() == {
        "undecodable": 0, "amcl_pose not in frame map": 1, "too many goals": 0, "amcl_pose with map.tracker": 0,
    }  # fmt: skip


LATCHED_FIX = replace(topic("amcl_pose"), quality=LATCHED)
VOLATILE_FIX = replace(topic("amcl_pose"), quality=EVENT)


@pytest.mark.parametrize(("row", "stamps"), [(LATCHED_FIX, [1, 2, 3]), (VOLATILE_FIX, [2, 3])])
def test_a_latched_fix_from_before_the_start_is_heard_and_every_fix_once(wires, row, stamps):
    """AMCL sends its pose once while the robot stands. Writers without history are heard from then on."""
    ours, theirs = wires
    writer = theirs.writer(row)
    writer.write(ros_fix(1, "map", Pose(1.0, 2.0, 0.5), (0.1, 0.1, 0.1)))
    inputs, heard = DdsInputs(ours), []
    assert wait_until(lambda: writer.readers() >= 2, PATIENCE_S)  # of several QoS, as far as they match
    Sender(ours, theirs).send("odom", ros_odometry(1, "odom", "base_link", Pose(0.0, 0.0, 0.0), STOP))
    for stamp_ns in (2, 3):
        writer.write(ros_fix(stamp_ns, "map", Pose(1.0, 2.0, 0.5), (0.1, 0.1, 0.1)))
        assert wait_until(lambda wanted=stamp_ns: took(inputs, heard) == wanted, PATIENCE_S)
    assert heard == stamps
    assert took(inputs, heard) == 3
    assert heard == stamps


def test_fixes_without_a_stamp_are_stamped_by_their_sender(wires):
    """With the stamp 0 of all, each but the first would be a repeat: the map's pose would stay where it was."""
    inputs, writer = DdsInputs(wires[0]), wires[1].writer("amcl_pose")
    heard: list[int] = []
    assert wait_until(lambda: writer.readers() >= 2, PATIENCE_S)
    Sender(*wires).send("odom", ros_odometry(1, "odom", "base_link", Pose(0.0, 0.0, 0.0), STOP))
    for count in (1, 2):
        writer.write(ros_fix(0, "map", Pose(1.0, 2.0, 0.5), (0.1, 0.1, 0.1)), STAMP_NS + count)
        assert wait_until(lambda wanted=STAMP_NS + count: took(inputs, heard) == wanted, PATIENCE_S)
    assert heard == [STAMP_NS + 1, STAMP_NS + 2]


def took(inputs: DdsInputs, heard: list[int]) -> int:
    """Take a tick's fixes, add their stamps, and return the newest stamp so far."""
    heard.extend(fix.stamp_ns for fix in inputs.take(RECEIVED_NS).fixes)
    return heard[-1] if heard else 0


@pytest.mark.parametrize("stamped", [False, True])
def test_commands_arrive_and_the_last_is_a_stop(stamped):
    section = DdsSection(domain=DOMAIN, stamped_cmd_vel=stamped)
    ours, base = Wire(section), Wire(section)
    reader = base.reader("cmd_vel")
    drive = DdsDrive(ours)
    assert ours.writer("cmd_vel").wait_for_reader(PATIENCE_S)
    assert wait_until(lambda: bool(reader.writers()), PATIENCE_S)
    received = []
    for act in (lambda: drive.send(Twist(0.6, -2.0)), drive.close, drive.close):
        act()
        received += [message.sample.twist if stamped else message.sample for message in reader.take()]
    ours.close()
    base.close()
    pairs = [(sample.linear.x, sample.angular.z) for sample in received]
    assert pairs[:2] == [(0.6, -2.0), (STOP.v_mps, STOP.w_radps)]
    assert set(pairs[1:]) == {(STOP.v_mps, STOP.w_radps)}, "the stop is said again until it is acknowledged"


def scan():
    ranges = np.full(BINS, 2.0, np.float32)
    ranges[10] = np.inf
    return Scan(0, ranges, np.ones(BINS, bool))


def test_outputs_are_heard(wires):
    ours, theirs = wires
    names = ["scan", "state", "diagnostics", "tf", "tf_static", "front/depth/camera_info", "color/camera_info"]
    readers = {name: theirs.reader(name) for name in names}
    outputs = DdsOutputs(ours, MOUNTS, "robot", range_max_m=10.0)
    for name, reader in readers.items():
        assert ours.writer(name).wait_for_reader(PATIENCE_S)
        assert wait_until(lambda reader=reader: bool(reader.writers()), PATIENCE_S)
    outputs.scan(scan(), STAMP_NS)
    outputs.state("stopped: e_stop")
    outputs.diagnostics([("scan", 0, "fine", {"bins": 180})], STAMP_NS)
    outputs.transforms(Pose(1.0, 0.0, 0.0), Pose(0.0, 2.0, 0.0), STAMP_NS)
    outputs.cameras(STAMP_NS)
    received = {name: hear(reader)[0].sample for name, reader in readers.items()}
    assert received["scan"].ranges[10] == math.inf
    assert received["state"].data == "stopped: e_stop"
    assert received["diagnostics"].status[0].hardware_id == "robot"
    assert [(t.header.frame_id, t.child_frame_id) for t in received["tf"].transforms] == [
        ("odom", "base_link"),
        ("map", "odom"),
    ]
    assert [t.child_frame_id for t in received["tf_static"].transforms] == [
        f"{name}_optical_frame" for name in [*MOUNTS.depth, *MOUNTS.color]
    ]
    assert received["front/depth/camera_info"].k[0] == MOUNTS.depth["front"].fx
    assert received["color/camera_info"].width == 256


def test_the_namespace_reaches_the_robots_own_frames_when_asked():
    section = DdsSection(domain=DOMAIN, namespace="r7", namespace_frames=True)
    wire, watcher = Wire(section), Wire(section)
    readers = {name: watcher.reader(name) for name in ("tf", "tf_static", "scan", "front/depth/camera_info")}
    outputs = DdsOutputs(wire, MOUNTS, "robot", range_max_m=10.0)
    for name, reader in readers.items():
        assert wire.writer(name).wait_for_reader(PATIENCE_S)
        assert wait_until(lambda reader=reader: bool(reader.writers()), PATIENCE_S)
    outputs.transforms(Pose(1.0, 0.0, 0.0), Pose(0.0, 2.0, 0.0), STAMP_NS)
    outputs.cameras(STAMP_NS)
    outputs.scan(scan(), STAMP_NS)
    received = {name: hear(reader)[0].sample for name, reader in readers.items()}
    wire.close()
    watcher.close()
    moving = [(t.header.frame_id, t.child_frame_id) for t in received["tf"].transforms]
    assert moving == [("r7/odom", "r7/base_link"), ("map", "r7/odom")]
    fixed = [(t.header.frame_id, t.child_frame_id) for t in received["tf_static"].transforms]
    assert fixed == [("r7/base_link", f"r7/{name}_optical_frame") for name in [*MOUNTS.depth, *MOUNTS.color]]
    assert received["scan"].header.frame_id == "r7/base_link"
    assert received["front/depth/camera_info"].header.frame_id == "r7/front_optical_frame"


#   configuration, odometry and base frame
FRAMES = [
    ({"namespace": "r7"}, "odom", "base_link"),
    ({"namespace_frames": True}, "odom", "base_link"),
    ({"namespace": "/r7/", "namespace_frames": True}, "r7/odom", "r7/base_link"),
    ({"namespace": "r7", "namespace_frames": True, "base_frame": "r7/base"}, "r7/odom", "r7/base"),
]


def test_without_localisation_the_map_is_left_out(wires):
    reader = wires[1].reader("tf")
    outputs = DdsOutputs(wires[0], MOUNTS, "robot", range_max_m=10.0)
    assert wait_until(lambda: bool(reader.writers() and wires[0].writer("tf").readers()), PATIENCE_S)
    outputs.transforms(Pose(1.0, 0.0, 0.0), None, STAMP_NS)
    assert [t.child_frame_id for t in hear(reader)[0].sample.transforms] == ["base_link"]


def test_transforms_can_be_left_to_others():
    wire = Wire(DdsSection(domain=DOMAIN, publish_tf=False))
    watcher = Wire(SECTION)
    reader, state = watcher.reader("tf"), watcher.reader("state")
    outputs = DdsOutputs(wire, MOUNTS, "robot", range_max_m=10.0)
    outputs.state("idle")
    outputs.transforms(Pose(0.0, 0.0, 0.0), None, STAMP_NS)
    outputs.cameras(STAMP_NS)
    assert hear(state)
    assert not reader.writers()
    wire.close()
    watcher.close()


def test_a_robot_is_driven_by_one_runtime_of_this_machine():
    first, second = Wire(SECTION), Wire(DdsSection(domain=DOMAIN, namespace="elsewhere"))
    claim = Claim(first, "rosie")
    with pytest.raises(DriverError, match=f"robot rosie is already driven on domain {DOMAIN}"):
        Claim(second, "rosie")
    Claim(second, "other").close()
    claim.close()
    claim.close()
    Claim(second, "rosie").close()
    first.close()
    second.close()


def test_a_robot_is_driven_by_one_runtime_of_the_network():
    first, second = Wire(SECTION), Wire(SECTION)
    first.writer("state")
    claim = Claim(second, "rosie")
    with pytest.raises(DriverError, match=r"robot rosie is already driven .* publishes /onboard/state"):
        claim.confirm()
    first.close()
    assert wait_until(lambda: not second.foreign_writer("state", 0.0), PATIENCE_S)
    claim = Claim(second, "rosie")
    claim.confirm()
    claim.close()
    second.close()


def test_a_runtime_that_another_host_starts_during_a_long_preparation_is_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(robot_link, "CLAIM_WAIT_S", 0.0)
    first, second = Wire(SECTION), Wire(SECTION)
    claim = Claim(first, "rosie")
    second.writer("state")
    assert wait_until(lambda: first.foreign_writer("state", 0.0), PATIENCE_S)
    with pytest.raises(DriverError, match="already driven"):
        claim.confirm()
    Claim(first, "rosie").close()
    first.close()
    second.close()


HOLDER = """
import sys
from onboard.config.config import DdsSection
from onboard.drivers.dds.robot_link import Claim
from onboard.drivers.dds.participant import Wire
claim = Claim(Wire(DdsSection(domain={domain})), "rosie")
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def holder() -> subprocess.Popen[str]:
    """Return a process that holds the claim, or has failed to get it, until its input ends."""
    script = HOLDER.format(domain=DOMAIN)
    return subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_killed_runtime_can_be_started_again_at_once():
    first = holder()
    assert first.stdout.readline() == "held\n"
    late = Wire(SECTION)
    with pytest.raises(DriverError, match="already driven"):
        Claim(late, "rosie")
    late.close()
    first.kill()
    first.communicate()
    second = holder()
    assert second.stdout.readline() == "held\n"
    second.communicate("")
    assert second.returncode == 0


def test_a_localisation_beside_the_tracker_is_refused_at_start_and_named_later(wires):
    inputs, sender = DdsInputs(wires[0], tracker=True), Sender(*wires)
    wires[1].writer("amcl_pose")  # silent, as that of `onboard gateway`
    inputs.refuse_second_localisation(0.05)
    fix = ros_fix(STAMP_NS, "map", Pose(1.0, 2.0, 0.5), (0.1, 0.1, 0.1))
    sender.send("amcl_pose", fix)
    with pytest.raises(ConfigError, match=r"/amcl_pose is published, but map.tracker = true: .* or set map.tracker"):
        inputs.refuse_second_localisation(PATIENCE_S)
    assert inputs.take(NS_PER_S).fixes == ()
    (fault,) = inputs.faults()
    assert (fault.row, fault.warning, fault.standing) == ("pose", True, True)
    assert inputs.take(NS_PER_S + SECOND_NS).fixes == ()
    assert inputs.faults() == []
    sender.send("initialpose", fix)
    assert len(inputs.take(20 * NS_PER_S).fixes) == 1


def test_without_a_tracker_a_localisation_is_welcome(wires):
    inputs, sender = DdsInputs(wires[0]), Sender(*wires)
    sender.send("amcl_pose", ros_fix(STAMP_NS, "map", Pose(1.0, 2.0, 0.5), (0.1, 0.1, 0.1)))
    inputs.refuse_second_localisation(PATIENCE_S)
    assert len(inputs.take(1).fixes) == 1
    assert inputs.faults() == []
