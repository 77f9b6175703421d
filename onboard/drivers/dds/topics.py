"""Which topics there are: name, name on the wire, type and QoS, one row each. No vendor library here.

A robot namespace goes in front of every name that does not begin with "/". Those that do are the same for all robots
of a domain, by ROS custom, unless remapped: /tf, /tf_static and /diagnostics.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cyclonedds.core import Policy, Qos

from onboard.values.errors import ConfigError

if TYPE_CHECKING:
    from onboard.config.config import DdsSection

# ---- The QoS of a topic's two ends as Cyclone DDS is told it; `dds_topics.Quality` says what it means

NS_PER_S = 1_000_000_000


def writer_qos(quality: Quality) -> Qos:
    """Return what a writer offers: always reliable, and it never waits for a slow reader."""
    return Qos(Policy.Reliability.Reliable(0), *_shared_qos(quality))


def reader_qos(quality: Quality) -> list[Qos]:
    """Return what each reader of a topic asks for, the one that asks for most first."""
    kinds = []
    if quality.read_latched:
        kinds.append((Policy.Reliability.Reliable(0), replace(quality, latched=True)))
    if quality.read_reliable:
        kinds.append((Policy.Reliability.Reliable(0), quality))
    if quality.read_best_effort:
        kinds.append((Policy.Reliability.BestEffort, quality))
    return [Qos(kind, *_shared_qos(asked)) for kind, asked in kinds]


def _shared_qos(quality: Quality) -> list[Any]:
    """Return the policies that a writer offers and a reader asks for alike."""
    durability = Policy.Durability.TransientLocal if quality.latched else Policy.Durability.Volatile
    policies = [durability, Policy.History.KeepLast(quality.depth)]
    if quality.deadline_s is not None:
        policies.append(Policy.Deadline(round(quality.deadline_s * NS_PER_S)))
    if quality.lease_s is not None:
        policies.append(Policy.Liveliness.ManualByTopic(round(quality.lease_s * NS_PER_S)))
    return policies


MAX_DOMAIN, MAX_DIGITS = 232, 9
ROS_NAME = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True, slots=True)
class Quality:
    """QoS of a topic's two ends.

    Writers always offer reliable delivery, which a reader of either kind accepts; what differs is who asks for it.

    read_reliable:    a reader that asks for resending (not heard then: a best-effort writer)
    read_best_effort: a reader that takes what arrives, from a writer of either kind
    latched:          the writer keeps its last messages for late readers (transient local), and readers ask for them
    read_latched:     one more reader, which asks for what a latched writer said before we came
    depth:            messages kept at each end
    deadline_s:       longest time between two messages: what a writer promises, what a reader insists on; None is any
    lease_s:          a writer that wrote nothing for so long is not alive, whatever else its process does (liveliness
                      "manual by topic"); a reader with one insists on such a writer; None leaves it to DDS

    A reader that insists gets no message from a writer that promises less or nothing (a plain ROS publisher).
    """

    depth: int
    read_reliable: bool = False
    read_best_effort: bool = False
    latched: bool = False
    read_latched: bool = False
    deadline_s: float | None = None
    lease_s: float | None = None


SENSOR = Quality(depth=100, read_best_effort=True)
"""A stream of which every message is soon outdated: lost is lost. Deep enough for a second of a 100 Hz stream."""

NEWEST = Quality(depth=1, read_best_effort=True)
"""The same where only the newest is of use."""

COMMAND = Quality(depth=1, read_reliable=True)
"""What must arrive, and only the newest counts."""

COMMAND_DEADLINE_TICKS = 3
"""The runtime sends one command a tick; a base that waits so many ticks for the next knows that something is wrong."""

COMMAND_LEASE_TICKS = 6
"""After so many ticks without a command its sender counts as not alive."""

EVENT = Quality(depth=16, read_reliable=True, read_best_effort=True)
"""What must arrive and comes from anybody: a reliable writer's messages are sent again when lost, and a bumper on a
best-effort link is heard too. That takes two readers, since one that asks for reliable does not match the latter: such
a writer's ROS node warns that one of the two does not fit. What was said before we came is not heard."""

WORD = replace(EVENT, depth=256)
"""The same where the newest word of each sender counts, and all senders share one queue: deep enough for the steady
word of one, at 100 Hz, in two and a half seconds of a busy loop. Full, it has lost a word of nobody knows whom. It
loses the oldest: one that keeps all refuses the newest instead, and holds up a sender on the same machine."""

E_STOP = replace(WORD, read_latched=True)
"""The same, and heard is what a sender said before the runtime started, if it keeps that (transient local). One that
does not must say it again and again: a press before a restart is unknown after it."""

LOG = Quality(depth=10, read_reliable=True)
"""A reliable stream, rclpy's default."""

LATCHED = Quality(depth=1, read_reliable=True, latched=True)
"""A state: who comes late and asks for transient local gets the last one; who asks for volatile gets the next."""


def asked_of(section: DdsSection, quality: Quality) -> Quality:
    """Return what readers of a topic ask for: with `dds.resend`, a stream of which lost is lost is asked for again."""
    if not section.resend or quality.read_reliable:
        return quality
    return replace(quality, read_reliable=True, read_best_effort=False)


@dataclass(frozen=True, slots=True)
class Topic:
    """One row: our name, the name on the wire before namespace and remapping, ROS type, QoS.

    stamped_kind: the type instead when the configuration asks for stamped commands
    """

    name: str
    wire: str
    kind: str
    quality: Quality
    stamped_kind: str | None = None


