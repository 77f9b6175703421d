"""The yaw rate of an IMU over DDS (`odometry.imu`), turned into the base frame.

Without `odometry.imu_rpy_deg` its frame says how it is turned: the base frame itself, or a frame of /tf_static.
"""

from __future__ import annotations

import math
from dataclasses import replace

from onboard.config.config import OdometrySection
from onboard.drivers.dds.participant import InputWire, WriterMessages
from onboard.drivers.dds.ros_convert import imu_from_ros
from onboard.drivers.dds.sole_writer import SoleReader
from onboard.drivers.dds.topics import LATCHED, imu_source, topic
from onboard.values.frames import Frames
from onboard.values.geometry import quaternion_from_rpy, rotation_from_quaternion
from onboard.values.messages import ImuSample

Up = tuple[float, float, float]
"""The base's z axis in the IMU's frame."""
STATIC_DEPTH = 100


class ImuInput:
    """The samples of one IMU. `unusable` counts those without a rate, or whose frame is not known yet."""

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
