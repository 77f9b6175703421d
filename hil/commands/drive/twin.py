"""The commands `onboard-hil twin | guard | twin-robot | twin-demo | twin-latency`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from hil.commands.drive.simulation import FullSizeOption, missing_is_exit_1
from hil.live.dashboard import preparing
from hil.live.twin.corridor import CORRIDOR
from hil.live.twin.corridor import site_of as place_of
from hil.live.twin.demo import TwinDemoOptions, run_twin_demo
from hil.live.twin.demo import summary as demo_summary
from hil.live.twin.guard.process import rules_of, run_guard
from hil.live.twin.latency import LatencyOptions, run_latency
from hil.live.twin.latency import summary as latency_summary
from hil.live.twin.process import TwinOptions, run_twin
from hil.live.twin.scene import Site, SiteOptions
from hil.live.twin.sensors import Views
from hil.live.twin.stand_in_robot import ROOM, ROOM_START, run_physical
from hil.physics.collision_world import body_of
from hil.scene.walkers import MOST_CHARACTERS, CrowdOptions
from onboard.assembly.assembly import check_files
from onboard.commands.cli import (
    ConfigOption,
    JsonOption,
    SecondsOption,
    check_json_target,
    finite,
    write_json,
    write_result,
)
from onboard.config.config import Config, load_config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.values.errors import InputError

TWIN = Path(__file__).parents[2] / "live" / "twin" / "data"
ROBOT = TWIN / "robot.toml"
"""Configuration of the default robot with a twin."""
PAPER_MOUNTS = TWIN / "paper_mounts.toml"

OdometryOption = Annotated[str, typer.Option("--odometry", help="Topic of the real base's odometry.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of start, furniture, people and noise.")]
MapOption = Annotated[str, typer.Option("--map", help="Map of the twin, by name or file; corridor is that of paper 4.")]
EpisodeOption = Annotated[int | None, typer.Option("--episode", min=0, help="Use a committed start of the map.")]
PeopleOption = Annotated[int, typer.Option("--pedestrians", min=0, max=MOST_CHARACTERS, help="Walking people.")]
FreeOption = Annotated[
    float,
    typer.Option("--free", min=0.5, help="Free distance ahead that ends the recovery turn, in m.", callback=finite),
]


def robot_config(path: Path | None) -> Config:
    """Return a robot's configuration after a check of its files. path: None for the default robot with a twin."""
    config = load_config(path or ROBOT)
    check_files(config)
    return config


def site_of(config: Config, options: SiteOptions) -> Site:
    """Return the place of a robot's twin, and show meanwhile that the map is prepared. Raises InputError."""
    body = body_of(config.robot)
    with preparing(f"map {options.map_name}"):
        return place_of(options, body, load_plant(config.robot.plant))


def saying(who: str) -> Callable[[object], None]:
    """Return a function that reports on standard error that a process is ready. who: name of the process."""

    def say(what: object) -> None:
        sys.stderr.write(f"{who}: {what}; Ctrl-C ends\n")
        sys.stderr.flush()

    return say


def twin(
    map_name: MapOption = "gdc1",
    seed: SeedOption = 1,
    episode: EpisodeOption = None,
    pedestrians: PeopleOption = 0,
    areas: Annotated[Path | None, typer.Option("--areas", help="A .toml of areas that get objects at a reset.")] = None,
    mounts_file: Annotated[
        Path | None, typer.Option("--mounts", help="mounts.toml of virtual cameras that replace the robot's.")
    ] = None,
    image_every: Annotated[int, typer.Option(min=1, help="Number of poses per image.")] = 1,
    localization: Annotated[bool, typer.Option("--localization/--no-localization", help="Publish amcl_pose.")] = True,
    odometry: OdometryOption = "odom",
    config: ConfigOption = None,
    seconds: SecondsOption = None,
    json_file: JsonOption = None,
) -> None:
    """Simulate the twin of a real robot: follow its odometry through a building and publish the twin's sensors."""
    check_json_target(json_file)
    loaded = robot_config(config)
    mounts = load_mounts(mounts_file or loaded.robot.mounts)
    site = site_of(loaded, SiteOptions(map_name, seed, episode, areas, CrowdOptions(pedestrians)))
    options = TwinOptions(odometry, image_every, localization_scale=1.0 if localization else None, seed=seed)
    result = run_twin(site, loaded, mounts, Views(mounts, loaded.scan), options, seconds, saying("twin"))
    write_json(json_file, result)


