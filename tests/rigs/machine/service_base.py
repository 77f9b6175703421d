"""A base for tests of the service: the plant behind its own command time-out, a scan of open floor, an operator."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace

import numpy as np

from hil.physics.simulated_base import STEP_NS, BaseState, base_at, send_command, step_base
from onboard.config.config import DEFAULT_ROBOT, DdsSection
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_odometry, ros_scan, ros_twist, twist_from_ros
from onboard.drivers.dds.topics import BY_NAME
from onboard.values.clock import wall_ns
from onboard.values.messages import Pose, Scan, Twist

OPEN_M = 9.0
NOISE_M = 0.01
"""Of its scan: one that stays the same while the base moves is taken for stuck."""
SCAN_TOPIC = "base_scan"
BINS = 180
DEEP = 100_000


@dataclass(frozen=True, slots=True)
class ReceivedCommand:
    """A command as it came: who wrote it, when [ns of the wall clock], and how fast the base was then [m/s]."""

    writer: int
    written_ns: int
    twist: Twist
    speed_mps: float


class Base:
    """Lives at 30 Hz in a thread of its own, from `with` to the end. `operator` and `looks` may be changed meanwhile.

    heard: every command, in the order of its coming
    """

    def __init__(self, section: DdsSection) -> None:
        self.heard: list[ReceivedCommand] = []
        self.operator: Twist | None = None
        self.looks = True
        self.state: BaseState = base_at(Pose(0.0, 0.0, 0.0))
        self._plant = load_plant(DEFAULT_ROBOT / "plant.toml")
        self._section = section
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="base")

    def __enter__(self) -> Base:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def since(self, wall: int) -> list[ReceivedCommand]:
        """Return what was heard of what was written since then."""
        return [one for one in list(self.heard) if one.written_ns >= wall]

    @property
    def driven(self) -> bool:
        """Return whether the newest command is one to move."""
        return bool(self.heard) and self.heard[-1].twist.v_mps > 0.0

    def _live(self) -> None:
        wire = Wire(self._section)
        command = BY_NAME["cmd_vel"]
        commands = wire.reader(replace(command, quality=replace(command.quality, depth=DEEP)))
        odometry, teleop = wire.writer("odom"), wire.writer("cmd_vel_teleop")
        scans = wire.writer(replace(BY_NAME["scan"], name="its scan", wire=SCAN_TOPIC))
        due_ns, noise = time.monotonic_ns(), np.random.default_rng(0)
        while not self._over.wait(max(0, due_ns - time.monotonic_ns()) / 1e9):
            now_ns, stamp_ns = time.monotonic_ns(), wall_ns()
            for message in commands.take():
                twist = twist_from_ros(message.sample)
                speed = self.state.motion.twist.v_mps
                self.heard.append(ReceivedCommand(message.writer, message.written_ns, twist, speed))
                self.state = send_command(self.state, twist, now_ns, self._plant)
            while due_ns <= now_ns:
                self.state = step_base(self.state, due_ns, self._plant)
                due_ns += STEP_NS
            motion = self.state.motion
            odometry.write(ros_odometry(stamp_ns, "odom", "base_link", motion.pose, motion.twist))
            if self.looks:
                ranges_m = (OPEN_M + NOISE_M * noise.standard_normal(BINS)).astype(np.float32)
                scan = Scan(stamp_ns, ranges_m, np.ones(BINS, bool))
                scans.write(ros_scan(stamp_ns, "base_link", scan, OPEN_M + 1.0))
            if self.operator is not None:
                teleop.write(ros_twist(self.operator))
        wire.close()
