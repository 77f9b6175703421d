"""Surface shading under a look: patterns and light as functions of the position."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hil.maps.materials import BARS, BRICKS, CEILING_SURFACE, CHECKS, FLAT, NOISE, STRIPES, Light
from onboard.values.kernel import kernel

BLUR = 0.01
"""Angle [rad] below which the contrast of a pattern cell fades: two pixels of the colour camera."""
BRICK_LENGTH = 3.0
"""Length of a brick relative to its height."""
JOINT = 0.08
"""Width of a joint relative to a brick's height or a panel's side."""
FADES = 0.25
"""Upper limit of the random share of the second colour in bricks and panels."""
COARSE, FINE = 0.6, 0.4
"""Weights of noise at the pattern's size and at half of it."""
LAMP_ON = 0.75
"""Fraction of ceiling lamps that are on."""
LAMP_RADIUS = 0.12
"""Visible radius of a lamp relative to the lamp spacing."""
LAMP_BRIGHTNESS = 1.6
WHOLE_32 = 4294967296.0
LAMP_SALT = 17

Floats = npt.NDArray[np.float64]


@kernel
def scatter(i: int, j: int, salt: int) -> float:
    """Return a pseudo-random number in [0, 1) from a hash of three integers."""
    mask = np.uint64(0xFFFFFFFF)
    h = np.uint64(i) * np.uint64(374761393) + np.uint64(j) * np.uint64(668265263) + np.uint64(salt) * np.uint64(69069)
    h &= mask
    h = ((h ^ (h >> np.uint64(13))) * np.uint64(1274126177)) & mask
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(2246822519)) & mask
    share: float = np.float64(h ^ (h >> np.uint64(15))) / WHOLE_32
    return share


@kernel
def second_share(pattern: int, size: float, u: float, v: float, salt: int) -> float:
    """Return the share of the second colour of a surface at (u, v) [m], in [0, 1]."""
    if pattern == FLAT:
        return 0.0
    u, v = u / size, v / size
    i, j = math.floor(u), math.floor(v)
    if pattern == STRIPES:
        return float(i & 1)
    if pattern == BARS:
        return float(j & 1)
    if pattern == CHECKS:
        return float((i + j) & 1)
    if pattern == NOISE:
        return COARSE * scatter(i, j, salt) + FINE * scatter(math.floor(2.0 * u), math.floor(2.0 * v), salt + 1)
    length = 1.0
    if pattern == BRICKS:
        length = BRICK_LENGTH
        u = u / BRICK_LENGTH + 0.5 * (j & 1)
        i = math.floor(u)
    if (u - i) * length < JOINT or v - j < JOINT:
        return 1.0
    return FADES * scatter(i, j, salt)


@kernel
def lamp_light(x: float, y: float, light: Light) -> tuple[float, float]:
    """Return (share of the nearest lamp's light at a point in the grid frame, distance to it in lamp spacings).

    The share is 0 if the lamp is off. It reaches 0 half way to the next lamp, so there is no edge between lamps.
    """
    u, v = x / light.lamp_every_m, y / light.lamp_every_m
    i, j = math.floor(u), math.floor(v)
    if scatter(i, j, LAMP_SALT) >= LAMP_ON:
        return 0.0, 1.0
    u, v = u - i - 0.5, v - j - 0.5
    return (1.0 - 4.0 * u * u) * (1.0 - 4.0 * v * v), math.sqrt(u * u + v * v)


@kernel
def paint(
    image: npt.NDArray[np.uint8], i: int, surface: int, u: float, v: float, place: tuple[float, float],
    facing: float, t: float, colours: Floats, pattern: npt.NDArray[np.int64], size_m: Floats, light: Light,
) -> None:  # fmt: skip
    """Set pixel i to the colour of a surface at (u, v), at a position in the grid frame and a distance t.

    facing: cosine between the surface's normal and the light
    """
    size = size_m[surface]
    share = second_share(pattern[surface], size, u, v, surface)
    contrast = min(1.0, size / (BLUR * t + 1e-9))
    if pattern[surface] != FLAT:
        share = 0.5 + (share - 0.5) * contrast
    brightness = light.ambient + light.direct * (0.5 + 0.5 * facing)
    if light.lamp > 0.0:
        near, away = lamp_light(place[0], place[1], light)
        brightness += light.lamp * near
        if surface == CEILING_SURFACE and away < LAMP_RADIUS:
            brightness, share = LAMP_BRIGHTNESS, 0.0
    brightness *= light.fade_m / (light.fade_m + t)
    tint = (light.red, light.green, light.blue)
    for channel in range(3):
        first, second = colours[surface, 0, channel], colours[surface, 1, channel]
        image[i, channel] = np.uint8(min((first + (second - first) * share) * brightness * tint[channel], 255.0))
