"""The command `onboard-hil evaluate`: check the options, drive, and write exit code, table, JSON and report."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.console import Console

from hil.drive.conditions import ALL, ORDINARY, chosen
from hil.drive.episode_sets import COMMITTED_SET, SETS
from hil.evaluate.campaign import DriveJob
from hil.evaluate.episode import KNOWN_MAPS, Loop, RobotFiles, Run, check_run, robot_files
from hil.evaluate.episode_selection import find_sets, given_maps
from hil.evaluate.evaluation import Evaluation, Plan, evaluate, partial_path
from hil.evaluate.known_map import KnownMap
from hil.evaluate.report import check_report, write_report
from hil.evaluate.tables import NARROW, comparison, rich_table
from hil.evaluate.ways_picture import check_pictures, save_pictures
from hil.jobs.executor import check_workers
from hil.live.dashboard import preparing
from hil.physics.kernel_effects import load_robot_kernels
from hil.sensors.direct_scan import ScanKind
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, finite, write_json
from onboard.config.config import Config, load_config
from onboard.values.errors import InputError

# ---- Evaluations of a command: a partial file for each condition


def evaluate_each(
    plans: Mapping[str, Plan], partial: Path | None, json_file: str | None, drive: DriveJob | None = None
) -> dict[str, Evaluation]:
    """Drive the remaining episodes of each plan and return the results by name; after a signal the results so far.

    partial:   partial file; with several plans, each plan's name is added to the file name
    json_file: the partial file is next to this file if `partial` is None
    drive:     another function that drives a job, for tests
    Raises OnboardError. The partial files then keep the finished episodes.
    """
    done: dict[str, Evaluation] = {}
    for name, plan in plans.items():
        alone = len(plans) == 1
        beside = None if json_file is None else json_file if alone else f"{json_file}.{name}"
        own = None if partial is None else partial if alone else Path(f"{partial}.{name}")
        title = plan.run.policy if alone else f"{plan.run.policy}, {name}"
        done[name] = evaluate(plan, own or partial_path(plan, beside), title, drive)
        if done[name].exit_code:
            break
    return done


def as_json(done: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Return plain values: the values of a single evaluation, or the values of several by name under "conditions"."""
    tables = {name: one.as_json() for name, one in done.items()}
    return next(iter(tables.values())) if len(tables) == 1 else {"conditions": tables}


WIDTH = 122
"""Width of the table in characters if the output is no terminal."""
WIDE = WIDTH + WIDTH // 4
"""Width of a table with long row names."""

MapsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="NAME|FILE|DIR...",
        help="Maps by name, episode files, map files, or folders of these. Without it: the whole set.",
    ),
]
MoreMapsArgument = Annotated[list[str] | None, typer.Argument(hidden=True, help="The second and further --map.")]
SetOption = Annotated[
    str, typer.Option("--set", metavar="NAME", help=f"Set of episodes for a map's name: {', '.join(SETS)}.")
]
ConditionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--condition",
        metavar="NAME",
        help=f"Row of hil/drive/conditions.toml, or {ALL}; repeatable. Without it: {ORDINARY}.",
    ),
]
EpisodesOption = Annotated[
    int | None, typer.Option("--episodes", help="Number of episodes per map, spread over its set. Without it: all.")
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the noise, and of starts and goals in maps without episodes.")
]
DrawOption = Annotated[
    str | None,
    typer.Option("--draw", metavar="NAME", help="In maps without episodes: draw them like the set habitat or hard."),
]
NoiseSeedsOption = Annotated[
    int | None,
    typer.Option(
        "--noise-seeds", help="Number of noise seeds for each episode. Default: 3 for habitat and hard, else 1."
    ),
]
JobsOption = Annotated[int, typer.Option("--jobs", help="Number of processes; it does not change the results.")]
RayOption = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Drive on a Ray cluster: HOST:PORT, or local to start one here."),
]


PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        help="mapped, planner, reactive, forgetful, blind, or a model; append +reactive for a fallback; else as "
        "configured.",
    ),
]
ReleaseOption = Annotated[
    bool, typer.Option("--release", help="Drive a sealed set: once, for a release; see docs/evaluation.md.")
]
RuntimeOption = Annotated[bool, typer.Option("--runtime", help="Run the whole runtime on the simulated clock.")]
RenderedOption = Annotated[bool, typer.Option("--rendered", help="With --runtime: render the camera images.")]
ScanOption = Annotated[
    str | None,
    typer.Option("--scan", help="fused: from the depth cameras; lidar: one plane. Without it: as configured."),
]
KnownMapOption = Annotated[
    str | None, typer.Option("--known-map", help=f"The map of mapped and planner: {', '.join(KNOWN_MAPS[1:])}.")
]
PedestriansOption = Annotated[int, typer.Option("--pedestrians", help="Number of walking people in each episode.")]
ColorOption = Annotated[bool, typer.Option("--color/--no-color", help="Whether the robot has a colour camera.")]
FurnitureOption = Annotated[
    float | None,
    typer.Option("--furniture", metavar="DENSITY", help="In maps without episodes: 0 for none, 1 as in an office."),
]
LimitOption = Annotated[
    float | None,
    typer.Option(
        "--limit", min=1.0, max=3600.0, callback=finite, help="In maps without episodes: time limit of a drive, in s."
    ),
]
PlantOption = Annotated[Path | None, typer.Option("--plant", help="plant.toml that replaces the robot's.")]
KernelsOption = Annotated[
    Path | None,
    typer.Option("--kernels", metavar="FILE.npz", help="Kernels that set the base's pose (onboard-hil kernels)."),
]
PartialOption = Annotated[
    Path | None, typer.Option("--partial", help="File for unfinished results. Without it: next to --json FILE.")
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.md", help="Write tables, and a chart next to the file.")
]
PicturesOption = Annotated[
    Path | None,
    typer.Option("--pictures", metavar="DIR", help="Draw the first 20 drives of each map into this folder."),
]


def evaluate_command(
    policy: PolicyOption = None,
    maps: MapsOption = None,
    more_maps: MoreMapsArgument = None,
    set_name: SetOption = COMMITTED_SET,
    draw: DrawOption = None,
    episodes: EpisodesOption = None,
    seed: SeedOption = 1,
    noise_seeds: NoiseSeedsOption = None,
    release: ReleaseOption = False,
    jobs: JobsOption = 1,
    ray: RayOption = None,
    runtime: RuntimeOption = False,
    rendered: RenderedOption = False,
    scan: ScanOption = None,
    known_map: KnownMapOption = None,
    pedestrians: PedestriansOption = 0,
    color: ColorOption = True,
    condition: ConditionOption = None,
    furniture: FurnitureOption = None,
    limit: LimitOption = None,
    plant: PlantOption = None,
    kernels: KernelsOption = None,
    config: ConfigOption = None,
    partial: PartialOption = None,
    json_file: JsonOption = None,
    report: ReportOption = None,
    pictures: PicturesOption = None,
) -> None:
    """Evaluate a policy on sets of episodes: success rate, path length and contacts.

    Ctrl-C leaves a valid partial result (exit 130); the same command continues where it stopped.
    """
    check_json_target(json_file)
    for target in (report, partial):
        check_json_target(None if target is None else str(target))
    check_workers(jobs, ray)
    loaded = load_config(config)
    given = loaded.policy.name if policy is None else policy
    run = Run(given, _loop(runtime, rendered), _scan(scan, loaded), _known_map(known_map), pedestrians, color=color)
    conditions = chosen(condition or [])
    _check_outputs(report, pictures, len(conditions))
    check_run(run)
    robot = replace(load_robot(config, plant), kernels=load_robot_kernels(kernels))
    runs = {name: replace(run, condition=name) for name in conditions}
    for one in runs.values():
        check_run(one, robot)
    places = given_maps(maps, more_maps)
    with preparing("the episodes"):
        sources = find_sets(places, episodes, seed, robot.body, set_name, furniture, draw, noise_seeds, release, limit)
    plan = Plan(run, robot, sources, seed, jobs, ray)
    plans = {name: plan.of(one) for name, one in runs.items()}
    done = evaluate_each(plans, partial, None if json_file == STANDARD_OUTPUT else json_file)
    _write(done, json_file, report, pictures)
    exit_code = max(one.exit_code for one in done.values())
    if exit_code:
        raise typer.Exit(exit_code)
    for evaluation in done.values():
        evaluation.forget()


