"""The commands `onboard-hil sim` (the simulated robot alone) and `onboard-hil demo` (driven by the real runtime)."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hil.drive.episodes import choose
from hil.drive.robot import Senses, SimulatedRobot
from hil.live.dashboard import preparing
from hil.live.demo import DemoOptions, MissingError, run_demo
from hil.live.demo_result import summary, too_busy
from hil.live.goal_tour import MOST_GOALS
from hil.live.simulator import run_sim
from hil.maps.load import map_names
from hil.maps.materials import PLAIN, draw_appearance
from hil.physics.collision_world import body_of
from hil.physics.kernel_effects import load_robot_kernels
from hil.scene.walkers import MOST_CHARACTERS, CrowdOptions, requested_crowd
from hil.sensors.image_size import reduced, sizes_text
from onboard.assembly.robot import lasers_of, lidar_rows, lidars_of, used_mounts
from onboard.commands.cli import (
    ConfigOption,
    JsonOption,
    SecondsOption,
    check_json_target,
    error_lines,
    finite,
    write_json,
    write_result,
)
from onboard.config.config import Config, load_config
from onboard.config.mounts import Mounts, load_mounts
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.topics import domain_id, ros_topic
from onboard.values.errors import InputError
from onboard.values.messages import Pose

SEED_WITH_ROOM = 3
"""`onboard-hil sim` alone draws a start on gdc1 with 3 m of free floor ahead, so that a first goal is free."""
FARTHEST_M = 1e5
"""Largest coordinate of a start. All maps are smaller."""

MapOption = Annotated[
    str, typer.Option("--map", help=f"Map: {', '.join(map_names())}, made-SEED, or a .yaml, .json or mesh file.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of start, goal and noise.")]
EpisodeOption = Annotated[
    int | None, typer.Option("--episode", min=0, help="Use a committed start and goal of the map, from 0.")
]
LocalizationOption = Annotated[
    bool,
    typer.Option("--localization/--no-localization", help="Publish /amcl_pose; never for a robot with map.tracker."),
]
DriftOption = Annotated[
    float, typer.Option("--drift", min=0.0, help="Multiplier for the paper's odometry drift.", callback=finite)
]

PedestriansOption = Annotated[
    int, typer.Option("--pedestrians", min=0, max=MOST_CHARACTERS, help="Number of walking people.")
]
RobotsOption = Annotated[int, typer.Option("--robots", min=0, max=MOST_CHARACTERS, help="Number of other robots.")]
LookOption = Annotated[
    int | None, typer.Option("--look-seed", min=0, help="Seed of colours, patterns and light. Without it: plain.")
]

KernelsOption = Annotated[
    Path | None,
    typer.Option("--kernels", metavar="FILE.npz", help="Kernels that set the base's pose (onboard-hil kernels)."),
]
NoiseOption = Annotated[
    bool, typer.Option("--depth-noise/--no-depth-noise", help="Add noise and holes of real depth images.")
]


FullSizeOption = Annotated[
    bool, typer.Option("--full-size", help="Render every pixel of large images, instead of fewer with the same view.")
]


def sim(
    map_name: MapOption = "gdc1",
    start: Annotated[str | None, typer.Option(help="x,y,yaw in the map frame, in m and rad.")] = None,
    episode: EpisodeOption = None,
    seed: SeedOption = SEED_WITH_ROOM,
    config: ConfigOption = None,
    localization: LocalizationOption = True,
    drift: DriftOption = 1.0,
    pedestrians: PedestriansOption = 0,
    robots: RobotsOption = 0,
    look_seed: LookOption = None,
    depth_noise: NoiseOption = True,
    slip: Annotated[
        float, typer.Option("--slip", help="Share of each turn that the wheels report in addition, such as 0.3.")
    ] = 0.0,
    kernels: KernelsOption = None,
    stop_on_liveliness_lost: Annotated[
        bool,
        typer.Option("--stop-on-liveliness-lost", help="Stop when DDS reports that the sender of commands is gone."),
    ] = False,
    unplug: Annotated[
        list[str] | None,
        typer.Option("--unplug", metavar="CAMERA@SECONDS", help="Stop a camera after this time; repeatable."),
    ] = None,
    full_size: FullSizeOption = False,
    seconds: SecondsOption = None,
    json_file: JsonOption = None,
) -> None:
    """Run only the simulated robot: it follows /cmd_vel and publishes the topics of a robot's sensors."""
    check_json_target(json_file)
    loaded = load_config(config)
    mounts, lasers = used_mounts(loaded, load_mounts(loaded.robot.mounts)), lasers_of(loaded)
    rendered = mounts if full_size else reduced(mounts)
    body = body_of(loaded.robot)
    unplugged = _unplugged(unplug or [], [*mounts.depth, *(["color"] if mounts.color else [])])
    asked = None if start is None else _pose(start)
    active = load_robot_kernels(kernels)
    imu = loaded.odometry.imu
    localization = localization and not loaded.map.tracker
    senses = Senses(
        seed=seed, drift_scale=drift, localization=localization, depth_noise=depth_noise, wheel_slip=slip, imu=bool(imu)
    )
    domain_id(loaded.dds)
    with preparing(f"map {map_name}"):
        scenario = choose(map_name, seed, episode, body)
        world, pose = scenario.world, asked or scenario.episode.start
        others = requested_crowd(CrowdOptions(pedestrians, robots), world, replace(scenario.episode, start=pose), seed)
        look = PLAIN if look_seed is None else draw_appearance(look_seed)
        plant = load_plant(loaded.robot.plant)
        robot = SimulatedRobot(world, plant, body, rendered, pose, senses, others, look, active, lasers)

    def ready(domain: int) -> None:
        sys.stderr.write(
            f"simulated robot on map {world.name} at ({pose.x_m:.2f}, {pose.y_m:.2f}), "
            f"domain {domain}; {sensors_text(loaded, mounts, rendered)}; Ctrl-C ends\n"
        )
        for name, time_s in unplugged.items():
            sys.stderr.write(f"camera {name} falls silent after {time_s:g} s\n")

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    clouds = lidars_of(loaded).clouds
    truth = run_sim(
        robot, mounts, loaded.dds, seconds, ready, stop_on_liveliness_lost, unplugged, lasers, clouds, imu, say
    )
    write_json(json_file, truth)


