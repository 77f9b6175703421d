"""The table of topics: name, name on the wire, type and QoS, one row each.

A robot namespace goes in front of every name that does not begin with "/". The others are the same for all robots of a
domain, by ROS custom, unless remapped: /tf, /tf_static and /diagnostics.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cyclonedds.core import Policy, Qos

from onboard.values.errors import ConfigError
from onboard.values.topic_name import full_name

if TYPE_CHECKING:
    from onboard.config.config import DdsSection

NS_PER_S = 1_000_000_000


def writer_qos(quality: Quality) -> Qos:
    """Return a writer's QoS: always reliable, and it never waits for a slow reader."""
    alive = [] if quality.alive_s is None else [Policy.Liveliness.Automatic(round(quality.alive_s * NS_PER_S))]
    return Qos(Policy.Reliability.Reliable(0), *_shared_qos(quality), *alive)


def reader_qos(quality: Quality) -> list[Qos]:
    """Return the QoS of each reader of a topic, the strictest first."""
    kinds = []
    if quality.read_latched:
        kinds.append((Policy.Reliability.Reliable(0), replace(quality, latched=True)))
    if quality.read_reliable:
        kinds.append((Policy.Reliability.Reliable(0), quality))
    if quality.read_best_effort:
        kinds.append((Policy.Reliability.BestEffort, quality))
    return [Qos(kind, *_shared_qos(shared)) for kind, shared in kinds]


def _shared_qos(quality: Quality) -> list[Any]:
    """Return the policies that writers and readers share."""
    durability = Policy.Durability.TransientLocal if quality.latched else Policy.Durability.Volatile
    policies = [durability, Policy.History.KeepLast(quality.depth)]
    if quality.deadline_s is not None:
        policies.append(Policy.Deadline(round(quality.deadline_s * NS_PER_S)))
    if quality.lease_s is not None:
        policies.append(Policy.Liveliness.ManualByTopic(round(quality.lease_s * NS_PER_S)))
    return policies


MAX_DOMAIN, MAX_DIGITS = 232, 9
ON_WIRE = "rt"
"""What ROS puts in front of a topic's name on the wire."""
ROS_NAME = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True, slots=True)
class Quality:
    """QoS of a topic's writers and readers. Writers always offer reliable delivery, which every reader accepts.

    read_reliable:    a reliable reader; it does not match a best-effort writer
    read_best_effort: a best-effort reader; it matches every writer
    latched:          the writer keeps its last messages for late readers (transient local), and readers request them
    read_latched:     an additional reader that requests a latched writer's earlier messages
    depth:            messages kept at each end
    deadline_s:       longest time between two messages, promised by writers and required by readers; None is any
    lease_s:          a writer without a message for this time is not alive (liveliness "manual by topic"); None leaves
                      liveliness to DDS
    alive_s:          our writers promise that their process is heard so often; a reader does not count a writer that
                      broke such a promise. Without one DDS notices a lost process after 10 s

    A reader with a deadline or a lease does not match a writer that promises less (a plain ROS publisher).
    """

    depth: int
    read_reliable: bool = False
    read_best_effort: bool = False
    latched: bool = False
    read_latched: bool = False
    deadline_s: float | None = None
    lease_s: float | None = None
    alive_s: float | None = None


SENSOR = Quality(depth=100, read_best_effort=True)
"""A stream without resending; the queue holds one second of a 100 Hz stream."""

NEWEST = Quality(depth=1, read_best_effort=True)
"""A stream of which only the newest message counts."""

PARTS = Quality(depth=16, read_best_effort=True)
"""A stream in which a few messages may belong together: the parts of a laser's turn."""

COMMAND = Quality(depth=1, read_reliable=True)
"""Reliable; only the newest message counts."""

COMMAND_DEADLINE_TICKS = 3
"""The deadline of commands; the runtime sends one command a tick."""

COMMAND_LEASE_TICKS = 6
"""The lease of commands: after this many ticks without a command the runtime is not alive."""

EVENT = Quality(depth=16, read_reliable=True, read_best_effort=True)
"""Events from any sender: lost messages of reliable writers are resent, and best-effort writers (a bumper, for example)
match too. This needs two readers; a best-effort writer's ROS node warns that one of them does not match. Earlier
messages are not received."""

