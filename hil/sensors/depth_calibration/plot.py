"""Plot of depth statistics: bars of real and simulated frames side by side, and one frame of each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from hil.sensors.depth_calibration.statistics import (
    AREA_EDGES_PX,
    BAND_EDGES_M,
    DEPTH_EDGES_M,
    JUMP_EDGES_PER_M,
    LENGTH_EDGES_PX,
    HoleStatistics,
    SurfaceStatistics,
)

PANEL_PX = (640, 300)
PAD_PX, FONT_PX, TITLE_PX = 44, 13, 16
BAR = 0.38
"""Width of a bar relative to the width of its class."""
REAL, SIMULATED, INK, HOLE = (70, 90, 120), (230, 140, 40), (30, 30, 30), (20, 20, 110)
NEAR_M, FAR_M = 0.3, 10.0
LONG = 100.0
"""Numbers from this limit on are written without decimals."""
DECADES = 3
"""Length of a logarithmic axis."""
CAUSES = ("band", "shadow", "rim", "dropout", "right")
Values = Sequence[float] | npt.NDArray[np.float64]
Measured = tuple[SurfaceStatistics, HoleStatistics]
Frame = npt.NDArray[np.float64]


def save_comparison(real: Measured, simulated: Measured, frames: tuple[Frame, Frame], file: Path) -> None:
    """Write a PNG: a real and a simulated frame of a scene [m] above their statistics. Raises OSError."""
    depth, jump = _between(DEPTH_EDGES_M), _between(JUMP_EDGES_PER_M)
    (real_flat, real_holes), (our_flat, our_holes) = real, simulated
    real_causes, our_causes = ([100.0 * getattr(holes, cause) for cause in CAUSES] for holes in (real_holes, our_holes))
    panels = [
        _panel("noise of depth on planes [mm] by depth [m]", depth, 1e3 * real_flat.sd_m, 1e3 * our_flat.sd_m, True),
        _panel("holes in surfaces [%] by depth [m]", depth,
               100.0 * real_holes.dropout_by_depth, 100.0 * our_holes.dropout_by_depth),
        _panel("holes by cause [% of pixels]", CAUSES, real_causes, our_causes),
        _panel("width of shadows [px] by step of 1/depth [1/m]", jump, real_holes.shadow_px, our_holes.shadow_px),
        _panel("width of the left band [px] by depth beside it [m]", _between(BAND_EDGES_M),
               real_holes.band_px, our_holes.band_px),
        _panel("holes in surfaces by length of their runs [px, % of them]", _from(LENGTH_EDGES_PX),
               100.0 * real_holes.run_share, 100.0 * our_holes.run_share),
        _panel("connected holes in a frame by area [px]", _from(AREA_EDGES_PX),
               real_holes.blobs, our_holes.blobs, True),
    ]  # fmt: skip
    width, height = PANEL_PX
    tops = [_shaded(frame).resize((width, width * frame.shape[0] // frame.shape[1])) for frame in frames]
    rows = math.ceil(len(panels) / 2)
    picture = Image.new("RGB", (2 * width, tops[0].height + rows * height), "white")
    for k, top in enumerate(tops):
        picture.paste(top, (k * width, 0))
    for k, panel in enumerate(panels):
        picture.paste(panel, (k % 2 * width, tops[0].height + k // 2 * height))
    _legend(ImageDraw.Draw(picture), (width + PAD_PX, tops[0].height + (rows - 1) * height + PAD_PX))
    picture.save(file, "PNG")


def _panel(
    title: str, labels: Sequence[str], real: Values, simulated: Values, logarithmic: bool = False
) -> Image.Image:
    """Return a bar chart with pairs of bars; unknown values (nan) have no bar."""
    panel = Image.new("RGB", PANEL_PX, "white")
    draw, font = ImageDraw.Draw(panel), ImageFont.load_default(FONT_PX)
    width, height = PANEL_PX[0] - 2 * PAD_PX, PANEL_PX[1] - 2 * PAD_PX
    pairs = np.array([real, simulated], np.float64)
    largest = float(np.nan_to_num(pairs).max()) or 1.0
    floor = PAD_PX + height
    for k, label in enumerate(labels):
        middle = PAD_PX + (k + 0.5) * width / len(labels)
        for value, color, side in ((pairs[0, k], REAL, -BAR), (pairs[1, k], SIMULATED, 0.0)):
            if not math.isfinite(value):
                continue
            part = value / largest
            if logarithmic:
                part = max(math.log10(max(part, 10.0**-DECADES)) / DECADES + 1.0, 0.0)
            left = middle + side * width / len(labels)
            draw.rectangle((left, floor - part * height, left + BAR * width / len(labels), floor), color)
            draw.text((left, floor - part * height), _short(value), INK, ImageFont.load_default(FONT_PX - 3), "lb")
        draw.text((middle, floor + FONT_PX), label, INK, font, "mm")
    draw.line((PAD_PX, floor, PAD_PX + width, floor), INK)
    note = ", logarithmic" if logarithmic else ""
    draw.text((PAD_PX, TITLE_PX), title + note, INK, ImageFont.load_default(TITLE_PX), "lm")
    return panel


def _shaded(frame: Frame) -> Image.Image:
    """Return depth as grey on a logarithmic scale, near bright; holes blue."""
    far = np.log(np.clip(frame, NEAR_M, FAR_M) / NEAR_M) / math.log(FAR_M / NEAR_M)
    grey = (255.0 * (1.0 - far)).astype(np.uint8)
    return Image.fromarray(np.where(frame[..., np.newaxis] > 0.0, grey[..., np.newaxis], np.array(HOLE, np.uint8)))


def _legend(draw: ImageDraw.ImageDraw, at_px: tuple[int, int]) -> None:
    x, y = at_px
    for text, color in (("real", REAL), ("simulated", SIMULATED), ("no depth", HOLE)):
        draw.rectangle((x, y, x + TITLE_PX, y + TITLE_PX), color)
        draw.text((x + 2 * TITLE_PX, y + TITLE_PX // 2), text, INK, ImageFont.load_default(TITLE_PX), "lm")
        y += 2 * TITLE_PX


def _between(edges: Sequence[float]) -> list[str]:
    return [f"{low:g}-{high:g}" for low, high in itertools.pairwise(edges)]


def _from(edges: Sequence[float]) -> list[str]:
    return [f"{low:g}.." for low in edges]


def _short(value: float) -> str:
    return f"{value:.2g}" if value < LONG else f"{value:.0f}"
