"""The command `onboard-calib learned-gap`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from calib.learned.experiment import CHECKPOINTS, EXPERIMENT_FILE, Data, hidden_data, husky_data, load_experiment
from calib.learned.report import chart, curves_of, error_table, errors_of, section, shown_of
from hil.reality_gap.report import chart_file, check_page, put_section
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, svg_text, write_json
from onboard.values.errors import MissingExtraError

if TYPE_CHECKING:
    from calib.learned.training import Training

NAME, CHART = "learned", "learned"
NOT_SHOWN = 1


def learned_gap(
    husky: Annotated[Path, typer.Option(help="Folder with steps.csv and poses.csv of the Husky.")],
    experiment: Annotated[
        Path, typer.Option(help="Table of the comparison.", show_default="that of the package")
    ] = EXPERIMENT_FILE,
    checkpoints: Annotated[
        Path, typer.Option(help="Folder of the checkpoints.", show_default="those of the package")
    ] = CHECKPOINTS,
    train: Annotated[bool, typer.Option("--train", help="Train first, and replace the checkpoints.")] = False,
    json_file: JsonOption = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.md", help="Put the tables into this page.")
    ] = None,
) -> None:
    """Compare learned dynamics with the plant on a robot with hidden effects and on a recorded Husky (paper 3).

    Exit code 0: the order of paper 3 is shown.
    """
    check_json_target(json_file)
    if report is not None:
        check_page(report, NAME)
    table = load_experiment(experiment)
    console = Console(stderr=True)
    data = [_driven(table, console), husky_data(table, husky)]
    if train:
        _train(table, data, checkpoints, console)
    found = {one.name: errors_of(table, one, checkpoints) for one in data}
    curves = {one.name: curves_of(one.name, checkpoints) for one in data}
    shown = shown_of(table, found["hidden"])
    if json_file is not None:
        write_json(json_file, _as_json(found, shown))
    if report is not None:
        command = "onboard-calib learned-gap --husky tests/data/husky-steps"
        charts = {CHART: chart_file(report, CHART).name}
        text = section(command, found, shown, curves, charts)
        put_section(report, NAME, text, {CHART: svg_text(chart(found["hidden"]["models"]))})
    out = sys.stderr if json_file == STANDARD_OUTPUT else sys.stdout
    for name, errors in found.items():
        for errors_by in filter(None, errors.values()):
            out.write(f"{error_table(errors_by, f'{name} [mm]')}\n\n")
    for text, (yes, figure) in shown.items():
        out.write(f"{'shown' if yes else 'NOT SHOWN'}: {text}{f' ({figure})' if figure else ''}\n")
    if not all(yes for yes, _ in shown.values()):
        raise typer.Exit(NOT_SHOWN)


def _driven(table: Any, console: Console) -> Data:
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("robot with hidden effects", total=1.0)
        for one in hidden_data(table):
            if isinstance(one, Data):
                return one
            progress.update(task, completed=one)
    raise AssertionError("the drive is as long as its data")


def _train(table: Any, data: list[Data], folder: Path, console: Console) -> None:
    try:
        from calib.learned.train_all import train_all
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "train") from error

    def report(name: str, training: Training) -> None:
        length, step, value = training.curve[-1]
        if training.at.step % training.recipe.steps == 0:
            console.print(f"{name}: length {length}, step {step}, validation loss {value:.4g}", highlight=False)

    for one in data:
        train_all(table, one, folder, report)


def _as_json(found: Any, shown: Any) -> dict[str, Any]:
    rows = {
        name: {kind: {model: {str(n): v for n, v in error.items()} for model, error in errors.items()}
               for kind, errors in by_kind.items()}
        for name, by_kind in found.items()
    }  # fmt: skip
    return {"rmse_m": rows, "shown": {text: yes for text, (yes, _) in shown.items()}}
