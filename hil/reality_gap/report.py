"""The page of an experiment: its table between two marks of a Markdown file, and its chart as SVG next to it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hil.reality_gap.five_runs import WAYS
from hil.reality_gap.result import GapResult
from onboard.commands.cli import check_figures, markdown_table, new_figure, svg_text
from onboard.values.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIX = ".md"
WORDS = {
    "design": ("Design", "the designed controller in the plain simulator", "#1d5fc4"),
    "deploy": ("Deploy", "the same in reality", "#c0392b"),
    "kernels": ("Kernels", "the same in the simulator under kernels", "#8e44ad"),
    "redesign_kernels": ("Redes/K", "the redesigned controller in the simulator under kernels", "#d68910"),
    "redeploy": ("Redeploy", "the redesigned controller in reality", "#1e8449"),
}
"""Name as in the paper, sentence and colour of each run."""


def check_page(page: Path, experiment: str) -> None:
    """Raise InputError if the page is no Markdown file, has a mark without its partner, or cannot be written."""
    if page.suffix != SUFFIX:
        raise InputError(f"--report {page}: must end in {SUFFIX}; the chart is written next to it")
    if not os.access(page if page.exists() else page.parent, os.W_OK):
        raise InputError(f"--report {page}: cannot be written")
    _split(page, experiment)
    check_figures()


def put_section(page: Path, name: str, text: str, charts: Mapping[str, str]) -> None:
    """Put a section into a page: between the marks of its name, at the end without marks.

    charts: SVG text by the chart's name; the file is `<page>-<chart>.svg` next to the page. Raises InputError.
    """
    before, after = _split(page, name)
    begin, end = _marks(name)
    for chart, drawing in charts.items():
        _replace(chart_file(page, chart), drawing)
    _replace(page, f"{before}{begin}\n\n{text}\n\n{end}{after}")


def chart_file(page: Path, chart: str) -> Path:
    """Return the file of a chart next to a page."""
    return page.with_name(f"{page.stem}-{chart}.svg")


def write_page(result: GapResult, page: Path, command: str) -> None:
    """Put table and chart into a page: between the experiment's marks, at the end without marks. Raises InputError."""
    file = chart_file(page, result.experiment)
    put_section(
        page, result.experiment, section(result, file.name, command), {result.experiment: svg_text(chart(result))}
    )


def section(result: GapResult, chart: str, command: str) -> str:
    """Return the text of an experiment."""
    seeds, atr, raised = len(result.seeds), result.atr, result.raised
    runs = [(name, text, str(atr[run])) for run, (name, text, _) in WORDS.items()]
    counts = [
        ("transitions of the simulator", "simulated"), ("transitions in reality", "real"),
        ("states after merging", "states"), ("common states", "common"), ("roll-outs that diverged", "divergences"),
        ("kernels", "kernels"), ("states set by kernels in the run Kernels", "effects"),
    ]  # fmt: skip
    rows = [(text, f"{result.count(name):.0f}") for text, name in counts]
    shown = [
        ("share of the gap left under kernels, must be at most 0.50", f"{result.left:.2f}"),
        ("the redesign raises ATR under kernels by", str(raised["under_kernels"])),
        ("the redesign raises ATR in reality by", str(raised["in_reality"])),
        ("seeds in which it raises ATR in reality", f"{_better(result)} of {seeds}"),
    ]
    ways = [
        (
            way, *(f"{result.by_way(way, name, 'kernels').value:.1f}" for name in ("gap", "control")),
            f"{result.left_by(way):.2f}", str(result.by_way(way, "control", "atr")),
        )
        for way in WAYS
    ]  # fmt: skip
    words = ("divergences judged", "kernels", "kernels without a gap", "gap left", "ATR of the design without a gap")
    return "\n\n".join(
        (
            f"`{command}`: {seeds} seeds; brackets hold 95 % t-intervals over seeds.",
            markdown_table(("run", "what drives where", "ATR"), runs, words=2),
            markdown_table(("what is to be shown", ""), shown),
            markdown_table(("mean over seeds", ""), rows),
            "The same by both ways of judging a divergence: `tested` by the counts, `paper` by frequencies alone "
            "(`significance = 1`). Without a gap, a second log of the simulator takes the place of the real one.",
            markdown_table(words, ways),
            f"![Average total reward of the five runs, and over the missions]({chart})",
        )
    )


def _better(result: GapResult) -> int:
    return int((result.per_seed("redeploy") > result.per_seed("deploy")).sum())


def _marks(experiment: str) -> tuple[str, str]:
    return f"<!-- reality-gap {experiment}: written by the command -->", f"<!-- reality-gap {experiment}: end -->"


def _split(page: Path, experiment: str) -> tuple[str, str]:
    """Return the text before and after the experiment's section."""
    begin, end = _marks(experiment)
    try:
        text = page.read_text(encoding="utf-8") if page.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--report {page}: cannot be read: {error}") from error
    before, found, rest = text.partition(begin)
    if not found:
        return (f"{text.rstrip()}\n\n" if text.strip() else ""), "\n"
    _, found, after = rest.partition(end)
    if not found:
        raise InputError(f"--report {page}: has the line {begin} without {end}")
    return before, after


def _replace(file: Path, text: str) -> None:
    beside = file.with_name(f".{file.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InputError(f"{file}: cannot be written: {error.strerror}") from error


# ---- Chart: a dot with its interval for each run, and the average total reward over the missions

WIDTH_PX, HEIGHT_PX = 640, 420


def chart(result: GapResult) -> Figure:
    """Return both parts, one above the other."""
    figure = new_figure(WIDTH_PX, HEIGHT_PX)
    means, curves = figure.subplots(2, height_ratios=(1, 2))
    for row, (run, (_, _, color)) in enumerate(WORDS.items()):
        mean = result.atr[run]
        if mean.interval is not None:
            means.plot(mean.interval, [row, row], color=color, lw=5, alpha=0.35)
        means.plot(mean.value, row, "o", color=color)
        curves.plot(range(1, len(result.curves[run]) + 1), result.curves[run], color=color)
    names = [f"{name}  {result.atr[run].value:.1f}" for run, (name, _, _) in WORDS.items()]
    means.set_yticks(range(len(WORDS)), names)
    means.invert_yaxis()
    for axes in (means, curves):
        axes.grid(visible=True)
    curves.set_xlabel("missions driven so far")
    curves.set_ylabel("average total reward")
    return figure
