"""`onboard run` drives the robot; `gateway` joins it to a ROS 2 node; `check-config` checks its configuration;
`compile` compiles kernels in advance."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard.assembly.assembly import check_files, check_machine, run_robot
from onboard.assembly.config_warnings import config_warnings, mask_cells
from onboard.assembly.in_effect import in_effect_text
from onboard.assembly.kernels import compile_all, write_bytecode
from onboard.assembly.places_in_map import places_out_of_reach
from onboard.assembly.policies import check_model
from onboard.assembly.robot import imu_rows, lidar_rows
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, SecondsOption, check_json_target, write_json
from onboard.config.config import Config, load_config
from onboard.config.mounts import note_taken
from onboard.service.gateway import DEFAULT_SOCKET, Gateway
from onboard.system.log import configure
from onboard.system.signals import Signals
from onboard.values import kernel
from onboard.values.errors import ConfigError, InputError


def effective(config: Config) -> dict[str, Any]:
    """Return the whole configuration as plain values, as it goes into every recording."""
    return config.model_dump(mode="json")


def run(
    config: ConfigOption = None,
    json_file: JsonOption = None,
    seconds: SecondsOption = None,
    status: Annotated[bool, typer.Option(help="Show a live status line on a terminal.")] = True,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log one JSON object per line.")] = False,
) -> None:
    """Drive the robot until Ctrl-C or SIGTERM. The last command sent is always zero."""
    stream = configure(json_lines=log_json)
    check_json_target(json_file)
    terminal = stream if status and sys.stderr.isatty() else None
    result = run_robot(load_config(config), seconds, terminal)
    write_json(json_file, result)


def check_config(
    config: ConfigOption = None,
    json_file: JsonOption = None,
    files_only: Annotated[
        bool,
        typer.Option("--files-only", help="Check files only, on a machine that is not the robot."),
    ] = False,
) -> None:
    """Check the configuration, the files that it names and this machine; print the settings in effect.

    That is the network's interface, keys, libraries, and that this user can record. Nothing is sent. A terminal shows
    what drives in five lines; `--json -` prints every key, and so does the command in a pipe.
    """
    check_json_target(json_file)
    if json_file is not None and Path(json_file).suffix == ".toml":
        raise InputError(f"--json {json_file}: would overwrite a configuration; did you mean --config?")
    target = json_file or (None if sys.stdout.isatty() else STANDARD_OUTPUT)
    loaded = load_config(config)
    if not files_only:
        note_taken(loaded.robot.mounts)
    check_files(loaded, config)
    places = _places(loaded, files_only)
    check_model(loaded)
    cells = mask_cells(loaded)
    missing = [] if files_only else check_machine(loaded)
    sys.stderr.writelines(f"warning: {line}\n" for line in (*config_warnings(loaded), *places, *missing))
    text = in_effect_text(loaded) + _zones_text(loaded, cells)
    (sys.stderr if target == STANDARD_OUTPUT else sys.stdout).write(text)
    if target is not None:
        table = effective(loaded)
        table["zones"] |= cells
        write_json(target, table)


def _places(config: Config, files_only: bool) -> list[str]:
    """Return what is wrong with `places.toml`. Raises it as ConfigError, but not for the service.

    The service checks its files before each start, and a place keeps no robot from driving.
    """
    try:
        wrong = places_out_of_reach(config)
        if wrong:
            raise ConfigError("\n".join(wrong))
    except ConfigError as error:
        if not files_only:
            raise
        return str(error).splitlines()
    return []


def _zones_text(config: Config, cells: dict[str, int]) -> str:
    """Return a line about the masks; "" without any."""
    masks = {
        "keep_out_cells": f"{config.zones.keep_out} forbids {cells.get('keep_out_cells')} cells",
        "speed_cells": f"{config.zones.speed} limits the speed in {cells.get('speed_cells')} cells",
    }
    stated = "; ".join(text for name, text in masks.items() if name in cells)
    return f"zones    {stated}\n" if stated else ""


def gateway(
    path: Annotated[Path, typer.Option("--socket", help="Unix socket; the ROS node's parameter `socket`.")] = (
        DEFAULT_SOCKET
    ),
    config: ConfigOption = None,
) -> None:
    """Join the runtime's domain to the node `onboard_gateway` in the robot's own ROS 2, until Ctrl-C or SIGTERM."""
    configure(json_lines=False)
    loaded = load_config(config)
    gate = Gateway(loaded.dds, [*lidar_rows(loaded).values(), *imu_rows(loaded).values()], path)
    with contextlib.closing(gate), Signals() as signals:
        signals.stop_with(gate.stop)
        gate.run()


def compile_command(config: ConfigOption = None) -> None:
    """Compile kernels and byte code in advance, so that the runtime starts faster. Opens no device and no network."""
    loaded, began_s = load_config(config), time.monotonic()
    check_files(loaded, config)
    with Signals() as signals:
        kernels, modules = compile_all(loaded, signals), write_bytecode(list(sys.modules.values()))
    took = f"in {time.monotonic() - began_s:.1f} s; cache: {kernel.cache_root() or 'none, there is no home folder'}"
    sys.stdout.write(f"compiled {kernels} kernels and {modules} modules {took}\n")
