"""`onboard place`, `route` and `locate`: named places of the building, and where the robot is in it."""

from __future__ import annotations

import math
import sys
import time
from enum import Enum
from typing import Annotated

import typer

from onboard.assembly.places_in_map import name_place, unreachable
from onboard.assembly.robot import building_of
from onboard.commands.cli import ConfigOption, finite
from onboard.commands.operator.commands import metres
from onboard.commands.operator.robot import TAKEN_S, RunningRobot, running_robot
from onboard.commands.operator.route_progress import progress
from onboard.config.config import Config, load_config
from onboard.config.places import DWELL_S, TOLD_SD, Place, load_places, place_name, place_of, places_file
from onboard.drivers.dds.ros_convert import rays_from_ros, ros_fix, ros_goal, ros_goals
from onboard.navigation.mission import State, drives
from onboard.perception.building import map_fit
from onboard.perception.building.map_fit import Agreement
from onboard.perception.building.reach import Reach, reach_in
from onboard.perception.laser_scan import scan_of_rays
from onboard.recording.scene import is_lost
from onboard.service import last_pose
from onboard.values import reasons
from onboard.values.clock import wall_ns
from onboard.values.errors import ConfigError, InputError, OnboardError
from onboard.values.geometry import distance
from onboard.values.messages import Pose, Scan
from onboard.values.reasons import JOIN, in_words, row_of

REFUSED = "goal refused"
SEARCH_M = 2.0
LEAST_EXPLAINED, MOST_THROUGH = 0.5, 0.1
"""A searched place explains this share of the scan's points. Of its rays at most this share, by the share of explained
points, goes through obstacles: in an old or a made map some rays of the right place do."""
RIVAL_M, RIVAL_STEP_M, APART_M, AS_GOOD = 10.0, 2.0, 1.0, 0.1
"""Another place this near to the one found must not explain the scan as well, less this share: then the scan does not
tell where the robot is. Both are at least so far apart."""
FOUND_SD = (0.1, 0.1, 0.05)
STARTING = (
    reasons.RUNTIME_ENDED, reasons.GOAL_NOT_LOCALISED, reasons.GOAL_WITHOUT_ODOMETRY, reasons.GOAL_TOO_EARLY,
)  # fmt: skip
"""What a runtime says that ends, or has just started."""
BACK_S, PAUSE_S = 120.0, 1.0
"""A route waits so long for the runtime to come back, and so long between two looks."""


class PlaceAction(str, Enum):
    """What to do with places."""

    ADD = "add"
    LIST = "list"


class OnFailure(str, Enum):
    """What a route does if the robot does not reach a place."""

    SKIP = "skip"
    STOP = "stop"


def place(
    action: Annotated[PlaceAction, typer.Argument(help="add: the robot's place, under this name; list: all places.")],
    name: Annotated[str | None, typer.Argument(metavar="NAME")] = None,
    config: ConfigOption = None,
) -> None:
    """Name the place where the robot is, or list the places of its building."""
    loaded = load_config(config)
    file = places_file(loaded)
    if action is PlaceAction.LIST:
        wrong = unreachable(loaded, there := load_places(file))
        for known, one in there.items():
            said = f": {wrong[known]}" if known in wrong else ""
            sys.stdout.write(f"{known:20} x {one.x_m:.2f} m, y {one.y_m:.2f} m, yaw {one.yaw_deg:.0f} deg{said}\n")
        return
    if name is None:
        raise InputError("onboard place add: state a name")
    name = place_name(name)
    with running_robot(loaded) as robot:
        here = _place_of(robot)
    name_place(loaded, name, here)
    sys.stdout.write(f"{name}: x {here.x_m:.2f} m, y {here.y_m:.2f} m in {file}\n")


