"""The guard's process, next to the real robot's runtime: reads the real scan, and drives as an operator does.

`rules.py` has its decisions. The guard reads the command to the base, not the policy's output.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from hil.live.twin.guard.danger import Cause, GuardInputs, Rules
from hil.live.twin.guard.rules import Guard, GuardMessages, Phase, advance
from hil.live.twin.topics import COLLISION, PAUSE, RESET, RESUME, RUNNING, STATE, robot_section, twin_section
from onboard.config.config import Config
from onboard.config.plant_model import Plant
from onboard.drivers.dds.discovery import Peers
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ns_from_time, odometry_from_ros, rays_from_ros, ros_twist, twist_from_ros
from onboard.drivers.dds.ros_types import Empty, LaserScan
from onboard.drivers.dds.sole_writer import PublisherNames, PublisherWatch, SoleReader
from onboard.drivers.dds.topics import ros_topic
from onboard.navigation.mission import drives
from onboard.perception.laser_scan import scan_of_rays
from onboard.system.signals import Signals
from onboard.values.clock import NS_PER_S, Clock, MonotonicClock, grid, wall_ns
from onboard.values.errors import InputError
from onboard.values.messages import STOP, OdometryMessage, Scan, Twist

SILENT_NS = NS_PER_S // 2
"""Timeout of a command and of odometry. After it, the value is stale."""
TWIN_SILENT_NS = NS_PER_S
"""Timeout of the twin's state. The twin repeats its state every half second (`process.AGAIN_NS`)."""


class GuardLink:
    """The guard's DDS links to the robot and to the twin. The former has the runtime's topics except odometry."""

    def __init__(self, robot: Wire, twin: Wire, config: Config) -> None:
        """Open readers and writers. Raises ConfigError, DriverError."""
        self._stamped = config.dds.stamped_cmd_vel
        self._scans = ScanReader(robot, "scan" if config.limits_scan is None else "limits_scan")
        self._commands, self._odometry = robot.reader("cmd_vel"), SoleReader(robot, "odom")
        self._publishers = PublisherWatch([self._scans.reader, self._odometry], PublisherNames(robot, Peers(robot)))
        self._missions = robot.reader("state")
        self._frames, self._states, self._collisions = twin.reader("scan"), twin.reader(STATE), twin.reader(COLLISION)
        self._resets = twin.reader(RESET)
        self._teleop, self._cancel = robot.writer("cmd_vel_teleop"), robot.writer("cancel")
        self._pause, self._resume = twin.writer(PAUSE), twin.writer(RESUME)
        self._command: tuple[int, Twist] = (0, STOP)
        self._newest: OdometryMessage | None = None
        self._state: tuple[int, bool] | None = None
        self._frame: tuple[int, int] | None = None
        self._driving: bool | None = None

    def read(self, now_ns: int) -> GuardInputs:
        """Return the present inputs, without waiting. Raises DriverError if the link is lost."""
        self._hear_robot(now_ns)
        self._hear_twin(now_ns)
        scan = self._scans.newest(now_ns)
        odometry, frame = self._newest, self._frame
        fresh = odometry is not None and now_ns - odometry.arrival_ns <= SILENT_NS
        known = self._state is not None and now_ns - self._state[0] <= TWIN_SILENT_NS
        return GuardInputs(
            now_ns=now_ns,
            scan=scan,
            command=self._command[1] if now_ns - self._command[0] <= SILENT_NS else STOP,
            measured=odometry.twist if odometry is not None and fresh else None,
            yaw_rad=odometry.pose.yaw_rad if odometry is not None and odometry.pose is not None else 0.0,
            twin_running=self._state[1] if self._state is not None and known else None,
            frame_ns=None if frame is None else frame[0],
            contact=any(message.sample.data for message in self._collisions.take()),
            frame_lag_ns=0 if frame is None or odometry is None else odometry.stamp_ns - frame[1],
            elsewhere=bool(self._resets.take()),
            driving=self._driving,
            rivals=self._publishers.poll(now_ns),
        )

    def _hear_robot(self, now_ns: int) -> None:
        for message in self._commands.take()[-1:]:
            self._command = now_ns, twist_from_ros(message.sample.twist if self._stamped else message.sample)
        for message in self._odometry.take(now_ns)[-1:]:
            heard = odometry_from_ros(message.sample, now_ns)
            if heard.pose is None or math.isfinite(heard.pose.yaw_rad):  # one without a heading lets it turn stale
                self._newest = heard
        for message in self._missions.take()[-1:]:
            self._driving = drives(message.sample.data)

    def _hear_twin(self, now_ns: int) -> None:
        for message in self._states.take()[-1:]:
            self._state = now_ns, message.sample.data == RUNNING
        for message in self._frames.take()[-1:]:
            self._frame = now_ns, ns_from_time(message.sample.header.stamp)

    def obey(self, order: GuardMessages) -> None:
        """Send the messages of an order. Raises DriverError."""
        if order.teleop is not None:
            self._teleop.write(ros_twist(order.teleop))
        if order.pause:
            self._pause.write(Empty())
        if order.resume:
            self._resume.write(Empty())
        if order.cancel:
            self._cancel.write(Empty())


