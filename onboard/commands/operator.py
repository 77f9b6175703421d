"""`onboard goal`, `onboard cancel`, `onboard status`: what an operator says to a running robot, and hears of it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, finite, write_json
from onboard.config.config import Config, load_config
from onboard.drivers.dds.participant import Reader, Wire
from onboard.drivers.dds.ros_convert import ros_goal
from onboard.drivers.dds.ros_types import Empty
from onboard.navigation.mission import State, drives
from onboard.values.clock import wall_ns
from onboard.values.errors import OnboardError
from onboard.values.messages import Pose

FOUND_S = 10.0
"""Timeout for the discovery of the runtime."""
TAKEN_S = 3.0
"""Timeout for the answer to a goal or a cancellation: an acknowledgement, then a new state."""
POLL_S = 0.1
LEVELS = ("ok", "warning", "error")
COLORS = ("green", "yellow", "red")
REFUSED = "goal refused"


class Frame(str, Enum):
    """A frame of goals: the robot, its odometry, or the map (only while it is localised)."""

    BASE = "base"
    ODOM = "odom"
    MAP = "map"


FrameOption = Annotated[Frame, typer.Option(help="base: ahead and left of the robot; odom; map, when localised.")]


def goal(
    x: Annotated[float, typer.Argument(metavar="X", help="Forward in the frame, in m.", callback=finite)],
    y: Annotated[float, typer.Argument(metavar="Y", help="To the left in the frame, in m.", callback=finite)],
    frame: FrameOption = Frame.BASE,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the drive. Exit code 0: reached.")] = False,
    config: ConfigOption = None,
    json_file: JsonOption = None,
) -> None:
    """Send a goal to the running robot and print the state that it answers with. Exit 1: refused."""
    check_json_target(json_file)
    loaded = load_config(config)
    named = {Frame.BASE: loaded.dds.base_frame, Frame.ODOM: loaded.dds.odom_frame, Frame.MAP: loaded.dds.map_frame}
    with _robot(loaded) as robot:
        robot.send("goal_pose", ros_goal(wall_ns(), named[frame], Pose(x, y, 0.0)))
        state = robot.answer(lambda state: drives(state) or REFUSED in state)
        while wait and drives(state):
            state = robot.next_state()
    _tell({"state": state}, f"{state}\n", json_file)
    if not (state == State.REACHED.value if wait else drives(state) and REFUSED not in state):
        raise typer.Exit(1)


def cancel(config: ConfigOption = None, json_file: JsonOption = None) -> None:
    """End the drive of the running robot and print the state that it answers with."""
    check_json_target(json_file)
    with _robot(load_config(config)) as robot:
        robot.send("cancel", Empty())
        state = robot.answer(lambda state: not drives(state))
    _tell({"state": state}, f"{state}\n", json_file)
    if drives(state):
        raise typer.Exit(1)


def status(config: ConfigOption = None, json_file: JsonOption = None) -> None:
    """Print what the running robot does and how its parts are, on one screen. Exit 1: a part is in error."""
    check_json_target(json_file)
    loaded = load_config(config)
    with _robot(loaded) as robot:
        seen = robot.status()
    if json_file is not None:
        write_json(json_file, asdict(seen))
    if json_file != STANDARD_OUTPUT:
        Console().print(_screen(loaded, seen))
    if any(part.level == LEVELS[2] for part in seen.parts):
        raise typer.Exit(1)


def _tell(result: dict[str, Any], line: str, json_file: str | None) -> None:
    if json_file is not None:
        write_json(json_file, result)
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(line)


@dataclass(frozen=True, slots=True)
class Part:
    """A row of the diagnostics. level: one of LEVELS."""

    name: str
    level: str
    message: str
    values: dict[str, str]


@dataclass(frozen=True, slots=True)
class Status:
    """What a running robot says of itself."""

    robot: str
    domain: int
    state: str
    parts: list[Part] = field(default_factory=list)

    def value(self, name: str) -> str:
        """Return a value of any part; a dash where none has it."""
        return next((part.values[name] for part in self.parts if name in part.values), "-")


class RunningRobot:
    """The runtime on the wire: its state, and what is sent to it."""

    def __init__(self, wire: Wire, robot: str) -> None:
        """Find the runtime. Raises OnboardError if none is heard within FOUND_S."""
        self._wire = wire
        self._robot = robot
        self._states: Reader = wire.reader("state")
        self._diagnostics: Reader = wire.reader("diagnostics")
        self._state = ""
        if not self._heard(FOUND_S):
            where = f"domain {wire.domain}, interface {wire.section.interface}"
            raise OnboardError(f"no runtime is heard on {where} within {FOUND_S:g} s; is `onboard run` running?")

    def send(self, topic: str, sample: Any) -> None:
        """Send a message once; return when the runtime has it. Raises OnboardError if it does not take it."""
        writer = self._wire.writer(topic)
        if writer.wait_for_reader(FOUND_S):
            self._states.take()
            writer.write(sample)
            if writer.wait_for_acks(TAKEN_S):
                return
        raise OnboardError(f"{topic}: the runtime does not take it")

    def answer(self, expected: Callable[[str], bool]) -> str:
        """Return the first state that is expected; after TAKEN_S the newest."""
        deadline_s = time.monotonic() + TAKEN_S
        while self._heard(max(0.0, deadline_s - time.monotonic())) and not expected(self._state):
            pass
        return self._state

    def next_state(self) -> str:
        """Return the next published state. Raises OnboardError when the runtime falls silent."""
        if not self._heard(FOUND_S):
            raise OnboardError(f"the runtime is silent for {FOUND_S:g} s; its last state: {self._state}")
        return self._state

    def status(self) -> Status:
        """Return the newest state and diagnostics. Raises OnboardError without diagnostics."""
        deadline_s = time.monotonic() + FOUND_S
        while time.monotonic() < deadline_s:
            self._diagnostics.wait(POLL_S)
            rows = [row for message in self._diagnostics.take() for row in message.sample.status]
            rows = [row for row in rows if row.hardware_id == self._robot]
            if rows:
                parts = [
                    Part(
                        row.name,
                        LEVELS[min(row.level, len(LEVELS) - 1)],
                        row.message,
                        {pair.key: pair.value for pair in row.values},
                    )
                    for row in rows
                ]
                self._heard(POLL_S)
                return Status(self._robot, self._wire.domain, self._state, parts)
        raise OnboardError(f"robot {self._robot}: no diagnostics within {FOUND_S:g} s; --config names another robot?")

    def _heard(self, timeout_s: float) -> bool:
        """Return whether a state came within the time; keep the newest."""
        if not self._states.wait(timeout_s):
            return False
        messages = self._states.take()
        if messages:
            self._state = messages[-1].sample.data
        return bool(messages)


@contextlib.contextmanager
def _robot(config: Config) -> Iterator[RunningRobot]:
    with contextlib.closing(Wire(config.dds)) as wire:
        yield RunningRobot(wire, config.robot.name)


def _screen(config: Config, seen: Status) -> Table:
    """Return the screen: state, goal, pose, command, then a row a part."""
    limit, goal_m = config.limits.v_max_mps, seen.value("goal_distance_m")
    pose = f"x {seen.value('x_m')} m, y {seen.value('y_m')} m, yaw {seen.value('yaw_rad')} rad"
    reason = next((part.message for part in seen.parts if part.name == "command"), "-")
    rows = [
        ("state", seen.state, ""),
        ("goal", f"{goal_m} m away" if goal_m != "-" else "none", ""),
        ("pose", pose, ""),
        ("command", f"v {seen.value('v_mps')} of {limit:g} m/s, w {seen.value('w_radps')} rad/s; reason: {reason}", ""),
        *((part.name, part.message, part.level) for part in seen.parts if part.name not in ("pose", "command")),
    ]
    table = Table(title=f"{seen.robot}, domain {seen.domain}", box=None, show_header=False, title_justify="left")
    for name, text, level in rows:
        table.add_row(name, text, f"[{COLORS[LEVELS.index(level)]}]{level}[/]" if level else "")
    return table
