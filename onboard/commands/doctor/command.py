"""The command `onboard doctor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, finite, write_json
from onboard.commands.doctor.doctor import examine
from onboard.commands.doctor.report import console_for, show
from onboard.system.log import configure


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file. Without it: the service's, else the default robot.")
    ] = None,
    json_file: JsonOption = None,
    seconds: Annotated[
        float, typer.Option("--for", min=0.5, max=60.0, help="Duration of the measurement, in s.", callback=finite)
    ] = 3.0,
) -> None:
    """Check everything that a drive needs: green, amber or red, and what to do. Exit code 1: something is red."""
    configure()
    check_json_target(json_file)
    report = examine(config, seconds)
    if json_file is not None:
        write_json(json_file, report.as_json())
    if json_file != STANDARD_OUTPUT:
        show(report, console_for(sys.stdout))
    raise typer.Exit(report.exit_code)
