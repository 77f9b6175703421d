"""Kernels of the depth noise. Depth is stored as 1/depth [1/m], proportional to disparity; 0 for no return."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.values.kernel import kernel

EDGE_PER_M = 0.05
"""Least step of 1/depth between two pixels at an edge."""
SLANT = 2.0
"""An edge step is also larger than this factor times both neighbouring steps of the same sign. A slanted surface has
equal neighbouring steps."""
LARGEST_UNITS = 65535

Image = npt.NDArray[np.float32]


@kernel
def smooth_field(knots: Image, height: int, width: int, spacing: float, down: float, right: float) -> Image:
    """Return (height, width) interpolated knots, `spacing` pixels apart, rescaled to the variance of the knots.

    down, right: offset of the first pixel from the first knot, in [0, 1) spacings
    """
    image = np.empty((height, width), np.float32)
    for v in range(height):
        y = v / spacing + down
        row, b = int(y), y - int(y)
        for u in range(width):
            x = u / spacing + right
            column, a = int(x), x - int(x)
            upper = (1.0 - a) * knots[row, column] + a * knots[row, column + 1]
            lower = (1.0 - a) * knots[row + 1, column] + a * knots[row + 1, column + 1]
            variance = ((1.0 - a) ** 2 + a**2) * ((1.0 - b) ** 2 + b**2)
            image[v, u] = ((1.0 - b) * upper + b * lower) / math.sqrt(variance)
    return image


@kernel
def hide_unseen(per_m: Image, rim_px: Image, disparity_px_m: float, wider_px: float) -> npt.NDArray[np.bool_]:
    """Return (height, width) bool: pixels without depth due to stereo geometry (left band, occlusion, edge rims).

    rim_px:   width of the rim at an edge at this pixel; its fraction must be random, since pixels are whole
    wider_px: extra width of the rim at the left border
    """
    height, width = per_m.shape
    hidden = np.zeros((height, width), np.bool_)
    for v in range(height):
        u = 0
        while u < width and u + 1 <= disparity_px_m * per_m[v, u] + rim_px[v, 0] + wider_px:
            hidden[v, u] = True
            u += 1
        for u in range(width - 1):
            step = per_m[v, u + 1] - per_m[v, u]
            before = per_m[v, u] - per_m[v, u - 1] if u > 0 else 0.0
            after = per_m[v, u + 2] - per_m[v, u + 1] if u < width - 2 else 0.0
            along = max(before, after) if step > 0.0 else -min(before, after)
            if abs(step) <= max(EDGE_PER_M, SLANT * along):
                continue
            if step > 0.0:
                m = 1
                while m <= u + 1 and m <= disparity_px_m * (per_m[v, u + 1] - per_m[v, u + 1 - m]) + rim_px[v, u]:
                    hidden[v, u + 1 - m] = True
                    m += 1
            else:
                for m in range(1, min(int(rim_px[v, u]), width - 1 - u) + 1):
                    hidden[v, u + m] = True
    return hidden


@kernel
def noisy_units(
    per_m: Image, hidden: npt.NDArray[np.bool_], noise: Image, coarse: Image, fine: Image,
    curve_per_m: npt.NDArray[np.float32], curve_sd: npt.NDArray[np.float32],
    curve_coarse: npt.NDArray[np.float32], curve_fine: npt.NDArray[np.float32],
    step_per_m: float, most_per_m: float, units_per_m: float,
) -> npt.NDArray[np.uint16]:  # fmt: skip
    """Return (height, width) noisy, quantised depth [units]: 0 if hidden, too near, or a field exceeds its threshold.

    The curves are sampled at `curve_per_m` (1/depth, ascending).
    """
    height, width = per_m.shape
    units = np.zeros((height, width), np.uint16)
    for v in range(height):
        for u in range(width):
            q = per_m[v, u]
            if q == 0.0 or hidden[v, u]:
                continue
            k, part = _place(curve_per_m, q)
            if coarse[v, u] > curve_coarse[k] + part * (curve_coarse[k + 1] - curve_coarse[k]):
                continue
            if fine[v, u] > curve_fine[k] + part * (curve_fine[k + 1] - curve_fine[k]):
                continue
            sd = curve_sd[k] + part * (curve_sd[k + 1] - curve_sd[k])
            stepped = np.round((q + sd * noise[v, u]) / step_per_m) * step_per_m
            if 0.0 < stepped <= most_per_m:
                value = units_per_m / stepped + 0.5
                units[v, u] = np.uint16(value) if value <= LARGEST_UNITS else 0
    return units


@kernel
def _place(curve: npt.NDArray[np.float32], value: float) -> tuple[int, float]:
    """Return (index, fraction) of the interval of an ascending curve that contains a value, clamped to the ends."""
    k = 0
    while k < len(curve) - 2 and curve[k + 1] < value:
        k += 1
    return k, min(max((value - curve[k]) / (curve[k + 1] - curve[k]), 0.0), 1.0)
