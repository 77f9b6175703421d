"""Bags of a robot that is not ours, written with rosbags itself: it drives straight towards a wall."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from cyclonedds.idl import IdlStruct
from rosbags.rosbag1 import Writer as Ros1Writer
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Ros2Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import header, ros_odometry, ros_twist
from onboard.values.messages import Pose, Twist

START_NS = 1_700_000_000 * 10**9
SPEED_MPS = 0.4
WALL_M = 6.0
RAYS = 360
Message = tuple[str, int, IdlStruct]


def transform(parent: str, child: str, xyz: tuple[float, ...], xyzw: tuple[float, ...]) -> ros.TransformStamped:
    return ros.TransformStamped(
        header(START_NS, parent), child, ros.Transform(ros.Vector3(*xyz), ros.Quaternion(*xyzw))
    )


LASER_TURN = (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5))
FORWARD_OPTICAL = (-0.5, 0.5, -0.5, 0.5)
"""Rotation of an optical frame that looks along x."""
TREE = ros.TFMessage(
    [
        transform("base", "laser", (0.2, 0.0, 0.3), LASER_TURN),
        transform("base", "camera_link", (0.1, 0.0, 0.4), (0.0, 0.0, 0.0, 1.0)),
        transform("camera_link", "camera_optical", (0.0, 0.0, 0.0), FORWARD_OPTICAL),
    ]
)


def scan(at_ns: int, ahead_m: float) -> ros.LaserScan:
    """Return what a laser that is turned to the left sees of a post straight ahead of the base."""
    ranges = np.full(RAYS, np.inf)
    step = 2.0 * math.pi / RAYS
    ray = round((-math.pi / 2.0 + math.pi) / step)
    ranges[ray] = ahead_m - 0.2
    return ros.LaserScan(
        header(at_ns, "laser"), -math.pi, -math.pi + (RAYS - 1) * step, step, 0.0, 0.1, 0.1, 20.0, ranges.tolist()
    )


def depth_image(at_ns: int, ahead_m: float) -> ros.Image:
    data = np.full((60, 80), round((ahead_m - 0.1) * 1000), np.uint16)
    return ros.Image(header(at_ns, "camera_optical"), 60, 80, "16UC1", 0, 160, data.tobytes())


def color_image(at_ns: int) -> ros.Image:
    return ros.Image(header(at_ns, "color"), 144, 256, "rgb8", 0, 768, bytes(144 * 768))


def drive(seconds: float = 4.0, leave_out: Iterable[str] = ()) -> list[Message]:
    """Return the messages of a drive: odometry at 20 Hz, the rest at 10 Hz, all but the topics that are left out."""
    info = ros.CameraInfo(
        header(START_NS, "camera_optical"), 60, 80, k=[40.0, 0.0, 39.5, 0.0, 40.0, 29.5, 0.0, 0.0, 1.0]
    )
    found: list[Message] = [("/tf_static", START_NS, TREE), ("/camera/depth/camera_info", START_NS, info)]
    for number in range(round(seconds * 20)):
        at_ns = START_NS + number * 50_000_000
        x_m = SPEED_MPS * number / 20
        odometry = ros_odometry(at_ns, "wheels", "base", Pose(x_m, 0.0, 0.0), Twist(SPEED_MPS, 0.0))
        found.append(("/robot/odom", at_ns, odometry))
        if number % 2 == 0:
            found.append(("/robot/cmd_vel", at_ns, ros_twist(Twist(SPEED_MPS, 0.0))))
            found.append(("/robot/scan", at_ns, scan(at_ns, WALL_M - x_m)))
            found.append(("/camera/depth/image_raw", at_ns, depth_image(at_ns, WALL_M - x_m)))
            found.append(("/camera/color/image_raw", at_ns, color_image(at_ns)))
    return [one for one in found if one[0] not in set(leave_out)]


OLD_TRANSFORMS = "tf/msg/tfMessage"
CAMERA_TOPICS = ("/camera/depth/camera_info", "/camera/depth/image_raw", "/camera/color/image_raw")


def write_ros2(path: Path, messages: Iterable[Message], plugin: StoragePlugin = StoragePlugin.SQLITE3) -> Path:
    """Write a rosbag2 folder and return it."""
    store, connections = get_typestore(Stores.ROS2_HUMBLE), dict[str, Any]()
    with Ros2Writer(path, version=9, storage_plugin=plugin) as writer:
        for topic, at_ns, sample in messages:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, ros.ros_name(type(sample)), typestore=store)
            kind = ros.ros_name(type(sample))
            known = kind in ros.BY_ROS_NAME
            data = ros.to_cdr(sample) if known else bytes(store.serialize_cdr(_theirs(store, kind, sample), kind))
            writer.write(connections[topic], at_ns, data)
    return path


def write_ros2_mcap(path: Path, messages: Iterable[Message]) -> Path:
    return write_ros2(path, messages, StoragePlugin.MCAP)


def write_ros2_file(path: Path, messages: Iterable[Message]) -> Path:
    """Write a rosbag2 and return its .db3 alone."""
    (file,) = write_ros2(path, messages).glob("*.db3")
    return file


def rvl(pixels: np.ndarray) -> bytes:
    """Return an image as `compressed_depth_image_transport` packs it, without its header."""
    values, last, rest = list[int](), 0, [int(one) for one in pixels.ravel()]
    while rest:
        zeros = next((at for at, one in enumerate(rest) if one), len(rest))
        others = next((at for at, one in enumerate(rest[zeros:]) if not one), len(rest) - zeros)
        values += [zeros, others]
        for one in rest[zeros : zeros + others]:
            values.append((one - last) << 1 ^ (one - last) >> 31)
            last = one
        rest = rest[zeros + others :]
    groups = "".join(
        "".join(
            f"{(value >> 3 * at & 7) | (8 if value >> 3 * at + 3 else 0):x}"
            for at in range(12)
            if at == 0 or value >> 3 * at
        )
        for value in values
    )
    groups += "0" * (-len(groups) % 8)
    return b"".join(bytes.fromhex(groups[at : at + 8])[::-1] for at in range(0, len(groups), 8))


def write_ros1(path: Path, messages: Iterable[Message], old_transforms: bool | None = False) -> Path:
    """Write a ROS 1 bag and return it. old_transforms: as tf/tfMessage; None: on /tf both types in turn."""
    store, connections = get_typestore(Stores.ROS1_NOETIC), dict[tuple[str, str], Any]()
    for name in ("tf2_msgs/msg/TFMessage", OLD_TRANSFORMS):
        store.register(get_types_from_msg("geometry_msgs/TransformStamped[] transforms", name))
    path = path.with_suffix(".bag")
    with Ros1Writer(path) as writer:
        for topic, at_ns, sample in messages:
            kind = ros.ros_name(type(sample))
            if isinstance(sample, ros.TFMessage) and old_transforms is not False:
                topic, kind = "/tf", OLD_TRANSFORMS if old_transforms or len(connections) else kind
            if (topic, kind) not in connections:
                connections[topic, kind] = writer.add_connection(topic, kind, typestore=store)
            writer.write(connections[topic, kind], at_ns, store.serialize_ros1(_theirs(store, kind, sample), kind))
    return path


def _theirs(store: Any, kind: str, sample: Any) -> Any:
    """Return one of our messages as one of a type store's."""
    fields = {}
    for name, (_, detail) in store.fielddefs[kind][1]:
        value = 0 if name == "seq" else getattr(sample, name, None)
        value = getattr(sample, name.lower()) if value is None else value
        if isinstance(value, IdlStruct):
            value = _theirs(store, detail, value)
        elif isinstance(value, list) and value and isinstance(value[0], IdlStruct):
            value = [_theirs(store, detail[0][1], one) for one in value]
        elif isinstance(value, bytes):
            value = np.frombuffer(value, np.uint8)
        elif isinstance(value, list):
            value = np.array(value, detail[0][1][0])
        fields[name] = value
    return store.types[kind](**fields)
