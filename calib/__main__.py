"""`onboard-calib`: measuring this robot. Nothing to run yet.

Calibration of camera extrinsics, wheel odometry and dynamics comes later; until then the numbers are written by hand
into mounts.toml and plant.toml.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import onboard

main = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@main.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        typer.echo(onboard.__version__)
        raise typer.Exit


if __name__ == "__main__":
    sys.exit(main())
