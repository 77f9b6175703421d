"""The command `onboard-hil reality-gap`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from hil.physics.state_kernels.state_table import load_state_table
from hil.reality_gap.five_runs import Experiment, five_runs
from hil.reality_gap.ramp import RampSettings, RampVehicle
from hil.reality_gap.report import WORDS, check_page, write_page
from hil.reality_gap.result import GapResult
from hil.reality_gap.shuttle import Shuttle, ShuttleSettings
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.config.toml_file import Section, checked, read_toml
from onboard.values.errors import InputError

FOLDER = Path(__file__).parents[2] / "reality_gap"
NOT_SHOWN = 1
MOST_SEEDS = 1000


Settings = TypeVar("Settings", bound=Section)


def _settings(kind: type[Settings], name: str) -> Settings:
    file = FOLDER / name
    with checked(file):
        return kind.model_validate(read_toml(file))


EXPERIMENTS: dict[str, Callable[[int], Experiment]] = {
    "1d": lambda seed: Shuttle(_settings(ShuttleSettings, "shuttle.toml"), seed),
    "ramp": lambda seed: RampVehicle(_settings(RampSettings, "ramp.toml"), seed),
}
"""The experiment of a seed, by name."""


def reality_gap(
    experiment: Annotated[str, typer.Argument(metavar="1d|ramp", help="The shuttle, or the vehicle before a ramp.")],
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=MOST_SEEDS, help="Number of seeds.")] = 10,
    seed: Annotated[int, typer.Option("--seed", min=0, help="First seed; the others follow it.")] = 1,
    json_file: JsonOption = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.md", help="Write the tables into this page, and a chart next to it."),
    ] = None,
) -> None:
    """Drive the five runs of paper 2: Design, Deploy, Kernels, Redesign under kernels, Redeploy.

    Exit code 0: kernels close half of the gap, and the redesign is better under kernels and in reality.
    """
    if experiment not in EXPERIMENTS:
        raise InputError(f"reality-gap {experiment}: must be one of {', '.join(EXPERIMENTS)}")
    check_json_target(json_file)
    if report is not None:
        check_page(report, experiment)
    every = [EXPERIMENTS[experiment](number) for number in range(seed, seed + seeds)]
    table = load_state_table(every[0].kernels_file)
    progress = track(every, f"{experiment}, {seeds} seeds", console=Console(stderr=True), transient=True)
    result = GapResult(experiment, [five_runs(one, table, seed + place) for place, one in enumerate(progress)])
    write_json(json_file, result.as_json())
    if report is not None:
        write_page(result, report, f"onboard-hil reality-gap {experiment} --seeds {seeds} --seed {seed}")
    _show(result, Console(stderr=json_file == STANDARD_OUTPUT, highlight=False))
    if not all(result.shown.values()):
        raise typer.Exit(NOT_SHOWN)


def _show(result: GapResult, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("run", "", "ATR (95 % interval)"):
        table.add_column(name)
    for run, (name, text, _) in WORDS.items():
        table.add_row(name, text, str(result.atr[run]))
    console.print(table)
    counts = ("simulated", "real", "common", "divergences", "kernels", "effects")
    console.print(", ".join(f"{name} {result.count(name):.0f}" for name in counts) + " (means over seeds)")
    console.print(f"{result.left:.2f} of the gap is left under kernels; the redesign raises ATR by:")
    for name, one in result.raised.items():
        console.print(f"  {name.replace('_', ' ')}: {one}")
    for name, held in result.shown.items():
        console.print(f"{'shown' if held else 'NOT SHOWN'}: {name.replace('_', ' ')}")
