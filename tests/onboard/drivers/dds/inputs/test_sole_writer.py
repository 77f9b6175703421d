"""Inputs that must have one publisher: when a second one counts, what is withheld, and how both are named."""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from structlog.testing import capture_logs

from onboard.config.config import DEFAULT_ROBOT, CamerasSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.camera_input import DdsColorCamera, DdsDepthCamera
from onboard.drivers.dds.discovery import Peers
from onboard.drivers.dds.participant import ReceivedMessage, Wire, wait_until
from onboard.drivers.dds.robot_link import DdsInputs
from onboard.drivers.dds.ros_convert import header, ros_fix, ros_goal, ros_image, ros_odometry, ros_scan
from onboard.drivers.dds.ros_types import GUID_BYTES, NodeGraph, PoseWithCovarianceStamped
from onboard.drivers.dds.sole_writer import PublisherNames, PublisherWatch, SoleReader, Source, whose
from onboard.drivers.dds.topics import LATCHED, scan_source, topic
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BINS, STOP, GoalRequest, Pose, Scan
from tests.rigs.network.loopback import PATIENCE_S, SECTION, Sender

POSE = Pose(1.0, 2.0, 0.3)
FRONT = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth["front"]


@dataclass
class Script:
    """A wire and its only reader: the messages of the next `take`, and the writers that DDS lists."""

    waiting: list[ReceivedMessage] = field(default_factory=list)
    listed: frozenset[int] = frozenset({1, 2, 3})
    undecodable = 0
    section = SECTION

    def reader(self, _name: object) -> Script:
        return self

    def take(self) -> list[ReceivedMessage]:
        taken, self.waiting = self.waiting, []
        return taken

    def writers(self) -> frozenset[int]:
        return self.listed

    def say(self, writer: int, frame: str = "map") -> None:
        sample = PoseWithCovarianceStamped(header(0, frame))
        self.waiting.append(ReceivedMessage(sample, writer))


def steady(writer: int, hz: float, since_s: float = 0.0, until_s: float = 30.0, frame: str = "map"):
    """Return the messages of a writer as (time, writer, frame)."""
    count = int((until_s - since_s) * hz)
    return [(since_s + (number + 1) / hz, writer, frame) for number in range(count)]


#   what                        messages                                    conflict at [s], none at [s]
WHEN = [
    ("one writer", steady(1, 30), (), (1, 10, 29)),
    ("equal rates", steady(1, 30) + steady(2, 30, 5.0), (5.1, 7, 20, 29), (1, 4.9)),
    ("a slow second one", steady(1, 100) + steady(2, 1, 4.5), (6, 6.9, 20, 29), (1, 5)),
    ("a slow first one", steady(1, 1) + steady(2, 100, 4.5), (5, 6.9, 20, 29), (1, 4)),
    ("both slower than the window", steady(1, 0.25) + steady(2, 0.25, 2.5), (20, 25, 28), (1, 5)),
    ("one every 5 s beside a quick one", steady(1, 30) + steady(2, 0.2), (5.2, 10.1, 14.9, 20, 24.9), (4.9, 8)),
    ("killed at 10 s", steady(1, 30) + steady(2, 30, 2.0, 10.0), (5, 10, 11.9), (1, 12.1, 20)),
    ("killed and started anew at once", steady(1, 10, 0.0, 10.0) + steady(2, 10, 10.5), (10.7, 11.9), (9, 12.2, 20)),
    ("two frames of one writer in turn", steady(1, 6) + steady(1, 39, 3.0, frame="odom"), (3.2, 10, 29), (1, 2.9)),
    ("a leading slash is no other frame", steady(1, 10) + steady(1, 10, frame="/map"), (), (1, 10, 29)),
    ("a frame that changes", steady(1, 10, 0, 10) + steady(1, 10, 10.0, frame="odom"), (10.2, 11.9), (9, 12.2, 20)),
    ("both silent from 10 s: two localisations at rest", steady(1, 2, 0, 10) + steady(2, 2, 0, 10), (5, 12.5, 29), ()),
    ("a third, two are killed", steady(1, 9, 0, 5) + steady(2, 9, 0, 5) + steady(3, 9, 6.0), (4, 6.2), (8, 20)),
]  # fmt: skip


