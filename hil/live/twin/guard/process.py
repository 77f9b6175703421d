"""The guard's process, next to the real robot's runtime: reads the real scan, and drives as an operator does.

`rules.py` has its decisions and `link.py` its inputs. The guard reads the command to the base, not the policy's output.
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
