"""The robot's end of the wire: inputs of a tick, commands, and published state.

`participant.py` holds the link itself, `topics.py` the table of topics, `ros_convert.py` the conversions.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import structlog

from onboard.config.config import DdsSection, LimitsSection, NoReturn, OdometrySection, RatesSection, ScanSection
from onboard.config.mounts import Mounts
from onboard.drivers.dds.command_inputs import Goals, Operator
from onboard.drivers.dds.latched_inputs import Alarm, Battery, SpeedLimits
from onboard.drivers.dds.participant import InputWire, ReceivedMessage, Wire, WriterMessages
from onboard.drivers.dds.ros_convert import (
    fix_from_ros,
    header,
    imu_from_ros,
    odometry_from_ros,
    ros_camera_info,
    ros_diagnostics,
    ros_mount_transform,
    ros_scan,
    ros_transform,
    ros_twist,
)
from onboard.drivers.dds.ros_types import String, TFMessage, TwistStamped
from onboard.drivers.dds.scan_input import DdsScans
from onboard.drivers.dds.sole_writer import SoleReader
from onboard.drivers.dds.topics import LATCHED, imu_source, promised_commands, ros_topic, topic
from onboard.values import reasons
from onboard.values.clock import NS_PER_S, wall_ns
from onboard.values.errors import ConfigError, DriverError
from onboard.values.frames import Frames
from onboard.values.geometry import quaternion_from_rpy, rotation_from_quaternion
from onboard.values.interfaces import Diagnostic, InputFault
from onboard.values.messages import STOP, Fix, ImuSample, Inputs, OdometryMessage, Pose, Scan, Twist
from onboard.values.reasons import Said

log = structlog.get_logger()

CLAIM_WAIT_S = 1.0
"""How long a starting runtime looks for another runtime of the same robot (discovery takes about 0.1 s here)."""

SECOND_NS = 10 * NS_PER_S
"""How long the state names a second localisation after its last fix."""
TWIST_NS = 200_000_000
"""An older twist does not correct the scans."""
FASTEST = 10.0
"""A faster twist is none [m/s, rad/s]."""

DEFAULT_HZ = RatesSection().control_hz
DEFAULT_LIMITS = LimitsSection()

STOP_TRIES = 3
STOP_ACK_S = 0.2
"""Timeout for the acknowledgement of the last stop."""


class Claim:
    """The right to drive one robot on one domain, held until `close` or the end of the process.

    On this host the claim is a socket with an abstract name, which the kernel frees when the process dies. For other
    hosts the claim is the writer of the state topic, which a starting runtime looks for.
    """

    def __init__(self, wire: Wire, robot: str) -> None:
        """Announce the claim. Raises DriverError, naming robot and domain, if another runtime of this host holds it."""
        self._wire, self._taken = wire, f"robot {robot} is already driven on domain {wire.domain}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(f"\0onboard/{wire.domain}/{robot}")
        except OSError as error:
            self._socket.close()
            raise DriverError(f"{self._taken} by another process of this machine") from error
        wire.writer("state")
        self._until_s = time.monotonic() + CLAIM_WAIT_S

    def confirm(self) -> None:
        """Look for a runtime on another host until CLAIM_WAIT_S after the announcement.

        Raises DriverError, naming robot and domain, if there is one; the claim is released then.
        """
        if self._wire.foreign_writer("state", max(0.0, self._until_s - time.monotonic())):
            self.close()
            raise DriverError(f"{self._taken}: somebody publishes {ros_topic(self._wire.section, 'state')}")

    def close(self) -> None:
        """Release the claim. Safe to call twice."""
        self._socket.close()


Up = tuple[float, float, float]
"""The base's z axis in the IMU's frame."""
STATIC_DEPTH = 100


class ImuInput:
    """The yaw rate of one IMU (`odometry.imu`), turned into the base frame.

    Without `odometry.imu_rpy_deg` its frame says how it is turned: the base frame itself, or a frame of /tf_static.
    `unusable` counts samples without a rate, or whose frame is not known yet.
    """

    def __init__(self, wire: InputWire[WriterMessages], section: OdometrySection) -> None:
        """Open the readers. Raises ConfigError, DriverError."""
        self.reader = SoleReader(wire, imu_source(section.imu))
        self._base = wire.section.base_frame.strip("/")
        self._up: dict[str, Up] = {}
        self._given: Up | None = None
        self._frames = Frames()
        self.unusable = 0
        if section.imu_rpy_deg is not None:
            roll, pitch, yaw = map(math.radians, section.imu_rpy_deg)
            up = rotation_from_quaternion(quaternion_from_rpy(roll, pitch, yaw))[2]
            self._given = float(up[0]), float(up[1]), float(up[2])
        latched = replace(LATCHED, depth=STATIC_DEPTH)
        self._static = wire.reader(replace(topic("tf_static"), quality=latched)) if self._given is None else None

    def take(self, now_ns: int) -> tuple[ImuSample, ...]:
        """Return the samples since the last call; none beside a second publisher. Raises DriverError."""
        for message in self._static.take() if self._static is not None else ():
            self._frames.hear(message.sample.transforms)
        taken = []
        for message in self.reader.take(now_ns):
            up = self._given or self._up_of(message.sample.header.frame_id.strip("/"))
            sample = None if up is None else imu_from_ros(message.sample, up, now_ns)
            if sample is None:
                self.unusable += 1
            else:
                taken.append(sample)
        return tuple(taken)

    def _up_of(self, frame: str) -> Up | None:
        """Return the base's z axis in a frame; None while tf does not connect them."""
        if frame not in self._up:
            base_from_imu = self._frames.between(self._base, frame)
            if base_from_imu is None:
                return None
            up = base_from_imu[2, :3]
            self._up[frame] = float(up[0]), float(up[1]), float(up[2])
        return self._up[frame]


