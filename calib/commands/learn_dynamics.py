"""The command `onboard-calib learn-dynamics`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from calib.dynamics.identification import identify
from calib.dynamics.motion_log import RECORDING_SUFFIX, MotionLog, read_logs
from calib.dynamics.plant_file import check_target
from calib.learned.evaluation import LENGTHS, learned_motion, plant_motion, posed_rmse_m, rmse_m
from calib.learned.series import Series, fitting_period_s, longest_in, series_of, without_pauses
from hil.physics.motion.learned import TRANSFORMS, LearnedModel, model_arrays, write_arrays
from hil.physics.motion.motion_model import TICK_S
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, markdown_table, write_json, write_text
from onboard.config.plant_model import MotionTable, Plant, load_plant
from onboard.config.toml_text import as_toml
from onboard.values.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from calib.learned.training import Training

TRAIN, LEARNT = 0.63, 0.7
"""Shares of the rows: training, then validation; the rest is held out, 30 %."""
MANY_LOGS = 10
"""So many logs are split by log, in the same shares; fewer are split by time."""
SUFFIX = ".npz"


def learn_dynamics(
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA...", help="Recordings (.mcap), or CSV: t_s,v_cmd,w_cmd,v,w,x_m,y_m,yaw_rad."),
    ],
    model: Annotated[Literal["linear", "mlp", "hybrid-dynamic", "hybrid-kinematic"], typer.Option(help="What learns.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model (.npz); .toml and .onnx are written next to it.")],
    max_length: Annotated[int, typer.Option(min=1, help=r"Longest roll-out of the training \[steps].")] = 4096,
    plant: Annotated[
        Path | None, typer.Option(help="plant.toml of the analytic part; without it, identified from the data.")
    ] = None,
    transform: Annotated[
        Literal["egocentric", "translational", "none"], typer.Option(help="The last two are for comparison: linear.")
    ] = "egocentric",
    steps: Annotated[int, typer.Option(min=1, help="Maximum optimizer steps of a length; a quarter beyond 64.")] = 1200,
    batch: Annotated[int, typer.Option(min=1, help="Least number of windows per optimizer step.")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of weights and batches.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint next to the model.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Learn how the base moves from commands and poses (paper 3), for the simulated base of plant.toml."""
    check_json_target(json_file)
    files = _files(out)
    if transform != TRANSFORMS[0] and model != "linear":
        raise InputError(f"--transform {transform}: only for a linear model: drop it, or use --model linear")
    training_module = _trainer()
    read = read_logs(data)
    logs = without_pauses(read.logs)
    series = _series(logs, data)
    spans = split(series)
    recipe = training_module.Recipe(max_length, steps=steps, batch=batch, seed=seed)
    training_module.check_lengths(max_length, *spans[:2])
    base = load_plant(plant) if plant is not None else _identified(logs)
    training = training_module.training_of(series, base, *spans[:2], recipe, read.sha256, model, transform)
    if resume:
        training.resume(files["checkpoint"])
    found = _trained(training, files["checkpoint"], model)
    _write(files, found, base)
    result = _judged(series, spans[2], base, found)
    write_json(json_file, {**result, "data_sha256": read.sha256, "file": str(out)})
    (sys.stderr if json_file == STANDARD_OUTPUT else sys.stdout).write(
        _table(result, model, files, found.transform == TRANSFORMS[0])
    )


def _series(logs: list[MotionLog], data: list[Path]) -> Series:
    """Return the logs as one series on a period that suits the simulated base; say on standard error what was done."""
    series = series_of(logs)
    period_s = fitting_period_s(series.period_s, TICK_S)
    if abs(period_s - series.period_s) > 1e-3 * period_s:
        sys.stderr.write(f"note: rows every {series.period_s:.4g} s are interpolated to {period_s:.4g} s\n")
        series = series_of(logs, period_s)
    if any(file.suffix == RECORDING_SUFFIX for file in data):
        sys.stderr.write("note: the poses of a recording come from its own wheels, which do not measure slip\n")
    return series


