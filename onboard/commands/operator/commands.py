"""`onboard goal`, `cancel`, `pause`, `resume`, `status`: what an operator says to a running robot, and hears of it."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from onboard.commands.cli import (
    STANDARD_OUTPUT,
    ConfigOption,
    JsonOption,
    check_json_target,
    finite,
    print_table,
    write_json,
    write_result,
)
from onboard.commands.operator.robot import LEVELS, Status, running_robot
from onboard.commands.operator.route_progress import current
from onboard.config.config import Config, load_config
from onboard.config.places import place_of
from onboard.drivers.dds.ros_convert import ros_goal, ros_goals
from onboard.drivers.dds.ros_types import Bool, Empty
from onboard.navigation.mission import State, drives
from onboard.recording.scene import CLEARS, CODE
from onboard.system.waiting import Waiting
from onboard.values import reasons
from onboard.values.clock import wall_ns
from onboard.values.messages import Pose
from onboard.values.reasons import JOIN, in_words, row_of

COLORS = ("green", "yellow", "red")
REFUSED = "goal refused"


class Frame(str, Enum):
    """A frame of goals: the robot, its odometry, or the map (only while it is localised)."""

    BASE = "base"
    ODOM = "odom"
    MAP = "map"


FrameOption = Annotated[Frame, typer.Option(help="base: ahead and left of the robot; odom; map, when localised.")]


def goal(
    x: Annotated[str, typer.Argument(metavar="X|PLACE", help="Forward in the frame, in m; or a place of the map.")],
    y: Annotated[
        float | None, typer.Argument(metavar="Y", help="To the left in the frame, in m.", callback=finite)
    ] = None,
    frame: FrameOption = Frame.BASE,
    yaw: Annotated[
        float | None, typer.Option(metavar="DEG", help="Final heading in the frame, in deg.", callback=finite)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the drive. Exit code 0: reached.")] = False,
    config: ConfigOption = None,
    json_file: JsonOption = None,
) -> None:
    """Send a goal to the running robot and print the state that it reports. Exit 1: refused."""
    check_json_target(json_file)
    loaded = load_config(config)
    named = {Frame.BASE: loaded.dds.base_frame, Frame.ODOM: loaded.dds.odom_frame, Frame.MAP: loaded.dds.map_frame}
    if y is None:
        place = place_of(loaded, x)
        pose, frame, yaw = place.pose, Frame.MAP, place.yaw_deg if yaw is None else yaw
    else:
        pose = Pose(metres(x), y, 0.0)
    with running_robot(loaded) as robot:
        asked = ros_goal(wall_ns(), named[frame], replace(pose, yaw_rad=math.radians(yaw or 0.0)))
        if yaw is None:
            asked.pose.orientation.w = 0.0  # any heading
            robot.send("goal_pose", asked)
        else:
            robot.send("goals", ros_goals(wall_ns(), [asked]))
        state = robot.answer(lambda state: drives(state) or REFUSED in state)
        waiting = Waiting(lambda line: sys.stderr.write(f"{line}\n"))
        while wait and drives(state):
            state = robot.next_state()
            waiting.note(robot.missing(), "inputs")
    _tell({"state": state}, f"{in_words(state)}\n", json_file)
    if not (state.partition(JOIN)[0] == State.REACHED.value if wait else drives(state) and REFUSED not in state):
        raise typer.Exit(1)


def metres(text: str) -> float:
    """Return a finite number. Raises a usage error for another text."""
    try:
        value = finite(float(text))
    except ValueError:
        value = None
    if value is None:
        raise typer.BadParameter(f"{text!r} is not a finite number; a place has no Y", param_hint="'X|PLACE'")
    return value


def cancel(config: ConfigOption = None, json_file: JsonOption = None) -> None:
    """End the drive of the running robot and print the state that it reports."""
    check_json_target(json_file)
    with running_robot(load_config(config)) as robot:
        robot.send("cancel", Empty())
        state = robot.answer(lambda state: not drives(state))
    _tell({"state": state}, f"{in_words(state)}\n", json_file)
    if drives(state):
        raise typer.Exit(1)


def pause(config: ConfigOption = None, json_file: JsonOption = None) -> None:
    """Hold the running robot until `onboard resume`; it keeps its goal. Print the state that it reports."""
    _hold(True, config, json_file)


def resume(config: ConfigOption = None, json_file: JsonOption = None) -> None:
    """Let a paused robot continue to its goal, and print the state that it reports."""
    _hold(False, config, json_file)


def _hold(paused: bool, config: Path | None, json_file: str | None) -> None:
    """Send a pause or a resume. Exit 1 if the state does not show it."""
    check_json_target(json_file)
    with running_robot(load_config(config)) as robot:
        robot.send("pause", Bool(paused))
        state = robot.answer(lambda state: (reasons.PAUSED.say() in state) == paused)
    _tell({"state": state}, f"{in_words(state)}\n", json_file)
    if (reasons.PAUSED.say() in state) != paused:
        raise typer.Exit(1)


def status(config: ConfigOption = None, json_file: JsonOption = None) -> None:
    """Print the state of the running robot and the health of its parts. Exit 1: a part has an error."""
    check_json_target(json_file)
    loaded = load_config(config)
    with running_robot(loaded) as robot:
        seen = robot.status()
    write_json(json_file, asdict(seen))
    if json_file != STANDARD_OUTPUT:
        print_table(_screen(loaded, seen))
    if any(part.level == LEVELS[2] for part in seen.parts):
        raise typer.Exit(1)


def _tell(result: dict[str, Any], line: str, json_file: str | None) -> None:
    write_result(json_file, result, line)


def _screen(config: Config, seen: Status) -> Table:
    """Return the screen: state, goal, pose, command, then a row a part; below a reason, its code and what clears it."""
    shown = {part.name: (part.message, part.level) for part in seen.parts}
    clears = {part.name: (part.values.get(CODE, ""), part.values.get(CLEARS, "")) for part in seen.parts}
    limit, goal_m = config.limits.v_max_mps, seen.value("goal_distance_m")
    pose = f"x {seen.value('x_m')} m, y {seen.value('y_m')} m, yaw {seen.value('yaw_rad')} rad"
    reason, command_level = shown.pop("command", ("-", ""))
    meaning = row_of(reason)
    reason += "" if meaning is None else f" ({meaning.general})"
    fixes, pose_level = shown.pop("pose", ("", ""))
    rows = [
        ("state", seen.state, ""),
        ("goal", f"{goal_m} m away" if goal_m != "-" else "none", ""),
        *((("route", driven, ""),) if (driven := current(config)) is not None else ()),
        ("pose", f"{pose}; {fixes}", pose_level),
        (
            "command",
            f"v {seen.value('v_mps')} of {limit:g} m/s, w {seen.value('w_radps')} rad/s; reason: {reason}",
            command_level,
        ),
        *((name, *said) for name, said in shown.items()),
    ]
    table = Table(title=f"{seen.robot}, domain {seen.domain}", box=None, show_header=False, title_justify="left")
    reported = set[str]()
    for name, text, level in rows:
        color = f"[{COLORS[LEVELS.index(level)]}]{level}[/]" if level else ""
        table.add_row(escape(name), escape(in_words(text)), color)
        code, remedy = clears.get(name, ("", ""))
        if remedy and code not in reported:
            table.add_row("", escape(f"{code}: {remedy}"), "")
            reported.add(code)
    return table