class DdsInputs:
    """A tick's inputs from the wire, without the cameras.

    Arrival is the time of the tick that takes a message. For an operator's command, a goal or a scan it is reduced by
    the message's latency.
    """

    def __init__(
        self,
        wire: InputWire[WriterMessages],
        scan_topics: Mapping[str, npt.NDArray[np.float64] | None] = MappingProxyType({}),
        limits: LimitsSection = DEFAULT_LIMITS,
        no_return: Mapping[str, Collection[NoReturn]] = MappingProxyType({}),
        use_yaw: bool = False,
        lidars: ScanSection | None = None,
        odometry: OdometrySection | None = None,
        tracker: bool = False,
    ) -> None:
        """Open the readers. Raises ConfigError, DriverError.

        scan_topics: base_from_laser of each, (4, 4); None: its scans are in the base frame
        no_return: values of each that mean no return
        lidars: the lidars that are fused to one scan, and the heights of obstacles
        odometry: names the IMU, if there is one
        limits: `v_max_mps` is 100 % of a speed limit; an operator's command is valid for `teleop_dead_man_s`
        use_yaw: the heading of `/goal_pose` counts
        tracker: `map.tracker`: `/initialpose` is taken, and no `/amcl_pose`
        """
        self._map_frame = wire.section.map_frame
        self._odometry = SoleReader(wire, "odom")
        self._fixes = SoleReader(wire, "amcl_pose")
        self._initial = wire.reader("initialpose") if tracker else None
        self._goals = Goals(wire, use_yaw)
        self._cancel = wire.reader("cancel")
        self._pause = wire.reader("pause")
        self._operator = Operator(wire, limits.teleop_dead_man_s)
        self._obstacle = Alarm(wire, "obstacle")
        within_s = wire.section.e_stop_timeout_s if wire.section.e_stop_required else None
        pressed = wire.section.e_stop_pressed
        self._e_stop = Alarm(wire, "e_stop", unknown_is_true=True, pressed=pressed, required_within_s=within_s)
        self._battery = Battery(wire)
        self._scans = DdsScans(wire, scan_topics, no_return, lidars)
        self._imu = ImuInput(wire, odometry) if odometry is not None and odometry.imu else None
        self._wheels: OdometryMessage | None = None
        self._speed_limits = SpeedLimits(wire, limits.v_max_mps)
        self._foreign_fixes = self._unused_fixes = 0
        self._second = False
        self._second_ns: int | None = None

    def drain_states(self) -> None:
        """Take the messages from before the first tick, so that they do not fill its queues.

        Raises DriverError when the link is gone.
        """
        now_ns = time.monotonic_ns()
        self._obstacle.take(now_ns)
        self._e_stop.take(now_ns)
        self._speed_limits.take()

    def take(self, now_ns: int) -> Inputs:
        """Return the inputs since the last call, without waiting. Raises DriverError if the link is gone."""
        odometry = tuple(odometry_from_ros(message.sample, now_ns) for message in self._odometry.take(now_ns))
        return Inputs(
            now_ns=now_ns,
            odometry=odometry,
            fixes=self._taken_fixes(now_ns),
            goals=self._goals.take(now_ns),
            cancel=bool(self._cancel.take()),
            obstacle=self._obstacle.take(now_ns),
            e_stop=self._e_stop.take(now_ns),
            teleop=self._operator.take(now_ns),
            scans=self._scans.take(now_ns, self._twist(odometry, now_ns)),
            speed_limit_mps=self._speed_limits.take(),
            pause=_pause(self._pause.take()),
            battery=self._battery.take(),
            imu=() if self._imu is None else self._imu.take(now_ns),
        )

    def _taken_fixes(self, now_ns: int) -> tuple[Fix, ...]:
        """Return the fixes of the localisation, or the initial poses for the tracker, which counts other fixes."""
        found = self._fixes.take(now_ns)
        if self._initial is not None:
            self._unused_fixes += len(found)
            self._second_ns = now_ns if found else self._second_ns
            self._second = self._second_ns is not None and now_ns - self._second_ns < SECOND_NS
            found = self._initial.take()
        return tuple(_fix(message, now_ns) for message in found if self._in_map(message))

    def sole_readers(self, odometry: bool = True) -> list[SoleReader]:
        """Return the readers of the inputs that must have one publisher. odometry: include that of the odometry."""
        imu = [] if self._imu is None else [self._imu.reader]
        return [*([self._odometry] if odometry else []), *imu, self._fixes, *self._scans.readers.values()]

    def faults(self) -> list[InputFault]:
        """Return the faults of the inputs' messages, without second publishers of one topic."""
        second = reasons.SECOND_LOCALISATION.say(topic=self._fixes.topic)
        return [*self._scans.faults(), *([InputFault("pose", second, warning=True)] if self._second else [])]

    def refuse_second_localisation(self, within_s: float) -> None:
        """Raise ConfigError if a fix is heard within the time, but the tracker is the localisation.

        A publisher alone is no localisation: `onboard gateway` has one of each topic.
        """
        if self._initial is not None and self._fixes.wait(within_s):
            second = reasons.SECOND_LOCALISATION.say(topic=self._fixes.topic)
            raise ConfigError(f"{second}: stop the other one, or set map.tracker = false")

    def dropped(self) -> Mapping[str, int]:
        """Return the counts of dropped messages by reason, for diagnostics."""
        readers = (
            self._odometry, self._fixes, self._goals, self._cancel, self._pause, self._operator, self._obstacle,
            self._e_stop, self._battery,
        )  # fmt: skip
        undecodable = sum(reader.undecodable for reader in readers) + self._speed_limits.undecodable
        undecodable += 0 if self._initial is None else self._initial.undecodable
        return {
            "undecodable": undecodable + self._scans.undecodable,
            **self._scans.refused(),
            f"amcl_pose not in frame {self._map_frame}": self._foreign_fixes,
            "amcl_pose with map.tracker": self._unused_fixes,
            "too many goals": self._goals.refused,
            **({} if self._imu is None else {"imu without a rate or a known frame": self._imu.unusable}),
        }

    def blind(self) -> tuple[int, Said]:
        """Return the level of blind bins of the scans over DDS, and why they are blind."""
        return self._scans.judged()

    def close(self) -> None:
        """Do nothing: the readers belong to the wire and close with it."""

    def _twist(self, odometry: Sequence[OdometryMessage], now_ns: int) -> Twist:
        """Return the newest twist of the wheels; none if it is old or not finite."""
        self._wheels = odometry[-1] if odometry else self._wheels
        if self._wheels is None or now_ns - self._wheels.arrival_ns > TWIST_NS:
            return STOP
        twist = self._wheels.twist
        return twist if abs(twist.v_mps) < FASTEST and abs(twist.w_radps) < FASTEST else STOP

    def _in_map(self, message: ReceivedMessage) -> bool:
        """Return whether a fix is in the map frame, as `Fix` requires; count it otherwise."""
        ours = bool(message.sample.header.frame_id.lstrip("/") == self._map_frame)
        self._foreign_fixes += not ours
        return ours