def guard(
    free_m: FreeOption = 2.5,
    margin_m: Annotated[
        float, typer.Option("--margin", min=0.05, help="Margin beyond the braking distance, in m.", callback=finite)
    ] = 0.3,
    odometry: OdometryOption = "odom",
    config: ConfigOption = None,
    seconds: SecondsOption = None,
    json_file: JsonOption = None,
) -> None:
    """Guard the real robot of a twin: stop before real obstacles, turn to free space, resume."""
    check_json_target(json_file)
    loaded = robot_config(config)
    rules = rules_of(loaded, load_plant(loaded.robot.plant), free_m=free_m, margin_m=margin_m)
    result = run_guard(loaded, rules, odometry, seconds, saying("guard"))
    write_json(json_file, result)


def twin_robot(
    room: Annotated[
        Path, typer.Option(help="Map of the real room. Without it: an empty one of 5 m x 3 m.", show_default=False)
    ] = ROOM,
    drift: Annotated[
        float, typer.Option(min=0.0, help="Multiplier for the paper's odometry drift.", callback=finite)
    ] = 0.0,
    seed: SeedOption = 1,
    config: ConfigOption = None,
    seconds: SecondsOption = None,
    json_file: JsonOption = None,
) -> None:
    """Simulate the real robot of a twin: the plant in an empty room, on the real robot's topics."""
    check_json_target(json_file)
    loaded = robot_config(config)
    say = saying("robot")
    with preparing("the room"):
        result = run_physical(loaded, room, ROOM_START, drift, seed, seconds, lambda domain: say(f"domain {domain}"))
    write_json(json_file, result)


def twin_demo(
    map_name: Annotated[str | None, typer.Option("--map", help="Map of the twin.", show_default="gdc1")] = None,
    seed: SeedOption = 1,
    episode: Annotated[int | None, typer.Option("--episode", min=0, help="Start of the map.", show_default="3")] = None,
    pedestrians: Annotated[
        int | None, typer.Option("--pedestrians", min=0, max=MOST_CHARACTERS, help="People.", show_default="4")
    ] = None,
    corridor: Annotated[
        bool, typer.Option("--corridor", help="Drive paper 4's corridor with its people, by its three-range agent.")
    ] = False,
    policy: Annotated[
        str | None,
        typer.Option(help="reactive, or a model; append +reactive for a fallback.  Without it: as configured."),
    ] = None,
    limit: Annotated[float, typer.Option(min=1.0, help="Timeout of the drive, in s.", callback=finite)] = 300.0,
    out: Annotated[Path, typer.Option(help="Folder for picture and logs.")] = Path("out/twin"),
    config: ConfigOption = None,
    full_size: FullSizeOption = False,
    json_file: JsonOption = None,
) -> None:
    """Drive a robot in an empty room so that its twin reaches a goal in a building. Exit 0: reached without contact.

    With --corridor the twin drives to the end of a corridor.
    """
    check_json_target(json_file)
    if corridor and (map_name, episode, pedestrians) != (None, None, None):
        raise InputError("--corridor has its own map, start and people; remove --map, --episode, --pedestrians")
    place = (CORRIDOR, None, 0) if corridor else (map_name or "gdc1", 3 if episode is None else episode, pedestrians)
    crowd = CrowdOptions(4 if place[2] is None else place[2])
    options = TwinDemoOptions(place[0], seed, place[1], crowd, policy, limit, out, full_size)
    with missing_is_exit_1():
        result = run_twin_demo(robot_config(config), options)
    write_result(json_file, result, demo_summary(result))
    if not result["reached"] or result["virtual_contacts"] or result["real_contacts"]:
        raise typer.Exit(1)


def twin_latency(
    count: Annotated[int, typer.Option(min=1, help="Number of round trips.")] = 10_000,
    paper: Annotated[bool, typer.Option("--paper", help="Use paper 4's camera, 640x480, and its lidar.")] = False,
    config: ConfigOption = None,
    out: Annotated[Path, typer.Option(help="Folder for log and histogram.")] = Path("out/twin"),
    json_file: JsonOption = None,
) -> None:
    """Measure the latency from a robot's pose to the last message of its twin, over DDS between two processes."""
    check_json_target(json_file)
    mounts = PAPER_MOUNTS if paper else None
    options = LatencyOptions(count, mounts=mounts, depth=not paper, points=paper)
    result = run_latency(robot_config(config), (config or ROBOT).resolve(), options, out)
    write_result(json_file, result, latency_summary(result))
