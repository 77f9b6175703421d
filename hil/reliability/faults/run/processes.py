"""The real runtime and the simulated robot as processes over DDS, and the messages that they send."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hil.live.child_process import Child
from hil.live.demo import LOCALIZE_S, START_S
from hil.live.demo_result import write_config
from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from hil.reliability.faults.observed_tick import is_stop, off_the_wire
from onboard.config.config import Config
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_goal, twist_from_ros
from onboard.recording.repair import repair
from onboard.recording.tick_message import imageless
from onboard.state import TickRecord
from onboard.values.clock import wall_ns
from onboard.values.errors import InputError, OnboardError
from onboard.values.messages import Pose

POLL_S = 0.02
MOVES_S = 1.0
"""The robot drives after it has received motion commands for this time."""
SETS_OFF_S = 60.0
"""Timeout for the start of a drive, for a busy machine."""


class TooLateError(OnboardError):
    """An expected event did not come in time: the machine is too busy, or the robot does not drive."""


@dataclass(frozen=True, slots=True)
class Drive:
    """The drive of the processes. arguments: options of `onboard-hil sim` for building and start; goal: map frame."""

    config: Config
    arguments: Sequence[str]
    goal: Pose


class Stand:
    """Two processes, and this process's DDS participant. Times are CLOCK_MONOTONIC, like the runtime's."""

    def __init__(self, drive: Drive, folder: Path) -> None:
        """Start both processes. Raises OnboardError if the folder is not writable or the domain is in use."""
        self._drive, self._folder = drive, folder
        self.config = drive.config
        self._result_file = folder / "run.json"
        self._config = folder / "robot.toml"
        write_config(self._config, drive.config)
        self.wire = Wire(drive.config.dds)
        self._states, self._commands = self.wire.reader("state"), self.wire.reader("cmd_vel")
        self._odometry, self._goal = self.wire.reader("odom"), self.wire.writer("goal_pose")
        self.ticks: list[TickRecord] = []
        self.state = ""
        self.goal_ns = 0
        self._sims = 0
        self.base: Child | None = None
        run = ["onboard", "run", "--config", str(self._config), "--json", str(self._result_file), "--no-status"]
        self.runtime = Child("the runtime", run, folder / "run.log")
        self.start_base()

    def start_base(self) -> None:
        """Start or restart the simulated robot."""
        self._sims += 1
        arguments = ["hil", "sim", *self._drive.arguments, "--config", str(self._config)]
        self.base = Child("the simulated robot", arguments, self._folder / f"sim{self._sims}.log")

    def wait(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        """Observe until a condition is true. Raises TooLateError on timeout, OnboardError if a process has ended."""
        deadline_s = time.monotonic() + limit_s
        while not condition():
            self.poll()
            for child in filter(None, (self.base, self.runtime)):
                child.check()
            if time.monotonic() > deadline_s:
                raise TooLateError(f"{what} within {limit_s:g} s")

    def watch(self, seconds: float) -> None:
        """Observe for a duration [s]."""
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            self.poll()

    def base_received(self) -> bool:
        """Return whether odometry arrived since the last call."""
        return bool(self._odometry.take())

    def set_off(self) -> None:
        """Wait for both processes, send the goal, and wait until the robot drives. Raises OnboardError."""
        self.wait(lambda: bool(self.state), START_S, "no message from the runtime was received")
        self.wait(self.base_received, START_S, "no message from the base was received")
        self.watch(LOCALIZE_S)
        self.ask(self._drive.goal, self._drive.config.dds.map_frame)
        self.wait_moving()

    def ask(self, goal: Pose, frame_id: str, written_ns: int | None = None) -> None:
        """Send a goal. written_ns: its stamp, wall time [ns]; None means now."""
        self.goal_ns = wall_ns() if written_ns is None else written_ns
        self._goal.write(ros_goal(self.goal_ns, frame_id, goal), self.goal_ns)

    def wait_moving(self) -> None:
        """Wait until the robot has received motion commands for `MOVES_S`."""
        count = round(MOVES_S * self._drive.config.rates.control_hz)
        last = len(self.ticks)

        def moves() -> bool:
            newest = self.ticks[max(last, len(self.ticks) - count) :]
            return len(newest) == count and not any(is_stop(tick) for tick in newest)

        self.wait(moves, SETS_OFF_S, "the robot did not start to move")

    def poll(self) -> None:
        """Wait up to `POLL_S` for a command, and keep the new messages."""
        self._commands.wait(POLL_S)
        now_ns = time.monotonic_ns()
        states = [message.sample.data for message in self._states.take()]
        self.state = states[-1] if states else self.state
        for message in self._commands.take():
            sample = message.sample.twist if self._drive.config.dds.stamped_cmd_vel else message.sample
            number = len(self.ticks)
            self.ticks.append(off_the_wire(number, now_ns, twist_from_ros(sample), self.state))

    def end(self) -> dict[str, Any]:
        """End the runtime, then the base, which so receives its stop. Return the runtime's summary, {} if missing."""
        self.runtime.end()
        self.poll()
        if self.base is not None:
            self.base.end()
        self.wire.close()
        try:
            result: dict[str, Any] = json.loads(self._result_file.read_text())
        except (OSError, ValueError):
            return {}
        return result


def recorded_ticks(result: dict[str, Any], folder: Path) -> list[TickRecord]:
    """Return the recorded ticks, after a repair of unfinished files. Raises InputError without a recording."""
    ticks: list[TickRecord] = []
    files = sorted(folder.glob("*.mcap"))
    if not result or not files:
        raise InputError(f"{folder}: the runtime left no recording")
    for file in files:
        repair(file)
        with open_recording(file) as recording:
            ticks += map(imageless, ticks_of(recording))
    return ticks
