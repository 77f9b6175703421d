"""`onboard-hil twin-demo`: a robot in an empty room drives its twin through a building.

Four processes run over DDS: the stand-in for the real robot, the twin, the guard, and the real runtime. The runtime
uses the pose of the twin: it reads the twin's odometry and localisation (`data/robot.toml`). Both stand still while the
twin is paused. So a goal is in the twin's map, and the runtime's position never jumps. Only the runtime's commands go
to the robot.

The picture has both paths. The robot's path consists of legs; the twin's path is continuous. A leg is the path from a
resume to the next pause, and has the same colour in both maps. The robot's path while the twin is paused (braking,
turning) is grey.

In the corridor (`corridor.py`) the drive is done when the twin passes the end, as paper 4's agent knows no goal.
"""

from __future__ import annotations

import colorsys
import contextlib
import itertools
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from hil.drive.picture import GOAL, INK, OVERSAMPLE, START, Color, cells_image, view_of
from hil.drive.setting import REACHED_M
from hil.live.child_process import Child
from hil.live.dashboard import Dashboard, preparing
from hil.live.demo import MISSING_S, DriveLink, demo_config
from hil.live.demo_result import Files
from hil.live.twin.corridor import CORRIDOR, END_X_M, MODEL, STANDING_X_M, WALKING_X_M, Corridor, site_of
from hil.live.twin.scene import PERSON_MPS, Site, SiteOptions
from hil.live.twin.stand_in_robot import ROOM
from hil.live.twin.topics import POSE, twin_section
from hil.maps.load import load_map
from hil.maps.world_grid import World
from hil.physics.collision_world import body_of
from hil.scene.walkers import CrowdOptions
from onboard.assembly.assembly import check_files
from onboard.config.config import Config
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_goal
from onboard.drivers.dds.topics import ros_topic
from onboard.navigation.mission import State, state_word
from onboard.system.signals import Signals
from onboard.values.clock import wall_ns
from onboard.values.messages import Pose

FREE_M = 2.0
"""Free distance ahead that ends a turn of the guard. It is below the default because the room is small."""
REST_MPS, REST_RADPS = 0.02, 0.05
LOCALIZE_S = 4.0
"""Wait after the first localisation fix, so that the filter receives a few more fixes."""
IMAGE_EVERY = 5
"""Period of images, in poses of the robot: images come at 6 Hz. The policy decides at 3 Hz."""


@dataclass(frozen=True, slots=True)
class TwinDemoOptions:
    """Options of the twin demo. limit_s: timeout of the drive.

    policy: None is the policy of the configuration, and in the corridor the model that ships for it
    """

    map_name: str = "gdc1"
    seed: int = 1
    episode: int | None = 3
    crowd: CrowdOptions = field(default_factory=lambda: CrowdOptions(pedestrians=4))
    policy: str | None = None
    limit_s: float = 300.0
    out: Path = Path("out/twin")
    full_size: bool = False


def run_twin_demo(given: Config, options: TwinDemoOptions) -> dict[str, Any]:
    """Drive once and return the result. Raises OnboardError if a process cannot start or ends too early."""
    in_corridor = options.map_name == CORRIDOR
    config = demo_config(given, options.policy or (str(MODEL) if in_corridor else None), depth_noise=False)
    check_files(config)
    body = body_of(config.robot)
    with preparing(f"map {options.map_name}"):
        wanted = SiteOptions(options.map_name, options.seed, options.episode, None, options.crowd)
        site = site_of(wanted, body, load_plant(config.robot.plant))
    files = Files(options.out.resolve(), site.label, config, ("robot", "twin", "guard", "run"), options.full_size)
    if in_corridor:
        sys.stderr.write(
            f"a robot in an empty room of 5 m x 3 m drives its twin {site.episode.geodesic_m:.1f} m along a corridor\n"
            f"{len(STANDING_X_M)} people stand there, {len(WALKING_X_M)} walk; one in view limits the speed to "
            f"{PERSON_MPS:g} m/s; policy {Path(config.policy.model).name}\n"
        )
    with Signals(), contextlib.closing(Wire(config.dds)) as wire, _processes(files, options) as children:
        title = f"twin in {site.label}: {site.episode.geodesic_m:.1f} m to go"
        state, time_s = _drive(DriveLink(wire, config, children, title), config, site, options.limit_s)
    return _result(site, files, state, time_s)


