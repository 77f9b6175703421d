"""The twin's two DDS links: the robot's odometry and speed limit, and the twin's own topics."""

from __future__ import annotations

from dataclasses import dataclass

from hil.live.twin.scene import Life
from hil.live.twin.sensors import Views
from hil.live.twin.topics import COLLISION, PAUSE, PAUSED, POINTS, POSE, RESET, RESUME, RUNNING, STATE
from hil.live.twin.twin import Twin
from hil.physics.odometry_noise import FIX_SD
from hil.sensors.camera import MAX_RANGE_M
from onboard.config.mounts import Mounts
from onboard.drivers.dds.camera_input import as_sent
from onboard.drivers.dds.discovery import Peers
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import (
    odometry_from_ros,
    optical_frame,
    ros_cloud,
    ros_fix,
    ros_goal,
    ros_image,
    ros_odometry,
    ros_scan,
    ros_speed_limit,
)
from onboard.drivers.dds.ros_types import Bool, String
from onboard.drivers.dds.sole_writer import PublisherNames, PublisherWatch, SoleReader
from onboard.values.clock import Clock, wall_ns
from onboard.values.messages import OdometryMessage, Pose


@dataclass(frozen=True, slots=True)
class NewMessages:
    """New messages since the last read: the robot's odometry, oldest first, and requests for reset, pause, resume.

    rivals: the publishers of the odometry while it has a second one, else ""
    """

    odometry: tuple[OdometryMessage, ...] = ()
    reset: bool = False
    pause: bool = False
    resume: bool = False
    rivals: str = ""


class TwinLink:
    """Reads the robot's odometry and the requests to the twin; writes the twin's sensor data and the speed limit."""

    def __init__(self, robot: Wire, twin: Wire, mounts: Mounts) -> None:
        """Open readers and writers. Raises ConfigError, DriverError."""
        self._section = twin.section
        self._robot_odometry = SoleReader(robot, "odom")
        self._publishers = PublisherWatch([self._robot_odometry], PublisherNames(robot, Peers(robot)))
        self._speed_limit = robot.writer("speed_limit")
        self._words = {topic.name: twin.reader(topic) for topic in (RESET, PAUSE, RESUME)}
        self._odometry, self._fixes = twin.writer("odom"), twin.writer("amcl_pose")
        self._scan, self._pose = twin.writer("scan"), twin.writer(POSE)
        self._points = twin.writer(POINTS)
        self._collision, self._state = twin.writer(COLLISION), twin.writer(STATE)
        self._depth = {name: twin.writer(f"{name}/depth/image") for name in mounts.depth}
        self._color = {name: twin.writer("color/image") for name in list(mounts.color)[:1]}

    def take(self, clock: Clock, wait_s: float) -> NewMessages:
        """Wait at most `wait_s` for the robot's odometry, and return all new messages. Raises DriverError."""
        self._robot_odometry.wait(wait_s)
        now_ns = clock.now_ns()
        odometry = tuple(odometry_from_ros(message.sample, now_ns) for message in self._robot_odometry.take(now_ns))
        asked = {name: bool(reader.take()) for name, reader in self._words.items()}
        rivals = self._publishers.reason(now_ns)
        return NewMessages(odometry, asked[RESET.name], asked[PAUSE.name], asked[RESUME.name], rivals)

    def publish_motion(self, twin: Twin, stamp_ns: int) -> None:
        """Publish the twin's odometry and its pose in the map. stamp_ns: stamp of the robot's odometry."""
        frames = self._section
        self._odometry.write(
            ros_odometry(stamp_ns, frames.odom_frame, frames.base_frame, twin.odom_from_base, twin.twist)
        )
        self._pose.write(ros_goal(stamp_ns, frames.map_frame, twin.pose))

    def publish_fix(self, pose: Pose, stamp_ns: int) -> None:
        """Publish a localisation fix of the twin, in the frame of its map."""
        self._fixes.write(ros_fix(stamp_ns, self._section.map_frame, pose, FIX_SD))

    def publish_frame(self, twin: Twin, life: Life, views: Views, stamp_ns: int, images: bool) -> None:
        """Publish the sensor data, then the contact of the twin. Images need `images`; they and clouds a reader."""
        self._scan.write(ros_scan(stamp_ns, self._section.base_frame, views.scan(life, twin), MAX_RANGE_M))
        if self._points.readers():
            self._points.write(ros_cloud(stamp_ns, self._section.base_frame, views.cloud(life, twin)))
        for name, writer in self._color.items():
            if images and writer.readers():
                sample = ros_image(stamp_ns, optical_frame(name), "rgb8", views.color(name, life, twin))
                writer.write(as_sent(sample, self._section, "color/image"))
        for name, writer in self._depth.items():
            if images and writer.readers():
                sample = ros_image(stamp_ns, optical_frame(name), "16UC1", views.depth(name, life, twin))
                writer.write(as_sent(sample, self._section, f"{name}/depth/image"))
        self._collision.write(Bool(twin.contact))

    def publish_state(self, twin: Twin) -> None:
        """Publish whether the twin follows, or the reason of its pause."""
        self._state.write(String(f"{PAUSED}: {twin.why}" if twin.why else RUNNING))

    def publish_speed_limit(self, limit_mps: float) -> None:
        """Publish the robot's speed limit [m/s]; 0 means no limit."""
        self._speed_limit.write(ros_speed_limit(wall_ns(), limit_mps))
