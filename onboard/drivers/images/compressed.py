"""Compressed images of ROS: depth as PNG or RVL, of 16 bits or of quantised inverse metres; colour as JPEG or PNG.

Formats as of image_transport_plugins: `compressed_image_transport` and `compressed_depth_image_transport`. RVL: Wilson,
"Fast lossless depth image compression", ISS 2017.
"""

from __future__ import annotations

import io
import math
import struct
import zlib

import numpy as np
import numpy.typing as npt
from PIL import Image as Picture

from onboard.drivers.images.raw import DEPTH_ENCODINGS, MAX_SIDE_PX, METRES, UINT16_ENCODINGS, Raw
from onboard.values.errors import InputError
from onboard.values.kernel import kernel

READ = ("PNG", "JPEG")
DEPTH_HEAD = struct.Struct("<iff")
"""Before compressed depth: format, and the two parameters of quantised inverse metres."""
RVL_HEAD = struct.Struct("<ii")
UNDECODABLE = (
    OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, OverflowError, struct.error, zlib.error,
    Picture.DecompressionBombError,
)  # fmt: skip
"""Errors of Pillow for damaged data."""


def decoded(form: str, data: bytes) -> Raw:
    """Return the image of a `sensor_msgs/CompressedImage`. Raises InputError with its format.

    form: "16UC1; compressedDepth png", "16UC1; png compressed ", "rgb8; jpeg compressed bgr8", "jpeg"
    """
    encoding = form.partition(";")[0].strip()
    try:
        if "compressedDepth" in form:
            encoding, pixels = _depth(data, encoding, "rvl" in form.lower())
        else:
            encoding, pixels = _picture(data, encoding, form)
    except UNDECODABLE as error:
        why = str(error) or type(error).__name__
        line = f"its data of format {form!r} cannot be read, or are damaged ({why}); send PNG, JPEG or RVL"
        raise InputError(line) from error
    height, width = pixels.shape[:2]
    return Raw(height, width, encoding, pixels.nbytes // height, pixels.tobytes())


def encoded(image: npt.NDArray[np.generic], *, head: bool) -> tuple[str, bytes]:
    """Return format and data of a PNG for a compressed topic; with the head of compressedDepth.

    image: (height, width) uint16 depth, or (height, width, 3) RGB
    """
    stream = io.BytesIO()
    stream.write(bytes(DEPTH_HEAD.size if head else 0))
    Picture.fromarray(image).save(stream, "png")
    name = "rgb8" if image.ndim == 3 else "16UC1"
    return f"{name}; {'compressedDepth png' if head else 'png compressed '}", stream.getvalue()


def _opened(data: bytes) -> Picture.Image:
    """Return a PNG or JPEG whose pixels are not decoded yet. Raises UNDECODABLE."""
    picture = Picture.open(io.BytesIO(data), formats=READ)
    if max(picture.size) > MAX_SIDE_PX:
        raise ValueError(f"{picture.width}x{picture.height} pixels, at most {MAX_SIDE_PX}x{MAX_SIDE_PX}")
    return picture


def _picture(data: bytes, encoding: str, form: str) -> tuple[str, npt.NDArray[np.generic]]:
    """Return encoding and pixels of a PNG or JPEG. Raises UNDECODABLE."""
    with _opened(data) as picture:
        if picture.mode.startswith("I"):  # 16 bits, which only depth and thermal cameras have
            return encoding if encoding in UINT16_ENCODINGS else "16UC1", _of_16_bits(np.asarray(picture))
        if encoding in DEPTH_ENCODINGS or (picture.mode == "L" and "bayer" in form.rpartition(" ")[2]):
            raise ValueError("depth in 8 bits, or a mosaic of colours")
        return "rgb8", np.asarray(picture.convert("RGB"))


def _depth(data: bytes, encoding: str, rvl: bool) -> tuple[str, npt.NDArray[np.generic]]:
    """Return encoding and pixels of compressed depth. Raises UNDECODABLE."""
    _, scale, offset = DEPTH_HEAD.unpack_from(data)
    body = data[DEPTH_HEAD.size :]
    if rvl:
        width, height = RVL_HEAD.unpack_from(body)
        if not (0 < width <= MAX_SIDE_PX and 0 < height <= MAX_SIDE_PX):
            raise ValueError("not a valid size of an image")
        pixels = rvl_pixels(body[RVL_HEAD.size :], width * height).reshape(height, width)
    else:
        with _opened(body) as picture:
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
    pixels = np.zeros(count, np.uint16)
    if not _fill(np.frombuffer(data[: len(data) // 4 * 4], "<u4"), pixels):
        raise ValueError("RVL of another size, or truncated")
    return pixels


def warm_up() -> None:
    """Compile the decoder of RVL."""
    _fill(np.frombuffer(bytes(4), "<u4"), np.zeros(1, np.uint16))


@kernel
def _fill(words: npt.NDArray[np.uint32], pixels: npt.NDArray[np.uint16]) -> bool:
    """Fill `pixels` in place; False if the words hold another number of them. Its definition is in its test."""
    groups, group, done, value = 8 * len(words), 0, 0, 0
    zeros, others, phase = 0, 0, 0
    while done < len(pixels):
        number, shift = 0, 0
        while True:
            if group >= groups or shift > 30:
                return False
            bits = (np.int64(words[group // 8]) >> (28 - 4 * (group % 8))) & 15
            number |= (bits & 7) << shift
            shift += 3
            group += 1
            if bits < 8:
                break
        if phase == 0:
            zeros, phase = number, 1
            continue
        if phase == 1:
            others, phase = number, 2
            if zeros + others > len(pixels) - done:
                return False
            done += zeros
        else:
            value += (number >> 1) ^ -(number & 1)
            pixels[done] = value & 0xFFFF
            done += 1
            others -= 1
        if others == 0:
            phase = 0
    return True
