"""The command `onboard-hil target`, and the two configurations of a measurement: this machine's and the target's."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from hil.drive.robot import Senses, SimulatedRobot
from hil.live.dashboard import preparing
from hil.live.demo import demo_config
from hil.live.target.figures import table
from hil.live.target.goals import Place, choose_place
from hil.live.target.phases import COMPLETE, Stage
from hil.live.target.run import Report, run_target
from hil.physics.collision_world import body_of
from onboard.assembly.assembly import check_files
from onboard.commands.cli import ConfigOption, JsonOption, check_json_target, write_result
from onboard.config.config import DEFAULT_ROBOT, Config, DdsSection, load_config
from onboard.config.mounts import Mounts, load_mounts
from onboard.config.plant_model import load_plant
from onboard.config.pretrained import is_name
from onboard.config.toml_text import as_toml
from onboard.drivers.dds.domain import LOOPBACK
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.topics import domain_id
from onboard.policy.manifest import manifest_path
from onboard.values.errors import InputError, OnboardError


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
    write_result(json_file, result, table(result))
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


ANY_PORT = 9
HEAD = "# Written by `onboard-hil target`, for `onboard run --config` on the target. Its other files are next to it.\n"
LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Network:
    """Network between this machine and the target.

    address:          address of the target; None is this machine, over loopback
    interface:        interface of this machine; None is the interface of the configuration
    target_interface: interface of the target; None is the same name as on this machine
    """

    address: str | None = None
    interface: str | None = None
    target_interface: str | None = None


def desktop_section(dds: DdsSection, network: Network) -> DdsSection:
    """Return this machine's DDS section. DDS resends lost samples on every network except loopback.

    Raises InputError if the target has an address, but the interface is loopback.
    """
    interface = network.interface or dds.interface
    if network.address is not None and interface == LOOPBACK:
        raise InputError("--target: over which interface? Set --interface, or dds.interface in the configuration")
    peers = dds.peers if network.address is None else [network.address]
    # Loopback reaches only this machine. The peers in the file belong to another network, so they are not used.
    peers = [LOCAL] if interface == LOOPBACK else peers
    changes = {"domain": domain_id(dds), "interface": interface, "peers": peers, "resend": interface != LOOPBACK}
    return dds.model_copy(update=changes)


def target_config(given: Config, model: str | None, network: Network) -> Config:
    """Return the target's configuration: the given robot, with cameras and base on this machine. Raises InputError.

    model: as for `demo_config`
    """
    ours = desktop_section(given.dds, network)
    peers = [LOCAL] if ours.interface == LOOPBACK else [address_towards(peer) for peer in ours.peers]
    theirs = {"interface": network.target_interface or ours.interface, "peers": peers}
    made = demo_config(given, model)
    return made.model_copy(update={"dds": ours.model_copy(update=theirs)})


def address_towards(other: str) -> str:
    """Return this machine's address on the route to the address `other`. It sends no packet.

    Raises InputError if no route exists.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((other, ANY_PORT))
        except OSError as error:
            raise InputError(f"--target {other}: cannot be reached: {error.strerror}") from error
        return str(probe.getsockname()[0])


def write_target(config: Config, file: Path) -> Path:
    """Write the target's configuration to `file`, and copy the files that it needs next to it. Return `file`.

    It copies custom mounts, a custom plant, and a model given as a file. It does not copy files of the package.
    Raises OnboardError if a file cannot be written.
    """
    robot, policy, copies = config.robot, config.policy, []
    changes = {}
    for name, path in (("mounts", robot.mounts), ("plant", robot.plant)):
        if path.resolve() == (DEFAULT_ROBOT / path.name).resolve():
            changes[name] = DEFAULT_ROBOT / path.name
        else:
            copies.append(path)
            changes[name] = Path(path.name)
    if not is_name(policy.model):
        model = Path(policy.model)
        copies += [model, manifest_path(model), *model.parent.glob(f"{model.name}.data")]
        policy = policy.model_copy(update={"model": model.name})
    record = config.record.model_copy(update={"directory": Path("recordings")})
    portable = config.model_copy(update={"robot": robot.model_copy(update=changes), "policy": policy, "record": record})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(as_toml(portable, HEAD, stated_only=True), encoding="utf-8")
        for path in copies:
            if path.resolve() != (file.parent / path.name).resolve():
                shutil.copy2(path, file.parent / path.name)
    except OSError as error:
        raise OnboardError(f"{error.filename or file}: cannot be written: {error.strerror}") from error
    return file


def run_line(file: Path) -> str:
    """Return the command that the operator types on the target."""
    return f"onboard run --config {shlex.quote(str(file))}"