def _pause(messages: Sequence[ReceivedMessage]) -> bool | None:
    """Return whether any sender's last word is a pause; None without any word."""
    words = {message.writer: bool(message.sample.data) for message in messages}
    return any(words.values()) if words else None


def _fix(message: ReceivedMessage, now_ns: int) -> Fix:
    """Return a fix; one without a stamp has the time at which its sender wrote it, or all but the first would count as
    repeats. A fix that a second publisher withheld keeps its arrival."""
    fix = fix_from_ros(message.sample, now_ns - message.held_ns)
    return fix if fix.stamp_ns else replace(fix, stamp_ns=message.written_ns)


class DdsDrive:
    """Sends commands to `/cmd_vel`, as Twist or TwistStamped by configuration.

    Its writer promises a rate, so that a base can distinguish a hanging or dead runtime from a zero command.
    """

    def __init__(self, wire: Wire, control_hz: float = DEFAULT_HZ) -> None:
        """Open the writer for `control_hz` commands a second. Raises ConfigError, DriverError."""
        self._writer = wire.writer(promised_commands(control_hz))
        self._stamped = wire.section.stamped_cmd_vel
        self._frame = wire.section.base_frame
        self._closed = False

    def send(self, command: Twist) -> None:
        """Send one command without waiting. Raises DriverError if the link is gone."""
        twist = ros_twist(command)
        self._writer.write(TwistStamped(header(wall_ns(), self._frame), twist) if self._stamped else twist)

    def close(self) -> None:
        """Send a stop until the base acknowledges it, at most STOP_TRIES times. Safe to call twice.

        Never raises, because the caller may be handling another error.
        """
        tries = 0 if self._closed else STOP_TRIES
        self._closed = True
        for _ in range(tries):
            try:
                self.send(STOP)
                if self._writer.wait_for_acks(STOP_ACK_S):
                    return
            except DriverError as error:
                log.error("stop_not_sent", error=str(error))


