"""A sheet for a person to look at: images, and below each the ranges ahead, true and as the encoder tells them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from engines.encoder.blur import Frame
from engines.encoder.views import BIN_RAD, FARTHEST_M, FORWARD_BINS, Labels

COLUMNS = 4
PLOT_PX, PAD_PX, TEXT_PX = 90, 8, 14
TRUE_INK, TOLD_INK, INK, PAPER = (30, 30, 30), (210, 40, 40), (60, 60, 60), (252, 252, 250)
LINE_PX = 2
HALF_FIELD = 1.0
"""Tangent of half of the camera's field: the plot's columns are those of the image."""


def save_sheet(images: Frame, true_m: Labels, predicted_m: Labels, file: Path) -> None:
    """Write a PNG of (n, 144, 256, 3) images with (n, 45) true and predicted ranges and free ways. Raises OSError."""
    height, width = images.shape[1:3]
    cell = width + PAD_PX, height + PLOT_PX + TEXT_PX + PAD_PX
    rows = math.ceil(len(images) / COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * cell[0] + PAD_PX, rows * cell[1] + PAD_PX), PAPER)
    draw = ImageDraw.Draw(sheet)
    for index in range(len(images)):
        left, top = PAD_PX + index % COLUMNS * cell[0], PAD_PX + index // COLUMNS * cell[1]
        sheet.paste(Image.fromarray(np.array(images[index])), (left, top))
        base = top + height + PLOT_PX
        draw.rectangle((left, top + height, left + width - 1, base), outline=INK)
        for values, ink in ((true_m[index], TRUE_INK), (predicted_m[index], TOLD_INK)):
            draw.line(_curve(values[:FORWARD_BINS], left, base, width), ink, LINE_PX)
        ways = f"free way {true_m[index, -1]:.1f} m, told {predicted_m[index, -1]:.1f} m"
        draw.text((left, base + 1), ways, INK)
    sheet.save(file, "PNG")


def _curve(ranges_m: npt.NDArray[np.float32], left: float, base: float, width: int) -> list[tuple[float, float]]:
    """Return the corners of a curve: under each column what is that way, 10 m on top."""
    bearings = BIN_RAD * (np.arange(FORWARD_BINS) + 0.5 - FORWARD_BINS / 2)
    columns = left + 0.5 * width * (1.0 - np.tan(bearings) / HALF_FIELD)
    heights = base - PLOT_PX * np.minimum(ranges_m, FARTHEST_M) / FARTHEST_M
    return [(float(x), float(y)) for x, y in zip(columns, heights, strict=True)]
