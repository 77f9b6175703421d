"""A soak of the real process over DDS, in real time. It covers what the simulated clock in one process leaves out.

`onboard run` and the simulated robot are processes. The soak covers DDS with all readers and writers, and the inference
thread, the recorder and the journal at their own pace. It measures the runtime's resources from outside.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from typing import Any

from rich.console import Console

from hil.live.target.goals import GoalSequence, Place, choose_place
from hil.physics.collision_world import body_of
from hil.reliability.faults.invariants import Monitor
from hil.reliability.faults.run.live import MEDDLES, Meddle
from hil.reliability.faults.run.processes import Drive, Stand
from hil.reliability.soak.report import growth_line
from hil.reliability.soak.resources import Held, growth, held_by
from onboard.assembly.assembly import check_files
from onboard.assembly.policies import require_engine
from onboard.config.config import Config
from onboard.config.plant_model import Plant, load_plant
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_types import Bool
from onboard.system.signals import Signals
from onboard.values.clock import NS_PER_S
from onboard.values.errors import OnboardError
from onboard.values.messages import Pose

EVERY_S = 30.0
LASTS_S = 2.0
LOOK_S = 0.2
SAMPLE_S = 5.0
REPORT_S = 30.0
NAMES = ("memory_mib", "files", "threads")


def visit(stand: Stand, lasts_s: float) -> tuple[int, int]:
    """Join DDS, write to the topics that allow several writers, and leave."""
    onset_ns = time.monotonic_ns()
    somebody = Wire(stand.config.dds)
    try:
        for topic in ("e_stop", "obstacle"):
            somebody.writer(topic).write(Bool(False))
        stand.watch(lasts_s)
    finally:
        somebody.close()
    return onset_ns, time.monotonic_ns()


FAULTS: Mapping[str, Meddle] = {
    "loop_blocked": MEDDLES["pause"],
    "visitor": visit,
    "override_flood": MEDDLES["flood"],
    "peer_gone": MEDDLES["peer"],
}
"""Faults in turn. Two are left out: a full disk ends the recording, and an e-stop without its sender ends the drive."""


class LiveSoak:
    """One drive of two processes, and its results."""

    def __init__(self, drive: Drive, place: Place, plant: Plant, folder: Path) -> None:
        """Take the drive, the place with its goals, the plant, and the folder of logs and recordings."""
        self._drive, self._folder = drive, folder
        self._goals, self._monitor = GoalSequence(place), Monitor(drive.config, plant)
        self.stopping = False
        self.faults: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.broken: list[str] = []
        self.samples: list[Held] = []
        self.commands = 0
        self.wall_s = 0.0

    def stop(self) -> None:
        """End after the current step. Safe from a signal handler."""
        self.stopping = True

    def run(self, until_s: float, report: Callable[[LiveSoak], None]) -> None:
        """Drive for `until_s`; call `report` every `REPORT_S`. Raises OnboardError if a process fails."""
        record = self._drive.config.record.model_copy(update={"directory": self._folder / "recordings"})
        config = self._drive.config.model_copy(update={"record": record})
        stand = Stand(Drive(config, self._drive.arguments, self._drive.goal), self._folder)
        try:
            stand.set_off()
            self._soak(stand, until_s, report)
        finally:
            result = stand.end()
        if not result:
            raise OnboardError(f"{self._folder}: the runtime left no word at its end")

    def _soak(self, stand: Stand, until_s: float, report: Callable[[LiveSoak], None]) -> None:
        began_s = reported_s = time.monotonic()
        fault_s, faults = EVERY_S, cycle(FAULTS.items())
        while not self.stopping and self.wall_s < until_s:
            stand.watch(LOOK_S)
            stand.runtime.check()
            self.wall_s = time.monotonic() - began_s
            self._judge(stand)
            if not self.samples or self.wall_s - self.samples[-1].robot_s >= SAMPLE_S:
                self.samples.append(held_by(stand.runtime.pid, self.wall_s))
            goal = self._goals.next_goal(stand.state, time.monotonic_ns())
            if goal is not None:
                stand.ask(Pose(*goal, 0.0), stand.config.dds.map_frame)
            if self.wall_s >= fault_s:
                name, meddle = next(faults)
                fault_s += EVERY_S
                meddle(stand, LASTS_S)
                self.faults[name] += 1
            if time.monotonic() - reported_s >= REPORT_S:
                reported_s = time.monotonic()
                report(self)

    def _judge(self, stand: Stand) -> None:
        """Check the values of the commands since the last call, and drop these commands."""
        ticks, stand.ticks = stand.ticks, []
        self.commands += len(ticks)
        for tick in ticks:
            for violation in self._monitor.watch(tick):
                self.rules[violation.rule] += 1
                self.broken.append(f"at {tick.slot.start_ns / NS_PER_S:.2f} s: {violation.rule}: {violation.what}")

    def result(self) -> dict[str, Any]:
        """Return the results as plain values."""
        return {
            "wall_s": round(self.wall_s, 1),
            "commands": self.commands,
            "goals": self._goals.sent,
            "reached": self._goals.reached,
            "faults": dict(self.faults),
            "violations": dict(self.rules),
            "broken": self.broken,
            "growth": [{**asdict(one), "held": one.held} for one in growth(self.samples, NAMES)],
            "samples": [asdict(one) for one in self.samples],
        }


# ---- A soak of the real process with its console output


def soak_processes(
    console: Console, config: Config, until_s: float, seed: int, map_name: str, out: Path
) -> dict[str, Any]:
    """Drive as processes for `until_s` or until a signal, and return the results. Raises OnboardError."""
    check_files(config)
    require_engine(config)
    place = choose_place(map_name, seed, body_of(config.robot))
    goal = Pose(*place.episodes[0].goal_xy_m, 0.0)
    drive = Drive(config, ["--map", map_name, "--seed", str(seed)], goal)
    with Signals() as signals:
        soak = LiveSoak(drive, place, load_plant(config.robot.plant), out.resolve())
        signals.stop_with(soak.stop)
        soak.run(until_s, lambda it: console.print(live_line(it.result()), markup=False, soft_wrap=True))
    result = soak.result()
    for line in live_lines(result):
        console.print(line, markup=False, soft_wrap=True)
    return result


def passed_live(result: Mapping[str, Any]) -> bool:
    """Return whether the soak passed: a goal reached, enough samples, no broken rule, and no growth."""
    drove = result["reached"] > 0 and bool(result["growth"])
    return drove and not result["violations"] and all(row["held"] for row in result["growth"])


def live_line(result: Mapping[str, Any]) -> str:
    """Return the progress as one line."""
    held = result["samples"][-1] if result["samples"] else {"memory_mib": 0.0, "files": 0, "threads": 0}
    return (
        f"{result['wall_s'] / 60.0:.1f} min: {result['commands']} commands, {result['goals']} goals, "
        f"{result['reached']} reached; {sum(result['faults'].values())} faults; {held['memory_mib']:.0f} MiB, "
        f"{held['files']} files, {held['threads']} threads"
    )


def live_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the results as console lines."""
    yield live_line(result)
    yield "faults: " + (", ".join(f"{count} {name}" for name, count in result["faults"].items()) or "none")
    yield from (growth_line(row) for row in result["growth"])
    if not result["growth"]:
        yield "too short to say whether anything grows"
    yield f"{sum(result['violations'].values())} violations"
    yield from result["broken"]
