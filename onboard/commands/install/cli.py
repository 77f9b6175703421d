"""The command lines of `onboard install` and `onboard uninstall`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.commands.install.install import Request, default_python, install, uninstall
from onboard.commands.install.layout import Layout
from onboard.commands.install.run_program import EndedError
from onboard.commands.install.steps import NotReadyError, Timeouts
from onboard.commands.install.systemctl import Systemd
from onboard.commands.install.wheel import Choice
from onboard.system.signals import KILLED_BY

EXIT_WENT_BACK = 1
EXTRAS = "cpu,realsense,serial"

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the steps, on any machine, and do nothing.")]


def install_command(
    source: Annotated[
        Path | None, typer.Argument(help="Wheel or source folder. Without it: the folder of this command.")
    ] = None,
    extras: Annotated[str, typer.Option(help="Optional parts; on a Jetson cpu,jetson,serial.")] = EXTRAS,
    lock: Annotated[
        Path | None,
        typer.Option(help="Lock file: versions with hashes. Without it: the wheel's own."),
    ] = None,
    unlocked: Annotated[
        bool, typer.Option("--unlocked", help="Install any versions that fit, without checking hashes.")
    ] = False,
    wheels: Annotated[Path | None, typer.Option(help="Take all packages from this folder, without a network.")] = None,
    system_packages: Annotated[
        bool, typer.Option("--system-packages", help="Use the system's Python packages too (TensorRT of JetPack).")
    ] = False,
    python: Annotated[
        Path | None, typer.Option(help="Python interpreter. Without it: the one of this command.")
    ] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Return to the previous version.")] = False,
    downgrade: Annotated[bool, typer.Option("--downgrade", help="Allow an older release than the active one.")] = False,
    start: Annotated[bool, typer.Option(help="Start the service and wait until it is READY.")] = True,
    ready_within: Annotated[float, typer.Option(min=1.0, help="Timeout until READY, in s.")] = 900.0,
    settle: Annotated[float, typer.Option(min=0.0, help="Duration for which it must stay READY, in s.")] = 10.0,
    compiles: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Compile the kernels before the service starts.")
    ] = True,
    dry_run: DryRunOption = False,
    json_file: JsonOption = None,
) -> None:
    """Install a version of the service next to the others and switch to it; roll back if it does not become READY.

    Exit code 0: active. 1: not READY, the previous version runs again. 2: refused, nothing was changed. 128 and the
    number of a signal: ended by it; before the switch the version before runs, after it the new one.
    """
    if rollback and source is not None:
        raise typer.BadParameter("--rollback takes no SOURCE")
    check_json_target(json_file)
    choice = Choice(extras, lock, system_packages, python or default_python(), unlocked, wheels)
    request = Request(source, choice, Timeouts(ready_within, settle), rollback, downgrade, start, dry_run, compiles)
    with _exit_codes():
        result = install(request, Layout(), Systemd(), _say_beside(json_file))
    write_json(json_file, result)


def uninstall_command(
    purge: Annotated[bool, typer.Option("--purge", help="Delete configuration, drop-ins and recordings too.")] = False,
    dry_run: DryRunOption = False,
    json_file: JsonOption = None,
) -> None:
    """Stop the service and remove all its versions. Configuration and recordings stay unless you add --purge."""
    check_json_target(json_file)
    with _exit_codes():
        result = uninstall(Layout(), Systemd(), _say_beside(json_file), purge=purge, dry_run=dry_run)
    write_json(json_file, result)


@contextlib.contextmanager
def _exit_codes() -> Iterator[None]:
    try:
        yield
    except (NotReadyError, EndedError) as error:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(KILLED_BY + error.number if isinstance(error, EndedError) else EXIT_WENT_BACK) from error


def _say_beside(json_file: str | None) -> Callable[[str], None]:
    """Return what prints a line: on standard error if the result is on standard output."""
    return _say if json_file != STANDARD_OUTPUT else partial(typer.echo, err=True)


def _say(words: str) -> None:
    """Print a line. After a lost connection or a closed pipe, discard this and all later lines."""
    try:
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()
    except OSError:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the command ends