def _unplugged(options: Sequence[str], cameras: Sequence[str]) -> dict[str, float]:
    """Return camera -> time at which it falls silent [s]. Raises InputError."""
    found: dict[str, float] = {}
    for option in options:
        name, _, time_text = option.partition("@")
        try:
            time_s = float(time_text)
        except ValueError:
            time_s = math.nan
        if not 0.0 <= time_s < math.inf:
            raise InputError(f"--unplug {option}: expected CAMERA@SECONDS, such as front@10")
        if name not in cameras:
            there = (
                f"the cameras are {', '.join(cameras)}"
                if cameras
                else "this robot has none, and a lidar cannot be unplugged"
            )
            raise InputError(f"--unplug {option}: there is no camera {name}; {there}")
        if name in found:
            raise InputError(f"--unplug {option}: each camera only once")
        found[name] = time_s
    return found


def demo(
    map_name: MapOption = "lgrc1",
    seed: SeedOption = 4,
    episode: EpisodeOption = None,
    policy: Annotated[
        str | None,
        typer.Option(help="reactive, or a model; append +reactive for a fallback.  Without it: as configured."),
    ] = None,
    localization: LocalizationOption = True,
    drift: DriftOption = 1.0,
    pedestrians: PedestriansOption = 0,
    robots: RobotsOption = 0,
    kernels: KernelsOption = None,
    goals: Annotated[int, typer.Option(min=1, max=MOST_GOALS, help="Number of goals, drawn by the seed.")] = 1,
    limit: Annotated[
        float | None,
        typer.Option(
            min=1.0, help="Timeout of each goal, in s. Without it 100, or more at a low speed.", callback=finite
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for pictures and logs.")] = Path("out/demo"),
    config: ConfigOption = None,
    full_size: FullSizeOption = False,
    json_file: JsonOption = None,
) -> None:
    """Drive the simulated robot to a goal with the real runtime, over real DDS. Exit 0: reached without contact.

    A busy machine makes the drive slower: the robot waits, then the goal is sent again. Exit 3: too busy all the same.
    """
    check_json_target(json_file)
    others = CrowdOptions(pedestrians, robots)
    localization = localization and not load_config(config).map.tracker
    options = DemoOptions(
        map_name, seed, episode, policy, localization, drift, limit, out, config, others, goals, kernels,
        full_size=full_size,
    )  # fmt: skip
    with missing_is_exit_1():
        result = run_demo(options)
    write_result(json_file, result, summary(result))
    if not result["reached"] or result["contacts"]:
        raise typer.Exit(BUSY if too_busy(result) else 1)


BUSY = 3
"""Exit code of a demo that this machine was too busy for."""


@contextlib.contextmanager
def missing_is_exit_1() -> Iterator[None]:
    """End the command with exit code 1 if a part of the demo is missing. A wrong input is exit code 2."""
    try:
        yield
    except MissingError as error:
        sys.stderr.write(error_lines(error))
        raise typer.Exit(1) from error


def sensors_text(config: Config, mounts: Mounts, rendered: Mounts) -> str:
    """Return what the simulated robot publishes: cameras, with the sizes that are rendered, and lidars."""
    sizes = sizes_text(mounts, rendered)
    cameras = f"cameras {', '.join(mounts.depth)}{f' (rendered {sizes})' if sizes else ''}" if mounts.depth else ""
    lidars = [f"lidar on {ros_topic(config.dds, row)}" for row in lidar_rows(config).values()]
    return ", ".join(filter(None, [cameras, *lidars])) or "no camera and no lidar"


def _pose(text: str) -> Pose:
    parts = text.split(",")
    try:
        x, y, yaw = (float(part) for part in parts)
    except ValueError as error:
        raise InputError(f"--start {text}: must be x,y,yaw, three numbers") from error
    if not all(abs(value) <= FARTHEST_M for value in (x, y, yaw)):  # written so that NaN is rejected
        raise InputError(f"--start {text}: must be finite, and within {FARTHEST_M:g} m of the map's origin")
    return Pose(x, y, yaw)
