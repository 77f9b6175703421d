"""The command `onboard-hil soak`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from hil.drive.sensing import without_cameras
from hil.live.demo import demo_config
from hil.physics.collision_world import Body
from hil.reliability.faults.run.simulated import changed
from hil.reliability.soak.cached_encoder import policy_without_color
from hil.reliability.soak.drive import Robot, Soak, Until
from hil.reliability.soak.episodes import MAPS, load_buildings
from hil.reliability.soak.live import passed_live, soak_processes
from hil.reliability.soak.processes import run_jobs
from hil.reliability.soak.report import joined, lines, markdown, passed, progress_line, result_of
from hil.scene.crowd_file import MOST_CHARACTERS
from onboard.assembly.assembly import check_files
from onboard.assembly.policies import require_engine
from onboard.commands.cli import (
    STANDARD_OUTPUT,
    ConfigOption,
    JsonOption,
    check_json_target,
    finite,
    write_json,
    write_text,
)
from onboard.config.config import DEFAULT_ROBOT, Config, load_config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.system.signals import Signals
from onboard.values.errors import InputError

FAILED = 1
NAME = "soak"
RECORD = {"record": {"max_file_mb": 8.0, "max_files": 1000}}
"""Small files, each read as soon as it is finished; none is deleted before."""


def soak_command(
    hours: Annotated[
        float | None, typer.Option(min=0.0, help="Of the robot, all processes together.", callback=finite)
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Of the wall clock.", callback=finite)] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, each with a seed of its own.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Faults, goals, furniture, people and noise are drawn by this.")] = 1,
    maps: Annotated[
        list[str] | None, typer.Option("--map", help=f"Buildings, one after another; repeat. Else {', '.join(MAPS)}.")
    ] = None,
    pedestrians: Annotated[int, typer.Option(min=0, max=MOST_CHARACTERS, help="People in each building.")] = 4,
    processes: Annotated[
        bool,
        typer.Option("--processes", help="The real runtime as a process over DDS, in real time: --minutes, one --map."),
    ] = False,
    policy: Annotated[str | None, typer.Option(help="Who drives, else the configuration's.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for recordings; those in which a rule was broken stay.")] = Path(
        "out/soak"
    ),
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the tables of the figures to it.")
    ] = None,
    config: ConfigOption = None,
    json_file: JsonOption = None,
) -> None:
    """Drive a simulated robot for hours at the highest speed, with a fault of the table every 30 s, recorder on.

    Every tick is judged by the rules of `onboard-hil faults`, and no contact is excused; what the process holds is
    measured; every recording is read through. The scan is cast, the colour camera is missing.
    Exit code 0: nothing was broken and nothing grew. A signal ends it with what was found so far.
    """
    check_json_target(json_file)
    if hours is None and minutes is None:
        raise InputError("soak: say how long: --hours of the robot, --minutes of the wall clock, or both")
    console = Console(stderr=json_file == STANDARD_OUTPUT, highlight=False)
    if processes:
        if minutes is None or hours is not None or jobs != 1 or markdown_file is not None:
            raise InputError("soak: --processes takes --minutes, and neither --hours, --jobs nor --markdown")
        given = demo_config(load_config(config or DEFAULT_ROBOT / "onboard.toml"), policy)
        told = soak_processes(console, given, 60.0 * minutes, seed, (maps or MAPS)[0], out)
        if json_file is not None:
            write_json(json_file, told)
        if not passed_live(told):
            raise typer.Exit(FAILED)
        return
    if jobs == 1:
        until = Until(None if hours is None else hours * 3600.0, None if minutes is None else minutes * 60.0)
        results = [_soak(console, _configured(config, policy), until, seed, maps or MAPS, pedestrians, out)]
    else:
        seeds = [seed + number for number in range(jobs)]
        folders = [out / f"seed{one}" for one in seeds]
        bounds = {"--hours": None if hours is None else hours / jobs, "--minutes": minutes}
        places = [word for name in maps or () for word in ("--map", name)]
        passed_on = {**bounds, "--pedestrians": pedestrians, "--policy": policy, "--config": config}
        options = [word for name, value in passed_on.items() if value is not None for word in (name, str(value))]
        results = run_jobs([*options, *places], folders, seeds)
    result = joined(results)
    for line in lines(result):
        console.print(line, markup=False, soft_wrap=True)
    if json_file is not None:
        write_json(json_file, result)
    if markdown_file is not None:
        write_text(markdown_file, markdown(result))
    if not passed(result):
        raise typer.Exit(FAILED)


def _configured(path: Path | None, policy: str | None) -> Config:
    """Return the configuration of a robot whose scans come ready-made. Raises OnboardError."""
    config = demo_config(load_config(path or DEFAULT_ROBOT / "onboard.toml"), policy)
    named = config.model_copy(update={"robot": config.robot.model_copy(update={"name": NAME})})
    ready = changed(without_cameras(named), RECORD)
    check_files(named)
    require_engine(ready)
    return ready


def _soak(
    console: Console, config: Config, until: Until, seed: int, maps: Sequence[str], pedestrians: int, out: Path
) -> dict[str, Any]:
    """Drive in this process until it is over, or a signal comes."""
    plant, mounts = load_plant(config.robot.plant), load_mounts(config.robot.mounts)
    body = Body(config.robot.footprint_radius_m, config.robot.height_m)
    folder = (out / "recordings").resolve()
    with Signals() as signals:
        policy = policy_without_color(config, plant)
        buildings = load_buildings(maps, seed, pedestrians, body)
        soak = Soak(Robot(config, mounts, plant, policy), buildings, folder, seed)
        signals.stop_with(soak.stop)
        try:
            soak.run(until, lambda it: console.print(progress_line(it, seed), markup=False, soft_wrap=True))
        finally:
            policy.close()
    return result_of(soak, seed)
