"""The guard as a process beside the real robot's runtime: sees the real scan, drives as an operator would.

What it decides is in `rules.py`, what it hears in `link.py`: what the base is told, not what the policy
wants.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from hil.live.twin.guard.danger import Cause, Rules
from hil.live.twin.guard.link import GuardLink
from hil.live.twin.guard.rules import Guard, Phase, advance
from hil.live.twin.topics import robot_section, twin_section
from onboard.config.config import Config
from onboard.config.plant_model import Plant
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.topics import ros_topic
from onboard.system.signals import Signals
from onboard.values.clock import NS_PER_S, Clock, MonotonicClock, grid, wall_ns

log = structlog.get_logger()

GUARD_HZ = 30


def rules_of(config: Config, plant: Plant, **changes: float) -> Rules:
    """Return the rules of a robot: its footprint and braking from its configuration and plant, the rest as asked."""
    limits = config.limits
    return Rules(
        radius_m=config.robot.footprint_radius_m + limits.stop_margin_m,
        braking_mps2=min(limits.acceleration_mps2, plant.linear.acceleration_max),
        **changes,
    )


@dataclass(slots=True)
class Watch:
    """What the guard did: causes of its stops, and (wall time [ns], phase, cause) of every change."""

    stops: Counter[str] = field(default_factory=Counter)
    phases: list[tuple[int, str, str]] = field(default_factory=list)

    def note(self, before: Guard, after: Guard) -> None:
        """Take note of one look."""
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
