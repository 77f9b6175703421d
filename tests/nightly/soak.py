"""A soak: a long-running runtime gets fault after fault in building after building, and every tick is judged.

Tick, recorder and policy run on the simulated clock, as fast as they can. The scan is cast; there is no colour camera.
"""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hil.drive.sensing import without_cameras
from hil.reliability.faults.fault import Fault, Need
from hil.reliability.faults.fault_proxies import FaultyClock, FaultyDrive, FaultyInbox, FaultyInference
from hil.reliability.faults.inject.schedule import Injection, PlannedInjection, Scene, Schedule
from hil.reliability.faults.invariants import Monitor
from hil.reliability.faults.run.simulated import changed
from hil.reliability.faults.table import FAULTS
from onboard.assembly.policies import REACTIVE, policy_maker
from onboard.assembly.robot import build_rigs, robot_of, zones_of
from onboard.config.config import Config, PolicySection
from onboard.counters import Counters
from onboard.navigation.mission import drives
from onboard.policy.inference import InlineInference
from onboard.runtime import Listener, Runtime
from onboard.safety.recovery import MOVING_MPS
from onboard.state import TickRecord
from onboard.system.log import unlogged
from onboard.values.clock import NS_PER_S, SimulatedClock
from onboard.values.errors import DriverError, OnboardError
from onboard.values.interfaces import Policy
from onboard.values.messages import STOP, GoalRequest, Pose
from tests.nightly.ground import Building, Ground
from tests.nightly.growth import Sample, take_sample
from tests.nightly.recording_check import Records
from tests.rigs.runtime_bench import MOUNTS, PLANT

EVERY_S = 30.0
ONSET_S = 20.0
"""The onset of a fault is random within this time, so that the fault ends before the next fault."""
AFTER_NS = 2 * NS_PER_S
"""A fault counts for this time after its end: its last scan is in use until the next, and the base still rolls."""
HAS = frozenset({Need.SCANS, Need.FIXES, Need.BASE, Need.CLOCK})
"""The requirements of faults that a soak fulfils: it has ready-made scans and no images."""
DISK, ENDS_RUNTIME = "disk", "drive_lost"
LIFE_S = 2 * 3600.0
"""Minimum age of a runtime before the fault that ends it: only a long run shows growth of memory."""
TIMES = ("recovery",)
"""Tables of the configuration in which a fault only shortens times. A long drive does not need that."""
BUILDING_S = 900.0
"""After this time the idle robot is moved to the next building."""
CARRIED_S = 10.0
"""Pause without goals after a move, for the localisation."""
RESTART_S = 5.0
"""Time for the service manager to restart a runtime. The fault that ended the last runtime is over by then."""
STUCK_S, STUCK_M = 240.0, 1.0
"""A robot that drives at most `STUCK_M` in this time counts as stuck and is moved to the next building."""
SAMPLE_S = 120.0
MOST_KEPT = 200
"""Maximum number of broken rules with details; all are counted."""


def robot_config(**sections: dict[str, Any]) -> Config:
    """Return a robot that drives by `reactive`, with ready-made scans and small recording files."""
    given = without_cameras(Config(policy=PolicySection(model=REACTIVE)))
    return changed(given, {"record": {"max_file_mb": 8.0}} | sections)


def possible(fault: Fault, config: Config) -> bool:
    """Return whether a fault can be injected with this configuration on the simulated clock."""
    if fault.make is None:
        return fault.process == DISK
    fits = all(
        getattr(getattr(config, table), name) == value
        for table, values in fault.sections.items()
        if table not in TIMES
        for name, value in values.items()
    )
    return fits and HAS.issuperset(fault.needs)


class Draw:
    """Draws each fault once a round, in random order by seed."""

    def __init__(self, config: Config, seed: int) -> None:
        self.faults = [fault for fault in FAULTS if possible(fault, config)]
        self._rng = np.random.default_rng(seed)
        self._round: list[Fault] = []
        self._due_ns = 0

    def due(self, now_ns: int, life_s: float) -> tuple[Fault, int] | None:
        """Return the next fault and its onset [ns], once in `EVERY_S`; else None. life_s: age of the runtime [s]."""
        if now_ns < self._due_ns:
            return None
        self._due_ns = now_ns + round(EVERY_S * NS_PER_S)
        fault = self._next()
        if fault.name == ENDS_RUNTIME and life_s < LIFE_S:
            fault = self._next()
        return fault, now_ns + NS_PER_S + round(self._rng.uniform(0.0, ONSET_S) * NS_PER_S)

    def _next(self) -> Fault:
        if not self._round:
            self._round = [self.faults[index] for index in self._rng.permutation(len(self.faults))]
        return self._round.pop()