def _files(out: Path) -> dict[str, Path]:
    if out.suffix != SUFFIX:
        raise InputError(f"--out {out}: must end with {SUFFIX}")
    files = {"model": out, "onnx": out.with_suffix(".onnx"), "plant": out.with_suffix(".toml")}
    files["checkpoint"] = out.with_suffix(".train.npz")
    for file in files.values():
        check_target(file)
    return files


def _trainer() -> Any:
    """Return the training module. Raises MissingExtraError without PyTorch."""
    try:
        import torch

        import calib.learned.training as training
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "train") from error
    torch.set_num_threads(1)
    return training


def split(series: Series) -> tuple[Any, Any, Any]:
    """Return training, validation and held-out rows, (spans, 2) each: by log if there are many, else by time."""
    count = len(series.first) - 1
    if count < MANY_LOGS:
        shares = ((0.0, TRAIN), (TRAIN, LEARNT), (LEARNT, 1.0))
        one, two, three = (series.spans(a, b) for a, b in shares)
        return one, two, three
    every, place = series.spans(0.0, 1.0), np.arange(count) % MANY_LOGS
    return every[place < 6], every[place == 6], every[place > 6]


def _identified(logs: list[MotionLog]) -> Plant:
    """Return the plant by the rows that are not held out."""
    from calib.learned.experiment import until

    if len(logs) < MANY_LOGS:
        return identify([until(log, LEARNT) for log in logs]).plant
    return identify([log for number, log in enumerate(logs) if number % MANY_LOGS <= 6]).plant


def _trained(training: Training, checkpoint: Path, name: str) -> LearnedModel:
    """Train with a progress bar on a terminal, else with a line a stage."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[detail]}"), TimeRemainingColumn())
    with Progress(TextColumn(name), *columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=training.steps_in_all, detail="")

        def report(one: Training) -> None:
            length, _, value = one.curve[-1]
            progress.update(task, completed=one.steps_done, detail=f"length {length}, loss {value:.4g}")

        def finished(length: int, _: LearnedModel) -> None:
            if not console.is_terminal:
                console.print(f"{name}: length {length}, validation loss {training.at.best:.4g}", highlight=False)

        return training.run(checkpoint, report, finished)


def _write(files: dict[str, Path], found: LearnedModel, base: Plant) -> None:
    write_arrays(files["model"], *model_arrays(found))
    if found.transform != TRANSFORMS[0]:
        return
    from calib.learned.onnx_export import export_onnx

    export_onnx(found, files["onnx"])
    motion = MotionTable.model_validate({"model": found.model, "file": files["model"].name})
    head = "# A learned motion model for the simulated base, by `onboard-calib learn-dynamics`.\n"
    write_text(files["plant"], as_toml(base.model_copy(update={"motion": motion}), head))


def _judged(series: Series, held_out: Any, base: Plant, found: LearnedModel) -> dict[str, Any]:
    lengths = [length for length in LENGTHS if length <= longest_in(held_out)]
    if found.transform == TRANSFORMS[0]:
        learned = rmse_m(series, learned_motion(series, found), held_out, lengths)
    else:
        learned = posed_rmse_m(series, found, held_out, lengths)
    plant = rmse_m(series, plant_motion(series, base), held_out, lengths)
    errors = {"plant": plant, "learned": learned}
    return {
        "period_s": series.period_s,
        "rmse_m": {name: {str(key): value for key, value in error.items()} for name, error in errors.items()},
    }


def _table(result: dict[str, Any], model: str, files: dict[str, Path], simulates: bool) -> str:
    rows = [
        [model if name == "learned" else name, *(f"{value:.4g}" for value in one.values())]
        for name, one in result["rmse_m"].items()
    ]
    headings = ["error on held-out rows [m], steps:", *result["rmse_m"]["plant"]]
    use = f"onboard-hil takes {files['plant']}" if simulates else "for comparison only"
    return f"{markdown_table(headings, rows)}\n{files['model']}: written; {use}\n"