TOPICS: tuple[Topic, ...] = (
    # what the runtime sends
    Topic("cmd_vel", "cmd_vel", "geometry_msgs/msg/Twist", COMMAND, stamped_kind="geometry_msgs/msg/TwistStamped"),
    Topic("scan", "scan", "sensor_msgs/msg/LaserScan", NEWEST),
    Topic("limits_scan", "limits_scan", "sensor_msgs/msg/LaserScan", NEWEST),
    Topic("state", "onboard/state", "std_msgs/msg/String", LATCHED),
    Topic("diagnostics", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", LOG),
    Topic("used", "onboard/used", "diagnostic_msgs/msg/DiagnosticArray", LOG),
    Topic("tf", "/tf", "tf2_msgs/msg/TFMessage", LOG),
    Topic("tf_static", "/tf_static", "tf2_msgs/msg/TFMessage", LATCHED),
    Topic("<camera>/depth/camera_info", "<camera>/depth/camera_info", "sensor_msgs/msg/CameraInfo", LATCHED),
    Topic("color/camera_info", "color/camera_info", "sensor_msgs/msg/CameraInfo", LATCHED),
    # what it hears
    Topic("odom", "odom", "nav_msgs/msg/Odometry", SENSOR),
    Topic("amcl_pose", "amcl_pose", "geometry_msgs/msg/PoseWithCovarianceStamped", EVENT),
    Topic("goal_pose", "goal_pose", "geometry_msgs/msg/PoseStamped", EVENT),
    Topic("cancel", "onboard/cancel", "std_msgs/msg/Empty", EVENT),
    Topic("obstacle", "obstacle", "std_msgs/msg/Bool", WORD),
    Topic("e_stop", "e_stop", "std_msgs/msg/Bool", E_STOP),
    Topic("speed_limit", "speed_limit", "nav2_msgs/msg/SpeedLimit", WORD),
    Topic("cmd_vel_teleop", "cmd_vel_teleop", "geometry_msgs/msg/Twist", NEWEST),
    Topic("<camera>/depth/image", "<camera>/depth/image", "sensor_msgs/msg/Image", NEWEST),
    Topic("color/image", "color/image", "sensor_msgs/msg/Image", NEWEST),
)

BY_NAME: Mapping[str, Topic] = {row.name: row for row in TOPICS}
CAMERA = "<camera>"


def scan_source(name: str) -> Topic:
    """Return the row of a topic that a scan comes ready-made from, as the configuration names it."""
    return Topic(f"scan from {name}", name, "sensor_msgs/msg/LaserScan", NEWEST)


def check_scan_source(section: DdsSection, table: str, name: str) -> None:
    """Raise ConfigError when a scan cannot come from a topic: a bad name, or one that the runtime itself fills."""
    if not ROS_NAME.fullmatch(name):
        raise ConfigError(f"{table}.topic: {name!r} is not a ROS topic name")
    wanted = ros_topic(section, scan_source(name))
    for ours in ("scan", "limits_scan"):
        if ros_topic(section, ours) == wanted:
            raise ConfigError(f"{table}.topic: {wanted} is what the runtime publishes; move that with dds.remap.{ours}")


def topic(name: str | Topic) -> Topic:
    """Return the row of one of our names; `front/depth/image` is the row `<camera>/depth/image`, filled in.

    A row is returned as it is, so that others can have topics of their own. Raises ConfigError that lists the names
    when there is no such row.
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
    return Topic(name, row.wire.replace(CAMERA, camera), row.kind, row.quality)


def promised_commands(control_hz: float) -> Topic:
    """Return the row of `/cmd_vel` as the runtime writes it: with its deadline and its liveliness (docs/base.md)."""
    deadline_s, lease_s = COMMAND_DEADLINE_TICKS / control_hz, COMMAND_LEASE_TICKS / control_hz
    row = BY_NAME["cmd_vel"]
    return replace(row, quality=replace(row.quality, deadline_s=deadline_s, lease_s=lease_s))


def type_of(section: DdsSection, name: str | Topic) -> str:
    """Return the ROS type of a topic under this configuration. Raises ConfigError."""
    row = topic(name)
    return row.stamped_kind if row.stamped_kind and section.stamped_cmd_vel else row.kind


def ros_topic(section: DdsSection, name: str | Topic) -> str:
    """Return the name that ROS users see (`/robot1/cmd_vel`). Raises ConfigError that names the bad part."""
    row = topic(name)
    target = section.remap.get(row.name, row.wire)
    if not ROS_NAME.fullmatch(target):
        raise ConfigError(f"dds.remap.{row.name}: {target!r} is not a ROS topic name")
    if target.startswith("/"):
        return target
    namespace = section.namespace.strip("/")
    if namespace and not ROS_NAME.fullmatch(namespace):
        raise ConfigError(f"dds.namespace: {section.namespace!r} is not a ROS namespace")
    return f"/{namespace}/{target}" if namespace else f"/{target}"


def dds_topic(section: DdsSection, name: str | Topic) -> str:
    """Return the name on the wire: ROS puts `rt` in front of a topic's. Raises ConfigError."""
    return f"rt{ros_topic(section, name)}"


def check_names(section: DdsSection) -> None:
    """Raise ConfigError when a remapping names no topic of ours or leads to a bad name, or the namespace is bad."""
    for name in {*BY_NAME, *section.remap}:
        if CAMERA not in name:
            ros_topic(section, name)


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
