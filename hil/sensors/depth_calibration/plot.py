"""Plot of depth statistics: bars of real and simulated frames side by side, and one frame of each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hil.sensors.depth_calibration.statistics import (
    AREA_EDGES_PX,
    BAND_EDGES_M,
    DEPTH_EDGES_M,
    JUMP_EDGES_PER_M,
    LENGTH_EDGES_PX,
    HoleStatistics,
    SurfaceStatistics,
)
from onboard.commands.cli import new_figure

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
