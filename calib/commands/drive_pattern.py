"""The command `onboard-calib drive-pattern`."""

from __future__ import annotations

import contextlib
import math
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from calib.dynamics.drive_pattern import PATTERNS, PatternDrive, Rectangle, Step, rehearsed, steps
from onboard.commands.cli import ConfigOption, finite
from onboard.commands.operator.robot import RunningRobot
from onboard.config.config import load_config
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.discovery import Peers
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import odometry_from_ros, ros_twist
from onboard.drivers.dds.sole_writer import PublisherNames, PublisherWatch, SoleReader
from onboard.system.signals import Signals
from onboard.values.errors import OnboardError
from onboard.values.geometry import compose, inverse
from onboard.values.messages import STOP, OdometryMessage, Pose
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
    speed: Annotated[float, typer.Option(min=0.05, help="Greatest speed, in m/s.", callback=finite)] = 0.5,
    turn: Annotated[float, typer.Option(min=0.1, help="Greatest turn rate, in rad/s.", callback=finite)] = 1.0,
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
