"""The command `onboard-calib gap`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from calib.dynamics.gap import drift_table, gap_of, save_picture
from calib.dynamics.motion_log import read_logs
from calib.dynamics.plausibility import check_units
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, markdown_table, write_json
from onboard.config.plant_model import load_plant


def gap(
    recording: Annotated[list[Path], typer.Argument(metavar="RECORDING...", help="Recordings (.mcap), or CSV logs.")],
    plant: Annotated[Path, typer.Option(help="plant.toml of the simulated base.")],
    picture: Annotated[Path | None, typer.Option(help="Write a PNG of the longest log: paths and speeds.")] = None,
    json_file: JsonOption = None,
) -> None:
    """Drive the simulated base with the recorded commands, and print its drift after 1, 5 and 10 s."""
    for target in (json_file, picture):
        check_json_target(None if target is None else str(target))
    loaded, logs = load_plant(plant), read_logs(recording).logs
    gaps = [gap_of(log, loaded) for log in logs]
    check_units(logs)
    table = drift_table(gaps)
    if picture is not None:
        longest = max(range(len(logs)), key=lambda number: logs[number].seconds)
        save_picture(gaps[longest], logs[longest], picture)
    if json_file is not None:
        write_json(json_file, table)
    if json_file != STANDARD_OUTPUT:
        rows = [[name.replace("_", " "), *map(_shown, row.values())] for name, row in table.items()]
        headings = ["drift after", *(key.replace("_", " ") for key in next(iter(table.values())))]
        sys.stdout.write(f"{markdown_table(headings, rows)}\n")


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3g}"
