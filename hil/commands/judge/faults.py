"""The command `onboard-hil faults`, and its reports: tables on the console, Markdown and JSON."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hil.commands.judge.replay import ModelOption
from hil.drive.episodes import choose
from hil.live.demo import demo_config
from hil.physics.collision_world import body_of
from hil.reliability.faults.expectations import Reaction
from hil.reliability.faults.fault import LASTS_S, Fault
from hil.reliability.faults.run.excerpt import choose_excerpt
from hil.reliability.faults.run.live import in_process
from hil.reliability.faults.run.processes import Drive
from hil.reliability.faults.run.recorded import in_recording
from hil.reliability.faults.run.simulated import EPISODE, MAP, TAIL_S, Site, in_simulation
from hil.reliability.faults.table import FAULTS
from hil.reliability.faults.verdict import Mode, Status, Verdict
from hil.replay.recorded_policy import Policies
from onboard.assembly.assembly import check_files
from onboard.assembly.policies import policy_maker, require_engine
from onboard.assembly.robot import building_of
from onboard.commands.cli import (
    STANDARD_OUTPUT,
    ConfigOption,
    JsonOption,
    check_json_target,
    finite,
    markdown_table,
    print_table,
    write_json,
    write_text,
)
from onboard.config.config import Config, load_config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.values.errors import InputError
from onboard.values.interfaces import Policy
from onboard.values.messages import Pose

FAILED = 1
ROBOT = "faults"


class Processes(str, Enum):
    """Selection of the faults that run against a real process over DDS."""

    NONE = "none"
    NEEDED = "needed"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class _Place:
    """Map, episode and seed of a simulated drive."""

    map_name: str
    episode: int
    seed: int

    def arguments(self) -> list[str]:
        """Return the place as arguments of `onboard-hil sim`."""
        return ["--map", self.map_name, "--episode", str(self.episode), "--seed", str(self.seed)]


def faults_command(
    recording: Annotated[Path | None, typer.Argument(help="Inject the faults into this recording, open loop.")] = None,
    sim: Annotated[bool, typer.Option("--sim", help="Inject the faults into a simulated drive.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Only this fault; repeatable.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Print the table of faults and exit.")] = False,
    processes: Annotated[
        Processes,
        typer.Option(help="With --sim: which faults run against the real process."),
    ] = Processes.NEEDED,
    from_s: Annotated[
        float, typer.Option("--from", min=0.0, help="Begin at this time or later, in s.", callback=finite)
    ] = 0.0,
    model: ModelOption = None,
    force: Annotated[bool, typer.Option("--force", help="Continue with another model than the recorded one.")] = False,
    map_name: Annotated[str, typer.Option("--map", help="With --sim: the building.")] = MAP,
    episode: Annotated[int, typer.Option("--episode", min=0, help="With --sim: start and goal.")] = EPISODE,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the noise.")] = 1,
    policy: Annotated[str | None, typer.Option(help="With --sim: the policy. Without it: as configured.")] = None,
    markdown_file: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Write the table of a simulated drive."),
    ] = None,
    config: ConfigOption = None,
    json_file: JsonOption = None,
) -> None:
    """Inject named faults, one at a time, and judge what the robot does.

    Under every fault each command must be finite and within the limits, and zero within 2 ticks of the cause of a stop.
    A fault shows nothing if the robot stood when it began, or drives the same without it.
    Exit code 0: no fault failed; 1: a fault failed; 2: the command could not run, or no fault showed anything.
    """
    check_json_target(json_file)
    faults = _chosen(only)
    console = Console(stderr=json_file == STANDARD_OUTPUT, highlight=False)
    if listed:
        short = console.is_terminal
        print_table(fault_table(faults, load_config(config), short), console.stderr)
        if short:
            console.print("more columns: onboard-hil faults --list | less -S")
        return
    if sim == (recording is not None):
        raise InputError("faults: name a recording, or --sim")
    if recording is not None:
        source = str(recording)
        judged_by, verdicts = _over_recording(console, faults, recording, from_s, seed, model, force)
    else:
        source = f"simulation of {map_name}, episode {episode}, seed {seed}"
        given = demo_config(_named(load_config(config)), policy)
        place = _Place(map_name, episode, seed)
        judged_by, verdicts = given, _over_simulation(console, faults, given, processes, place)
    print_verdicts(console, verdicts, judged_by)
    write_json(json_file, as_json(source, judged_by, verdicts))
    if markdown_file is not None:
        write_text(markdown_file, markdown(verdicts))
    came = {verdict.status for verdict in verdicts}
    if Status.FAILED in came:
        raise typer.Exit(FAILED)
    if Status.NOT_SHOWN in came and Status.PASSED not in came:
        raise InputError(f"{source}: no fault could be judged; choose a part in which the robot drives")


def _chosen(only: Sequence[str] | None) -> list[Fault]:
    """Return the faults with the names `only`, in the order of the table; all faults without names.

    Raises InputError for an unknown name.
    """
    known = [fault.name for fault in FAULTS]
    for name in only or ():
        if name not in known:
            raise InputError(f"--only {name}: no fault of that name; known are {', '.join(known)}")
    return [fault for fault in FAULTS if not only or fault.name in only]


def _named(given: Config) -> Config:
    return given.model_copy(update={"robot": given.robot.model_copy(update={"name": ROBOT})})


def _over_recording(
    console: Console,
    faults: Sequence[Fault],
    path: Path,
    from_s: float,
    seed: int,
    model: Path | None,
    force: bool,
) -> tuple[Config, list[Verdict]]:
    lasts_s = max((fault.lasts_s for fault in faults if fault.in_recordings), default=LASTS_S) + TAIL_S
    excerpt = choose_excerpt(path, lasts_s, from_s)
    console.print(f"{path}: the faults begin at {excerpt.t_s:.1f} s", markup=False, soft_wrap=True)
    with contextlib.closing(Policies(place=model)) as policies:
        policy = policies.that_drove(str(path), excerpt.session, excerpt.plant, force)
        verdicts = [in_recording(fault, excerpt, policy, seed) for fault in _shown(console, faults)]
    return excerpt.session.config, verdicts


def _over_simulation(
    console: Console, faults: Sequence[Fault], given: Config, processes: Processes, place: _Place
) -> list[Verdict]:
    check_files(given)
    require_engine(given)
    body = body_of(given.robot)
    scenario = choose(place.map_name, place.seed, place.episode, body)
    world, episode = scenario.world, scenario.episode
    plant, mounts = load_plant(given.robot.plant), load_mounts(given.robot.mounts)

    def make_policy(config: Config) -> Policy:
        return policy_maker(config, plant, building_of(config))()

    site = Site(world, episode, given, mounts, plant, make_policy, place.seed)
    real = Drive(given, place.arguments(), Pose(*episode.goal_xy_m, 0.0))
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="onboard-faults-") as folder:
        for fault in _shown(console, faults):
            here = fault.make is not None
            if here or processes is Processes.NONE:
                verdicts.append(in_simulation(fault, site))
            if fault.process and (processes is Processes.ALL or (processes is Processes.NEEDED and not here)):
                verdicts.append(in_process(fault, real, plant, Path(folder) / fault.name))
    return verdicts


def _shown(console: Console, faults: Sequence[Fault]) -> Iterator[Fault]:
    """Yield the faults; on a terminal show the number and name of the current fault."""
    if not console.is_terminal:
        yield from faults
        return
    with console.status("") as status:
        for number, fault in enumerate(faults, 1):
            status.update(f"{number} of {len(faults)}: {fault.name}")
            yield fault


# ---- Markdown table of verdicts for `docs/reliability.md`

HEADINGS = (
    "fault", "injected fault", "required reaction", "what stopped it", "zero from tick", "at the latest", "from m/s",
    "stood at tick", "rolled m",
)  # fmt: skip


def markdown(verdicts: Sequence[Verdict]) -> str:
    """Return the Markdown table of verdicts. A cell without a value is empty."""
    return markdown_table(HEADINGS, map(_row, verdicts), words=4) + "\n"


def _row(one: Verdict) -> list[str]:
    must, way = one.fault.must, one.rolled
    timed = must.during in (Reaction.STANDS, Reaction.NOT_FORWARD, Reaction.SLOWS)
    cells = [f"`{one.fault.name}`", one.fault.what, must.text(), *_stopped(one)]
    cells.append("" if one.within is None or not timed else f"{one.within}")
    return cells + (["", "", ""] if way is None else [f"{way.from_mps:.2f}", f"{way.ticks}", f"{way.way_m:.2f}"])


def _stopped(one: Verdict) -> list[str]:
    """Return two cells: the reason of the stop with the timeouts before it, and the first tick of the stop."""
    if one.status is not Status.PASSED:
        return [f"**{one.status.value}**: {'; '.join(one.problems) or one.happened}", ""]
    why = f"`{one.reason}`: {one.fault.why}" if one.reason else one.fault.why
    waits = [f"`{key}`" for key in one.fault.must.timeouts]
    return [", ".join([why, *waits]), "" if one.settled is None else f"{one.settled}"]


STYLES = {Status.PASSED: "green", Status.FAILED: "bold red", Status.NOT_SHOWN: "yellow", Status.NOT_RUN: "yellow"}


def fault_table(faults: Sequence[Fault], config: Config, short: bool) -> Table:
    """Return the table of faults. short: without deadlines, reasons and where they run, for a terminal."""
    headings = ["fault", "injected fault", "required reaction"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in headings if short else [*headings, "at the latest", "why", "runs in"]:
        table.add_column(name, no_wrap=name == "fault", overflow="fold")
    for fault in faults:
        cells = [fault.name, fault.what, fault.must.text(), _within(fault, config), fault.why, _where(fault)]
        table.add_row(*map(Text, cells[: len(table.columns)]))
    return table


def print_verdicts(console: Console, verdicts: Sequence[Verdict], config: Config) -> None:
    """Print the verdict on each fault, and the count of each status. A column names the modes if there are several."""
    modes = {verdict.mode for verdict in verdicts if verdict.status is not Status.NOT_RUN}
    apart = len(modes) > 1
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=None if apart else _title(modes), title_justify="left")
    for name in ("fault", *(["ran on"] if apart else []), "must", "what happened", ""):
        table.add_column(name, no_wrap=name in ("fault", ""), overflow="fold")
    for verdict in verdicts:
        must = Text(verdict.fault.must.text(verdict.within))
        where = "" if verdict.status is Status.NOT_RUN else verdict.mode.value
        text = Text("\n".join([verdict.happened, *verdict.problems]))
        status = Text(verdict.status.value, STYLES[verdict.status])
        table.add_row(verdict.fault.name, *([where] if apart else []), must, text, status)
    console.print(table)
    counts = Counter(verdict.status for verdict in verdicts)
    console.print(", ".join(f"{counts[status]} {status.value}" for status in Status), markup=False)


def _title(modes: Collection[Mode]) -> str | None:
    return next((f"ran on: {mode.value}" for mode in modes), None)


def as_json(source: str, config: Config, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the verdicts as plain values, with the timeouts of the configuration [ms]."""
    counts = Counter(verdict.status for verdict in verdicts)
    return {
        "source": source,
        "control_hz": config.rates.control_hz,
        "timeouts_ms": {
            "cameras.stale_ms": config.cameras.stale_ms,
            "limits.scan_stale_ms": config.limits.scan_stale_ms,
            "odometry.stale_ms": config.odometry.stale_ms,
        },
        "passed": counts[Status.PASSED],
        "failed": counts[Status.FAILED],
        "nothing_shown": counts[Status.NOT_SHOWN],
        "not_run": counts[Status.NOT_RUN],
        "faults": [verdict.as_json() for verdict in verdicts],
    }


def _within(fault: Fault, config: Config) -> str:
    """Return the deadline of the reaction as a tick, with the parts of its sum; "" without a deadline."""
    must = fault.must
    if must.during not in (Reaction.STANDS, Reaction.NOT_FORWARD, Reaction.SLOWS):
        return ""
    waits = [*must.timeouts, *(["decisions"] if must.decisions else [])]
    why = f": {', '.join(waits)} + {must.ticks} ticks" if waits else ""
    return f"by tick {must.within_ticks(config)}{why}"


def _where(fault: Fault) -> str:
    """Return the modes in which a fault can run."""
    where = {"simulation": fault.make is not None, "recording": fault.in_recordings, "process": bool(fault.process)}
    return ", ".join(name for name, there in where.items() if there)
