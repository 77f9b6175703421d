"""Against a real ROS 2 node (rclpy on Fast DDS), in a process of its own."""

from __future__ import annotations

import itertools
import math
import os
import signal
from functools import partial

import cv2
import numpy as np
import pytest
from cyclonedds.idl._support import Buffer

from onboard.assembly.inbox import GuardedInbox
from onboard.config.config import DEFAULT_ROBOT, CamerasSection, DdsSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.camera_input import DdsColorCamera, DdsDepthCamera
from onboard.drivers.dds.discovery import Peers
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.robot_link import DdsDrive, DdsInputs, DdsOutputs
from onboard.drivers.dds.ros_convert import ros_goal
from onboard.drivers.dds.sole_writer import HEARD_NS, NAMED_NS, PublisherNames, PublisherWatch
from onboard.values.messages import BINS, Inputs, Pose, Scan, Twist
from tests.onboard.drivers.dds.test_ros_types import SAMPLES, fields, label
from tests.rigs.network.loopback import DOMAIN, PATIENCE_S, SECTION
from tests.rigs.network.ros2_peer import ROS_PYTHON, Peer

pytestmark = pytest.mark.skipif(
    ROS_PYTHON is None, reason="no ROS 2 here: `make test` prepares .venv-ros; or set ONBOARD_ROS_PYTHON"
)

MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
STAMP = {"sec": 1_700_000_000, "nanosec": 5}
STAMP_NS = 1_700_000_000_000_000_005
HEADER = {"stamp": STAMP, "frame_id": "map"}
POSE = {"position": {"x": 1.5, "y": -2.0}, "orientation": {"z": math.sin(0.25), "w": math.cos(0.25)}}
ALIGNMENT = 4
EMPTYS_ONLY_MEMBER = "structure_needs_at_least_one_member"
SILENCE_S = 1.0


@pytest.fixture(scope="module")
def peer():
    node = Peer(DOMAIN)
    yield node
    node.close()


@pytest.fixture
def wire():
    ours = Wire(SECTION)
    yield ours
    ours.close()


def for_ros(value):
    """Return nested fields as the peer takes them: bytes in hex, without the byte that only the wire has."""
    if isinstance(value, dict):
        return {name: for_ros(element) for name, element in value.items() if name != EMPTYS_ONLY_MEMBER}
    return {"hex": value.hex()} if isinstance(value, bytes) else value


#   Some packages are not among the wheels, and the peer fills no int8[]; their bytes are checked in test_ros_types
UNKNOWN = ros.TFMessage | ros.SpeedLimit | ros.MarkerArray | ros.OccupancyGrid
KNOWN_TO_RCLPY = [sample for sample in SAMPLES if not isinstance(sample, UNKNOWN)]


class Unwiped(Buffer):
    """A buffer that shows, as 0xAA, which bytes were skipped for alignment."""

    def __init__(self) -> None:
        super().__init__(b"\xaa" * 4096)

    def zero_out(self) -> None:
        self._bytes = bytearray(b"\xaa" * self._size)


def written(sample) -> list[bool]:
    """Return for each byte whether it means something."""
    pairs = zip(ros.to_cdr(sample), sample.serialize(buffer=Unwiped(), use_version_2=False), strict=True)
    return [zeroed == unwiped for zeroed, unwiped in pairs]


@pytest.mark.parametrize("sample", KNOWN_TO_RCLPY, ids=label)
def test_bytes_equal_rclpys(peer, sample):
    """All but those skipped for alignment, and up to three at the end: Fast CDR leaves there what stood in memory."""
    order = {"op": "serialize", "type": ros.ros_name(type(sample)), "fields": for_ros(fields(sample))}
    theirs, ours = bytes.fromhex(peer.order("cdr", **order)["cdr"]), ros.to_cdr(sample)
    assert 0 <= len(theirs) - len(ours) < ALIGNMENT
    different = [at for at, means in enumerate(written(sample)) if means and ours[at] != theirs[at]]
    assert different == []
    assert ros.from_cdr(type(sample), theirs) == sample


SAY_AGAIN_S = 0.25


def said(inputs: DdsInputs, wanted, say, times_ns=itertools.repeat(1)) -> Inputs:  # noqa: B008 - never ends
    """Return the first tick's inputs for which `wanted` holds, while the node says it again and again.

    It does not help to say it once as soon as a listener is known: the listener may not know the speaker yet.
    """
    seen = inputs.take(0)

    def arrived() -> bool:
        nonlocal seen
        seen = inputs.take(next(times_ns))
        return bool(wanted(seen))

    for _ in range(round(PATIENCE_S / SAY_AGAIN_S)):
        say()
        if wait_until(arrived, SAY_AGAIN_S):
            return seen
    raise AssertionError("never heard")


