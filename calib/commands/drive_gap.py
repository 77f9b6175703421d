"""The command `onboard-calib drive-gap`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from calib.learned.experiment import CHECKPOINTS, EXPERIMENT_FILE, load_experiment, trained_lengths
from calib.learned.office import REAL, WORLDS, Gap, Office
from hil.reality_gap.report import check_page, put_section
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, markdown_table, write_json

NAME = "drives"
LOG_SEEDS = 2
WORLD_NAMES = {
    "real": "hidden effects",
    "plain": "the default robot's plant",
    "identified": "the identified plant",
    "learned": "hybrid-dynamic 4096",
    "kernels": "plain, under kernels",
    "both": "learned, under kernels",
}


def drive_gap(
    map_name: Annotated[str, typer.Option("--map", help="Map with committed episodes.")] = "gdc1",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of the map.")] = 8,
    seeds: Annotated[int, typer.Option(min=1, help="Drives of each episode in each world.")] = 3,
    checkpoints: Annotated[
        Path, typer.Option(help="Folder of the checkpoints.", show_default="those of the package")
    ] = CHECKPOINTS,
    json_file: JsonOption = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.md", help="Put the table into this page.")
    ] = None,
) -> None:
    """Drive `reactive` in a "real" office and in five simulators of it, and compare their results."""
    check_json_target(json_file)
    if report is not None:
        check_page(report, NAME)
    table = load_experiment(EXPERIMENT_FILE)
    length = trained_lengths(table, table.hidden.max_length)[-1]
    office = Office(map_name, episodes, checkpoints, length)
    gaps: dict[str, Gap] = {}
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("drives", total=episodes * (3 * LOG_SEEDS + len(WORLDS) * seeds))
        for word in office.learn_kernels(LOG_SEEDS):
            progress.update(task, advance=1, description=word)
        for one in office.compare(seeds):
            if isinstance(one, dict):
                gaps = one
            else:
                progress.update(task, advance=1, description=one)
    if json_file is not None:
        write_json(json_file, {world: asdict(gap) for world, gap in gaps.items()})
    text = gap_table(gaps)
    if report is not None:
        command = f"onboard-calib drive-gap --map {map_name} --episodes {episodes} --seeds {seeds}"
        head = f"`{command}`: {episodes * seeds} drives in each world; in brackets stand 95 % intervals."
        put_section(report, NAME, f"{head}\n\n{text}", {})
    (sys.stderr if json_file == STANDARD_OUTPUT else sys.stdout).write(f"{text}\n")


def gap_table(gaps: dict[str, Gap]) -> str:
    """Return the figures of all worlds, and their distance from the real one, as a table."""
    real = gaps[REAL]
    rows = []
    for world, gap in gaps.items():
        differences = ("", "", "")
        if world != REAL:
            differences = (
                f"{100 * abs(gap.success - real.success):.0f}",
                f"{100 * abs(gap.spl - real.spl):.1f}",
                f"{gap.path_m:.2f} ({gap.path_interval[0]:.2f} to {gap.path_interval[1]:.2f})",
            )
        rows.append((
            world, WORLD_NAMES[world],
            f"{100 * gap.success:.0f} ({100 * gap.success_interval[0]:.0f} to {100 * gap.success_interval[1]:.0f})",
            f"{100 * gap.spl:.1f} ({100 * gap.spl_interval[0]:.1f} to {100 * gap.spl_interval[1]:.1f})",
            f"{gap.contacts:.2f} ({gap.contacts_interval[0]:.2f} to {gap.contacts_interval[1]:.2f})",
            *differences,
        ))  # fmt: skip
    headings = ("world", "base", "SR [%]", "SPL [%]", "contacts a drive", "SR apart", "SPL apart", "paths apart [m]")
    return markdown_table(headings, rows, words=2)
