"""Appearance for the colour camera: colours, patterns and light of every material, drawn by seed.

A pattern depends only on the position on a surface, so a frame depends only on map, pose and look.
"""

from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MATERIALS = (
    "wall", "wood", "metal", "fabric", "plastic", "plant", "cardboard", "glass", "ceramic", "leather",
    "person", "robot",
)  # fmt: skip
"""Materials. Cells of a world and moving bodies store the index."""
SURFACES = (*MATERIALS, "floor", "ceiling")
FLOOR_SURFACE = SURFACES.index("floor")
CEILING_SURFACE = SURFACES.index("ceiling")

PATTERNS = ("flat", "stripes", "bars", "checks", "noise", "bricks", "panels")
"""Stripes are vertical on a wall, bars horizontal; the joints of bricks and panels have the second colour."""
FLAT, STRIPES, BARS, CHECKS, NOISE, BRICKS, PANELS = range(len(PATTERNS))

Range = tuple[float, float]


class Light(NamedTuple):
    """The lighting of a building.

    ambient, direct: brightness of surfaces that face away from the light, and the increase for surfaces towards it
    x, y, z:         unit vector towards the light, in the grid frame
    red, green, blue: tint
    fade_m:          distance from the camera at which brightness is halved
    lamp:            brightness added below a ceiling lamp; lamps are `lamp_every_m` apart, some are off
    """

    ambient: float
    direct: float
    x: float
    y: float
    z: float
    red: float
    green: float
    blue: float
    fade_m: float
    lamp: float
    lamp_every_m: float


@dataclass(frozen=True, slots=True)
class Appearance:
    """Appearance of one building, a row for each of `SURFACES`.

    colours: (surfaces, 2, 3) float64 first and second colour, RGB in [0, 255]
    pattern: (surfaces,) int64 index into `PATTERNS`
    size_m:  (surfaces,) float64 size of the pattern's cells
    """

    colours: npt.NDArray[np.float64]
    pattern: npt.NDArray[np.int64]
    size_m: npt.NDArray[np.float64]
    light: Light


class Style(NamedTuple):
    """Ranges for one surface: hue, saturation and value of the colour in [0, 1], patterns, pattern size."""

    hue: Range
    saturation: Range
    value: Range
    patterns: tuple[int, ...]
    size_m: Range


ANY: Range = (0.0, 1.0)
STYLES = {
    "wall": Style(ANY, (0.02, 0.35), (0.55, 0.95), (FLAT, FLAT, STRIPES, NOISE, BRICKS, PANELS), (0.15, 1.2)),
    "wood": Style((0.05, 0.11), (0.35, 0.75), (0.3, 0.8), (BARS, NOISE, FLAT), (0.04, 0.2)),
    "metal": Style((0.55, 0.65), (0.0, 0.15), (0.35, 0.85), (FLAT, PANELS), (0.2, 0.5)),
    "fabric": Style(ANY, (0.2, 0.8), (0.25, 0.8), (FLAT, NOISE, STRIPES, CHECKS), (0.03, 0.15)),
    "plastic": Style(ANY, (0.4, 0.95), (0.35, 0.9), (FLAT, FLAT, STRIPES), (0.05, 0.3)),
    "plant": Style((0.22, 0.4), (0.5, 0.9), (0.2, 0.6), (NOISE,), (0.03, 0.08)),
    "cardboard": Style((0.07, 0.1), (0.35, 0.55), (0.5, 0.75), (FLAT, BARS, PANELS), (0.2, 0.4)),
    "glass": Style((0.45, 0.6), (0.1, 0.35), (0.6, 0.9), (FLAT, PANELS), (0.4, 0.9)),
    "ceramic": Style((0.1, 0.6), (0.0, 0.08), (0.8, 0.97), (FLAT,), (0.2, 0.3)),
    "leather": Style((0.0, 0.1), (0.3, 0.7), (0.12, 0.45), (FLAT, NOISE), (0.05, 0.15)),
    "person": Style(ANY, (0.3, 0.9), (0.25, 0.9), (FLAT, BARS, CHECKS), (0.1, 0.6)),
    "robot": Style(ANY, (0.0, 0.9), (0.2, 0.9), (FLAT, BARS, PANELS), (0.1, 0.3)),
    "floor": Style(ANY, (0.05, 0.5), (0.2, 0.6), (FLAT, CHECKS, NOISE, PANELS, STRIPES, BRICKS), (0.15, 1.0)),
    "ceiling": Style(ANY, (0.0, 0.1), (0.8, 1.0), (FLAT, PANELS, CHECKS), (0.5, 1.2)),
}
SECOND_VALUE: Range = (0.65, 0.9)
"""Brightness of the second colour relative to the first; low contrast keeps geometric edges stronger."""
HUE_SHIFT = 0.06
FLOOR_PART = 0.55
"""Upper limit of the floor's value relative to the wall's, so that they differ where a wall is in shade."""