def route(
    names: Annotated[list[str], typer.Argument(metavar="PLACE...", help="Places in their order.")],
    loop: Annotated[bool, typer.Option("--loop", help="Begin again after the last place, until Ctrl-C.")] = False,
    wait: Annotated[
        float, typer.Option(metavar="S", min=0.0, help="Time at each place; with --loop at least 1 s.", callback=finite)
    ] = 0.0,
    on_failure: Annotated[OnFailure, typer.Option(help="What to do if a place is not reached.")] = OnFailure.SKIP,
    config: ConfigOption = None,
) -> None:
    """Drive to named places, one after the other. `onboard pause` and `resume` apply to it. Exit 1: a place was missed.

    If the runtime restarts, the route waits for it and sends its goal again. A cancel or the e-stop ends the route,
    also one that is released before the robot would drive on.
    """
    loaded = load_config(config)
    places = {name: place_of(loaded, name) for name in names}
    lap, pause_s = 0, max(wait, DWELL_S) if loop else wait
    begun = False
    with progress(loaded, len(names), loop) as shown:
        while loop or lap == 0:
            lap += 1
            for number, name in enumerate(names, 1):
                sys.stdout.write(f"lap {lap}, {number} of {len(names)}: {name}: ")
                sys.stdout.flush()
                shown.say(lap, number, name, "driving")
                state = _driven(loaded, places[name], begun)
                begun = True
                sys.stdout.write(f"{in_words(state)}\n")
                sys.stdout.flush()
                if state.partition(JOIN)[0] != State.REACHED.value:
                    shown.skipped.append(name)
                    if on_failure is OnFailure.STOP or row_of(state) in reasons.STOPPED_BY_OPERATOR:
                        raise typer.Exit(1)
                shown.say(lap, number, name, f"waiting {pause_s:g} s")
                if (ended := _ended_in(loaded, pause_s)) is not None:
                    sys.stdout.write(f"waiting at {name}: {in_words(ended)}\n")
                    raise typer.Exit(1)
    if shown.skipped:
        raise typer.Exit(1)


def locate(
    at: Annotated[
        str | None, typer.Argument(metavar="X|PLACE", help="The robot stands at this place, or at x in the map, in m.")
    ] = None,
    y: Annotated[float | None, typer.Argument(metavar="Y", help="Its y in the map, in m.", callback=finite)] = None,
    yaw: Annotated[float, typer.Option(metavar="DEG", help="With X and Y: its heading.", callback=finite)] = 0.0,
    config: ConfigOption = None,
) -> None:
    """Tell the tracker where the robot is: at a place, at X and Y, or where a search around all places finds it.

    The origin of a map of `onboard-hil map` is where its drive began: `onboard locate 0 0`.
    """
    loaded = load_config(config)
    building = building_of(loaded)
    if building is None:
        raise ConfigError("map.file: there is no map to search in")
    if not loaded.map.tracker:
        raise ConfigError("map.tracker: it is off, so /amcl_pose states the robot's place")
    reach = reach_in(building, loaded.robot.footprint.inner_m)
    stated = None
    if y is not None:
        stated = Pose(metres(at or ""), y, math.radians(yaw))
    elif at is not None:
        stated = place_of(loaded, at).pose
    with running_robot(loaded) as robot:
        if stated is None:
            about = {known: one.pose for known, one in load_places(places_file(loaded)).items()}
            if (saved := last_pose.load(loaded, building)) is not None:
                about["the last stop"] = saved
            if (now := _believed(robot)) is not None:
                about["its estimated place"] = now
            found, pose, agreed = _searched(robot, reach, about)
            if not _believable(agreed):
                there = f"({pose.x_m:.2f}, {pose.y_m:.2f}) with yaw {math.degrees(pose.yaw_rad):.0f} deg, near {found},"
                raise OnboardError(
                    f"no place explains the scan: {there} explains {agreed.explained:.0%} of its points (at least "
                    f"{LEAST_EXPLAINED:.0%}), and {agreed.through:.0%} of its rays go through obstacles of the map (at "
                    f"most {MOST_THROUGH * agreed.explained:.0%}); if it stands there, onboard locate X Y --yaw DEG; "
                    "else drive the robot to a known place, then onboard locate PLACE"
                )
            said, sd = (
                f"near {found}; {agreed.explained:.0%} of the scan's points lie on obstacles of the map",
                FOUND_SD,
            )
        else:
            pose, said, sd = stated, "as stated" if y is not None else f"at {at}", TOLD_SD
        if not reach.part_at((pose.x_m, pose.y_m)):
            raise InputError(f"({pose.x_m:.2f}, {pose.y_m:.2f}) is not free ground in {loaded.map.file}")
        robot.send("initialpose", ros_fix(wall_ns(), loaded.dds.map_frame, pose, sd))
        _await_taken(robot, pose)
    sys.stdout.write(f"x {pose.x_m:.2f} m, y {pose.y_m:.2f} m, yaw {math.degrees(pose.yaw_rad):.0f} deg, {said}\n")


