"""The command `onboard-calib learned-gap`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from calib.learned.experiment import (
    CHECKPOINTS,
    EXPERIMENT_FILE,
    Data,
    ExperimentTable,
    hidden_data,
    husky_data,
    load_experiment,
)
from calib.learned.report import Found, chart, claims_of, error_table, found_of, section
from hil.reality_gap.report import chart_file, check_page, put_section
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, svg_text, write_json
from onboard.values.errors import MissingExtraError

if TYPE_CHECKING:
    from calib.learned.training import Training

NAME, CHART = "learned", "learned"


def learned_gap(
    husky: Annotated[Path, typer.Option(help="Folder with steps.csv and poses.csv of the Husky.")],
    experiment: Annotated[
        Path, typer.Option(help="Table of the comparison.", show_default="that of the package")
    ] = EXPERIMENT_FILE,
    checkpoints: Annotated[
        Path, typer.Option(help="Folder of the checkpoints.", show_default="those of the package")
    ] = CHECKPOINTS,
    train: Annotated[bool, typer.Option("--train", help="Train first what the checkpoints do not hold.")] = False,
    json_file: JsonOption = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.md", help="Put the tables into this page.")
    ] = None,
) -> None:
    """Compare learned dynamics with the plant on a robot with hidden effects and on a recorded Husky (paper 3)."""
    check_json_target(json_file)
    if report is not None:
        check_page(report, NAME)
    table = load_experiment(experiment)
    console = Console(stderr=True)
    data = [husky_data(table, husky), _driven(table, console)]
    if train:
        _train(table, data, checkpoints, console)
    found = {one.name: found_of(table, one, checkpoints) for one in data}
    claims = claims_of(table, found["hidden"])
    write_json(json_file, _as_json(found, claims))
    if report is not None:
        command = "onboard-calib learned-gap --husky tests/data/husky-steps"
        charts = {CHART: chart_file(report, CHART).name}
        text = section(command, found["hidden"], found["husky"], claims, charts)
        put_section(report, NAME, text, {CHART: svg_text(chart(found["hidden"].models))})
    out = sys.stderr if json_file == STANDARD_OUTPUT else sys.stdout
    for name, one in found.items():
        for errors in filter(None, (one.models, one.transforms, one.losses)):
            out.write(f"{error_table(errors, f'{name} [mm]')}\n\n")
    for text, (yes, figure) in claims.items():
        out.write(f"{'holds' if yes else 'does not hold'}: {text} ({figure})\n")


def _driven(table: ExperimentTable, console: Console) -> Data:
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("robot with hidden effects", total=1.0)
        for one in hidden_data(table):
            if isinstance(one, Data):
                return one
            progress.update(task, completed=one)
    raise AssertionError("the drive is as long as its data")


def _train(table: ExperimentTable, data: list[Data], folder: Path, console: Console) -> None:
    try:
        from calib.learned.train_all import identify_plants, train_all
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "train") from error

    for one in data:
        plant = identify_plants(one, folder)
        for seed in table.seeds:

            def report(name: str, training: Training, where: str = f"{one.name} {seed}") -> None:
                length, step, value = training.curve[-1]
                if training.at.step % 100 == 0:
                    text = f"{where} {name}: length {length}, step {step}, validation error {value:.4g} of the motion's"
                    console.print(text, highlight=False)

            train_all(table, one, plant, seed, folder, report)


def _as_json(found: dict[str, Found], claims: dict[str, tuple[bool, str]]) -> dict[str, Any]:
    rows = {
        name: {kind: {model: {str(n): v for n, v in error.items()} for model, error in getattr(one, kind).items()}
               for kind in ("models", "transforms", "losses")}
        for name, one in found.items()
    }  # fmt: skip
    held = {text: {"holds": yes, "figure": figure} for text, (yes, figure) in claims.items()}
    return {"rmse_m": rows, "claims": held}
