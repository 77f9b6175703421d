"""The command `onboard-hil soak`."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from hil.drive.sensing import without_cameras
from hil.jobs.process_pool import in_processes
from hil.live.demo import demo_config
from hil.physics.collision_world import body_of
from hil.reliability.faults.run.simulated import changed
from hil.reliability.soak.cached_encoder import policy_without_color
from hil.reliability.soak.drive import Robot, Soak, Until
from hil.reliability.soak.episodes import MAPS, load_buildings
from hil.reliability.soak.live import passed_live, soak_processes
from hil.reliability.soak.report import joined, lines, markdown, passed, progress_line, result_of
from hil.scene.crowd_file import MOST_CHARACTERS
from onboard.assembly.assembly import check_files
from onboard.assembly.policies import require_engine
from onboard.commands.cli import (
    STANDARD_OUTPUT,
    ConfigOption,
    JsonOption,
    check_json_target,
    finite,
    write_json,
    write_text,
)
from onboard.config.config import Config, load_config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.counters import Counters
from onboard.state import TickRecord
from onboard.system.signals import Signals
from onboard.values.errors import InputError

FAILED = 1
NAME = "soak"
RECORD = {"record": {"max_file_mb": 8.0}}
"""Small recording files: the soak reads each file as soon as it is finished. The recorder deletes no file before."""


def soak_command(
    hours: Annotated[
        float | None, typer.Option(min=0.0, help="Simulated hours, all processes together.", callback=finite)
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Minutes of the wall clock.", callback=finite)] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes, each with its own seed.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of faults, goals, furniture, people and noise.")] = 1,
    maps: Annotated[
        list[str] | None, typer.Option("--map", help=f"A building; repeatable. Without it: {', '.join(MAPS)}.")
    ] = None,
    pedestrians: Annotated[int, typer.Option(min=0, max=MOST_CHARACTERS, help="People in each building.")] = 4,
    processes: Annotated[
        bool,
        typer.Option("--processes", help="Runtime as a process, in real time; needs --minutes, one --map."),
    ] = False,
    policy: Annotated[str | None, typer.Option(help="The policy. Without it: as configured.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for recordings; only those with a broken rule stay.")] = Path(
        "out/soak"
    ),
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the tables of the figures to this file.")
    ] = None,
    config: ConfigOption = None,
    json_file: JsonOption = None,
) -> None:
    """Drive a simulated robot for hours at the highest speed, with a fault of the table every 30 s, recorder on.

    Every tick is judged by the rules of `onboard-hil faults`, and no contact is excused; what the process holds is
    measured; every recording is read through. The scan is cast, the colour camera is missing.
    Exit code 0: nothing was broken and nothing grew. A signal ends it with what was found so far.
    """
    check_json_target(json_file)
    if hours is None and minutes is None:
        raise InputError("soak: say how long: --hours of the robot, --minutes of the wall clock, or both")
    console = Console(stderr=json_file == STANDARD_OUTPUT, highlight=False)
    if processes:
        if minutes is None or hours is not None or jobs != 1 or markdown_file is not None:
            raise InputError("soak: --processes takes --minutes, and neither --hours, --jobs nor --markdown")
        given = demo_config(load_config(config), policy)
        judged = soak_processes(console, given, 60.0 * minutes, seed, (maps or MAPS)[0], out)
        if json_file is not None:
            write_json(json_file, judged)
        if not passed_live(judged):
            raise typer.Exit(FAILED)
        return
    until = Until(None if hours is None else hours * 3600.0 / jobs, None if minutes is None else minutes * 60.0)
    ended = multiprocessing.get_context("spawn").RawValue("b", 0)
    soaking = _Soaking(_configured(config, policy), until, maps or MAPS, pedestrians, console.stderr, ended)
    if jobs == 1:
        results = [soaking(_Seed(seed, out))]
    else:
        results = soaking.side_by_side([_Seed(one, out / f"seed{one}") for one in range(seed, seed + jobs)])
    result = joined(results)
    for line in lines(result):
        console.print(line, markup=False, soft_wrap=True)
    if json_file is not None:
        write_json(json_file, result)
    if markdown_file is not None:
        write_text(markdown_file, markdown(result))
    if not passed(result):
        raise typer.Exit(FAILED)


def _configured(path: Path | None, policy: str | None) -> Config:
    """Return the configuration of a robot without cameras: the simulation provides its scans. Raises OnboardError."""
    config = demo_config(load_config(path), policy)
    named = config.model_copy(update={"robot": config.robot.model_copy(update={"name": NAME})})
    ready = changed(without_cameras(named), RECORD)
    check_files(named)
    require_engine(ready)
    return ready


@dataclass(frozen=True, slots=True)
class _Seed:
    """Seed of a process's soak. folder: parent folder of its recordings."""

    number: int
    folder: Path
    map: str = ""

    def __str__(self) -> str:
        return f"seed {self.number}"


@dataclass(frozen=True, slots=True)
class _Soaking:
    """Drives the soak of a seed, in this process or in a worker, until its end, a signal, or the end of all soaks.

    ended: value that the processes share; not 0 when all soaks must end
    """

    config: Config
    until: Until
    maps: Sequence[str]
    pedestrians: int
    on_standard_error: bool
    ended: Any

    def __call__(self, seed: _Seed) -> dict[str, Any]:
        """Drive the soak of a seed and return its result."""
        config = self.config
        plant, mounts = load_plant(config.robot.plant), load_mounts(config.robot.mounts)
        body = body_of(config.robot)
        console = Console(stderr=self.on_standard_error, highlight=False)

        def show(soak: Soak) -> None:
            console.print(progress_line(soak, seed.number), markup=False, soft_wrap=True)

        with Signals() as signals:
            policy = policy_without_color(config, plant)
            buildings = load_buildings(self.maps, seed.number, self.pedestrians, body)
            robot = Robot(config, mounts, plant, policy)
            soak = Soak(robot, buildings, (seed.folder / "recordings").resolve(), seed.number)
            signals.stop_with(soak.stop)
            try:
                soak.run(self.until, show, [_Ended(soak, self.ended)])
            finally:
                policy.close()
        return result_of(soak, seed.number)

    def side_by_side(self, seeds: Sequence[_Seed]) -> list[dict[str, Any]]:
        """Drive each seed in its own process and return the results. After a signal, return the results so far.

        Raises OnboardError if a process died. A dead process is a finding, so no process drives its seed again.
        """

        def end() -> None:
            self.ended.value = 1

        with Signals() as signals:
            signals.stop_with(end)
            with contextlib.closing(in_processes(self, seeds, len(seeds), attempts=1)) as coming:
                return sorted(coming, key=lambda result: result["seed"])


@dataclass(frozen=True, slots=True)
class _Ended:
    """Listener that stops a soak when all soaks must end."""

    soak: Soak
    ended: Any

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Stop the soak after a tick if all soaks must end."""
        if self.ended.value:
            self.soak.stop()
