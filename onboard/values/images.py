"""Colour images at the policy's size, by exact area averaging; false depth; depth images of a covered camera."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onboard.values import reasons
from onboard.values.errors import InputError
from onboard.values.reasons import NO_REASON, Said

POLICY_WIDTH = 256
POLICY_HEIGHT = 144
CHANNELS = 3
MAX_FACTOR = 16
"""Maximum reduction along an axis; sums of MAX_FACTOR rows of bytes, with rounding, fit in uint16."""

MIN_VALID_FRACTION = 0.05
"""Share of pixels with a depth below which a camera counts as covered."""
FALSE_DEPTH = np.iinfo(np.uint16).max
"""D4xx cameras write this for pixels of unknown depth, whatever the depth unit."""


def without_false_depth(depth: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
    """Return a depth image with 0, no return, in place of `FALSE_DEPTH`; the same array if it has none."""
    if depth.dtype != np.uint16 or depth.size == 0 or depth.max() != FALSE_DEPTH:
        return depth
    cleaned: npt.NDArray[np.uint16] = depth * (depth != FALSE_DEPTH)
    return cleaned


def policy_image(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return an RGB image of any size, for example (480, 640, 3), at the policy's size (144, 256, 3).

    Its middle part of 16:9 is scaled, as 1280x720 is in the paper: each new pixel is the mean over its area, where a
    pixel on the edge counts with its part. Halves are rounded up; all sums are exact. Raises InputError for an image
    that is not uint8 RGB, or is empty.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != CHANNELS or not image.size:
        raise InputError(f"image is {image.dtype} of shape {image.shape}, must be uint8 (height, width, {CHANNELS})")
    height, width = image.shape[:2]
    wide, high = min(width, max(height * POLICY_WIDTH // POLICY_HEIGHT, 1)), min(height, max(width * 9 // 16, 1))
    top, left = (height - high) // 2, (width - wide) // 2
    middle = image[top : top + high, left : left + wide]
    rows, columns = high // POLICY_HEIGHT, wide // POLICY_WIDTH
    if (high, wide) == (rows * POLICY_HEIGHT, columns * POLICY_WIDTH) and max(rows, columns) <= MAX_FACTOR:
        return area_average(middle, POLICY_HEIGHT, POLICY_WIDTH)
    sums = _weighted(_weighted(middle, POLICY_HEIGHT, 0), POLICY_WIDTH, 1)
    area = np.uint32(high * wide)
    scaled: npt.NDArray[np.uint8] = ((sums + area // 2) // area).astype(np.uint8)
    return scaled


def _weighted(image: npt.NDArray[np.generic], count: int, axis: int) -> npt.NDArray[np.uint32]:
    """Return the sums over `count` equal parts of an axis, in units of 1/count pixel; exact below 2**32."""
    size = image.shape[axis]
    before = np.zeros((*image.shape[:axis], size + 2, *image.shape[axis + 1 :]), np.uint32)
    np.cumsum(image, axis=axis, dtype=np.uint32, out=before[(slice(None),) * axis + (slice(1, size + 1),)])
    before[(slice(None),) * axis + (size + 1,)] = before[(slice(None),) * axis + (size,)]
    whole, rest = np.divmod(np.arange(count + 1) * size, count)
    rest = rest.astype(np.uint32).reshape(-1, *([1] * (image.ndim - axis - 1)))
    low, high = np.take(before, whole, axis), np.take(before, whole + 1, axis)
    sums: npt.NDArray[np.uint32] = np.diff(low * np.uint32(count) + (high - low) * rest, axis=axis)
    return sums


def area_average(image: npt.NDArray[np.uint8], height: int, width: int) -> npt.NDArray[np.uint8]:
    """Return a new (height, width, 3) array; each pixel is the mean of its block, halves rounded up.

    The result is exact (integer sums, one division). Pillow's `reduce` is as fast but off by one for some sums.
    Raises InputError if `image` is not uint8 RGB or its size is not a whole multiple.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != CHANNELS:
        raise InputError(f"image is {image.dtype} of shape {image.shape}, must be uint8 (height, width, {CHANNELS})")
    rows, columns = image.shape[0] // height, image.shape[1] // width
    fits = image.shape[:2] == (rows * height, columns * width)
    if not (fits and 1 <= rows <= MAX_FACTOR and 1 <= columns <= MAX_FACTOR):
        raise InputError(
            f"image is {image.shape[1]}x{image.shape[0]}, must be {width}x{height} "
            f"times whole factors of 1 to {MAX_FACTOR}"
        )
    sums = image[::rows].astype(np.uint16)
    for row in range(1, rows):
        sums += image[row::rows]
    blocks = sums.reshape(height, width, columns, CHANNELS)
    total = blocks[:, :, 0].astype(np.uint32)
    for column in range(1, columns):
        total += blocks[:, :, column]
    area = rows * columns
    averaged: npt.NDArray[np.uint8] = ((total + area // 2) // area).astype(np.uint8)
    return averaged


def covered(valid_pixels: int, pixels: int) -> Said:
    """Return the reason to reject a depth image with few valid pixels (covered lens, dark room), or ""."""
    if valid_pixels >= MIN_VALID_FRACTION * pixels:
        return NO_REASON
    return reasons.COVERED.say(percent=100 * valid_pixels / pixels, limit=100 * MIN_VALID_FRACTION)
