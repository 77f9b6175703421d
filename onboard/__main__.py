"""The commands `onboard run | check-config | scan | repair | cameras`."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard import __version__
from onboard.commands.install.cli import install_command, uninstall_command
from onboard.config.config import DEFAULT_ROBOT, Config, ScanSection, load_config
from onboard.config.mounts import load_mounts
from onboard.recording.repair import Repair
from onboard.recording.repair import repair as repair_file
from onboard.recording.retention import mark
from onboard.values.errors import InputError, OnboardError

EXIT_BAD_INPUT = 2
STANDARD_OUTPUT = "-"

_NUMBERS = re.compile(r"\[\n[-+.\deE,\s]*\]")
"""An array of numbers over several lines; no text in JSON holds the end of a line."""

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file; the default robot when not given.")]
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="FILE|-", help="Write the result there; - is standard output.")
]


def finite(value: float | None) -> float | None:
    """Return an option's value. Raises typer's error of usage for NaN and infinity, which its ranges let pass."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not finite")
    return value


SecondsOption = Annotated[
    float | None, typer.Option("--for", min=0.1, help="Stop after so many seconds.", callback=finite)
]


def main() -> None:
    """Run the command line; a mistake of the user's is one line on standard error and exit code 2."""
    run_app(app)


def run_app(commands: typer.Typer) -> None:
    """Run a typer application with this project's manners for errors."""
    try:
        commands()
    except OnboardError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(EXIT_BAD_INPUT)


def write_json(target: str, value: Any) -> None:
    """Write a result as JSON to a file, or to standard output for "-", an array of numbers in one line.

    Raises OnboardError naming the file.
    """
    text = _NUMBERS.sub(_in_one_line, json.dumps(value, indent=2, allow_nan=False)) + "\n"
    if target == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text)
    except OSError as error:
        raise OnboardError(f"{target}: cannot be written: {error.strerror}") from error


def _in_one_line(array: re.Match[str]) -> str:
    return "[" + ", ".join(array[0][1:-1].replace(",", " ").split()) + "]"