PLAIN_RGB = {
    "wall": (205.0, 200.0, 190.0), "wood": (150.0, 110.0, 70.0), "metal": (150.0, 155.0, 165.0),
    "fabric": (70.0, 90.0, 140.0), "plastic": (190.0, 70.0, 60.0), "plant": (60.0, 120.0, 55.0),
    "cardboard": (180.0, 145.0, 100.0), "glass": (165.0, 200.0, 205.0), "ceramic": (235.0, 235.0, 230.0),
    "leather": (85.0, 55.0, 40.0), "person": (200.0, 110.0, 40.0), "robot": (60.0, 150.0, 150.0),
    "floor": (112.0, 104.0, 96.0), "ceiling": (235.0, 235.0, 232.0),
}  # fmt: skip


def _plain() -> Appearance:
    """Return a look without patterns, under a light from above along x."""
    colours = np.array([[PLAIN_RGB[name]] * 2 for name in SURFACES])
    flat = np.zeros(len(SURFACES), np.int64)
    light = Light(0.80, 0.20, 0.8, 0.0, 0.6, 1.0, 1.0, 1.0, 12.0, 0.0, 4.0)
    return _frozen(Appearance(colours, flat, np.ones(len(SURFACES)), light))


def draw_appearance(seed: int) -> Appearance:
    """Return the look of a seed; the same seed gives the same look."""
    rng = np.random.default_rng(seed)
    colours = np.empty((len(SURFACES), 2, 3))
    pattern = np.empty(len(SURFACES), np.int64)
    size_m = np.empty(len(SURFACES))
    wall_value = 1.0
    for index, name in enumerate(SURFACES):
        style = STYLES[name]
        hue, saturation, value = (float(rng.uniform(*limits)) for limits in (style.hue, style.saturation, style.value))
        if name == "wall":
            wall_value = value
        elif name == "floor":
            value = min(value, FLOOR_PART * wall_value)
        second_hue = (hue + float(rng.uniform(-HUE_SHIFT, HUE_SHIFT))) % 1.0
        second_value = value * float(rng.uniform(*SECOND_VALUE))
        colours[index] = [_rgb(hue, saturation, value), _rgb(second_hue, saturation, second_value)]
        pattern[index] = style.patterns[int(rng.integers(len(style.patterns)))]
        size_m[index] = rng.uniform(*style.size_m)
    return _frozen(Appearance(colours, pattern, size_m, _draw_light(rng)))


def _draw_light(rng: np.random.Generator) -> Light:
    azimuth, height = float(rng.uniform(-math.pi, math.pi)), float(rng.uniform(0.2, 0.8))
    warmth = float(rng.uniform(-0.15, 0.15))
    return Light(
        ambient=float(rng.uniform(0.55, 0.75)),
        direct=float(rng.uniform(0.25, 0.35)),
        x=math.cos(azimuth) * math.cos(height),
        y=math.sin(azimuth) * math.cos(height),
        z=math.sin(height),
        red=1.0 + warmth,
        green=1.0,
        blue=1.0 - warmth,
        fade_m=float(rng.uniform(12.0, 40.0)),
        lamp=float(rng.uniform(0.0, 0.5)),
        lamp_every_m=float(rng.uniform(2.5, 6.0)),
    )


def _rgb(hue: float, saturation: float, value: float) -> tuple[float, float, float]:
    red, green, blue = colorsys.hsv_to_rgb(hue, saturation, value)
    return 255.0 * red, 255.0 * green, 255.0 * blue


def _frozen(look: Appearance) -> Appearance:
    for array in (look.colours, look.pattern, look.size_m):
        array.setflags(write=False)
    return look


PLAIN = _plain()
