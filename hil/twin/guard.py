"""The guard as a process beside the real robot's runtime: sees the real scan, drives as an operator would.

What it decides is in `guard_rules.py`. It hears what the base is told, not what the policy wants.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from hil.twin.guard_rules import Cause, Guard, Order, Phase, Rules, Seen, advance
from hil.twin.topics import COLLISION, PAUSE, RESUME, RUNNING, STATE, robot_section, twin_section
from onboard.config import Config
from onboard.drivers.dds_topics import ros_topic
from onboard.drivers.ros_messages import odometry_from_ros, rays_from_ros, ros_twist, twist_from_ros
from onboard.drivers.ros_types import Empty
from onboard.drivers.wire import Wire
from onboard.errors import InputError
from onboard.laser import scan_of_rays
from onboard.messages import STOP, OdometryMessage, Scan, Twist
from onboard.motion import Plant
from onboard.scheduler import NS_PER_S, Clock, MonotonicClock, grid, wall_ns
from onboard.signals import Signals

log = structlog.get_logger()

GUARD_HZ = 30
SILENT_NS = NS_PER_S // 2
"""A command or odometry older than this is none."""


def rules_of(config: Config, plant: Plant, **changes: float) -> Rules:
    """Return the rules of a robot: its footprint and braking from its configuration and plant, the rest as asked."""
    limits = config.limits
    return Rules(
        radius_m=config.robot.footprint_radius_m + limits.stop_margin_m,
        braking_mps2=min(limits.acceleration_mps2, plant.linear.acceleration_max),
        **changes,
    )


class GuardLink:
    """The guard's ends of the wire: the robot's as its runtime has them but for odometry, and the twin's."""

    def __init__(self, robot: Wire, twin: Wire, config: Config) -> None:
        """Open readers and writers. Raises ConfigError, DriverError."""
        self._stamped = config.dds.stamped_cmd_vel
        self._scans = robot.reader("scan" if config.limits_scan is None else "limits_scan")
        self._commands, self._odometry = robot.reader("cmd_vel"), robot.reader("odom")
        self._frames, self._states, self._collisions = twin.reader("scan"), twin.reader(STATE), twin.reader(COLLISION)
        self._teleop, self._cancel = robot.writer("cmd_vel_teleop"), robot.writer("cancel")
        self._pause, self._resume = twin.writer(PAUSE), twin.writer(RESUME)
        self._scan: Scan | None = None
        self._command: tuple[int, Twist] = (0, STOP)
        self._newest: OdometryMessage | None = None
        self._running: bool | None = None
        self._frame_ns: int | None = None
        self.refused = 0

    def look(self, now_ns: int) -> Seen:
        """Return everything as it is now, without waiting. Raises DriverError when the link is gone."""
        for message in self._scans.take()[-1:]:
            try:
                self._scan = scan_of_rays(rays_from_ros(message.sample), now_ns)
            except InputError as error:
                self.refused += 1
                log.warning("scan_refused", reason=str(error))
        for message in self._commands.take()[-1:]:
            self._command = now_ns, twist_from_ros(message.sample.twist if self._stamped else message.sample)
        for message in self._odometry.take()[-1:]:
            self._newest = odometry_from_ros(message.sample, now_ns)
        for message in self._states.take()[-1:]:
            self._running = message.sample.data == RUNNING
        if self._frames.take():
            self._frame_ns = now_ns
        odometry = self._newest
        heard = odometry is not None and now_ns - odometry.arrival_ns <= SILENT_NS
        return Seen(
            now_ns=now_ns,
            scan=self._scan,
            command=self._command[1] if now_ns - self._command[0] <= SILENT_NS else STOP,
            measured=odometry.twist if odometry is not None and heard else None,
            yaw_rad=odometry.pose.yaw_rad if odometry is not None and odometry.pose is not None else 0.0,
            twin_running=self._running,
            frame_ns=self._frame_ns,
            contact=any(message.sample.data for message in self._collisions.take()),
        )

    def obey(self, order: Order) -> None:
        """Send what is ordered. Raises DriverError."""
        if order.teleop is not None:
            self._teleop.write(ros_twist(order.teleop))
        if order.pause:
            self._pause.write(Empty())
        if order.resume:
            self._resume.write(Empty())
        if order.cancel:
            self._cancel.write(Empty())


@dataclass(slots=True)
class Watch:
    """What the guard did: causes of its stops, and (wall time [ns], phase, cause) of every change."""

    stops: Counter[str] = field(default_factory=Counter)
    phases: list[tuple[int, str, str]] = field(default_factory=list)

    def note(self, before: Guard, after: Guard) -> None:
        """Take note of one look."""
        if after.phase is before.phase:
            return
        self.phases.append((wall_ns(), after.phase.value, after.cause.value))
        if after.phase is Phase.STOPPING:
            self.stops[after.cause.value] += 1
            log.info("safety_stop", cause=after.cause.value)
        elif after.phase is Phase.WATCHING:
            log.info("watching")

    def result(self) -> dict[str, Any]:
        """Return what happened, as plain values."""
        return {
            "stops": {cause.value: self.stops[cause.value] for cause in Cause if cause.value},
            "phases": self.phases,
        }


class GuardProcess:
    """Looks and obeys at a fixed rate."""

    def __init__(self, link: GuardLink, clock: Clock, rules: Rules) -> None:
        self._link, self._clock, self._rules = link, clock, rules
        self._stopping = False
        self.guard = Guard()
        self.watch = Watch()

    def stop(self) -> None:
        """End after the look under way."""
        self._stopping = True

    def tick(self, now_ns: int) -> None:
        """Look once, and obey."""
        before = self.guard
        self.guard, order = advance(before, self._link.look(now_ns), self._rules)
        self._link.obey(order)
        self.watch.note(before, self.guard)

    async def run(self, seconds: float | None) -> None:
        """Guard until `stop`, or for so long."""
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, self.stop)
        async for slot in grid(self._clock, round(NS_PER_S / GUARD_HZ)):
            if self._stopping:
                return
            self.tick(slot.start_ns)


def run_guard(
    config: Config, rules: Rules, odometry: str, seconds: float | None, ready: Callable[[str], None]
) -> dict[str, Any]:
    """Guard the robot of a configuration until a signal, or for so long, and return what happened.

    odometry: topic of the real base's. `ready` is told what is watched. Raises ConfigError, DriverError.
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
