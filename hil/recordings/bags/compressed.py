"""Compressed images of ROS: depth as PNG or RVL, of 16 bits or of quantised inverse metres; colour as JPEG or PNG.

Formats as of image_transport_plugins: `compressed_image_transport` and `compressed_depth_image_transport`. RVL: Wilson,
"Fast lossless depth image compression", ISS 2017.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from cyclonedds.idl import IdlStruct
from PIL import Image as Picture

from onboard.commands.scan import MAX_SIDE_PX
from onboard.drivers.dds.camera_input import UINT16_ENCODINGS
from onboard.drivers.dds.ros_types import Bytes, Header, Image

DEPTH_HEAD = struct.Struct("<iff")
"""Before compressed depth: format, and the two parameters of quantised inverse metres."""
RVL_HEAD = struct.Struct("<ii")
UNDECODABLE = (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error, Picture.DecompressionBombError)
METRES = "32FC1"


@dataclass
class CompressedImage(IdlStruct, typename="sensor_msgs.msg.dds_.CompressedImage_"):
    """format: "16UC1; compressedDepth png", "16UC1; png compressed ", "rgb8; jpeg compressed bgr8", "jpeg"."""

    header: Header = field(default_factory=Header)
    format: str = ""
    data: Bytes = b""


def plain(sample: CompressedImage) -> Image:
    """Return the decoded image. If decoding fails, it has no pixels and the format as encoding; cameras refuse it."""
    encoding = sample.format.partition(";")[0].strip()
    try:
        if "compressedDepth" in sample.format:
            encoding, pixels = _depth(sample.data, encoding, "rvl" in sample.format.lower())
        else:
            encoding, pixels = _picture(sample.data, encoding, sample.format)
    except UNDECODABLE:
        return Image(sample.header, encoding=sample.format)
    height, width = pixels.shape[:2]
    return Image(sample.header, height, width, encoding, 0, pixels.nbytes // height, pixels.tobytes())


def _picture(data: bytes, encoding: str, form: str) -> tuple[str, npt.NDArray[np.generic]]:
    """Return encoding and pixels of a PNG or JPEG. Raises UNDECODABLE."""
    with Picture.open(io.BytesIO(data)) as picture:
        if picture.mode.startswith("I"):  # 16 bits, which only depth and thermal cameras have
            return encoding if encoding in UINT16_ENCODINGS else "16UC1", _of_16_bits(np.asarray(picture))
        if encoding in (*UINT16_ENCODINGS, METRES) or (picture.mode == "L" and "bayer" in form.rpartition(" ")[2]):
            raise ValueError("depth in 8 bits, or a mosaic of colours")
        return "rgb8", np.asarray(picture.convert("RGB"))


def _depth(data: bytes, encoding: str, rvl: bool) -> tuple[str, npt.NDArray[np.generic]]:
    """Return encoding and pixels of compressed depth. Raises UNDECODABLE."""
    _, scale, offset = DEPTH_HEAD.unpack_from(data)
    body = data[DEPTH_HEAD.size :]
    if rvl:
        width, height = RVL_HEAD.unpack_from(body)
        if not (0 < width <= MAX_SIDE_PX and 0 < height <= MAX_SIDE_PX):
            raise ValueError("no size of an image")
        pixels = rvl_pixels(body[RVL_HEAD.size :], width * height).reshape(height, width)
    else:
        with Picture.open(io.BytesIO(body)) as picture:
            pixels = _of_16_bits(np.asarray(picture))
    if encoding in UINT16_ENCODINGS:
        return encoding, pixels
    if encoding != METRES or not (math.isfinite(scale) and math.isfinite(offset) and scale > 0.0):
        raise ValueError("not depth")
    with np.errstate(divide="ignore"):
        metres = scale / (pixels.astype(np.float64) - offset)
    return METRES, np.where((pixels > 0) & (metres > 0.0), metres, np.nan).astype("<f4")


def _of_16_bits(pixels: npt.NDArray[np.generic]) -> npt.NDArray[np.uint16]:
    if pixels.ndim != 2 or pixels.dtype.itemsize < 2 or pixels.min() < 0 or pixels.max() > np.iinfo(np.uint16).max:
        raise ValueError("not an image of 16 bits")
    return pixels.astype("<u2")


def rvl_pixels(data: bytes, count: int) -> npt.NDArray[np.uint16]:
    """Return (count,) pixels. Raises ValueError for data that hold another number of them.

    Numbers have groups of 4 bits, the first in the highest bits of a word: three bits of the number, the lowest first,
    and whether another group follows. A run is: how many zeros, how many others, and each other's step from the last
    one, with the sign in its lowest bit.
    """
    words = np.frombuffer(data[: len(data) // 4 * 4], "<u4")
    groups = (words[:, None] >> np.arange(28, -1, -4, dtype=np.uint32) & 15).ravel().astype(np.int64)
    last = np.flatnonzero(groups < 8)
    if not last.size:
        raise ValueError("RVL without a number")
    first = np.concatenate([[0], last[:-1] + 1])
    place = np.arange(last[-1] + 1) - np.repeat(first, last - first + 1)
    if place.max() > 10:
        raise ValueError("RVL with a number of more than 32 bits")
    numbers = np.add.reduceat((groups[: last[-1] + 1] & 7) << 3 * place, first)
    filled, steps, at, done = np.zeros(count, np.bool_), np.zeros(len(numbers), np.bool_), 0, 0
    while done < count:
        zeros, others = numbers[at : at + 2].tolist() if at + 2 <= len(numbers) else (count, count)
        begin, done, at = done + zeros, done + zeros + others, at + 2 + others
        if done > count or at > len(numbers):
            raise ValueError("RVL of another size, or cut")
        filled[begin:done] = steps[at - others : at] = True
    pixels = np.zeros(count, np.uint16)
    pixels[filled] = np.cumsum((numbers[steps] >> 1) ^ -(numbers[steps] & 1)).astype(np.uint16)
    return pixels
