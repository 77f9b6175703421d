"""The command `onboard-calib collect`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from calib.dynamics.plant_file import check_target
from calib.learned.collect import Collected, Collector, Rectangle, csv_text, empty_room
from hil.maps.load import load_map, map_names
from hil.physics.collision_world import Body
from onboard.commands.cli import JsonOption, check_json_target, write_result, write_text
from onboard.config.plant_model import load_plant
from onboard.values.errors import InputError

LEAST_SIDE_M = 1.0


def collect(
    out: Annotated[Path, typer.Option("--out", "-o", help="The log to write (.csv).")],
    plant: Annotated[Path, typer.Option(help="plant.toml of the simulated base.")],
    seconds: Annotated[float, typer.Option(min=10.0, max=1e5, help=r"Duration of the drive \[s].")] = 2000.0,
    rectangle: Annotated[
        tuple[float, float, float, float],
        typer.Option(help=r"Safe floor: x and y of two opposite corners in the map \[m]."),
    ] = (0.0, 0.0, 8.0, 6.0),
    map_name: Annotated[
        str | None,
        typer.Option("--map", help=f"Map: {', '.join(map_names())}, or a file; without it an empty room."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of poses, speeds and noise.")] = 1,
    json_file: JsonOption = None,
) -> None:
    """Drive the simulated base to sampled poses in a safe rectangle, unattended, and log commands and poses."""
    check_json_target(json_file)
    check_target(out)
    if not all(map(math.isfinite, rectangle)):
        raise InputError(f"--rectangle {' '.join(map(str, rectangle))}: must be finite")
    floor = Rectangle(*rectangle)
    if floor.x_max_m - floor.x_min_m < LEAST_SIDE_M or floor.y_max_m - floor.y_min_m < LEAST_SIDE_M:
        raise InputError(f"--rectangle {' '.join(map(str, rectangle))}: each side must be at least {LEAST_SIDE_M:g} m")
    world = empty_room(floor) if map_name is None else load_map(map_name)
    collector = Collector(world, load_plant(plant), Body(), floor, seed)
    console = Console(stderr=True)
    done: Collected | None = None
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("collect", total=seconds)
        for one in collector.run(seconds):
            if isinstance(one, Collected):
                done = one
            else:
                progress.update(task, completed=one)
    assert done is not None, "the drive is as long as its log"
    write_text(out, csv_text(done.log))
    write_result(
        json_file,
        {"file": str(out), "seconds": seconds, "reached": done.reached, "stuck": done.stuck},
        f"{out}: {seconds:g} s, {done.reached} poses reached, {done.stuck} given up\n",
    )
