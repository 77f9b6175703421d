"""One process of a soak: a long-running runtime gets fault after fault, and the judge checks every tick."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hil.reliability.faults.fault import Fault
from hil.reliability.faults.fault_proxies import FaultyClock, FaultyDrive, FaultyInbox, FaultyInference
from hil.reliability.faults.inject.schedule import Injection, Planned, Scene, Schedule
from hil.reliability.faults.invariants import Violation
from hil.reliability.soak.episodes import Building, Ground
from hil.reliability.soak.fault_schedule import DISK, ENDS_RUNTIME, Draw
from hil.reliability.soak.judge import Judge
from hil.reliability.soak.recording_check import Records
from hil.reliability.soak.resources import Sample, take_sample
from onboard.assembly.robot import build_rigs, robot_of, zones_of
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Plant
from onboard.counters import Counters
from onboard.navigation.mission import drives
from onboard.policy.inference import InlineInference
from onboard.runtime import Listener, Runtime
from onboard.state import TickRecord
from onboard.system.log import unlogged
from onboard.values.clock import NS_PER_S, SimulatedClock
from onboard.values.errors import DriverError, OnboardError
from onboard.values.interfaces import Policy
from onboard.values.messages import STOP, GoalRequest, Pose

BUILDING_S = 900.0
"""After this time the idle robot is moved to the next building."""
CARRIED_S = 10.0
"""Pause without goals after a move, for the localisation."""
RESTART_S = 5.0
"""Time for the service manager to restart a runtime. The fault that ended the last runtime is over by then."""
STUCK_S = 240.0
"""A robot that drives at most `STUCK_M` in this time counts as stuck and is moved to the next building."""
STUCK_M = 1.0
SAMPLE_S = 120.0
REPORT_S = 30.0
ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Robot:
    """The robot. config: with topics of ready-made scans (`without_cameras` of `hil/drive/sensing.py`)."""

    config: Config
    mounts: Mounts
    plant: Plant
    policy: Policy


@dataclass(frozen=True, slots=True)
class Until:
    """Duration of a soak in robot time and in wall time, the earlier ends it; None means no limit."""

    robot_s: float | None = None
    wall_s: float | None = None


class Soak:
    """The drive of one process, and its results."""

    def __init__(self, robot: Robot, buildings: Sequence[Building], folder: Path, seed: int) -> None:
        """Take robot, buildings, and folder of the recordings."""
        self.who, self.seed = robot, seed
        self._clock, self.schedule = SimulatedClock(), Schedule()
        self._began_ns = self._clock.now_ns()
        self._ground = Ground(buildings, robot.config, robot.mounts, robot.plant, seed)
        self.draw = Draw(robot.config, seed)
        self.stopping = False
        self.judge = Judge(robot.config, robot.plant, self._ground)
        self.records = Records(robot.config, robot.mounts, folder)
        self.faults: Counter[str] = Counter()
        self.samples: list[Sample] = []
        self.goals = self.reached = self.stuck = 0
        self.wall_s = self.processor_s = 0.0

    @property
    def ground(self) -> Ground:
        """The simulated environment with the robot."""
        return self._ground

    @property
    def robot_s(self) -> float:
        """Simulated time since the start [s]."""
        return (self._clock.now_ns() - self._began_ns) / NS_PER_S

    def stop(self) -> None:
        """End after the current tick. Safe from a signal handler."""
        self.stopping = True

    def run(self, until: Until, report: Callable[[Soak], None], listeners: Sequence[Listener] = ()) -> None:
        """Drive until a limit or `stop`. report: called every `REPORT_S`; listeners: also called every tick."""
        began_s, used_s = time.monotonic(), time.process_time()
        gc.collect()
        gc.freeze()
        try:
            with unlogged():
                while not self.stopping:
                    self._live(_Life(self, until, report, began_s), listeners)
        finally:
            gc.unfreeze()
            self.records.close()
            self.wall_s, self.processor_s = time.monotonic() - began_s, time.process_time() - used_s

    def _live(self, life: _Life, listeners: Sequence[Listener]) -> None:
        """Run one runtime to its end."""
        config, who, schedule = self.who.config, self.who, self.schedule
        self._ground.put_down(self._clock.now_ns())
        self.judge.begin()
        clock = FaultyClock(self._clock, schedule)
        inbox = FaultyInbox(self._ground, who.mounts, config, schedule)
        inference = FaultyInference(InlineInference(who.policy, self._clock.now_ns), self._clock, schedule)
        robot = robot_of(config, build_rigs(config, who.mounts), who.plant, who.policy, zones_of(config))
        drive = FaultyDrive(self._ground, self._clock, schedule)
        life.runtime = Runtime(robot, clock, inbox, inference, drive, (*listeners, self.records, life))
        try:
            asyncio.run(life.runtime.run())
        except DriverError as error:
            self._left(life, error)
        except OnboardError as error:
            self._broke(f"the runtime ended: {error}")

    def _left(self, life: _Life, error: DriverError) -> None:
        """Check a runtime that ended on a lost link: only the fault may end it, and its last command must be a stop."""
        fault = self.judge.fault_at(self._clock.now_ns())
        if fault is None or fault.name != ENDS_RUNTIME:
            self._broke(f"the runtime ended: {error}")
        elif self._ground.last_sent != STOP:
            self._broke(f"the runtime ended without a stop: {error}")
        self.records.close()
        self._clock.advance(round(RESTART_S * NS_PER_S))

    def _broke(self, what: str) -> None:
        now_ns = self._clock.now_ns()
        self.records.broke(now_ns)
        self.judge.add(Violation(0, ENDED, what), now_ns, self.robot_s, self.judge.fault_at(now_ns))


class _Life:
    """A listener of one runtime that sends goals, plans faults, checks ticks and takes samples."""

    runtime: Runtime

    def __init__(self, soak: Soak, until: Until, report: Callable[[Soak], None], began_s: float) -> None:
        self._soak, self._until, self._report, self._began_s = soak, until, report, began_s
        self._born_s = self._here_s = soak.robot_s
        self._far = soak.robot_s, 0.0
        self._reported_s = time.monotonic()

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Check the tick, plan faults and goals, and take a sample when it is due."""
        soak, robot_s = self._soak, self._soak.robot_s
        if soak.judge.watch(record, robot_s):
            soak.records.broke(record.slot.start_ns)
        self._plan(record.slot.start_ns, robot_s)
        self._move_on(record, robot_s)
        if not soak.samples or robot_s - soak.samples[-1].robot_s >= SAMPLE_S:
            soak.records.settle()
            soak.samples.append(take_sample(robot_s))
        self._end_or_report(robot_s)

    def _plan(self, now_ns: int, robot_s: float) -> None:
        """Plan the next fault when it is due. A full disk has no injection: the recordings inject it."""
        soak = self._soak
        soak.records.disk_was_full()
        drawn = soak.draw.due(now_ns, robot_s - self._born_s)
        if drawn is None:
            return
        fault, onset_ns = drawn
        soak.faults[fault.name] += 1
        for planned in self._made(fault, onset_ns):
            soak.schedule.add(planned)
            soak.judge.planned(fault, planned)

    def _made(self, fault: Fault, onset_ns: int) -> Sequence[Planned]:
        soak = self._soak
        if fault.process == DISK:
            soak.records.fill_disk()
            return [Planned(Injection(), onset_ns, onset_ns + round(fault.lasts_s * NS_PER_S))]
        number = sum(soak.faults.values())
        return fault.planned(Scene(soak.who.config, soak.who.mounts, soak.seed + number), onset_ns)

    def _move_on(self, record: TickRecord, robot_s: float) -> None:
        """Send the next goal, or move the robot to the next building."""
        soak, ground, now_ns = self._soak, self._soak.ground, record.slot.start_ns
        if ground.path_m - self._far[1] > STUCK_M:
            self._far = robot_s, ground.path_m
        stuck = robot_s - self._far[0] > STUCK_S
        idle = not drives(record.state)
        if (idle and robot_s - self._here_s > BUILDING_S) or stuck:
            soak.stuck += stuck
            ground.put_down(now_ns)
            self._here_s, self._far = robot_s, (robot_s, ground.path_m)
            return
        if robot_s - self._here_s < CARRIED_S:
            return
        before = ground.goals.reached
        goal = ground.goals.next_goal(record.state, now_ns)
        soak.reached += ground.goals.reached - before
        if goal is not None:
            soak.goals += 1
            ground.ask(GoalRequest(now_ns, now_ns, soak.who.config.dds.map_frame, Pose(*goal, 0.0)))

    def _end_or_report(self, robot_s: float) -> None:
        soak, now_s = self._soak, time.monotonic()
        soak.wall_s = now_s - self._began_s
        over = self._until.robot_s is not None and robot_s >= self._until.robot_s
        if over or (self._until.wall_s is not None and soak.wall_s >= self._until.wall_s):
            soak.stop()
        if soak.stopping:
            self.runtime.stop()
        elif now_s - self._reported_s >= REPORT_S:
            self._reported_s = now_s
            self._report(soak)
