"""The command `onboard-hil target`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from hil.drive.robot import Senses, SimulatedRobot
from hil.live.dashboard import preparing
from hil.live.target.figures import table
from hil.live.target.goals import Place, choose_place
from hil.live.target.phases import COMPLETE, Stage
from hil.live.target.run import Report, run_target
from hil.live.target.target_config import Network, desktop_section, run_line, target_config, write_target
from hil.physics.collision_world import body_of
from onboard.assembly.assembly import check_files
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, write_json
from onboard.config.config import Config, load_config
from onboard.config.mounts import Mounts, load_mounts
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.participant import Wire


def target(
    count: Annotated[int, typer.Option(min=1, help="Round trips, from depth images to a command.")] = 10_000,
    address: Annotated[
        str | None, typer.Option("--target", help="Address of the target. Without it: this machine.")
    ] = None,
    interface: Annotated[
        str | None, typer.Option(help="Network interface of this machine. Without it: dds.interface.")
    ] = None,
    target_interface: Annotated[str | None, typer.Option(help="Network interface of the target.")] = None,
    write_config: Annotated[
        Path, typer.Option(help="File for the target's configuration; its other files go next to it.")
    ] = Path("out/target/target.toml"),
    map_name: Annotated[str, typer.Option("--map", help="Map, by name or file.")] = "gdc1",
    seed: Annotated[int, typer.Option(min=0, help="Seed of furniture, goals and noise.")] = 1,
    policy: Annotated[
        str | None,
        typer.Option(help="reactive, or a model; append +reactive for a fallback.  Without it: as configured."),
    ] = None,
    config: ConfigOption = None,
    json_file: JsonOption = None,
) -> None:
    """Simulate world and base for `onboard run` on another machine; measure round trips. Exit 0: all, and at rest."""
    check_json_target(json_file)
    given = load_config(config)
    network = Network(address, interface, target_interface)
    theirs = target_config(given, policy, network)
    check_files(theirs)
    with contextlib.closing(Wire(desktop_section(given.dds, network))) as wire:
        file = write_target(theirs, write_config)
        sys.stderr.write(
            f"on the target, with {file.parent} copied to it:\n  {run_line(file)}\n"
            f"domain {wire.domain}, interface {wire.section.interface}; Ctrl-C ends\n"
        )
        sys.stderr.flush()
        mounts, place, robot = _world(given, map_name, seed)
        with _showing(count) as show:
            result = run_target(wire, robot, mounts, place, count, given.rates, show)
    if json_file is not None:
        write_json(json_file, result)
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(table(result))
    if result["ended"] != COMPLETE or not result["base"]["at_rest"]:
        raise typer.Exit(1)


def _world(given: Config, map_name: str, seed: int) -> tuple[Mounts, Place, SimulatedRobot]:
    """Return the robot's mounts, the place, and the simulated robot at its start. Raises InputError, ConfigError."""
    mounts = load_mounts(given.robot.mounts)
    body = body_of(given.robot)
    with preparing(f"map {map_name}"):
        place = choose_place(map_name, seed, body)
        senses = Senses(seed=seed)
        plant = load_plant(given.robot.plant)
        return mounts, place, SimulatedRobot(place.world, plant, body, mounts, place.episodes[0].start, senses)


@contextlib.contextmanager
def _showing(count: int) -> Iterator[Report]:
    """Yield a function that shows the progress: a bar on a terminal, elsewhere a line per stage."""
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=count)
        shown: list[Stage] = []

        def show(stage: Stage, done: int) -> None:
            if shown[-1:] != [stage]:
                shown.append(stage)
                bar.update(task, description=stage.value)
                if not console.is_terminal:
                    sys.stderr.write(f"{stage.value}\n")
                    sys.stderr.flush()
            if stage is Stage.MEASURING:
                bar.update(task, completed=done)

        yield show