def _check_outputs(report: Path | None, pictures: Path | None, conditions: int) -> None:
    """Raise OnboardError for a report or pictures that cannot be made, before the drives begin."""
    for option, target, check in (("--report", report, check_report), ("--pictures", pictures, check_pictures)):
        if target is not None:
            check(target)
            if conditions > 1:
                raise InputError(f"{option} {target}: covers one condition, not {conditions}")


def _write(done: Mapping[str, Evaluation], json_file: str | None, report: Path | None, pictures: Path | None) -> None:
    first = next(iter(done.values()))
    write_json(json_file, as_json(done))
    if report is not None:
        with preparing(f"the report {report}"):
            write_report(first, report)
    if pictures is not None:
        with preparing(f"the pictures in {pictures}"):
            save_pictures(first, pictures)
    show(done, json_file == STANDARD_OUTPUT)


def load_robot(config: Path | None, plant: Path | None = None) -> RobotFiles:
    """Return the robot of a configuration with its mounts and plant. Raises ConfigError.

    config: path of the configuration; None for the default robot
    plant:  path of a plant.toml; None for the plant file that the configuration names
    """
    loaded = load_config(config)
    if plant is not None:
        loaded = loaded.model_copy(update={"robot": loaded.robot.model_copy(update={"plant": plant.resolve()})})
    return robot_files(loaded)


def show(done: Mapping[str, Evaluation], on_standard_error: bool) -> None:
    """Print the table of the only condition, or a row per condition. After a signal, also say how to continue."""
    console = Console(stderr=on_standard_error)
    if not console.is_terminal:
        console = Console(stderr=on_standard_error, width=WIDTH if len(done) == 1 else WIDE)
    last = list(done.values())[-1]
    narrow = console.width < NARROW
    console.print(
        rich_table(last, narrow) if len(done) == 1 else comparison(last.plan.run.policy, "condition", done, narrow)
    )
    under = [row.set_by_kernels for one in done.values() for row in one.rows if row.set_by_kernels is not None]
    if under:
        word = "" if any(under) else "warning: "
        sys.stderr.write(f"{word}kernels set {sum(under)} poses in {len(under)} drives\n")
    if last.exit_code:
        count = f"{len(last.driven)} of {last.plan.drives} drives"
        sys.stderr.write(f"interrupted after {count}; run the same command again to continue from {last.partial}\n")


def _loop(runtime: bool, rendered: bool) -> Loop:
    if rendered and not runtime:
        raise InputError("--rendered: only with --runtime")
    return "rendered" if rendered else "runtime" if runtime else "fast"


def _scan(text: str | None, config: Config) -> ScanKind:
    """Return the kind of the policy's scan; a robot with scan.topic has no fused one."""
    topic = config.scan.topic
    if text is None:
        return "lidar" if topic else "fused"
    if text == "fused" and topic:
        raise InputError(f"--scan fused: the policy's scan is the lidar's on {topic} (scan.topic): omit --scan")
    if text not in get_args(ScanKind):
        raise InputError(f"--scan {text}: must be {' or '.join(get_args(ScanKind))}")
    return cast(ScanKind, text)


def _known_map(text: str | None) -> KnownMap:
    if text is not None and text not in KNOWN_MAPS[1:]:
        raise InputError(f"--known-map {text}: must be {', '.join(KNOWN_MAPS[1:])}")
    return cast(KnownMap, text or "")
