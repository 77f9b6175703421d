"""Compressed images of ROS as plain ones: PNG depth of `compressed_depth_image_transport`, JPEG or PNG colour."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass, field

import numpy as np
from cyclonedds.idl import IdlStruct
from PIL import Image as Picture

from onboard.drivers.ros_types import Bytes, Header, Image

DEPTH_HEAD_BYTES = 12
"""Before the PNG: format and the two parameters of a quantisation that 16UC1 does not use."""
UNDECODABLE = (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error, Picture.DecompressionBombError)
SUFFIXES = ("/compressedDepth", "/compressed")


@dataclass
class CompressedImage(IdlStruct, typename="sensor_msgs.msg.dds_.CompressedImage_"):
    """format: "16UC1; compressedDepth png", "rgb8; jpeg compressed bgr8", "jpeg"."""

    header: Header = field(default_factory=Header)
    format: str = ""
    data: Bytes = b""


def plain(sample: CompressedImage) -> Image:
    """Return the image. One that cannot be decoded has no pixels and its format as encoding: cameras refuse it."""
    depth = "compressedDepth" in sample.format
    encoding = sample.format.partition(";")[0].strip()
    if depth and encoding != "16UC1":
        return Image(sample.header, encoding=sample.format)
    try:
        with Picture.open(io.BytesIO(sample.data[DEPTH_HEAD_BYTES if depth else 0 :])) as picture:
            pixels = np.asarray(picture).astype(np.uint16) if depth else np.asarray(picture.convert("RGB"))
    except UNDECODABLE:
        return Image(sample.header, encoding=sample.format)
    height, width = pixels.shape[:2]
    return Image(
        sample.header, height, width, "16UC1" if depth else "rgb8", 0, pixels.nbytes // height, pixels.tobytes()
    )


def uncompressed(topic: str) -> str:
    """Return the topic of the plain images that belong to one of compressed ones; any other as it is."""
    suffix = next((one for one in SUFFIXES if topic.endswith(one)), "")
    return topic.removesuffix(suffix)
