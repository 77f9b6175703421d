"""The page of an experiment: its table between two marks of a Markdown file, and its chart as SVG next to it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hil.physics.state_kernels.state_table import Array
from hil.reality_gap.five_runs import WAYS
from hil.reality_gap.result import GapResult
from onboard.commands.cli import markdown_table
from onboard.values.errors import InputError

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
    chart = chart_file(page, result.experiment)
    put_section(page, result.experiment, section(result, chart.name, command), {result.experiment: svg(result)})


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
            f"`{command}`: {seeds} seeds; in brackets stand 95 % t-intervals over seeds.",
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

WIDTH, NAME_PX, VALUE_PX, ROW_PX, CURVES_PX, AXIS_PX = 640, 90, 50, 26, 200, 24
MARGIN = 0.05


def svg(result: GapResult) -> str:
    """Return both parts as SVG with one horizontal scale each."""
    atr, curves = result.atr, {name: result.curves[name] for name in WORDS}
    values = np.concatenate([*curves.values(), *([*one.interval] for one in atr.values() if one.interval is not None)])
    low, high = float(values.min()), float(values.max())
    low, high = low - MARGIN * (high - low or 1.0), high + MARGIN * (high - low or 1.0)
    rows_px = ROW_PX * len(WORDS)
    height = rows_px + AXIS_PX + CURVES_PX + AXIS_PX
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="13" role="img" aria-label="average total reward of the five runs">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    scale = (WIDTH - NAME_PX - VALUE_PX) / (high - low)
    for mark in _ticks(low, high):
        x = NAME_PX + (mark - low) * scale
        y = rows_px + AXIS_PX + (high - mark) / (high - low) * CURVES_PX
        parts += [
            f'<path d="M{x:.1f} 0V{rows_px}M{NAME_PX} {y:.1f}H{WIDTH - VALUE_PX}" stroke="#d5d9de" fill="none"/>',
            f'<text x="{x:.1f}" y="{rows_px + 16}" fill="#555" text-anchor="middle">{mark:g}</text>',
            f'<text x="{NAME_PX - 8}" y="{y + 4:.1f}" fill="#555" text-anchor="end">{mark:g}</text>',
        ]
    for row, (run, (name, _, color)) in enumerate(WORDS.items()):
        y, mean = ROW_PX * (row + 0.5), atr[run]
        parts.append(f'<text x="{NAME_PX - 8}" y="{y + 4.5}" fill="{color}" text-anchor="end">{name}</text>')
        if mean.interval is not None:
            ends = [NAME_PX + (end - low) * scale for end in mean.interval]
            parts.append(
                f'<path d="M{ends[0]:.1f} {y}H{ends[1]:.1f}" stroke="{color}" stroke-width="6" opacity="0.35"/>'
            )
        parts.append(f'<circle cx="{NAME_PX + (mean.value - low) * scale:.1f}" cy="{y}" r="5" fill="{color}"/>')
        parts.append(f'<text x="{WIDTH - 4}" y="{y + 4.5}" text-anchor="end">{mean.value:.1f}</text>')
        parts.append(_line(curves[run], low, high, rows_px + AXIS_PX, color))
    parts.append(
        f'<text x="{(NAME_PX + WIDTH - VALUE_PX) / 2}" y="{height - 7}" fill="#555" text-anchor="middle">'
        "average total reward over the missions driven so far, first to last</text>"
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ticks(low: float, high: float) -> list[float]:
    step = 5.0 if high - low <= 50.0 else 10.0 ** np.ceil(np.log10((high - low) / 10.0))
    return [float(one) for one in np.arange(np.ceil(low / step) * step, high, step)]


def _line(curve: Array, low: float, high: float, top: float, color: str) -> str:
    xs = np.linspace(NAME_PX, WIDTH - VALUE_PX, len(curve))
    ys = top + (high - curve) / (high - low) * CURVES_PX
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
