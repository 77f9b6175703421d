"""The command `onboard-calib drive-pattern`.

Command steps excite a base on a free rectangle: eight patterns, as in paper 1, Appendix A. The paper does not list its
patterns. These hold steps of several sizes forward, backward and in turns, with stops between. A step that would leave
the rectangle is mirrored, or left out.
"""

from __future__ import annotations

import contextlib
import math
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from hil.physics.simulated_base import NS, STEP_NS, base_at, send_command, step_base
from onboard.commands.cli import ConfigOption, finite
from onboard.commands.operator.robot import RunningRobot
from onboard.config.config import load_config
from onboard.config.plant_model import Plant, load_plant
from onboard.drivers.dds.discovery import Peers
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import odometry_from_ros, ros_twist
from onboard.drivers.dds.sole_writer import PublisherNames, PublisherWatch, SoleReader
from onboard.system.signals import Signals
from onboard.values.errors import OnboardError
from onboard.values.geometry import compose, inverse
from onboard.values.messages import STOP, OdometryMessage, Pose, Twist
from onboard.values.reasons import NO_ORIENTATION

PERIOD_S = 1.0 / 30.0
STALE_S = 0.3
FIRST_S = 5.0
STOPS = 15
"""Zero commands at the end."""


def drive_pattern(
    ahead: Annotated[
        float, typer.Option(min=0.5, help="Free floor ahead of the robot's centre, in m.", callback=finite)
    ],
    behind: Annotated[float, typer.Option(min=0.0, help="Behind it, in m.", callback=finite)],
    left: Annotated[float, typer.Option(min=0.0, help="To its left, in m.", callback=finite)],
    right: Annotated[float, typer.Option(min=0.0, help="To its right, in m.", callback=finite)],
    speed: Annotated[float, typer.Option(min=0.05, help="Highest speed, in m/s.", callback=finite)] = 0.5,
    turn: Annotated[float, typer.Option(min=0.1, help="Highest turn rate, in rad/s.", callback=finite)] = 1.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the path of a simulated base; nothing moves.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Drive command steps on free floor through the running runtime, under its limits. Any key stops the robot.

    The runtime records the drive; `onboard-calib dynamics` takes the recording.
    """
    loaded = load_config(config)
    limits = loaded.limits
    if speed < limits.v_max_mps:
        (sys.stdout if dry_run else sys.stderr).write(
            f"--speed {speed:g} is below limits.v_max_mps {limits.v_max_mps:g}: a plant fitted to this drive goes no "
            f"faster, and neither does `reactive`; where the floor allows it, add --speed {limits.v_max_mps:g}\n"
        )
    todo = steps(min(speed, limits.v_max_mps), min(speed, -limits.v_min_mps), min(turn, limits.w_max_radps))
    drive = PatternDrive(todo, Rectangle(behind, ahead, right, left))
    if dry_run:
        for at_s, twist in rehearsed(drive, load_plant(loaded.robot.plant)):
            command = f"{twist.v_mps:+.2f} m/s {twist.w_radps:+.2f} rad/s"
            sys.stdout.write(f"pattern {drive.pattern} {at_s:6.1f} s {command}\n")
        sys.stdout.write(_left_out(drive, todo))
        return
    stopped: list[bool] = []
    with Signals() as signals, _keys() as pressed, contextlib.closing(Wire(loaded.dds)) as wire:
        signals.stop_with(lambda: stopped.append(True))
        RunningRobot(wire, loaded.robot.name)
        sys.stderr.write(
            f"{len(PATTERNS)} patterns, {sum(one.hold_s for one in todo):.0f} s; any key stops the robot\n"
        )
        why = _drive(wire, drive, lambda: bool(stopped) or pressed())
    sys.stderr.write(f"{why or 'done'}; {_left_out(drive, todo)}")
    if why:
        raise typer.Exit(1)


def _left_out(drive: PatternDrive, todo: list[Step]) -> str:
    return f"{drive.skipped} of {len(todo)} steps omitted or shortened to stay in the rectangle\n"


def _drive(wire: Wire, drive: PatternDrive, stop: Callable[[], bool]) -> str:
    """Send the commands until the pattern ends; return why it ended early, or ""."""
    odometry, writer = SoleReader(wire, "odom"), wire.writer("cmd_vel_teleop")
    publishers = PublisherWatch([odometry], PublisherNames(wire, Peers(wire)))
    newest: OdometryMessage | None = None
    start: Pose | None = None
    received_s = began_s = time.monotonic()
    due_s, shown = began_s, 0
    try:
        while True:
            if stop():
                return "stopped by the operator"
            now_ns = time.monotonic_ns()
            for message in odometry.take(now_ns):
                newest, received_s = odometry_from_ros(message.sample, 0), time.monotonic()
            if rivals := publishers.reason(now_ns):
                return rivals
            now_s = time.monotonic()
            if now_s - received_s > (STALE_S if newest else FIRST_S):
                return "odometry is missing"
            if newest is not None:
                if newest.pose is None:
                    return "the odometry has no pose"
                if math.isnan(newest.pose.yaw_rad):
                    return f"the odometry is refused: {NO_ORIENTATION}"
                start = start or newest.pose
                command = drive.command(now_s, compose(inverse(start), newest.pose), newest.twist)
                if command is None:
                    return ""
                if drive.pattern != shown:
                    shown = drive.pattern
                    sys.stderr.write(f"pattern {shown} of {len(PATTERNS)}\n")
                writer.write(ros_twist(command))
            due_s = max(due_s + PERIOD_S, now_s)
            odometry.wait(max(0.0, due_s - time.monotonic()))
            time.sleep(max(0.0, due_s - time.monotonic()))
    finally:
        for _ in range(STOPS):
            writer.write(ros_twist(STOP))
            time.sleep(PERIOD_S)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[], bool]]:
    """Yield a check whether a key was pressed or the terminal is gone. Raises OnboardError without a terminal."""
    if not sys.stdin.isatty():
        raise OnboardError("drive-pattern needs a terminal: any key must stop the robot")
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield lambda: bool(select.select([fd], [], [], 0.0)[0])
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)


HOLD_S, REST_S = 1.5, 1.2
ANSWER_S = 1.2
"""Time for which a base may continue at its speed before it brakes: delay and response."""
BRAKING_MPS2 = 0.5
PREDICTION_S = 0.05


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Free floor for the robot's centre, in the frame of its start: x ahead, y to the left [m]."""

    behind_m: float
    ahead_m: float
    right_m: float
    left_m: float

    def holds(self, x_m: float, y_m: float) -> bool:
        """Return whether a point lies in it."""
        return -self.behind_m <= x_m <= self.ahead_m and -self.right_m <= y_m <= self.left_m


@dataclass(frozen=True, slots=True)
class Step:
    """A command held for a time, in a numbered pattern."""

    pattern: int
    twist: Twist
    hold_s: float


#   shares of the greatest speed and turn rate, a step each; a stop follows each pattern of one row
PATTERNS: tuple[tuple[tuple[float, float], ...], ...] = (
    ((1.0, 0.0), (0.0, 0.0), (-1.0, 0.0), (0.0, 0.0)),
    ((0.5, 0.0), (1.0, 0.0), (0.0, 0.0), (-0.5, 0.0), (-1.0, 0.0), (0.0, 0.0)),
    ((0.0, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, 0.0)),
    ((0.0, 0.5), (0.0, 1.0), (0.0, 0.3), (0.0, -0.5), (0.0, -1.0), (0.0, 0.0)),
    ((0.7, 0.5), (0.0, 0.0), (-0.7, -0.5), (0.0, 0.0)),
    ((0.3, -0.8), (0.8, 0.3), (0.0, 0.0), (-0.8, -0.3), (-0.3, 0.8), (0.0, 0.0)),
    ((1.0, 0.0), (0.4, 0.0), (0.0, 0.6), (-0.4, 0.0), (-1.0, 0.0), (0.0, -0.6), (0.0, 0.0)),
    ((0.6, 1.0), (0.6, -1.0), (0.0, 0.0), (-0.6, 1.0), (-0.6, -1.0), (0.0, 0.0)),
)


def steps(v_mps: float, back_mps: float, w_radps: float) -> list[Step]:
    """Return the steps of all patterns. back_mps: greatest speed backward, positive."""
    return [
        Step(
            number,
            Twist(v * (v_mps if v > 0.0 else back_mps), w * w_radps),
            REST_S if v == w == 0.0 else HOLD_S,
        )
        for number, pattern in enumerate(PATTERNS, 1)
        for v, w in pattern
    ]


def fitting(step: Step, pose: Pose, rectangle: Rectangle) -> Step | None:
    """Return the step, or its mirror image, such that the robot stays in the rectangle; None if none does."""
    v, w = step.twist.v_mps, step.twist.w_radps
    for twist in (step.twist, Twist(-v, -w), Twist(v, -w), Twist(-v, w)):
        if all(rectangle.holds(x, y) for x, y in _way(pose, twist, step.hold_s + ANSWER_S)):
            return replace(step, twist=twist)
    return None


def must_stop(pose: Pose, twist: Twist, rectangle: Rectangle) -> bool:
    """Return whether a base at this speed would leave the rectangle if it were stopped later than now."""
    return not all(rectangle.holds(x, y) for x, y in _way(pose, twist, ANSWER_S))


def _way(pose: Pose, twist: Twist, hold_s: float) -> Iterator[tuple[float, float]]:
    """Yield the points of an arc, and the braking distance straight ahead from its end."""
    count = math.ceil(hold_s / PREDICTION_S)
    x, y, yaw = pose.x_m, pose.y_m, pose.yaw_rad
    for _ in range(count):
        yaw += twist.w_radps * PREDICTION_S
        x += twist.v_mps * PREDICTION_S * math.cos(yaw)
        y += twist.v_mps * PREDICTION_S * math.sin(yaw)
        yield x, y
    brake = math.copysign(twist.v_mps**2 / (2.0 * BRAKING_MPS2), twist.v_mps)
    yield x + brake * math.cos(yaw), y + brake * math.sin(yaw)


class PatternDrive:
    """Which command to send now, from time, pose and speed. `skipped` counts steps that did not fit or were cut."""

    def __init__(self, todo: list[Step], rectangle: Rectangle) -> None:
        self._todo = list(todo)
        self._rectangle = rectangle
        self._step: Step | None = None
        self._until_s = 0.0
        self.skipped = 0
        self.pattern = 0

    def command(self, now_s: float, pose: Pose, twist: Twist) -> Twist | None:
        """Return the command for now; None when all steps are done. pose: in the frame of the start."""
        if self._step is not None and self._step.twist != STOP and must_stop(pose, twist, self._rectangle):
            self.skipped += 1
            self._step, self._until_s = replace(self._step, twist=STOP), now_s + REST_S
        while self._step is None or now_s >= self._until_s:
            if not self._todo:
                return None
            step = self._todo.pop(0)
            self.pattern = step.pattern
            fits = fitting(step, pose, self._rectangle)
            if fits is None:
                self.skipped += 1
                continue
            self._step, self._until_s = fits, now_s + fits.hold_s
        return self._step.twist


def rehearsed(drive: PatternDrive, plant: Plant) -> Iterator[tuple[float, Twist]]:
    """Yield time [s] and command of each step as a simulated base drives it."""
    state, now_ns, before = base_at(Pose(0.0, 0.0, 0.0)), 0, None
    while (command := drive.command(now_ns / NS, state.motion.pose, state.motion.twist)) is not None:
        if command != before:
            yield now_ns / NS, command
        before = command
        state = step_base(send_command(state, command, now_ns, plant), now_ns, plant)
        now_ns += STEP_NS
