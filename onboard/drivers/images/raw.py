"""Raw images of ROS: depth in units of the mount, colour as RGB. Pure.

YUV becomes RGB by BT.601 (16 to 235) in the fixed-point arithmetic of OpenCV, which `cv_bridge` uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from onboard.values.errors import InputError
from onboard.values.images import FALSE_DEPTH, without_false_depth

UINT16_ENCODINGS = ("16UC1", "mono16")
METRES = "32FC1"
DEPTH_ENCODINGS = (*UINT16_ENCODINGS, METRES)
Y_FIRST = {"yuv422": False, "uyvy": False, "yuv422_yuy2": True, "yuyv": True}
"""Encodings of two bytes a pixel: whether the brightness comes before the colour."""
CHANNELS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1} | dict.fromkeys(Y_FIRST, 2)
MAX_SIDE_PX = 4096
"""Longest side of an image."""


class RawImage(Protocol):
    """The fields of a `sensor_msgs/Image`."""

    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def encoding(self) -> str: ...
    @property
    def is_bigendian(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def data(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Raw:
    """A raw image, little endian."""

    height: int
    width: int
    encoding: str
    step: int
    data: bytes
    is_bigendian: int = 0


def depth_pixels(image: RawImage, unit_m: float) -> npt.NDArray[np.uint16]:
    """Return (height, width) depth in units of `unit_m`; 0 is no return. Raises InputError."""
    order = ">" if image.is_bigendian else "<"
    if image.encoding in UINT16_ENCODINGS:
        return without_false_depth(_pixels(image, np.dtype(f"{order}u2"), 1)[..., 0].astype(np.uint16))
    if image.encoding == METRES:
        metres = _pixels(image, np.dtype(f"{order}f4"), 1)[..., 0].astype(np.float64)
        with np.errstate(invalid="ignore"):
            units = np.rint(metres / unit_m)
            return np.where((units > 0) & (units < FALSE_DEPTH), units, 0).astype(np.uint16)
    raise InputError(f"encoding is {image.encoding!r}, depth is {', '.join(UINT16_ENCODINGS)} or {METRES}")


def rgb_pixels(image: RawImage) -> npt.NDArray[np.uint8]:
    """Return (height, width, 3) RGB, maybe a view of the message. Raises InputError."""
    if image.encoding not in CHANNELS:
        raise InputError(f"encoding is {image.encoding!r}, colour is {', '.join(CHANNELS)}")
    if max(image.width, image.height) > MAX_SIDE_PX:
        raise InputError(f"image is {image.width}x{image.height}, at most {MAX_SIDE_PX}x{MAX_SIDE_PX}")
    pixels = _pixels(image, np.dtype(np.uint8), CHANNELS[image.encoding]).astype(np.uint8, copy=False)
    if image.encoding in Y_FIRST:
        return _rgb_of_yuv(pixels, first=Y_FIRST[image.encoding])
    if image.encoding == "mono8":
        return np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    return pixels[..., 2::-1] if image.encoding.startswith("b") else pixels[..., :3]


def _rgb_of_yuv(pixels: npt.NDArray[np.uint8], *, first: bool) -> npt.NDArray[np.uint8]:
    if pixels.shape[1] % 2:
        raise InputError(f"image is {pixels.shape[1]} pixels wide, two pixels share a colour")
    wide = pixels.astype(np.int32)
    bright, color = (wide[..., 0], wide[..., 1]) if first else (wide[..., 1], wide[..., 0])
    y = np.maximum(bright - 16, 0) * 1220542 + (1 << 19)
    u, v = (np.repeat(color[:, part::2] - 128, 2, axis=1) for part in (0, 1))
    rgb = np.stack([y + 1673527 * v, y - 852492 * v - 409993 * u, y + 2116026 * u], axis=-1)
    clipped: npt.NDArray[np.uint8] = np.clip(rgb >> 20, 0, 255).astype(np.uint8)
    return clipped


def _pixels(image: RawImage, dtype: np.dtype[np.generic], channels: int) -> npt.NDArray[np.generic]:
    """Return a read-only view (height, width, channels) of the image, padding left out. Raises InputError."""
    row_bytes = image.width * channels * dtype.itemsize
    if image.step < row_bytes or len(image.data) != image.step * image.height:
        raise InputError(
            f"{len(image.data)} bytes in rows of {image.step} are no {image.width}x{image.height} {image.encoding}"
        )
    rows = np.frombuffer(image.data, dtype=np.uint8).reshape(image.height, image.step)[:, :row_bytes]
    return np.ascontiguousarray(rows).view(dtype).reshape(image.height, image.width, channels)