FIX = replace(EVENT, read_latched=True)
"""As EVENT, and also receives a latched sender's last message from before the runtime's start: AMCL sends nothing while
the robot stands."""

WORD = replace(EVENT, depth=256)
"""An event where the newest value of each sender counts, and all senders share one queue. The queue holds one sender's
values at 100 Hz for 2.5 s. When it is full, the runtime cannot tell whose value was dropped. It drops the oldest value:
a queue that keeps all values would refuse the newest, and block a sender on the same machine."""

E_STOP = replace(WORD, read_latched=True, alive_s=1.0)
"""As WORD, and also receives a latched sender's value from before the runtime's start (transient local). Other senders
must repeat their value: the runtime does not know of a press before its restart. The stop of a page that was killed can
be released after `alive_s`."""

LOG = Quality(depth=10, read_reliable=True)
"""A reliable stream, rclpy's default."""

LATCHED = Quality(depth=1, read_reliable=True, latched=True)
"""A state: a late transient-local reader gets the last value, a volatile reader the next."""


def reader_quality(section: DdsSection, quality: Quality) -> Quality:
    """Return the readers' quality of a topic: with `dds.resend`, best-effort streams become reliable."""
    if not section.resend or quality.read_reliable:
        return quality
    return replace(quality, read_reliable=True, read_best_effort=False)


@dataclass(frozen=True, slots=True)
class Topic:
    """One row: our name, the name on the wire before namespace and remapping, ROS type, QoS.

    stamped_kind: the type instead when the configuration asks for stamped commands
    part:   the row of `/diagnostics` about it; "" for a row "topic <name>"
    also:   another type that the runtime takes on this topic
    guards: people rely on it: beside a publisher of another type the robot stands, until it goes (`discovery.py`)
    """

    name: str
    wire: str
    kind: str
    quality: Quality
    stamped_kind: str | None = None
    part: str = ""
    guards: bool = False
    also: str | None = None