@pytest.mark.parametrize(("what", "messages", "conflicts", "free"), WHEN, ids=[row[0] for row in WHEN])
def test_a_writer_counts_while_it_was_heard(what, messages, conflicts, free) -> None:
    """In ticks of 20 ms; while several count, no message is taken."""
    wire = Script()
    reader, found, queue = SoleReader(wire, "amcl_pose"), {}, sorted(messages)
    for tick in range(30 * 50):
        while queue and queue[0][0] <= tick / 50 + 1e-9:
            _, writer, frame = queue.pop(0)
            wire.say(writer, frame)
        came = bool(wire.waiting)
        taken = reader.take(tick * NS_PER_S // 50)
        found[tick] = bool(reader.rivals)
        assert bool(taken) == (came and not reader.rivals)
    assert {at_s: found[round(at_s * 50)] for at_s in conflicts} == dict.fromkeys(conflicts, True)
    assert {at_s: found[round(at_s * 50)] for at_s in free} == dict.fromkeys(free, False)


def test_a_writer_that_has_left_dds_does_not_count() -> None:
    wire = Script()
    reader = SoleReader(wire, "amcl_pose")
    wire.say(1)
    wire.say(2)
    assert reader.take(0) == []
    wire.listed = frozenset({2})
    wire.say(2)
    assert len(reader.take(1)) == 1


#   topic        said while there are two: (time, writer)     when one is gone, who stays, what is delivered then
SURVIVORS = [
    ("amcl_pose", [(1, 1), (1, 2)], 60, 2, [(2, 59)]),
    ("amcl_pose", [(1, 1), (1, 2)], 60, 1, [(1, 59)]),
    ("amcl_pose", [(1, 1), (1, 2), (3, 2), (4, 1)], 9, 2, [(2, 6)]),
    ("amcl_pose", [(1, 2), (2, 1), (9, 2)], 9, 2, [(2, 0)]),
    ("amcl_pose", [(1, 1), (2, 2)], 9, 1, []),
    ("odom", [(1, 1), (1, 2)], 3, 2, []),
    (scan_source("laser"), [(1, 1), (1, 2)], 3, 2, []),
    ("front/depth/image", [(1, 1), (1, 2)], 3, 2, []),
    ("color/image", [(1, 1), (1, 2)], 3, 2, []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "said", "gone_s", "stays", "wanted"), SURVIVORS)
def test_of_two_localisations_at_rest_the_survivors_last_fix_is_delivered(name, said, gone_s, stays, wanted) -> None:
    """Nothing of a stream: an old scan would pass for a new one. Nothing that was delivered before."""
    wire = Script()
    reader = SoleReader(wire, name)
    for second in range(gone_s + 1):
        for at_s, writer in said:
            if at_s == second:
                wire.say(writer)
        wire.listed = frozenset({1, 2} if second < gone_s else {stays})
        taken = reader.take(second * NS_PER_S)
    assert [(one.writer, one.held_ns // NS_PER_S) for one in taken if one.held_ns] == [one for one in wanted if one[1]]
    assert len(taken) == len(wanted)
    assert reader.take((gone_s + 1) * NS_PER_S) == []


def test_sources_are_forgotten() -> None:
    """A writer with a new frame in each message must not fill the memory."""
    wire = Script()
    reader = SoleReader(wire, "amcl_pose")
    for second in range(100):
        wire.say(1, f"frame{second}")
        reader.take(second * NS_PER_S)
    assert len(reader._heard) <= 11


#   rivals                                                  what the operator reads
TEXTS = [
    ([Source(1, ("odom",)), Source(2, ("odom",))], "a (pid 1) and b: stop one of them, or remap it"),
    ([Source(1, ("o",)), Source(2, ("map",))], "a (pid 1) and b, frame_id o and map: stop one of them, or remap it"),
    ([Source(1, ("x",)), Source(1, ("y",))], "frame_id x and y from a (pid 1): give each its own topic"),
    ([Source(1, ("",)), Source(1, ("\x1b[2J",))], "frame_id '' and ?[2J from a (pid 1): give each its own topic"),
    ([Source(n, ("o", "b")) for n in (1, 2, 3)], "a (pid 1), b and c: stop one of them, or remap it"),
    ([Source(3, ("o", "b")), Source(3, ("o", ""))], "frame_id o to b and o to  from c: give each its own topic"),
]  # fmt: skip


@pytest.mark.parametrize(("rivals", "text"), TEXTS)
def test_the_reason_names_all_publishers_and_frames(rivals, text) -> None:
    assert whose(rivals, {1: "a (pid 1)", 2: "b", 3: "c"}) == text


def odometry(frame: str = "odom"):
    return ros_odometry(1, frame, "base_link", POSE, STOP)


def laser():
    return ros_scan(1, "base_link", Scan(0, np.full(BINS, 2.0, np.float32), np.ones(BINS, np.bool_)), 10.0)


def picture(encoding: str = "16UC1"):
    pixels = np.full((60, 80), 1500, np.uint16) if encoding == "16UC1" else np.zeros((144, 256, 3), np.uint8)
    return ros_image(1, "front", encoding, pixels)


SCAN = scan_source("laser")
INPUTS = {
    "odom": ("odom", odometry(), "/odom", "odometry"),
    "amcl_pose": ("amcl_pose", ros_fix(1, "map", POSE, (0.1, 0.1, 0.1)), "/amcl_pose", "pose"),
    "scan": (SCAN, laser(), "/laser", "scan"),
    "depth": ("front/depth/image", picture(), "/front/depth/image", "camera front"),
    "color": ("color/image", picture("rgb8"), "/color/image", "camera color"),
}


@pytest.fixture
def watched(wires):
    """All inputs over real DDS, their watch, and two senders, each a participant of its own."""
    ours, second = wires[0], Wire(SECTION)
    inputs = DdsInputs(ours, {"laser": None})
    cameras = [DdsDepthCamera(ours, FRONT, CamerasSection()), DdsColorCamera(ours, CamerasSection())]
    watch = PublisherWatch(
        [*inputs.sole_readers(), *(one.reader for one in cameras)], PublisherNames(ours, Peers(ours))
    )

    def take(now_s: float):
        taken = inputs.take(round(now_s * NS_PER_S))
        seen = [camera.latest(round(now_s * NS_PER_S)) for camera in cameras]
        arrived = bool(taken.odometry or taken.fixes or taken.scans or any(one is not None for one in seen))
        return arrived, watch.poll(round(now_s * NS_PER_S))

    yield take, watch, Sender(*wires), Sender(ours, second), second
    second.close()


@pytest.mark.parametrize("row", INPUTS.values(), ids=INPUTS)
def test_each_input_over_dds_is_withheld_and_free_again_when_one_has_gone(watched, row) -> None:
    take, watch, first, second, wire = watched
    name, message, topic, part = row
    with capture_logs() as logs:
        first.send(name, message)
        assert take(1.0) == (True, False)
        second.send(name, message)
        assert take(1.5)[1]
        assert take(9.0) == (False, True) or topic == "/laser", "both are silent: both are there"
        (fault,) = watch.faults()
        assert (fault.row, fault.standing) == (part, True)
        assert fault.reason.startswith(f"second publisher on {topic}: ")
        assert fault.reason.count(f"pid {os.getpid()}, participant ") == 2
        assert len(set(re.findall("participant [0-9a-f]+", fault.reason))) == 2
        wire.close()
        assert wait_until(lambda: not take(9.5)[1], PATIENCE_S)
        assert watch.faults() == []
    assert [entry["event"] for entry in logs] == ["second_publisher", "second_publisher_gone"]
    assert "second publisher" in logs[0]["reason"]
    assert "second publisher" in logs[1]["note"]


def test_over_dds_the_survivors_fix_is_delivered_with_its_arrival(wires) -> None:
    """Two latched localisations at rest: the first is ended, and the second says nothing more."""
    second, inputs, fixes = Wire(SECTION), DdsInputs(wires[0]), []
    latched, rivals = replace(topic("amcl_pose"), quality=LATCHED), inputs.sole_readers()[1]

    def take(now_s: int) -> bool:
        return bool(fixes.extend(inputs.take(now_s * NS_PER_S).fixes) or fixes)

    for wire, x_m, known in ((wires[1], 1.0, lambda: take(1)), (second, 2.0, lambda: take(2) and rivals.rivals)):
        wire.writer(latched).write(ros_fix(1, "map", Pose(x_m, 0.0, 0.0), (0.1, 0.1, 0.1)))
        assert wait_until(known, PATIENCE_S)
    wires[1].close()
    assert wait_until(lambda: take(90) and len(fixes) > 1, PATIENCE_S)
    assert [(fix.pose.x_m, fix.arrival_ns) for fix in fixes] == [(1.0, NS_PER_S), (2.0, 2 * NS_PER_S)]
    second.close()


def test_inputs_with_the_same_publishers_share_a_reason_and_a_goal_is_refused_with_it(watched) -> None:
    take, watch, first, second, _ = watched
    for name in ("odom", SCAN):
        for sender in (first, second):
            sender.send(name, INPUTS["odom" if name == "odom" else "scan"][1])
    assert take(1.0)[1]
    assert [fault.row for fault in watch.faults()] == ["odometry", "scan"]
    assert len({fault.reason for fault in watch.faults()}) == 1
    assert watch.faults()[0].reason.startswith("second publisher on /odom and /laser: ")
    with capture_logs() as logs:
        watch.refuse((GoalRequest(1, NS_PER_S, "odom", POSE),), NS_PER_S)
    assert [entry["event"] for entry in logs] == ["goal_refused"]
    assert all(fault.reason.startswith("goal refused: second publisher") for fault in watch.faults())
    watch.refuse((), 5 * NS_PER_S)
    assert all(fault.reason.startswith("second publisher") for fault in watch.faults())


def test_several_goals_and_stops_are_no_conflict(watched) -> None:
    take, _, first, second, _ = watched
    for sender in (first, second):
        sender.send("goal_pose", ros_goal(1, "odom", POSE))
    assert not take(1.0)[1]


def node_graph(gid_bytes: int, order: str = "<") -> bytes:
    """Return a message of `ros_discovery_info`: a node with a reader and two writers, another without endpoints."""
    data = bytearray(b"\0\1\0\0" if order == "<" else b"\0\0\0\0") + gid(9, gid_bytes)

    def put(value: bytes | int) -> None:
        if isinstance(value, int):
            data.extend(b"\0" * (-(len(data) - 4) % 4) + struct.pack(f"{order}I", value))
        else:
            data.extend(value)

    put(2)
    for namespace, name, readers, writers in (("/robot", "base", [1], [2, 3]), ("/", "idle", [], [])):
        for text in (namespace, name):
            put(len(text) + 1)
            put(text.encode() + b"\0")
        for gids in (readers, writers):
            put(len(gids))
            for number in gids:
                put(gid(number, gid_bytes))
    return bytes(data)


def gid(number: int, gid_bytes: int) -> bytes:
    return bytes([number] * GUID_BYTES) + b"\0" * (gid_bytes - GUID_BYTES)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("gid_bytes", [16, 24])
def test_nodes_of_both_layouts_are_read(gid_bytes, order) -> None:
    """24 bytes up to ROS 2 Humble, 16 since Iron."""
    graph = NodeGraph.deserialize(node_graph(gid_bytes, order))
    assert graph.process == gid(9, 16)
    assert graph.nodes == {gid(2, 16): "robot/base", gid(3, 16): "robot/base"}


@pytest.mark.parametrize("size", range(0, 100, 7))
def test_a_torn_message_of_the_graph_names_nobody(size) -> None:
    assert NodeGraph.deserialize(b"\0\1\0\0" + node_graph(16)[4 : 4 + size]).nodes == {}
