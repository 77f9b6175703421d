"""`onboard-engines encoder`: the colour encoder alone, which is also the first stage of `onboard-engines train`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from engines.cli_options import MOST_SEED, device_of, in_one_line, require_range
from engines.encoder.config import EncoderSection, paths_from
from engines.encoder.report import check_test_maps, evaluate_encoder
from engines.encoder.training import Report, train_encoder
from engines.network.network import Widths
from onboard.config.toml_file import read_toml, validation_lines
from onboard.values.errors import ConfigError, InputError, MissingExtraError

LINE_EVERY = 25
"""Steps between lines where there is no terminal."""
SMOOTHING = 0.98
"""Weight of the previous value in the exponential average of shown losses."""


def train_and_report(
    out: Path, seed: int, config: Path | None, jobs: int, device: str, widths: Widths
) -> dict[str, Any]:
    """Train the encoder in a folder, or resume there; write encoder.pt and report.json. Return the report.

    Raises OnboardError, before the training, for maps of the report that cannot be rendered.
    """
    section = EncoderSection() if config is None else _section(config)
    check_test_maps(section)
    with _shown() as report:
        train_encoder(section, seed, out, widths, device=device, jobs=jobs, report=report)
    result = evaluate_encoder(section, seed, out, widths, device=device, jobs=jobs)
    try:
        (out / "report.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from error
    return result


def summary(result: Mapping[str, Any]) -> list[str]:
    """Return a table: views, predictor, median and mean relative error of ranges, errors of the free distance."""
    lines = [f"{'views':14}{'predictor':16}{'median rel.':>12}{'mean rel.':>12}{'way rel.':>12}{'way [m]':>10}"]
    for sort, table in result.items():
        for name in ("encoder", "mean_of_bin", "median_of_bin"):
            ranges, way = table[name]["ranges"], table[name]["free_way"]
            figures = f"{ranges['median_relative']:12.3f}{ranges['mean_relative']:12.3f}"
            lines.append(f"{sort:14}{name:16}{figures}{way['median_relative']:12.3f}{way['mean_m']:10.2f}")
    return lines


def _section(config: Path) -> EncoderSection:
    table = read_toml(config).get("encoder", {})
    if isinstance(table, dict):
        paths_from(table, config.parent)
    try:
        return EncoderSection.model_validate(table)
    except ValidationError as error:
        raise ConfigError(validation_lines(config, error)) from error


@contextmanager
def _shown() -> Iterator[Report]:
    """Give a reporter that shows a bar on a terminal, else prints lines, on standard error."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[figures]}"), TimeElapsedColumn())
    with Progress(TextColumn("encoder"), *columns, TimeRemainingColumn(), console=console,
                  disable=not console.is_terminal) as progress:  # fmt: skip
        task = progress.add_task("encoder", total=None, figures="")
        smooth: dict[str, float] = {}

        def report(step: int, total: int, metrics: Mapping[str, float]) -> None:
            for name, value in metrics.items():
                smooth[name] = SMOOTHING * smooth.get(name, value) + (1.0 - SMOOTHING) * value
            shown = {name: smooth[name] if name.startswith("loss") else value for name, value in metrics.items()}
            figures = ", ".join(f"{name} {value:.4g}" for name, value in shown.items())
            progress.update(task, total=total, completed=step, figures=figures)
            if not console.is_terminal and step % LINE_EVERY == 0:
                console.print(f"encoder: step {step} of {total}, {figures}", highlight=False, soft_wrap=True)

        yield report


def encoder(
    out: Annotated[Path, typer.Option(help="Folder; the same command resumes. For a training: its folder encoder.")],
    seed: Annotated[int, typer.Option(help=f"Seed of views, weights and batches; 0 to {MOST_SEED}.")] = 0,
    config: Annotated[Path | None, typer.Option(help=r"A .toml with an \[encoder] table.")] = None,
    jobs: Annotated[int, typer.Option(help="Number of rendering processes.")] = 2,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(help="Number of PyTorch's threads.")] = 1,
    tiny: Annotated[bool, typer.Option("--tiny", help="Use small widths, for a trial.")] = False,
) -> None:
    """Train the colour encoder, and print its distance errors in unseen buildings."""
    with in_one_line(out, "encoder.batch or --jobs"):
        require_range("--seed", seed, 0, MOST_SEED)
        require_range("--jobs", jobs, 1)
        require_range("--threads", threads, 1)
        lines = _lines(out, seed, config, jobs, device, threads, tiny)
    for line in lines:
        typer.echo(line)


def _lines(out: Path, seed: int, config: Path | None, jobs: int, device: str, threads: int, tiny: bool) -> list[str]:
    try:
        import torch

        from engines.network.network import PAPER, TINY
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(error.name, "train") from error
    torch.set_num_threads(threads)
    return summary(train_and_report(out, seed, config, jobs, str(device_of(device)), TINY if tiny else PAPER))