TOPICS: tuple[Topic, ...] = (
    # what the runtime sends
    Topic("cmd_vel", "cmd_vel", "geometry_msgs/msg/Twist", COMMAND, "geometry_msgs/msg/TwistStamped", part="command"),
    Topic("scan", "scan", "sensor_msgs/msg/LaserScan", NEWEST),
    Topic("limits_scan", "limits_scan", "sensor_msgs/msg/LaserScan", NEWEST),
    Topic("state", "onboard/state", "std_msgs/msg/String", LATCHED),
    Topic("drive", "onboard/drive", "diagnostic_msgs/msg/DiagnosticArray", LATCHED),
    Topic("diagnostics", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", LOG),
    Topic("reasons", "onboard/reasons", "diagnostic_msgs/msg/DiagnosticArray", LATCHED),
    Topic("map", "map", "nav_msgs/msg/OccupancyGrid", LATCHED),
    Topic("path", "onboard/path", "nav_msgs/msg/Path", LOG),
    Topic("plan", "onboard/plan", "nav_msgs/msg/Path", LOG),
    Topic("arc", "onboard/arc", "nav_msgs/msg/Path", NEWEST),
    Topic("footprint", "onboard/footprint", "geometry_msgs/msg/PolygonStamped", NEWEST),
    Topic("markers", "onboard/markers", "visualization_msgs/msg/MarkerArray", NEWEST),
    Topic("used", "onboard/used", "diagnostic_msgs/msg/DiagnosticArray", LOG),
    Topic("tf", "/tf", "tf2_msgs/msg/TFMessage", LOG),
    Topic("tf_static", "/tf_static", "tf2_msgs/msg/TFMessage", LATCHED),
    Topic("<camera>/depth/camera_info", "<camera>/depth/camera_info", "sensor_msgs/msg/CameraInfo", LATCHED),
    Topic("color/camera_info", "color/camera_info", "sensor_msgs/msg/CameraInfo", LATCHED),
    # what it hears
    Topic("odom", "odom", "nav_msgs/msg/Odometry", SENSOR, part="odometry"),
    Topic("amcl_pose", "amcl_pose", "geometry_msgs/msg/PoseWithCovarianceStamped", FIX, part="pose"),
    Topic("initialpose", "initialpose", "geometry_msgs/msg/PoseWithCovarianceStamped", EVENT),
    Topic("goal_pose", "goal_pose", "geometry_msgs/msg/PoseStamped", EVENT),
    Topic("goals", "onboard/goals", "nav_msgs/msg/Path", EVENT),
    Topic("cancel", "onboard/cancel", "std_msgs/msg/Empty", EVENT),
    Topic("pause", "onboard/pause", "std_msgs/msg/Bool", EVENT),
    Topic("obstacle", "obstacle", "std_msgs/msg/Bool", WORD, guards=True),
    Topic("e_stop", "e_stop", "std_msgs/msg/Bool", E_STOP, guards=True),
    Topic("page_stop", "onboard/page_stop", "std_msgs/msg/String", EVENT),
    Topic("speed_limit", "speed_limit", "nav2_msgs/msg/SpeedLimit", WORD, guards=True),
    Topic("cmd_vel_teleop", "cmd_vel_teleop", "geometry_msgs/msg/Twist", NEWEST, also="geometry_msgs/msg/TwistStamped"),
    Topic("battery", "battery_state", "sensor_msgs/msg/BatteryState", NEWEST),
    Topic(
        "<camera>/depth/image",
        "<camera>/depth/image",
        "sensor_msgs/msg/Image",
        NEWEST,
        part="camera <camera>",
        guards=True,
    ),
    Topic("color/image", "color/image", "sensor_msgs/msg/Image", NEWEST, part="camera color"),
)

BY_NAME: Mapping[str, Topic] = {row.name: row for row in TOPICS}
CAMERA = "<camera>"
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_DEPTH = "/compressedDepth"
COMPRESSED_TOPICS = ("/compressed", COMPRESSED_DEPTH)
"""How image_transport ends the topic of a `sensor_msgs/CompressedImage`."""


def imu_source(name: str) -> Topic:
    """Return the row of `odometry.imu`."""
    return Topic(f"imu from {name}", name, "sensor_msgs/msg/Imu", SENSOR, part="odometry")


def scan_source(name: str, cloud: bool = False) -> Topic:
    """Return the row of a configured topic of ready-made scans, or of point clouds."""
    kind = "sensor_msgs/msg/PointCloud2" if cloud else "sensor_msgs/msg/LaserScan"
    return Topic(f"scan from {name}", name, kind, PARTS, part="scan", guards=True)


def also_as(section: DdsSection, name: str) -> Topic:
    """Return the row of a topic with its other type (`Topic.also`)."""
    row = topic(name)
    return replace(row, name=f"{name} as {row.also}", wire=ros_topic(section, name), kind=row.also or row.kind)


def check_imu_source(name: str) -> None:
    """Raise ConfigError for a bad name of the IMU's topic."""
    _check_name("odometry.imu", name)


def check_scan_source(table: str, name: str) -> None:
    """Raise ConfigError for a bad name of a scan's topic."""
    _check_name(f"{table}.topic", name)


def _check_name(key: str, name: str) -> None:
    """Raise ConfigError with what to write for a name that is no ROS topic, or is a topic's name on the wire."""
    parts = [part for part in name.strip().split("/") if part]
    on_wire = parts[:1] == [ON_WIRE] and len(parts) > 1
    if ROS_NAME.fullmatch(name) and not on_wire:
        return
    meant = "/".join(["", *parts[1:]] if on_wire else ["", *parts] if name.strip().startswith("/") else parts)
    hint = f": write {meant!r}" if ROS_NAME.fullmatch(meant) else ""
    what = f"has DDS's prefix {ON_WIRE!r}, which `onboard` adds" if on_wire else "is not a ROS topic name"
    raise ConfigError(f"{key}: {name!r} {what}{hint}")


def check_distinct(section: DdsSection, rows: Iterable[tuple[str, Topic]]) -> None:
    """Raise ConfigError with a line for each of our topics that is another one too; rows: its key, and the topic."""
    keys: dict[str, str] = {}
    lines = []
    for key, row in rows:
        name = ros_topic(section, row)
        if name in keys:
            lines.append(f"{key}: {name} is the topic of {keys[name]} too; give each a topic of its own")
        keys.setdefault(name, key)
    if lines:
        raise ConfigError("\n".join(lines))


def topic(name: str | Topic) -> Topic:
    """Return the row of one of our names; `front/depth/image` is the row `<camera>/depth/image`, filled in.

    A row is returned unchanged, so that other programs can have their own topics. Raises ConfigError that lists the
    names if there is no such row.
    """
    if isinstance(name, Topic):
        return name
    if name in BY_NAME:
        return BY_NAME[name]
    camera, slash, rest = name.partition("/")
    row = BY_NAME.get(f"{CAMERA}{slash}{rest}")
    if row is None:
        raise ConfigError(f"dds: there is no topic {name!r}; the topics are {', '.join(BY_NAME)}")
    if not ROS_NAME.fullmatch(name):
        raise ConfigError(f"mounts: camera {camera!r} cannot be part of a ROS topic; letters, digits and _ can")
    return replace(row, name=name, wire=row.wire.replace(CAMERA, camera), part=row.part.replace(CAMERA, camera))


def promised_commands(control_hz: float) -> Topic:
    """Return the row of `/cmd_vel` with the runtime's deadline and lease (docs/base.md)."""
    deadline_s, lease_s = COMMAND_DEADLINE_TICKS / control_hz, COMMAND_LEASE_TICKS / control_hz
    row = BY_NAME["cmd_vel"]
    return replace(row, quality=replace(row.quality, deadline_s=deadline_s, lease_s=lease_s))


def type_of(section: DdsSection, name: str | Topic) -> str:
    """Return the ROS type of a topic under this configuration. Raises ConfigError."""
    row = topic(name)
    if row.kind == IMAGE and ros_topic(section, row).endswith(COMPRESSED_TOPICS):
        return "sensor_msgs/msg/CompressedImage"
    return row.stamped_kind if row.stamped_kind and section.stamped_cmd_vel else row.kind


def ros_topic(section: DdsSection, name: str | Topic) -> str:
    """Return the name that ROS users see (`/robot1/cmd_vel`). Raises ConfigError that names the bad part."""
    row = topic(name)
    target = section.remap.get(row.name, row.wire)
    _check_name(f"dds.remap.{row.name}", target)
    namespace = section.namespace.strip("/")
    if namespace and not target.startswith("/") and not ROS_NAME.fullmatch(namespace):
        raise ConfigError(f"dds.namespace: {section.namespace!r} is not a ROS namespace")
    return full_name(section.namespace, target)


def raw_topic(section: DdsSection, name: str | Topic) -> str:
    """Return `ros_topic` without the end of a compressed topic: the topic in a recording, whose images are raw."""
    return without_codec(ros_topic(section, name))


def without_codec(image_topic: str) -> str:
    """Return the raw topic of an image topic, which may be a compressed one."""
    ends = (end for end in COMPRESSED_TOPICS if image_topic.endswith(end))
    return image_topic.removesuffix(next(ends, ""))


def has_compressed_depth(section: DdsSection) -> bool:
    """Return whether a camera's depth is compressed."""
    return any(target.endswith(COMPRESSED_DEPTH) for target in section.remap.values())


def dds_topic(section: DdsSection, name: str | Topic) -> str:
    """Return the name on the wire: ROS puts `rt` in front of a topic's. Raises ConfigError."""
    return f"{ON_WIRE}{ros_topic(section, name)}"


def check_names(section: DdsSection) -> None:
    """Raise ConfigError, a line each, for remappings of unknown topics or to bad names, and for a bad namespace."""
    mistakes: dict[str, None] = {}
    for name in (*BY_NAME, *section.remap):
        try:
            if CAMERA not in name:
                ros_topic(section, name)
        except ConfigError as error:
            mistakes[str(error)] = None
    if mistakes:
        raise ConfigError("\n".join(mistakes))


def domain_id(section: DdsSection, environment: Mapping[str, str] = os.environ) -> int:
    """Return the DDS domain: the configuration's, else ROS_DOMAIN_ID, else 0. Raises ConfigError outside 0 to 232."""
    if section.domain is not None:
        return section.domain
    text = environment.get("ROS_DOMAIN_ID", "").strip() or "0"
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS or int(text) > MAX_DOMAIN:
        raise ConfigError(
            f"ROS_DOMAIN_ID: {text[:MAX_DIGITS]!r} is not a domain, a whole number from 0 to {MAX_DOMAIN}"
        )
    return int(text)
