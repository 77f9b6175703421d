"""Faults of the real process: injected from outside into `onboard run` and its peers, judged by its recording.

If the recording ends before the run, the commands received over DDS continue it.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hil.live.demo import START_S
from hil.reliability.faults.expectations import Run
from hil.reliability.faults.fault import Fault
from hil.reliability.faults.inject.engine import BLOCK_NS
from hil.reliability.faults.inject.inputs import MAD_TWISTS
from hil.reliability.faults.run.processes import Drive, Stand, TooLateError, recorded_ticks
from hil.reliability.faults.verdict import Mode, Status, Verdict, judge, not_run
from onboard.config.plant_model import Plant
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_twist
from onboard.drivers.dds.ros_types import Bool
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S, wall_ns
from onboard.values.errors import OnboardError
from onboard.values.messages import Pose, Twist

TAIL_S = 2.0
FLOOD_HZ = 1000
BURST_S = 0.02
READER_S = 5.0
RELEASED_S = 1.0
PRESSED_S = 0.5
LEASE_S = 12.0
"""After this time DDS has reported a killed peer to the others (the lease of Cyclone DDS is 10 s)."""
AHEAD = Pose(3.0, 0.0, 0.0)
"""Goal in the base frame after the robot has lost its goal."""
BEHIND = Pose(-3.0, 0.0, 0.0)
"""Goal in the base frame with a large latency."""
BACKWARD = Twist(-0.1, 0.0)
"""The operator's command."""
TOUCH_S = 0.5
QUEUED_S = 1.0
"""Latency of the operator's commands: longer than the dead man's time."""
NOT_IN_PROCESS = "it cannot be injected into a process from outside"

Meddle = Callable[[Stand, float], tuple[int, int]]
"""Injects a fault into running processes for a duration [s]; returns its onset and end, monotonic [ns]."""


def in_process(fault: Fault, drive: Drive, plant: Plant, folder: Path) -> Verdict:
    """Run a fault in processes over DDS and return its verdict. Raises OnboardError if they do not start."""
    if not fault.process:
        return not_run(fault, Mode.PROCESS, NOT_IN_PROCESS)
    try:
        run, result = _driven(MEDDLES[fault.process], fault.lasts_s, drive, folder)
    except TooLateError as late:
        return not_run(fault, Mode.PROCESS, str(late))

    def without() -> Run | None:
        """Return a second run without the fault, at the times of the first run; None if the robot does not drive."""
        try:
            plain, _ = _driven(_nothing, (run.end_ns - run.onset_ns) / NS_PER_S, drive, folder / "without")
        except TooLateError:
            return None
        later_ns = run.onset_ns - plain.onset_ns
        return replace(plain, ticks=[_moved(tick, start_ns=tick.slot.start_ns + later_ns) for tick in plain.ticks])

    verdict = judge(fault, Mode.PROCESS, run, drive.config, plant, without)
    missing = _unshown(fault, result)
    if missing:
        return replace(verdict, status=Status.FAILED, problems=(*verdict.problems, missing))
    return verdict


def _driven(meddle: Meddle, lasts_s: float, drive: Drive, folder: Path) -> tuple[Run, dict[str, Any]]:
    """Return a run with a fault, and the runtime's summary at its end. Raises OnboardError."""
    recordings = folder / "recordings"
    record = drive.config.record.model_copy(update={"directory": recordings, "enabled": True})
    config = drive.config.model_copy(update={"record": record})
    stand = Stand(replace(drive, config=config), folder)
    try:
        stand.set_off()
        onset_ns, end_ns = meddle(stand, lasts_s)
        stand.watch(TAIL_S)
    finally:
        result = stand.end()
    until_ns = end_ns + round(TAIL_S * NS_PER_S)
    recorded = recorded_ticks(result, recordings)
    ticks = [tick for tick in _joined(recorded, stand.ticks) if tick.slot.start_ns < until_ns]
    return Run(ticks, onset_ns, end_ns), result


def _joined(recorded: Sequence[TickRecord], received: Sequence[TickRecord]) -> list[TickRecord]:
    """Return the recorded ticks, followed by the later ticks received over DDS."""
    last = recorded[-1].slot
    beyond = [tick for tick in received if tick.slot.start_ns > last.start_ns]
    return [*recorded, *(_moved(tick, number=last.number + 1 + place) for place, tick in enumerate(beyond))]


def _moved(tick: TickRecord, **slot: int) -> TickRecord:
    return replace(tick, slot=replace(tick.slot, **slot))


def _unshown(fault: Fault, result: dict[str, Any]) -> str:
    """Return the reason why the fault had no effect in a run, or ""."""
    full = result.get("recording_dropped", 0) > 0
    return "the recorder lost nothing, so the disk was not full" if fault.process == "disk" and not full else ""


def _nothing(stand: Stand, lasts_s: float) -> tuple[int, int]:
    """Inject nothing; only observe."""
    onset_ns = time.monotonic_ns()
    stand.watch(lasts_s)
    return onset_ns, time.monotonic_ns()