@contextlib.contextmanager
def _processes(files: Files, options: TwinDemoOptions) -> Iterator[list[Child]]:
    """Start robot, twin, guard and runtime. End them in reverse order, so that the base receives the last stop."""
    place = ["--map", options.map_name, "--seed", str(options.seed)]
    place += ["--pedestrians", str(options.crowd.pedestrians)]
    place += [] if options.episode is None else ["--episode", str(options.episode)]
    commands = {
        "robot": ["hil", "twin-robot", "--seed", str(options.seed)],
        "twin": ["hil", "twin", *place, "--image-every", str(IMAGE_EVERY)],
        "guard": ["hil", "guard", "--free", str(FREE_M)],
        "run": ["onboard", "run", "--no-status"],
    }
    children: list[Child] = []
    try:
        for who, command in commands.items():
            arguments = [*command, "--config", str(files.config), "--json", str(files.result(who))]
            children.append(Child(who, arguments, files.log(who)))
        yield children
    finally:
        for child in reversed(children):
            child.end()


def _drive(link: DriveLink, config: Config, site: Site, limit_s: float) -> tuple[str, float]:
    """Send the goal and wait for the end. Return the runtime's last state and the duration of the drive [s]."""
    with Dashboard(link.view) as dashboard:
        link.wait_until_received(dashboard)
        where = f"a fix of the twin on {ros_topic(config.dds, 'amcl_pose')}"
        link.wait_for(lambda: "" if link.localized() else where, MISSING_S, dashboard)
        link.look_until(lambda: False, LOCALIZE_S, dashboard)
        goal = ros_goal(wall_ns(), config.dds.map_frame, Pose(*site.episode.goal_xy_m, 0.0))
        with contextlib.closing(Wire(twin_section(config.dds))) as twin:
            poses = twin.reader(POSE)

            def passed() -> bool:
                return isinstance(site, Corridor) and any(
                    message.sample.pose.position.x >= END_X_M for message in poses.take()
                )

            elapsed_s = link.drive_to(goal, limit_s, dashboard, passed)
        return link.view.state, elapsed_s


def _result(site: Site, files: Files, state: str, time_s: float) -> dict[str, Any]:
    """Return the demo's result from the JSON files of the processes, and write the picture."""
    robot, twin, guard, run = (json.loads(files.result(who).read_text()) for who in ("robot", "twin", "guard", "run"))
    drawing = TwinDrawing(site, np.array(twin["trace"]), np.array(robot["trace"]), robot["began_ns"])
    save_twin_picture(drawing, files.picture)
    goal = site.episode.goal_xy_m
    away_m = math.hypot(twin["pose"][0] - goal[0], twin["pose"][1] - goal[1])
    resting = abs(robot["twist"][0]) <= REST_MPS and abs(robot["twist"][1]) <= REST_RADPS
    reached = state_word(state) == State.REACHED.value and resting and away_m <= REACHED_M
    if isinstance(site, Corridor):
        away_m = max(0.0, END_X_M - float(drawing.twin[:, 2].max()))
        reached = away_m == 0.0
    return {
        "corridor": isinstance(site, Corridor),
        "reached": reached and twin["lives"] == 1,
        "state": state,
        "distance_to_goal_m": round(away_m, 3),
        "time_s": round(time_s, 2),
        "twin_path_m": round(drawing.twin_path_m, 3),
        "shortest_path_m": round(site.episode.geodesic_m, 3),
        "robot_path_m": round(robot["path_m"], 3),
        "virtual_contacts": twin["contacts"],
        "real_contacts": robot["contacts"],
        "safety_stops": guard["stops"],
        "legs": drawing.legs,
        "frames": twin["frames"],
        "frames_with_a_person_in_view": twin["frames_with_a_person_in_view"],
        "twin_busy_ms": twin["busy_ms"],
        "decisions": run["decisions"],
        "deadline_misses": run["deadline_misses"],
        "commands_by_reason": run["commands_by_reason"],
        "policy": run["policy"],
        "picture": str(files.picture),
        "recording": run["recording"],
    }


def summary(result: dict[str, Any]) -> str:
    """Return the result as text for the operator."""
    outcome = "reached" if result["reached"] else f"NOT reached ({result['state']})"
    contacts = f"{result['virtual_contacts']} virtual and {result['real_contacts']} real contacts"
    goal = "the end of the corridor" if result["corridor"] else "its goal"
    end = f"end of the corridor {'' if result['reached'] else 'NOT '}reached; {contacts}; {result['time_s']:.1f} s\n"
    last = end if result["corridor"] else ""
    stops = ", ".join(f"{count} {cause}" for cause, count in result["safety_stops"].items() if count) or "none"
    return (
        f"{outcome}: the twin {result['distance_to_goal_m']:.2f} m from {goal} after {result['time_s']:.1f} s and "
        f"{result['twin_path_m']:.1f} m (shortest {result['shortest_path_m']:.1f} m), in {result['legs']} legs of the "
        f"robot\n{contacts}; safety stops: "
        f"{stops}\n{result['frames']} virtual frames, {result['frames_with_a_person_in_view']} with a person in view\n"
        f"picture    {result['picture']}\nrecording  {result['recording'] or 'none'}\n{last}"
    )


