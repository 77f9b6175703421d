"""Raw colour: each encoding against its plain definition, and YUV against OpenCV, which `cv_bridge` uses."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from onboard.drivers.images.raw import CHANNELS, Raw, rgb_pixels
from onboard.values.errors import InputError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 4)).astype(np.uint8)
YUV = np.random.default_rng(1).integers(0, 256, (256, 256, 2)).astype(np.uint8)
BY_OPENCV = {"yuv422": cv2.COLOR_YUV2RGB_UYVY, "uyvy": cv2.COLOR_YUV2RGB_UYVY,
             "yuv422_yuy2": cv2.COLOR_YUV2RGB_YUY2, "yuyv": cv2.COLOR_YUV2RGB_YUY2}  # fmt: skip

#   encoding, pixels as they are sent, RGB
DEFINITIONS = [
    ("rgb8", PIXELS[..., :3], PIXELS[..., :3]),
    ("bgr8", PIXELS[..., :3], PIXELS[..., [2, 1, 0]]),
    ("rgba8", PIXELS, PIXELS[..., :3]),
    ("bgra8", PIXELS, PIXELS[..., [2, 1, 0]]),
    ("mono8", PIXELS[..., :1], PIXELS[..., [0, 0, 0]]),
    *((name, YUV, cv2.cvtColor(YUV, code)) for name, code in BY_OPENCV.items()),
]


def raw(encoding: str, pixels: np.ndarray, padding: int = 0) -> Raw:
    rows = [row.tobytes() + b"\xee" * padding for row in pixels]
    return Raw(len(pixels), pixels.shape[1], encoding, len(rows[0]), b"".join(rows))


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize(("encoding", "pixels", "rgb"), DEFINITIONS, ids=[row[0] for row in DEFINITIONS])
def test_colour_is_its_definition(encoding, pixels, rgb, padding):
    assert np.array_equal(rgb_pixels(raw(encoding, pixels, padding)), rgb)


def test_every_encoding_has_a_definition():
    assert set(CHANNELS) == {row[0] for row in DEFINITIONS}


#   image                                    what the message names
BAD = [
    (raw("bayer_rggb8", PIXELS[..., :1]), "'bayer_rggb8', colour is rgb8"),
    (raw("yuyv", YUV[:, :255]), "255 pixels wide"),
    (Raw(1 << 31, 1 << 31, "rgb8", 3 << 31, b""), "at most 4096x4096"),
    (Raw(2, 2, "rgba8", 6, bytes(12)), "12 bytes in rows of 6"),
]


@pytest.mark.parametrize(("image", "named"), BAD, ids=[row[1] for row in BAD])
def test_bad_colour_is_refused(image, named):
    with pytest.raises(InputError, match=named):
        rgb_pixels(image)