class DdsOutputs:
    """The robot's published topics: scan, state, diagnostics, transforms, cameras. Stamps are wall time [ns]."""

    def __init__(self, wire: Wire, mounts: Mounts, robot: str, range_max_m: float) -> None:
        """Open the writers. Raises ConfigError, DriverError."""
        self._section: DdsSection = wire.section
        self._mounts = mounts
        self._robot = robot
        self._range_max_m = range_max_m
        self._scan = wire.writer("scan")
        self._limits_scan = wire.writer("limits_scan")
        self._state = wire.writer("state")
        self._diagnostics = wire.writer("diagnostics")
        self._drive = wire.writer("drive")
        self._infos = {name: wire.writer(f"{name}/depth/camera_info") for name in mounts.depth}
        self._color_info = wire.writer("color/camera_info") if mounts.color else None
        self._tf = wire.writer("tf") if self._section.publish_tf else None
        self._tf_static = wire.writer("tf_static") if self._section.publish_tf else None

    def scan(self, scan: Scan, stamp_ns: int) -> None:
        """Publish the scan that the policy sees."""
        self._scan.write(ros_scan(stamp_ns, self._section.base_frame, scan, self._range_max_m))

    def limits_scan(self, scan: Scan, stamp_ns: int) -> None:
        """Publish the scan of the limits, if it differs from the policy's."""
        self._limits_scan.write(ros_scan(stamp_ns, self._section.base_frame, scan, self._range_max_m))

    def state(self, text: str) -> None:
        """Publish the state with its reason: "navigating", "stopped: e_stop"."""
        self._state.write(String(text))

    def diagnostics(self, entries: Sequence[Diagnostic], stamp_ns: int) -> None:
        """Publish the health of all parts."""
        self._diagnostics.write(ros_diagnostics(stamp_ns, self._robot, entries))

    def drive(self, row: Diagnostic, stamp_ns: int) -> None:
        """Publish the state of the drive and its goal, for programs."""
        self._drive.write(ros_diagnostics(stamp_ns, self._robot, [row]))

    def transforms(self, odom_from_base: Pose, map_from_odom: Pose | None, stamp_ns: int) -> None:
        """Publish the robot's pose; the map's transform only while it is localised."""
        if self._tf is None:
            return
        frames = self._section
        moving = [ros_transform(stamp_ns, frames.odom_frame, frames.base_frame, odom_from_base)]
        if map_from_odom is not None:
            moving.append(ros_transform(stamp_ns, frames.map_frame, frames.odom_frame, map_from_odom))
        self._tf.write(TFMessage(moving))

    def cameras(self, stamp_ns: int) -> None:
        """Publish mounts and intrinsics: at the start, and periodically for late readers without history."""
        cameras, prefix = [*self._mounts.depth.values(), *self._mounts.color.values()], self._section.frame_prefix
        if self._tf_static is not None:
            base = self._section.base_frame
            self._tf_static.write(
                TFMessage([ros_mount_transform(stamp_ns, base, camera, prefix) for camera in cameras])
            )
        for name, writer in self._infos.items():
            writer.write(ros_camera_info(stamp_ns, self._mounts.depth[name], prefix))
        if self._color_info is not None:
            self._color_info.write(ros_camera_info(stamp_ns, next(iter(self._mounts.color.values())), prefix))
