"""The command `onboard-hil baselines`: drive all baselines through the committed episodes and print a table."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from hil.commands.judge.evaluate import (
    WIDTH,
    EpisodesOption,
    JobsOption,
    MapsOption,
    MoreMapsArgument,
    RayOption,
    SeedOption,
    load_robot,
)
from hil.evaluate.episode import Run, check_run
from hil.evaluate.episode_selection import find_sets, given_maps
from hil.evaluate.evaluation import Evaluation, Plan, evaluate, partial_path
from hil.evaluate.tables import comparison, markdown
from hil.jobs.executor import check_workers
from hil.live.dashboard import preparing
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, write_json

BASELINES: dict[str, Run] = {
    "map planner, fused scan, true map": Run("planner"),
    "map planner, single-plane lidar, true map": Run("planner", scan="lidar"),
    "map planner, fused scan, furniture rearranged since": Run("planner", known_map="rearranged"),
    "map planner, single-plane lidar, furniture rearranged since": Run("planner", scan="lidar", known_map="rearranged"),
    "`reactive`: fused scan, no map": Run("reactive"),
    "`blind`: goal only": Run("blind"),
}
"""Rows of the table. Paper 1, Fig. 5 and Table 4, compares lidar with fused scan, and Office/20 with Office/20-alt."""


def baselines_command(
    maps: MapsOption = None,
    more_maps: MoreMapsArgument = None,
    episodes: EpisodesOption = None,
    seed: SeedOption = 1,
    jobs: JobsOption = 1,
    ray: RayOption = None,
    config: ConfigOption = None,
    markdown_table: Annotated[bool, typer.Option("--markdown", help="Print the table in Markdown.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Evaluate all baselines on the committed episodes and print their table.

    Ctrl-C ends it (exit 130) and keeps finished drives; the same command continues where it stopped.
    """
    check_json_target(json_file)
    check_workers(jobs, ray)
    robot = load_robot(config)
    for run in BASELINES.values():
        check_run(run)
    with preparing("the episodes"):
        sources = find_sets(given_maps(maps, more_maps), episodes, seed, robot.body)
    plan = Plan(BASELINES["`reactive`: fused scan, no map"], robot, sources, seed, jobs, ray)
    done: dict[str, Evaluation] = {}
    for name, run in BASELINES.items():
        row = plan.of(run)
        done[name] = evaluate(row, partial_path(row, None), title=name)
        if done[name].exit_code:
            sys.stderr.write("interrupted; run the same command again to continue\n")
            raise typer.Exit(done[name].exit_code)
    write_json(json_file, {"baselines": {name: one.as_json() for name, one in done.items()}})
    _show(done, markdown_table, json_file == STANDARD_OUTPUT)
    for one in done.values():
        one.forget()


def _show(done: dict[str, Evaluation], as_markdown: bool, on_standard_error: bool) -> None:
    if as_markdown:
        stream = sys.stderr if on_standard_error else sys.stdout
        stream.write(markdown([(name, one.summary()) for name, one in done.items()]))
        return
    console = Console(stderr=on_standard_error)
    if not console.is_terminal:
        console = Console(stderr=on_standard_error, width=WIDTH + WIDTH // 2)
    console.print(comparison("baselines", "policy", done))