def check_json_target(target: str | None) -> None:
    """Raise OnboardError when the result could not be written at the end of a drive: better now than then."""
    if target is None or target == STANDARD_OUTPUT:
        return
    file = Path(target)
    if file.is_dir():
        raise OnboardError(f"{target}: cannot be written: is a folder")
    if not file.parent.is_dir():
        raise OnboardError(f"{target}: cannot be written: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise OnboardError(f"{target}: cannot be written: Permission denied")


def effective(config: Config) -> dict[str, Any]:
    """Return the whole configuration as plain values, as it goes into every recording."""
    return config.model_dump(mode="json")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    """The runtime that drives a robot to a point goal."""
    if version:
        sys.stdout.write(f"onboard {__version__}\n")
        raise typer.Exit


@app.command()
def run(
    config: ConfigOption = None,
    json_file: JsonOption = None,
    seconds: SecondsOption = None,
    status: Annotated[bool, typer.Option(help="Show a live status line on a terminal.")] = True,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log one JSON object a line.")] = False,
) -> None:
    """Drive the robot until a signal comes. The last command on the wire is always zero."""
    from onboard.assembly.assembly import run_robot
    from onboard.system.log import configure

    stream = configure(json_lines=log_json)
    check_json_target(json_file)
    terminal = stream if status and sys.stderr.isatty() else None
    result = run_robot(load_config(config or DEFAULT_ROBOT / "onboard.toml"), seconds, terminal)
    if json_file is not None:
        write_json(json_file, result)


@app.command("check-config")
def check_config(
    config: ConfigOption = None,
    json_file: JsonOption = None,
    elsewhere: Annotated[
        bool,
        typer.Option(
            "--elsewhere", help="Check its files alone: it is for another machine, or this one is not all up."
        ),
    ] = False,
) -> None:
    """Check the configuration, all files that it names and what it needs of this machine; show what is in effect.

    That is the network's interface, keys, libraries, and that this user can record. Nothing is sent.
    """
    from onboard.assembly.assembly import check_files, check_machine

    loaded = load_config(config or DEFAULT_ROBOT / "onboard.toml")
    check_files(loaded)
    if not elsewhere:
        sys.stderr.writelines(f"warning: {missing}\n" for missing in check_machine(loaded))
    write_json(json_file or STANDARD_OUTPUT, effective(loaded))


@app.command()
def scan(
    mounts: Annotated[Path, typer.Option(help="mounts.toml of the robot.")],
    camera: Annotated[list[str], typer.Option(help="NAME=depth.png (16 bit) or NAME=recording.db3|.bag; repeat.")],
    frame: Annotated[int, typer.Option(help="Frame of the recordings, from 0.")] = 0,
    near: Annotated[float | None, typer.Option(help="Nearest depth believed, in m.")] = None,
    far: Annotated[float | None, typer.Option(help="Farthest depth believed, in m.")] = None,
    z_min: Annotated[float | None, typer.Option(help="Lowest height of an obstacle, in m.")] = None,
    z_max: Annotated[float | None, typer.Option(help="Highest height of an obstacle, in m.")] = None,
    config: Annotated[Path | None, typer.Option(help=r"Take the limits and body boxes of its \[scan] table.")] = None,
    json_file: JsonOption = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the scan into this PNG.")] = None,
) -> None:
    """Fuse depth images on disk into the 180-bin scan."""
    from onboard.commands.scan import limited, scan_command

    section = limited(load_config(config).scan if config else ScanSection(), near, far, z_min, z_max)
    scan_command(mounts, camera, frame, section, json_file, plot)


@app.command()
def repair(
    files: Annotated[list[Path], typer.Argument(help="Unfinished recordings (.mcap).")], json_file: JsonOption = None
) -> None:
    """Make recordings whole that a crash or a power cut left unfinished."""
    check_json_target(json_file)
    done = [_repaired(file) for file in files]
    if json_file is not None:
        write_json(json_file, [{**asdict(one), "path": str(one.path)} for one in done])
    if json_file != STANDARD_OUTPUT:
        sys.stdout.writelines(f"{_repair_line(one)}\n" for one in done if not one.problem)
    problems = [one.problem for one in done if one.problem]
    if problems:
        raise OnboardError("; ".join(problems))


def _repaired(file: Path) -> Repair:
    try:
        return repair_file(file)
    except OSError as error:
        return Repair(file, finished=False, problem=f"{file}: cannot be repaired: {error.strerror}")
    except InputError as error:
        return Repair(file, finished=False, problem=str(error))


def _repair_line(one: Repair) -> str:
    if one.finished:
        return f"{one.path}: whole already, not touched"
    cut = f", {one.cut_bytes} unreadable bytes at the end cut off" if one.cut_bytes else ""
    return f"{one.path}: completed, {one.messages} messages{cut}"


@app.command()
def cameras(config: ConfigOption = None, json_file: JsonOption = None) -> None:
    """List the RealSense devices that are plugged in, beside the serial numbers that the mounts expect."""
    from onboard.drivers.realsense.device import list_devices

    loaded = load_config(config or DEFAULT_ROBOT / "onboard.toml")
    mounts = load_mounts(loaded.robot.mounts)
    expected = {mount.serial: mount.name for mount in [*mounts.depth.values(), *mounts.color.values()] if mount.serial}
    found = list_devices()
    result = {
        "devices": [
            {
                "serial": device.serial,
                "name": device.name,
                "firmware": device.firmware,
                "usb": device.usb_type,
                "mount": expected.get(device.serial),
            }
            for device in found
        ],
        "missing": sorted(set(expected) - {device.serial for device in found}),
    }
    write_json(json_file or STANDARD_OUTPUT, result)


@app.command()
def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file; the service's, or the default robot, when not given.")
    ] = None,
    json_file: JsonOption = None,
    seconds: Annotated[
        float, typer.Option("--for", min=0.5, max=60.0, help="Listen and measure so long, in s.", callback=finite)
    ] = 3.0,
) -> None:
    """Look at everything that a drive needs: green, amber or red, and what to do. Exit code 1 when anything is red."""
    from onboard.commands.doctor.doctor import examine
    from onboard.commands.doctor.report import console_for, show
    from onboard.system.log import configure

    configure()
    check_json_target(json_file)
    report = examine(config, seconds)
    if json_file is not None:
        write_json(json_file, report.as_json())
    if json_file != STANDARD_OUTPUT:
        show(report, console_for(sys.stdout))
    raise typer.Exit(report.exit_code)


@app.command()
def keep(
    files: Annotated[list[Path], typer.Argument(help="Recordings (.mcap).")],
    release: Annotated[bool, typer.Option("--release", help="Take the mark away.")] = False,
) -> None:
    """Mark recordings that the disk budget must not delete."""
    for file in files:
        mark(file, keep=not release)


app.command("install")(install_command)
app.command("uninstall")(uninstall_command)


@app.command("secure-setup")
def secure_setup(
    folder: Annotated[Path, typer.Argument(help="Where the keystore is, or is to be made.")],
    config: ConfigOption = None,
) -> None:
    """Make keys, certificates and permissions for DDS Security: one folder a role. What is there is left alone."""
    from onboard.commands.secure_setup import secure_command

    sys.stdout.writelines(f"{line}\n" for line in secure_command(folder, config or DEFAULT_ROBOT / "onboard.toml"))


if __name__ == "__main__":
    main()