class ScanReader:
    """Reads the real scan, and keeps the newest valid scan (G3). refused: number of rejected scans."""

    def __init__(self, robot: Wire, name: str) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        self.reader = SoleReader(robot, name)
        self.refused = 0
        self._base = robot.section.base_frame
        self._scan: Scan | None = None
        self._stamp_ns: int | None = None
        self._reason = ""

    def newest(self, now_ns: int) -> Scan | None:
        """Return the newest valid scan, stamped with its arrival. A rejected scan does not replace it, so it ages."""
        for message in self.reader.take(now_ns)[-1:]:
            try:
                self._scan = self._judged(message.sample, now_ns)
                self._reason = ""
            except InputError as error:
                self.refused += 1
                if not self._reason:
                    log.warning("scan_refused", reason=str(error))
                self._reason = str(error)
        return self._scan

    def _judged(self, sample: LaserScan, now_ns: int) -> Scan:
        """Return the scan. Raises InputError for a wrong frame, and if the stamp is not after the previous stamp."""
        stamp_ns, before_ns = ns_from_time(sample.header.stamp), self._stamp_ns
        self._stamp_ns = stamp_ns  # also of a rejected scan, so that a clock set back rejects only one scan
        frame = sample.header.frame_id.lstrip("/")
        if frame != self._base:
            raise InputError(f"it is in frame {frame!r}, scans must be in {self._base!r}")
        if before_ns is not None and stamp_ns <= before_ns:
            raise InputError(f"its stamp is {(before_ns - stamp_ns) / NS_PER_S:g} s before that of the last")
        return scan_of_rays(rays_from_ros(sample), now_ns)


log = structlog.get_logger()

GUARD_HZ = 30


def rules_of(config: Config, plant: Plant, **changes: float) -> Rules:
    """Return the parameters of a robot: footprint and braking from configuration and plant, others from `changes`."""
    limits = config.limits
    return Rules(
        radius_m=config.robot.footprint.reach_m + limits.stop_margin_m,
        braking_mps2=min(limits.acceleration_mps2, plant.linear.braking_max),
        **changes,
    )


@dataclass(slots=True)
class Watch:
    """Record of the guard. stops: stops by cause; phases: (wall time [ns], phase, cause) of every change."""

    stops: Counter[str] = field(default_factory=Counter)
    phases: list[tuple[int, str, str]] = field(default_factory=list)

    def note(self, before: Guard, after: Guard) -> None:
        """Record and log a change of phase or cause between two looks."""
        if after.phase is before.phase and after.cause is before.cause:
            return
        self.phases.append((wall_ns(), after.phase.value, after.cause.value))
        if after.phase is Phase.STOPPING:
            self.stops[after.cause.value] += 1
            log.info("safety_stop", cause=after.cause.value)
        elif after.phase is Phase.WATCHING:
            log.info("watching")
        elif after.phase is Phase.WAITING:
            log.warning("waiting", cause=after.cause.value, until="the twin runs")

    def result(self) -> dict[str, Any]:
        """Return the record as a dict for JSON."""
        return {
            "stops": {cause.value: self.stops[cause.value] for cause in Cause if cause.value},
            "phases": self.phases,
        }


class GuardProcess:
    """Runs the guard: reads its inputs and sends its orders at `GUARD_HZ`."""

    def __init__(self, link: GuardLink, clock: Clock, rules: Rules) -> None:
        self._link, self._clock, self._rules = link, clock, rules
        self._stopping = False
        self.guard = Guard()
        self.watch = Watch()

    def stop(self) -> None:
        """End the process after the current look."""
        self._stopping = True

    def tick(self, now_ns: int) -> None:
        """Read the inputs once, update the guard, and send its order."""
        before = self.guard
        self.guard, order = advance(before, self._link.read(now_ns), self._rules)
        self._link.obey(order)
        self.watch.note(before, self.guard)

    async def run(self, seconds: float | None) -> None:
        """Run until `stop`, or for `seconds`."""
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, self.stop)
        async for slot in grid(self._clock, round(NS_PER_S / GUARD_HZ)):
            if self._stopping:
                return
            self.tick(slot.start_ns)


def run_guard(
    config: Config, rules: Rules, odometry: str, seconds: float | None, ready: Callable[[str], None]
) -> dict[str, Any]:
    """Guard the robot of a configuration until a signal, or for `seconds`. Return the record of the guard.

    odometry: topic of the real base's odometry; ready: called with a text that names the topics and the domain
    Raises ConfigError, DriverError.
    """
    section = robot_section(config.dds, odometry)
    with contextlib.ExitStack() as held:
        signals = held.enter_context(Signals())
        robot = held.enter_context(contextlib.closing(Wire(section)))
        twin = held.enter_context(contextlib.closing(Wire(twin_section(config.dds))))
        clock = held.enter_context(contextlib.closing(MonotonicClock()))
        process = GuardProcess(GuardLink(robot, twin, config), clock, rules)
        signals.stop_with(process.stop)
        scan = "scan" if config.limits_scan is None else "limits_scan"
        ready(f"guarding by {ros_topic(section, scan)} and {ros_topic(section, 'odom')}, domain {robot.domain}")
        asyncio.run(process.run(seconds))
    return process.watch.result()