def _searched(robot: RunningRobot, reach: Reach, about: dict[str, Pose]) -> tuple[str, Pose, Agreement]:
    """Return the place about which the scan fits best, the pose there, and the agreement of scan and map.

    Raises OnboardError if another place near by explains the scan as well.
    """
    if not about:
        raise OnboardError("there is no place to search around: state where the robot is: onboard locate X Y --yaw DEG")
    scan = scan_of_rays(rays_from_ros(robot.newest("scan")), 0)
    found = {known: map_fit.search(scan, reach, pose, SEARCH_M, math.pi) for known, pose in about.items()}
    best = max(found, key=lambda known: (_believable(found[known][1]), found[known][1].explained))
    pose, agreed = found[best]
    rival = _rival(scan, reach, pose, agreed) if _believable(agreed) else None
    if rival is not None:
        raise OnboardError(
            f"two places explain the scan: ({pose.x_m:.1f}, {pose.y_m:.1f}) near {best}, and "
            f"({rival.x_m:.1f}, {rival.y_m:.1f}); state where the robot stands: onboard locate X Y --yaw DEG, or PLACE"
        )
    return best, pose, agreed


def _rival(scan: Scan, reach: Reach, found: Pose, agreed: Agreement) -> Pose | None:
    """Return another pose, on ground to drive on, that explains the scan nearly as well; None without one."""
    steps = range(-round(RIVAL_M / RIVAL_STEP_M), round(RIVAL_M / RIVAL_STEP_M) + 1)
    for x_m, y_m in ((found.x_m + RIVAL_STEP_M * i, found.y_m + RIVAL_STEP_M * j) for i in steps for j in steps):
        if not reach.part_at((x_m, y_m)):
            continue
        pose, there = map_fit.search(scan, reach, Pose(x_m, y_m, 0.0), 0.5 * RIVAL_STEP_M, math.pi)
        as_good = _believable(there) and there.explained >= agreed.explained - AS_GOOD
        if as_good and distance(pose, found) > APART_M and reach.part_at((pose.x_m, pose.y_m)):
            return pose
    return None


def _believable(agreed: Agreement) -> bool:
    return agreed.explained >= LEAST_EXPLAINED and agreed.through <= MOST_THROUGH * agreed.explained


def _believed(robot: RunningRobot) -> Pose | None:
    """Return the robot's pose in the map, None while it has none."""
    values = robot.drive()
    if values.get("frame") != "map":
        return None
    return Pose(float(values["x_m"]), float(values["y_m"]), float(values["yaw_rad"]))


def _await_taken(robot: RunningRobot, pose: Pose) -> None:
    """Wait until the robot reports a pose near the stated one. Raises OnboardError with what the runtime says."""
    deadline_s = time.monotonic() + TAKEN_S
    while time.monotonic() < deadline_s:
        now = _believed(robot)
        if now is not None and distance(now, pose) < SEARCH_M:
            return
    said = [row.message for row in robot.status().parts if row.name == "pose" and row.level != "ok"]
    raise OnboardError(f"{JOIN.join(['the runtime did not accept the pose', *said])}: see onboard status")


def _place_of(robot: RunningRobot) -> Pose:
    pose = _believed(robot)
    if is_lost(robot.drive()):
        raise OnboardError(f"the place has no name: {reasons.LOST_STANDS.general}")
    if pose is None:
        raise OnboardError("the robot is not localised: onboard locate, or start its localisation")
    return pose


def _ended_in(config: Config, wait_s: float) -> str | None:
    """Wait at a place; return the state in which a person ended the route meanwhile, None without one."""
    until_s = time.monotonic() + wait_s
    while time.monotonic() < until_s:
        try:
            with running_robot(config) as robot:
                while time.monotonic() < until_s:
                    if (ended := robot.ended_by()) is not None:
                        return ended
        except OnboardError:  # a runtime that restarts
            time.sleep(min(PAUSE_S, max(0.0, until_s - time.monotonic())))
    return None


def _driven(config: Config, goal: Place, begun: bool) -> str:
    """Return the state in which a drive to a place ended; sends the goal again to a runtime that has restarted.

    begun: the route has sent a goal already, so it releases no e-stop
    """
    deadline_s = time.monotonic() + BACK_S
    while True:
        try:
            with running_robot(config) as robot:
                if begun and (ended := robot.ended_by()) is not None:
                    return ended
                begun = True
                state = _sent(robot, config, goal)
            row = row_of(state)
            if row not in STARTING or time.monotonic() > deadline_s:
                return state
        except OnboardError:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(PAUSE_S)


def _sent(robot: RunningRobot, config: Config, goal: Place) -> str:
    """Send a place as a goal with its heading; return the state in which the drive ended."""
    robot.send("goals", ros_goals(wall_ns(), [ros_goal(wall_ns(), config.dds.map_frame, goal.pose)]))
    state = robot.answer(lambda state: drives(state) or REFUSED in state)
    while drives(state):
        state = robot.next_state()
    return state