#    topic             type                                       fields              what the tick sees
HEARD = [
    (
        "/goal_pose",
        "geometry_msgs/msg/PoseStamped",
        {"header": HEADER, "pose": POSE},
        lambda seen: seen.goals,
        lambda seen: (seen.goals[0].frame_id, seen.goals[0].stamp_ns, seen.goals[0].pose.x_m) == ("map", STAMP_NS, 1.5),
    ),
    (
        "/odom",
        "nav_msgs/msg/Odometry",
        {"header": HEADER, "pose": {"pose": POSE}, "twist": {"twist": {"linear": {"x": 0.4}, "angular": {"z": -0.7}}}},
        lambda seen: seen.odometry,
        lambda seen: (seen.odometry[0].twist, round(seen.odometry[0].pose.yaw_rad, 9)) == (Twist(0.4, -0.7), 0.5),
    ),
    (
        "/amcl_pose",
        "geometry_msgs/msg/PoseWithCovarianceStamped",
        {"header": HEADER, "pose": {"pose": POSE, "covariance": [0.25] * 36}},
        lambda seen: seen.fixes,
        lambda seen: (seen.fixes[0].pose.y_m, seen.fixes[0].covariance[2, 2]) == (-2.0, 0.25),
    ),
    ("/e_stop", "std_msgs/msg/Bool", {"data": True}, lambda seen: seen.e_stop is not None, lambda seen: seen.e_stop),
    (
        "/obstacle",
        "std_msgs/msg/Bool",
        {"data": True},
        lambda seen: seen.obstacle is not None,
        lambda seen: seen.obstacle,
    ),
    ("/onboard/cancel", "std_msgs/msg/Empty", {}, lambda seen: seen.cancel, lambda seen: seen.cancel),
    (
        "/cmd_vel_teleop",
        "geometry_msgs/msg/Twist",
        {"linear": {"x": -0.2}, "angular": {"z": 1.0}},
        lambda seen: seen.teleop,
        lambda seen: seen.teleop.twist == Twist(-0.2, 1.0),
    ),
]


@pytest.mark.parametrize("qos", ["default", "sensor"])
@pytest.mark.parametrize(("topic", "kind", "content", "arrived", "right"), HEARD, ids=[row[0] for row in HEARD])
def test_we_hear_ros(peer, wire, topic, kind, content, arrived, right, qos):
    inputs = DdsInputs(wire)
    assert right(said(inputs, arrived, lambda: peer.publish(topic, kind, content, qos=qos)))


def test_a_message_that_cannot_be_read_is_counted_and_the_next_is_heard(peer, wire):
    inputs = DdsInputs(wire)
    kind, goal = "geometry_msgs/msg/PoseStamped", {"header": HEADER, "pose": POSE}
    said(inputs, lambda seen: seen.goals, lambda: peer.publish("/goal_pose", kind, goal))
    bad = ros.to_cdr(ros_goal(STAMP_NS, "map", Pose(1.0, 1.0, 0.0))).replace(b"map\0", b"\xff\xfe\xfd\0")
    peer.order("published", op="publish_raw", topic="/goal_pose", type=kind, cdr=bad.hex())
    assert wait_until(lambda: not inputs.take(1).goals and inputs.dropped()["undecodable"] == 1, PATIENCE_S)
    said(inputs, lambda seen: seen.goals, lambda: peer.publish("/goal_pose", kind, goal))
    assert inputs.dropped()["undecodable"] == 1


