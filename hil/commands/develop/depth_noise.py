"""The command `onboard-hil depth-noise`: measure real depth frames, fit the noise model, and compare both."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from hil.sensors.depth_calibration.fit import as_toml, fit, read_frames, same_scenes, slanted_planes
from hil.sensors.depth_calibration.statistics import (
    AREA_EDGES_PX,
    BAND_EDGES_M,
    DEPTH_EDGES_M,
    JUMP_EDGES_PER_M,
    LENGTH_EDGES_PX,
    HoleStatistics,
    SurfaceStatistics,
    measure_holes,
    measure_surfaces,
)
from hil.sensors.depth_noise import DepthNoise
from onboard.commands.cli import JsonOption, check_json_target, new_figure, write_result
from onboard.values.errors import InputError

SHOWN = 1
"""Index of the frame in the picture."""
NOT_STATED = "not stated"
"""Placeholder for source and licence of the frames; the operator replaces it in the file."""
MOST_PLANES = 20
"""Largest number of simulated frames of planes, enough for each depth class."""


def measure_depth_noise(
    frames: Annotated[Path, typer.Option("--frames", help="Folder of depth PNGs, 16 bit, in millimetres.")],
    picture: Annotated[Path | None, typer.Option(help="Write a PNG of real and simulated histograms.")] = None,
    write: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the model's numbers as TOML.")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Measure noise and holes in real depth frames, fit the simulated camera to them, and compare both."""
    check_json_target(json_file)
    result = compare(frames, picture, write)
    write_result(json_file, result, summary(result))


def compare(folder: Path, picture: Path | None = None, write: Path | None = None) -> dict[str, Any]:
    """Return the statistics of real and simulated frames, and the parameters of the fitted model.

    Noise and holes are measured on real frames. Simulated noise is measured on slanted planes. Simulated holes are
    measured on the real scenes after their holes are filled. Raises InputError.
    """
    names, frames = read_frames(folder)
    real = measure_surfaces(frames), measure_holes(frames)
    numbers = fit(*real, NOT_STATED, NOT_STATED)
    model = DepthNoise(numbers)
    seen = same_scenes(model, frames)
    simulated = measure_surfaces(slanted_planes(model, min(len(frames), MOST_PLANES))), measure_holes(seen)
    shown = min(SHOWN, len(names) - 1)
    try:
        if write is not None:
            write.write_text(as_toml(numbers), encoding="utf-8")
        if picture is not None:
            save_comparison(real, simulated, (frames[shown], seen[shown]), picture)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return {
        "frames": len(names),
        "real": _as_json(real),
        "simulated": _as_json(simulated),
        "numbers": numbers.model_dump(mode="json"),
    }


def summary(result: dict[str, Any]) -> str:
    """Return the statistics as a table."""
    lines = [f"{result['frames']} frames; depth classes {', '.join(f'{edge:g}' for edge in DEPTH_EDGES_M)} m"]
    for name, real in result["real"].items():
        lines += [f"{name}", f"    real       {_text(real)}", f"    simulated  {_text(result['simulated'][name])}"]
    return "\n".join(lines) + "\n"


def _as_json(measured: Measured) -> dict[str, Any]:
    return dict(_values(measured))


def _values(measured: Measured) -> Iterator[tuple[str, Any]]:
    """Yield each statistic as a plain value for JSON; None for a value that is not finite."""
    for part in measured:
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if isinstance(value, np.ndarray):
                yield field.name, [float(one) if np.isfinite(one) else None for one in value]
            else:
                yield field.name, float(value) if np.isfinite(value) else None


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "  ".join(_text(one) for one in value)
    return "-" if value is None else f"{value:.4g}"


WIDTH_PX, FRAME_PX, PANEL_PX = 1280.0, 400.0, 300.0
BAR = 0.38
"""Width of a bar relative to the width of its class."""
COLORS = {"real": "#465a78", "simulated": "#e68c28"}
NEAR_M, FAR_M = 0.3, 10.0
CAUSES = ("band", "shadow", "rim", "dropout", "right")
Values = Sequence[float] | npt.NDArray[np.float64]
Measured = tuple[SurfaceStatistics, HoleStatistics]
Frame = npt.NDArray[np.float64]


def save_comparison(real: Measured, simulated: Measured, frames: tuple[Frame, Frame], file: Path) -> None:
    """Write a PNG: a real and a simulated frame of a scene [m] above their statistics.

    Raises OSError, and MissingExtraError without matplotlib.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    depth, jump = _between(DEPTH_EDGES_M), _between(JUMP_EDGES_PER_M)
    (real_flat, real_holes), (our_flat, our_holes) = real, simulated
    real_causes, our_causes = ([100.0 * getattr(holes, cause) for cause in CAUSES] for holes in (real_holes, our_holes))
    #    title, classes, real, simulated, whether the axis is logarithmic
    panels: list[tuple[str, Sequence[str], Values, Values, bool]] = [
        ("noise of depth on planes [mm] by depth [m]", depth, 1e3 * real_flat.sd_m, 1e3 * our_flat.sd_m, True),
        ("holes in surfaces [%] by depth [m]", depth,
         100.0 * real_holes.dropout_by_depth, 100.0 * our_holes.dropout_by_depth, False),
        ("holes by cause [% of pixels]", CAUSES, real_causes, our_causes, False),
        ("width of shadows [px] by step of 1/depth [1/m]", jump, real_holes.shadow_px, our_holes.shadow_px, False),
        ("width of the left band [px] by depth beside it [m]", _between(BAND_EDGES_M),
         real_holes.band_px, our_holes.band_px, False),
        ("holes in surfaces by length of their runs [px, % of them]", _from(LENGTH_EDGES_PX),
         100.0 * real_holes.run_share, 100.0 * our_holes.run_share, False),
        ("connected holes in a frame by area [px]", _from(AREA_EDGES_PX), real_holes.blobs, our_holes.blobs, True),
    ]  # fmt: skip
    rows = -(-len(panels) // 2)
    figure = new_figure(WIDTH_PX, FRAME_PX + rows * PANEL_PX)
    grid = figure.add_gridspec(1 + rows, 2, height_ratios=[FRAME_PX, *[PANEL_PX] * rows])
    grey = colormaps["gray_r"].with_extremes(bad="#14146e")
    for column, (name, frame) in enumerate(zip(COLORS, frames, strict=True)):
        axes = figure.add_subplot(
            grid[0, column], title=f"{name}: near is bright, no depth is blue", xticks=[], yticks=[]
        )
        axes.imshow(
            np.ma.masked_equal(np.where(frame > 0.0, frame.clip(NEAR_M), 0.0), 0.0), grey, LogNorm(NEAR_M, FAR_M)
        )
    for number, (title, classes, *pairs, logarithmic) in enumerate(panels):
        axes = figure.add_subplot(grid[1 + number // 2, number % 2], title=title)
        for side, (name, values) in zip((-BAR / 2, BAR / 2), zip(COLORS, pairs, strict=True), strict=True):
            bars = axes.bar(
                np.arange(len(classes)) + side, values, BAR, color=COLORS[name], label=name, log=logarithmic
            )
            axes.bar_label(
                bars, fmt=lambda value: f"{value:.2g}" if value < 100.0 else f"{value:.0f}", fontsize="x-small"
            )
        axes.set_xticks(range(len(classes)), classes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower right", ncols=2)
    figure.savefig(file, format="png")


def _between(edges: Sequence[float]) -> list[str]:
    return [f"{low:g}-{high:g}" for low, high in itertools.pairwise(edges)]


def _from(edges: Sequence[float]) -> list[str]:
    return [f"{low:g}.." for low in edges]