def _pause(stand: Stand, lasts_s: float) -> tuple[int, int]:
    """Stop the runtime's process with all its threads for 300 ms."""
    onset_ns = time.monotonic_ns()
    os.kill(stand.runtime.pid, signal.SIGSTOP)
    try:
        threading.Event().wait(BLOCK_NS / NS_PER_S)
    finally:
        os.kill(stand.runtime.pid, signal.SIGCONT)
    stand.watch(lasts_s)
    return onset_ns, time.monotonic_ns()


def _peer(stand: Stand, lasts_s: float) -> tuple[int, int]:
    """Kill the simulated robot, restart it, and send a goal when its odometry arrives."""
    base = stand.base
    if base is None:
        raise OnboardError("there is no simulated robot")
    onset_ns = time.monotonic_ns()
    os.kill(base.pid, signal.SIGKILL)
    stand.base = None
    base.end()
    stand.watch(LEASE_S)
    stand.base_received()
    stand.start_base()
    stand.wait(stand.base_received, START_S, "no message from the base was received again")
    end_ns = time.monotonic_ns()
    stand.ask(AHEAD, stand.config.dds.base_frame)
    return onset_ns, end_ns


def _disk(stand: Stand, lasts_s: float) -> tuple[int, int]:
    """Limit the runtime's file size to the current size of its recording: its next write fails, as on a full disk."""
    files = sorted(stand.config.record.directory.glob("*.mcap"))
    if not files:
        raise OnboardError(f"{stand.config.record.directory}: nothing is being recorded")
    pid, kind = stand.runtime.pid, resource.RLIMIT_FSIZE
    before = resource.prlimit(pid, kind)
    onset_ns = time.monotonic_ns()
    resource.prlimit(pid, kind, (files[-1].stat().st_size, before[1]))
    stand.watch(lasts_s)
    resource.prlimit(pid, kind, before)
    return onset_ns, time.monotonic_ns()


def _flood(stand: Stand, lasts_s: float) -> tuple[int, int]:
    """Send 1000 operator commands a second."""
    writer, rng = stand.wire.writer("cmd_vel_teleop"), random.Random(0)
    if not writer.wait_for_reader(READER_S):
        raise OnboardError("the runtime does not subscribe to operator commands")

    def number() -> float:
        return rng.choice(MAD_TWISTS) if rng.random() < 0.3 else rng.gauss(0.0, 2.0)

    onset_ns = time.monotonic_ns()
    while time.monotonic_ns() - onset_ns < lasts_s * NS_PER_S:
        for _ in range(round(FLOOD_HZ * BURST_S)):
            writer.write(ros_twist(Twist(number(), number())))
        stand.watch(BURST_S)
    return onset_ns, time.monotonic_ns()


def _e_stop(stand: Stand, lasts_s: float) -> tuple[int, int]:
    """Press the e-stop from a participant that then leaves DDS without a release."""
    somebody = Wire(stand.config.dds)
    try:
        writer = somebody.writer("e_stop")
        if not writer.wait_for_reader(READER_S):
            raise OnboardError("the runtime does not subscribe to the e-stop")
        writer.write(Bool(False))
        stand.watch(RELEASED_S)  # the writer is ready a little before the reader has discovered it
        onset_ns = time.monotonic_ns()
        writer.write(Bool(True))
        stand.watch(PRESSED_S)
    finally:
        somebody.close()
    stand.watch(lasts_s)
    return onset_ns, time.monotonic_ns()


def _late_operator(stand: Stand, lasts_s: float) -> tuple[int, int]:
    """Send operator commands at once; after they expire send commands with old stamps, as from a queue."""
    writer = stand.wire.writer("cmd_vel_teleop")
    if not writer.wait_for_reader(READER_S):
        raise OnboardError("the runtime does not subscribe to operator commands")
    for _ in range(round(TOUCH_S / BURST_S)):  # the writer is ready a little before the reader has discovered it
        writer.write(ros_twist(BACKWARD))
        stand.watch(BURST_S)
    stand.watch(QUEUED_S)
    onset_ns = time.monotonic_ns()
    while time.monotonic_ns() - onset_ns < lasts_s * NS_PER_S:
        writer.write(ros_twist(BACKWARD), wall_ns() - round((QUEUED_S - BURST_S) * NS_PER_S))
        stand.watch(BURST_S)
    return onset_ns, time.monotonic_ns()


def _late_goal(stand: Stand, lasts_s: float) -> tuple[int, int]:
    """Send a goal whose stamp is 1 ns after the stamp of the current goal."""
    onset_ns = time.monotonic_ns()
    goal_ns = stand.goal_ns
    stand.watch(lasts_s - TAIL_S / 2)
    stand.ask(BEHIND, stand.config.dds.base_frame, goal_ns + 1)
    stand.watch(TAIL_S / 2)
    return onset_ns, time.monotonic_ns()


MEDDLES: dict[str, Meddle] = {
    "pause": _pause,
    "peer": _peer,
    "disk": _disk,
    "flood": _flood,
    "e_stop": _e_stop,
    "late operator": _late_operator,
    "late goal": _late_goal,
}
