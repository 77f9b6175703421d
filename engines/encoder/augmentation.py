"""Image augmentation: blur, exposure, colours, noise, compression."""

from __future__ import annotations

import io
import math

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from engines.encoder.config import BlurSection

WHITE = 255.0
BEST_JPEG = 95
GREY = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in brightness (ITU-R BT.601)."""

Frame = npt.NDArray[np.uint8]
Planes = npt.NDArray[np.float32]


def blurred(image: Frame, section: BlurSection, rng: np.random.Generator) -> Frame:
    """Return an augmented copy, (height, width, 3) uint8 RGB, drawn by the generator.

    The order is that of a camera: blur, exposure and colours, noise, gamma, compression.
    """
    if rng.random() < section.soft:
        radius = float(rng.uniform(0.0, section.soft_px))
        image = np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(radius)))
    planes = image.astype(np.float32)
    if rng.random() < section.motion:
        planes = motion_blurred(planes, int(rng.integers(1, section.motion_px + 1)))
    planes *= _factors(section, rng)
    grey = planes @ np.array(GREY, np.float32)
    planes = grey[..., None] + np.float32(rng.uniform(*section.colour)) * (planes - grey[..., None])
    planes += rng.standard_normal(planes.shape, np.float32) * np.float32(rng.uniform(0.0, section.noise))
    power = np.float32(_log_uniform(section.gamma, rng))
    planes = WHITE * (np.clip(planes, 0.0, WHITE) / WHITE) ** power
    taken = (planes + 0.5).astype(np.uint8)
    if rng.random() < section.jpeg:
        quality = int(rng.integers(section.jpeg_quality, BEST_JPEG + 1))
        return compressed(taken, quality)
    return np.asarray(taken)


def motion_blurred(planes: Planes, pixels: int) -> Planes:
    """Return the mean over `pixels` centred neighbours along each row; edges repeat."""
    before = (pixels - 1) // 2
    wide = np.pad(planes, ((0, 0), (before, pixels - 1 - before), (0, 0)), mode="edge")
    columns = planes.shape[1]
    total = wide[:, :columns].copy()
    for shift in range(1, pixels):
        total += wide[:, shift : shift + columns]
    return np.asarray(total / np.float32(pixels))


def compressed(image: Frame, quality: int) -> Frame:
    """Return the image after JPEG compression."""
    packed = io.BytesIO()
    Image.fromarray(image).save(packed, "JPEG", quality=quality)
    return np.array(Image.open(packed))


def _factors(section: BlurSection, rng: np.random.Generator) -> Planes:
    """Return (3,) brightness factors of the channels: a common exposure times a tint each."""
    tints = rng.uniform(1.0 - section.tint, 1.0 + section.tint, 3)
    return np.asarray(_log_uniform(section.exposure, rng) * tints, np.float32)


def _log_uniform(most: float, rng: np.random.Generator) -> float:
    """Return a factor in [1 / most, most]."""
    return math.exp(float(rng.uniform(-1.0, 1.0)) * math.log(most))