def image_fields(array, encoding):
    height, width = array.shape[:2]
    content = {"height": height, "width": width, "encoding": encoding, "step": array.nbytes // height}
    return {**content, "header": HEADER, "data": {"hex": array.tobytes().hex()}}


def test_we_see_ros_images(peer, wire):
    depth_camera = DdsDepthCamera(wire, MOUNTS.depth["front"], CamerasSection())
    color_camera = DdsColorCamera(wire, CamerasSection())
    depth = np.arange(60 * 80, dtype=np.uint16).reshape(60, 80)
    color = np.arange(144 * 256 * 3, dtype=np.uint32).astype(np.uint8).reshape(144, 256, 3)
    topics = [
        ("/front/depth/image", image_fields(depth, "16UC1"), "default", depth_camera),
        ("/color/image", image_fields(color, "rgb8"), "sensor", color_camera),
    ]
    for topic, content, qos, camera in topics:

        def seen(topic=topic, content=content, qos=qos, camera=camera):
            peer.publish(topic, "sensor_msgs/msg/Image", content, qos)
            return wait_until(lambda: camera.latest(0) is not None, SAY_AGAIN_S)

        assert wait_until(seen, PATIENCE_S)
    np.testing.assert_array_equal(depth_camera.latest(0).depth, depth)
    np.testing.assert_array_equal(color_camera.latest(0).image, color)


def test_we_see_compressed_images_of_ros(peer):
    remap = {"front/depth/image": "/c/depth/compressedDepth", "color/image": "/c/color/compressed"}
    wire = Wire(SECTION.model_copy(update={"remap": remap}))
    cameras = DdsDepthCamera(wire, MOUNTS.depth["front"], CamerasSection()), DdsColorCamera(wire, CamerasSection())
    depth = np.arange(60 * 80, dtype=np.uint16).reshape(60, 80)
    color = cv2.imencode(".jpg", np.full((480, 640, 3), (50, 100, 200), np.uint8))[1].tobytes()
    content = {
        "front/depth/image": ("16UC1; compressedDepth png", bytes(12) + cv2.imencode(".png", depth)[1].tobytes())
    }
    content["color/image"] = "bgr8; jpeg compressed bgr8", color
    for (name, (form, data)), camera in zip(content.items(), cameras, strict=True):

        def seen(name=name, form=form, data=data, camera=camera):
            fields = {"header": HEADER, "format": form, "data": {"hex": data.hex()}}
            peer.publish(remap[name], "sensor_msgs/msg/CompressedImage", fields, "sensor")
            return wait_until(lambda: camera.latest(0) is not None, SAY_AGAIN_S)

        assert wait_until(seen, PATIENCE_S), camera.health()
    np.testing.assert_array_equal(cameras[0].latest(0).depth, depth)
    assert np.abs(cameras[1].latest(0).image.astype(int) - (200, 100, 50)).max() <= 2
    wire.close()


def hears(node, topic, qos, say):
    """Return what the node hears of a topic while we say it again and again."""
    for _ in range(round(PATIENCE_S / SAY_AGAIN_S)):
        say()
        message = node.hear(topic, qos, SAY_AGAIN_S)
        if message is not None:
            return message["fields"]
    raise AssertionError(f"{topic} was never heard")


@pytest.mark.parametrize("qos", ["default", "sensor"])
@pytest.mark.parametrize(("stamped", "kind"), [(False, "Twist"), (True, "TwistStamped")])
def test_ros_hears_our_commands_and_the_stop(stamped, kind, qos):
    with_prefix = in_namespace(f"{kind.lower()}_{qos}", stamped)
    node, ours = Peer(DOMAIN), Wire(with_prefix)
    topic = f"/{with_prefix.namespace}/cmd_vel"
    node.subscribe(topic, f"geometry_msgs/msg/{kind}", qos)
    drive = DdsDrive(ours)
    heard = [hears(node, topic, qos, lambda: drive.send(Twist(0.6, -3.0)))]
    drive.close()
    while (message := node.hear(topic, qos, SILENCE_S)) is not None:
        heard.append(message["fields"])
    ours.close()
    node.close()
    speeds = [message["twist"] if stamped else message for message in heard]
    pairs = [(speed["linear"]["x"], speed["angular"]["z"]) for speed in speeds]
    stops = pairs[pairs.index((0.0, 0.0)) :]  # said again until it is acknowledged
    assert set(pairs[: -len(stops)]) == {(0.6, -3.0)}
    assert set(stops) == {(0.0, 0.0)}
    if stamped:
        assert heard[0]["header"]["frame_id"] == "base_link"
        assert heard[0]["header"]["stamp"]["sec"] > 0


def in_namespace(namespace: str, stamped: bool) -> DdsSection:
    return DdsSection(domain=DOMAIN, namespace=namespace, stamped_cmd_vel=stamped)


def scan() -> Scan:
    ranges, seen = np.full(BINS, 2.0, np.float32), np.ones(BINS, bool)
    ranges[1], seen[2] = np.inf, False
    return Scan(0, ranges, seen)


@pytest.mark.parametrize("qos", ["default", "sensor"])
def test_ros_hears_our_outputs(peer, wire, qos):
    topics = {
        "/scan": "sensor_msgs/msg/LaserScan",
        "/diagnostics": "diagnostic_msgs/msg/DiagnosticArray",
        "/onboard/state": "std_msgs/msg/String",
        "/rear/depth/camera_info": "sensor_msgs/msg/CameraInfo",
        "/color/camera_info": "sensor_msgs/msg/CameraInfo",
    }
    for topic, kind in topics.items():
        peer.subscribe(topic, kind, qos)
    outputs = DdsOutputs(wire, MOUNTS, "robot", range_max_m=10.0)

    def say():
        outputs.scan(scan(), STAMP_NS)
        outputs.diagnostics([("scan", 2, "stale", {"age_ms": 500})], STAMP_NS)
        outputs.state("navigating")
        outputs.cameras(STAMP_NS)

    heard = {topic: hears(peer, topic, qos, say) for topic in topics}
    assert heard["/scan"]["header"] == {"stamp": STAMP, "frame_id": "base_link"}
    assert heard["/scan"]["ranges"][:2] == [2.0, math.inf]
    assert math.isnan(heard["/scan"]["ranges"][2])
    status = heard["/diagnostics"]["status"][0]
    assert (status["name"], status["level"], status["values"]) == ("scan", 2, [{"key": "age_ms", "value": "500"}])
    assert heard["/onboard/state"] == {"data": "navigating"}
    assert heard["/rear/depth/camera_info"]["k"][0] == MOUNTS.depth["rear"].fx
    assert heard["/color/camera_info"]["width"] == 256


def test_a_node_that_goes_and_comes_back_is_heard_again(wire):
    inputs, times_ns = DdsInputs(wire), itertools.count(1, HEARD_NS)  # a killed node counts for HEARD_NS
    for end in (Peer.close, lambda node: (node.process.kill(), node.close())):
        for speed in (0.1, 0.2):
            node = Peer(DOMAIN)
            content = {"twist": {"twist": {"linear": {"x": speed}}}}
            odometry = partial(node.publish, "/odom", "nav_msgs/msg/Odometry", content)
            assert said(inputs, lambda seen: seen.odometry, odometry, times_ns).odometry[-1].twist.v_mps == speed
            end(node)


def test_two_nodes_on_one_input_are_named_and_a_killed_one_counts_for_two_seconds(wire):
    """A node that is killed keeps its lease for 20 s."""
    inputs, nodes = DdsInputs(wire), [Peer(DOMAIN), Peer(DOMAIN)]
    watch = PublisherWatch(inputs.sole_readers(), PublisherNames(wire, Peers(wire)))
    content = {"header": {"stamp": STAMP, "frame_id": "odom"}, "child_frame_id": "base_link"}
    steps = [partial(node.publish, "/odom", "nav_msgs/msg/Odometry", content) for node in nodes]
    said(inputs, lambda seen: seen.odometry, steps[0])
    steps[1]()
    assert wait_until(lambda: (inputs.take(2), watch.poll(2))[1], PATIENCE_S)
    names = sorted(f"peer (pid {node.process.pid})" for node in nodes)

    def reason() -> str:
        watch.poll((1 + named.__next__()) * NAMED_NS)  # anew in each period
        return watch.faults()[0].reason

    named = itertools.count()
    assert wait_until(lambda: reason().startswith(f"second publisher on /odom: {' and '.join(names)}: "), PATIENCE_S)
    nodes[1].process.kill()
    steps[0]()
    assert not wait_until(lambda: bool(inputs.take(HEARD_NS).odometry), 0.5)
    steps[0]()
    assert wait_until(lambda: bool(inputs.take(3 * HEARD_NS).odometry), PATIENCE_S)
    assert not watch.poll(3 * HEARD_NS)
    for node in nodes:
        node.close()


def test_an_e_stop_node_of_another_type_is_named_and_the_robot_stands_until_it_goes(wire):
    node, ours = Peer(DOMAIN), DdsInputs(wire)
    guard = GuardedInbox(ours, Peers(wire), refuse=False)
    node.tell(op="publish", topic="/e_stop", type="std_msgs/msg/String", fields={}, qos="default")
    assert wait_until(lambda: guard.take(1).now_ns and bool(guard.faults()), PATIENCE_S)
    (fault,) = guard.faults()
    assert (fault.row, fault.holds) == ("topic /e_stop", True)
    assert f"pid {node.process.pid} publishes std_msgs/msg/String, ours is std_msgs/msg/Bool: " in fault.reason
    node.close()
    assert wait_until(lambda: guard.take(1).now_ns and not guard.faults(), PATIENCE_S)


def test_a_frozen_listener_holds_nobody_up(wire):
    """A reliable reader that stops acknowledging: a thousand ticks of commands and scans go out all the same."""
    node = Peer(DOMAIN)
    node.subscribe("/cmd_vel", "geometry_msgs/msg/Twist")
    node.subscribe("/scan", "sensor_msgs/msg/LaserScan")
    drive, outputs = DdsDrive(wire), DdsOutputs(wire, MOUNTS, "robot", range_max_m=10.0)
    assert wire.writer("cmd_vel").wait_for_reader(PATIENCE_S)
    assert wire.writer("scan").wait_for_reader(PATIENCE_S)
    os.kill(node.process.pid, signal.SIGSTOP)
    for i in range(1000):
        drive.send(Twist(0.001 * i, 0.0))
        outputs.scan(scan(), STAMP_NS)
    os.kill(node.process.pid, signal.SIGCONT)
    newest = 0.0
    while newest != pytest.approx(0.999):
        message = node.hear("/cmd_vel")
        assert message is not None, f"the last command never came, only {newest}"
        newest = message["fields"]["linear"]["x"]
    node.close()
