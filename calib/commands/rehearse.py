"""The command `onboard-calib rehearse`: a calibration session in simulation."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from calib.cameras.rehearsal import rehearse
from hil.maps.load import map_names
from onboard.commands.cli import (
    STANDARD_OUTPUT,
    ConfigOption,
    JsonOption,
    check_json_target,
    finite,
    write_json,
)
from onboard.config.config import load_config


def rehearse_command(
    true: Annotated[Path, typer.Option("--true", help="mounts.toml with the true poses of the simulated cameras.")],
    map_name: Annotated[
        str, typer.Option("--map", help=f"Map: {', '.join(map_names())}, or a .yaml, .json or mesh file.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The recording to write (.mcap).")],
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of start, furniture, wheels and noise.")] = 0,
    believed: Annotated[
        Path | None, typer.Option(help="mounts.toml that the robot uses. Without it: the true one plus random errors.")
    ] = None,
    way: Annotated[
        Literal["all", "straight"],
        typer.Option(help="The whole drive, or only straight lines, which a calibration refuses."),
    ] = "all",
    furniture: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Furniture density: 1 as in an office. Default: 1, or 0 in a hall.", callback=finite
        ),
    ] = None,
    drift: Annotated[
        float, typer.Option(min=0.0, help="Multiplier for the paper's odometry drift.", callback=finite)
    ] = 0.0,
    config: ConfigOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing recording.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Rehearse a calibration in simulation: turn and drive arcs in a furnished room, and record it."""
    check_json_target(json_file)
    done = rehearse(
        true, map_name, seed, out, believed=believed, config=load_config(config) if config else None, way=way,
        furniture=furniture, drift=drift, force=force,
    )  # fmt: skip
    write_json(json_file, asdict(done) | {"file": str(out)})
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(
            f"{out}: {done.stops} stops in {done.seconds:.0f} s, {done.driven_m:.1f} m driven and "
            f"{math.degrees(done.turned_rad):.0f} deg turned by the odometry\n"
        )
        if done.touched:
            sys.stdout.write("the base touched something during the drive\n")