Floats = npt.NDArray[np.float64]
PAUSED = (170, 170, 170)
LARGEST_PX = 720
LINE_PX, FONT_PX, PAD_PX = 4, 16, 16
GOLDEN = 0.618
"""Difference in hue between consecutive legs, as a fraction of the colour circle."""


@dataclass(frozen=True, slots=True)
class TwinDrawing:
    """Data of a drive from the results of both processes.

    twin:     (n, 9) rows of `process.Log`
    robot:    (m, 6) rows of the simulated robot's trace; its times begin at `began_ns`
    began_ns: wall time at which the robot started
    """

    site: Site
    twin: Floats
    robot: Floats
    began_ns: int

    @property
    def legs(self) -> int:
        """Return the number of legs of the drive."""
        return int(_leg_numbers(self.twin[:, 5] > 0.5).max())

    @property
    def twin_path_m(self) -> float:
        """Return the length of the twin's path [m], summed over all lives."""
        steps = np.hypot(*np.diff(self.twin[:, 2:4], axis=0).T)
        return float(steps[np.diff(self.twin[:, 0]) == 0].sum())


def save_twin_picture(drawing: TwinDrawing, file: Path) -> None:
    """Write a PNG file with both maps side by side. Raises OSError."""
    legs = _leg_numbers(drawing.twin[:, 5] > 0.5)
    stamps = drawing.twin[:, 1]
    times_ns = drawing.began_ns + drawing.robot[:, 0] * 1e9
    newest = np.clip(np.searchsorted(stamps, times_ns, side="right") - 1, 0, len(stamps) - 1)
    in_time = (times_ns >= stamps[0]) & (times_ns <= stamps[-1])
    room_legs = np.where(in_time, np.where(drawing.twin[newest, 5] > 0.5, legs[newest], 0), 0)
    episode = drawing.site.episode
    start, goal = (episode.start.x_m, episode.start.y_m), episode.goal_xy_m
    marks = [(start, START), (goal, GOAL)]
    room = _panel(load_map(str(ROOM)), drawing.robot[:, 1:3], room_legs, [], "robot in the room")
    if isinstance(drawing.site, Corridor):
        marks += [((x_m, y_m), PAUSED) for x_m, y_m in drawing.site.standing_m()]
    whole = _panel(
        drawing.site.first_world, drawing.twin[:, 2:4], legs, marks, f"twin in {drawing.site.label}, from green to red"
    )
    picture = Image.new("RGB", (room.width + PAD_PX + whole.width, max(room.height, whole.height)), "white")
    picture.paste(room, (0, 0))
    picture.paste(whole, (room.width + PAD_PX, 0))
    picture.save(file, "PNG")


def _leg_numbers(follows: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return (n,) the leg number of each row, from 1. A row during a pause belongs to the previous leg.

    follows: (n,) whether the twin follows
    """
    begins = follows & ~np.concatenate([[False], follows[:-1]])
    numbers: npt.NDArray[np.int64] = np.maximum(np.cumsum(begins), 1)
    return numbers


def _color(leg: int) -> Color:
    if leg == 0:
        return PAUSED
    red, green, blue = colorsys.hsv_to_rgb((0.6 + GOLDEN * (leg - 1)) % 1.0, 0.9, 0.75)
    return round(255 * red), round(255 * green), round(255 * blue)


def _panel(
    world: World,
    path: Floats,
    legs: npt.NDArray[np.int64],
    marks: list[tuple[tuple[float, float], Color]],
    title: str,
) -> Image.Image:
    """Return an image of the map, cropped to the path, with coloured legs, discs at the marks and the title.

    path: (n, 2) positions in the map frame [m]; legs: (n,) leg number of each position, 0 is drawn in grey
    """
    view = view_of(world, np.concatenate([path, [point for point, _ in marks]]) if marks else path, LARGEST_PX)
    small = cells_image(view)
    image = small.resize((small.width * OVERSAMPLE, small.height * OVERSAMPLE), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(image)
    for (a, b), leg in zip(itertools.pairwise(path), legs[1:], strict=True):
        draw.line([view.px(a), view.px(b)], _color(int(leg)), LINE_PX * OVERSAMPLE)
    for point, color in marks:
        draw.circle(view.px(point), 2 * LINE_PX * OVERSAMPLE, color)
    titled = Image.new("RGB", (small.width, small.height + FONT_PX + 2 * PAD_PX), "white")
    titled.paste(image.resize(small.size, Image.Resampling.BOX), (0, 0))
    width_m, height_m = (side / view.cell_px * world.cell_m for side in small.size)
    text = f"{title}, {width_m:.1f} m x {height_m:.1f} m shown"
    ImageDraw.Draw(titled).text((PAD_PX, small.height + PAD_PX), text, INK, ImageFont.load_default(FONT_PX))
    return titled