class Soak:
    """The drive and what it found.

    rules: broken rule -> how often; broken: a line for each of the first, with time, building and fault
    """

    def __init__(
        self, buildings: Sequence[Building], folder: Path, seed: int, config: Config, policy: Policy | None = None
    ) -> None:
        """Take the folder of the recordings. policy: drives in place of the configured one."""
        self._config, self._seed, self._clock, self._schedule = config, seed, SimulatedClock(), Schedule()
        self._policy = policy or policy_maker(config, PLANT)()
        self._began_ns = self._clock.now_ns()
        self._fault: tuple[Fault, PlannedInjection] | None = None
        self.ground = Ground(buildings, config, MOUNTS, PLANT, seed)
        self.draw = Draw(config, seed)
        self.records = Records(config, MOUNTS, folder)
        self.faults, self.rules = Counter[str](), Counter[str]()
        self.broken: list[str] = []
        self.samples: list[Sample] = []
        self.runtimes = self.ticks = self.moving = self.stuck = self.goals = self.reached = 0
        self.stopping = False

    @property
    def robot_s(self) -> float:
        """Simulated time since the start [s]."""
        return (self._clock.now_ns() - self._began_ns) / NS_PER_S

    def run(
        self, robot_s: float = math.inf, wall_s: float = math.inf, listeners: Sequence[Listener] = ()
    ) -> dict[str, int]:
        """Drive for a robot time or a wall time [s], the earlier ends it. Return the broken rules."""
        self._until = robot_s, time.monotonic() + wall_s
        gc.collect()
        gc.freeze()
        try:
            with unlogged():
                while not self.stopping:
                    self._live(listeners)
        finally:
            gc.unfreeze()
            self.records.close()
            self._policy.close()
        for problem in self.records.problems:
            self._broke(*problem)
        return dict(self.rules)

    def _live(self, listeners: Sequence[Listener]) -> None:
        """Run one runtime to its end."""
        config, schedule = self._config, self._schedule
        self.runtimes += 1
        self.ground.put_down(self._clock.now_ns())
        self._monitor, self._touched = Monitor(config, PLANT), self.ground.contacts
        self._born_s = self._here_s = self.robot_s
        self._far = self.robot_s, self.ground.path_m
        clock = FaultyClock(self._clock, schedule)
        inbox = FaultyInbox(self.ground, MOUNTS, config, schedule)
        inference = FaultyInference(InlineInference(self._policy, self._clock.now_ns), self._clock, schedule)
        robot = robot_of(config, build_rigs(config, MOUNTS), PLANT, self._policy, zones_of(config))
        drive = FaultyDrive(self.ground, self._clock, schedule)
        self._runtime = Runtime(robot, clock, inbox, inference, drive, (*listeners, self.records, self))
        try:
            asyncio.run(self._runtime.run())
        except DriverError as error:
            fault = self._fault_now()
            if fault is None or fault.name != ENDS_RUNTIME or self.ground.last_sent != STOP:
                self._broke("ended", f"the runtime ended, {self.ground.last_sent} was sent last: {error}")
            self.records.close()
            self._clock.advance(round(RESTART_S * NS_PER_S))
        except OnboardError as error:
            self._broke("ended", f"the runtime ended: {error}")

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Judge the tick, plan faults and goals, and take a sample when it is due."""
        self._judge(record)
        self._plan(record.slot.start_ns)
        self._move_on(record)
        if not self.samples or self.robot_s - self.samples[-1].robot_s >= SAMPLE_S:
            self.records.settle()
            self.samples.append(take_sample(self.robot_s))
        self.stopping = self.robot_s >= self._until[0] or time.monotonic() >= self._until[1]
        if self.stopping:
            self._runtime.stop()

    def _judge(self, record: TickRecord) -> None:
        ground, self.ticks = self.ground, self.ticks + 1
        self.moving += abs(ground.robot.state.twist.v_mps) > MOVING_MPS
        for violation in self._monitor.watch(record, ground.path_m):
            self._broke(violation.rule, f"{violation.what} (slot {record.slot.number})")
        if ground.contacts > self._touched:
            self._broke("contact", f"{ground.contacts - self._touched} contacts, command {record.command}")
        self._touched = ground.contacts

    def _plan(self, now_ns: int) -> None:
        """Plan the next fault when it is due. A full disk has no injection: the recordings inject it."""
        self.records.disk_was_full()
        drawn = self.draw.due(now_ns, self.robot_s - self._born_s)
        if drawn is None:
            return
        fault, onset_ns = drawn
        self.faults[fault.name] += 1
        if fault.process == DISK:
            self.records.fill_disk()
            made = [PlannedInjection(Injection(), onset_ns, onset_ns + round(fault.lasts_s * NS_PER_S))]
        else:
            made = fault.planned(Scene(self._config, MOUNTS, self._seed + sum(self.faults.values())), onset_ns)
        for planned in made:
            self._schedule.add(planned)
            self._fault = fault, planned

    def _move_on(self, record: TickRecord) -> None:
        """Send the next goal, or move the robot to the next building."""
        ground, now_ns, robot_s = self.ground, record.slot.start_ns, self.robot_s
        if ground.path_m - self._far[1] > STUCK_M:
            self._far = robot_s, ground.path_m
        stuck = robot_s - self._far[0] > STUCK_S
        if (not drives(record.state) and robot_s - self._here_s > BUILDING_S) or stuck:
            self.stuck += stuck
            ground.put_down(now_ns)
            self._here_s, self._far = robot_s, (robot_s, ground.path_m)
        elif robot_s - self._here_s >= CARRIED_S:
            before = ground.goals.reached
            goal = ground.goals.next_goal(record.state, now_ns)
            self.reached += ground.goals.reached - before
            if goal is not None:
                self.goals += 1
                ground.ask(GoalRequest(now_ns, now_ns, self._config.dds.map_frame, Pose(*goal, 0.0)))

    def _fault_now(self) -> Fault | None:
        """Return the fault now or just before; None without one."""
        if self._fault is None:
            return None
        fault, planned = self._fault
        return fault if planned.onset_ns <= self._clock.now_ns() < planned.end_ns + AFTER_NS else None

    def _broke(self, rule: str, what: str) -> None:
        self.rules[rule] += 1
        self.records.keep = True
        if len(self.broken) < MOST_KEPT:
            fault = self._fault_now()
            under = f" under {fault.name}" if fault is not None else ""
            self.broken.append(f"at {self.robot_s:.2f} s in {self.ground.building.name}{under}: {rule}: {what}")
