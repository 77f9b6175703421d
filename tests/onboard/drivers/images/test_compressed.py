"""Compressed images: what PNG, JPEG and RVL hold, and what is refused."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image as Picture

from hil.recordings.bags.bag import plain
from onboard.config.config import DEFAULT_ROBOT, DdsSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.camera_input import as_sent, color_from_ros, depth_from_ros, uncompressed
from onboard.drivers.dds.ros_convert import ros_image
from onboard.drivers.dds.ros_types import CompressedImage
from onboard.drivers.images.compressed import rvl_pixels
from onboard.values.errors import InputError
from onboard.values.images import policy_image
from tests.rigs.recordings.bag_rig import rvl

DEPTH = np.arange(12, dtype=np.uint16).reshape(3, 4) * 1000
COLOR = np.full((4, 6, 3), (200, 100, 50), np.uint8)


def packed(image: np.ndarray, kind: str) -> bytes:
    stream = io.BytesIO()
    Picture.fromarray(image).save(stream, kind)
    return stream.getvalue()


def test_compressed_images_are_those_that_were_compressed():
    depth = plain(CompressedImage(format="16UC1; compressedDepth png", data=bytes(12) + packed(DEPTH, "png")))
    assert (depth.encoding, depth.width, depth.height, depth.step) == ("16UC1", 4, 3, 8)
    assert depth.data == DEPTH.tobytes()
    for kind in ("jpeg", "png"):
        color = plain(CompressedImage(format=kind, data=packed(COLOR, kind)))
        assert (color.encoding, color.width, color.height, color.step) == ("rgb8", 6, 4, 18)
        assert np.allclose(np.frombuffer(color.data, np.uint8).reshape(4, 6, 3), COLOR, atol=3)


@pytest.mark.parametrize("form", ["16UC1; png compressed ", "png", "16UC1;png compressed", "mono16; png compressed "])
def test_depth_that_is_compressed_as_a_plain_png_is_depth(form):
    image = plain(CompressedImage(format=form, data=packed(DEPTH, "png")))
    assert image.encoding == ("mono16" if "mono" in form else "16UC1")
    assert (image.width, image.height, image.data) == (4, 3, DEPTH.tobytes())


def test_quantised_inverse_metres_come_back():
    """Formula of compressed_depth_image_transport: inverse = scale / depth + offset."""
    metres = np.array([[0.5, 1.0, 4.0, 0.0], [9.0, 2.5, 0.0, 7.25]])
    scale, offset = 100.0 * 101.0, 1.0 - 100.0 * 101.0 / 10.0
    with np.errstate(divide="ignore"):
        inverse = np.where(metres > 0.0, np.rint(scale / metres + offset + 1010.0), 0).astype(np.uint16)
    head = np.array([0], "<i4").tobytes() + np.array([scale, offset + 1010.0], "<f4").tobytes()
    for form, body in (("png", packed(inverse, "png")), ("rvl", np.array([4, 2], "<i4").tobytes() + rvl(inverse))):
        image = plain(CompressedImage(format=f"32FC1; compressedDepth {form}", data=head + body))
        assert (image.encoding, image.width, image.height, image.step) == ("32FC1", 4, 2, 16)
        read = np.frombuffer(image.data, np.float32).reshape(2, 4)
        assert np.isnan(read[metres == 0.0]).all()
        np.testing.assert_allclose(read[metres > 0.0], metres[metres > 0.0], rtol=5e-3)


def test_rvl_is_read_as_the_codec_of_ros_writes_it():
    """The bytes were written by the codec of compressed_depth_image_transport."""
    pixels = [0, 0, 1000, 1003, 999, 0, 65535, 1, 0, 0, 0, 0]
    data = bytes.fromhex("67f38a23f38c8e1240f3ffbf")
    assert rvl(np.array(pixels)) == data
    assert rvl_pixels(data, 12).tolist() == pixels
    for wrong, count in ((data[:8], 12), (data, 11), (data, 40), (b"", 12), (b"\xff" * 64, 12)):
        with pytest.raises(ValueError, match="RVL"):
            rvl_pixels(wrong, count)


#   format                              data
UNDECODABLE = [
    ("32FC1; compressedDepth png", bytes(12) + packed(DEPTH, "png")),
    ("16UC1; jpeg compressed ", packed(COLOR, "jpeg")),
    ("32FC1; tiff compressed ", b"II*\0" + bytes(40)),
    ("16UC1; compressedDepth png", bytes(12) + packed(COLOR, "png")),
    ("bayer_rggb8; png compressed bayer_rggb8", packed(COLOR[..., 0], "png")),
    ("16UC1; compressedDepth rvl", bytes(12) + np.array([4, 3], "<i4").tobytes() + b"\x10\0\0\0"),
    ("16UC1; compressedDepth rvl", bytes(12) + np.array([1 << 20, 1 << 20], "<i4").tobytes() + bytes(64)),
    ("16UC1; compressedDepth rvl", bytes(12)),
    ("16UC1; compressedDepth png", packed(DEPTH, "png")[:40]),
    ("16UC1; compressedDepth rvl", bytes(30)),
    ("jpeg", b""),
    ("png", packed(COLOR, "png")[:45]),
]


@pytest.mark.parametrize(("form", "data"), UNDECODABLE, ids=[f"{form} {len(data)}" for form, data in UNDECODABLE])
def test_an_image_that_cannot_be_decoded_has_no_pixels(form, data):
    image = plain(CompressedImage(format=form, data=data))
    assert (image.encoding, image.width, image.data) == (form, 0, b"")
    with pytest.raises(InputError, match="send PNG, JPEG or RVL"):
        uncompressed(CompressedImage(format=form, data=data))


def plain_rvl(data: bytes, count: int) -> list[int] | None:
    """Return the pixels, number by number; None for data that hold another number of them."""
    groups = [
        word >> shift & 15
        for word in np.frombuffer(data[: len(data) // 4 * 4], "<u4").tolist()
        for shift in range(28, -1, -4)
    ]
    numbers, number, place = [], 0, 0
    for group in groups:
        number |= (group & 7) << 3 * place
        place += 1
        if group < 8:
            numbers.append(number if place <= 11 else None)
            number, place = 0, 0
    pixels, last, rest = [], 0, iter(numbers)
    try:
        while len(pixels) < count:
            zeros, others = next(rest), next(rest)
            if zeros is None or others is None or len(pixels) + zeros + others > count:
                return None
            pixels += [0] * zeros
            for _ in range(others):
                step = next(rest)
                last += (step >> 1) ^ -(step & 1)
                pixels.append(last % 65536)
    except (StopIteration, TypeError):
        return None
    return pixels


@given(st.binary(max_size=64), st.integers(1, 60))
@example(b"\xff\xff\xff\xff\xff\xff\xff\xff", 3)
@example(bytes(64), 3)
def test_rvl_of_any_bytes_is_its_definition(data, count):
    expected = plain_rvl(data, count)
    if expected is None:
        with pytest.raises(ValueError, match="RVL"):
            rvl_pixels(data, count)
    else:
        assert rvl_pixels(data, count).tolist() == expected


def test_images_of_opencv_are_read_as_opencv_reads_them():
    """`cv_bridge` and image_transport compress by OpenCV."""
    color = np.random.default_rng(0).integers(0, 256, (90, 160, 3)).astype(np.uint8)
    for encoding, kind in (("bgr8", "jpeg"), ("bgr8", "png"), ("mono8", "png")):
        data = cv2.imencode(f".{kind}", color[..., 0] if encoding == "mono8" else color)[1].tobytes()
        expected = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
        sample = CompressedImage(format=f"{encoding}; {kind} compressed {encoding}", data=data)
        assert np.array_equal(color_from_ros(sample), policy_image(np.ascontiguousarray(expected)))


@pytest.mark.parametrize("end", ["", "/compressed", "/compressedDepth"])
def test_what_the_simulator_sends_comes_back(end):
    front = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth["front"]
    depth = np.random.default_rng(0).integers(0, 65535, (front.height, front.width)).astype(np.uint16)
    color = np.random.default_rng(0).integers(0, 256, (144, 256, 3)).astype(np.uint8)
    section = DdsSection(remap={"front/depth/image": f"/a/depth{end}", "color/image": f"/a/color{end[:11]}"})
    sent = as_sent(ros_image(0, "", "16UC1", depth), section, "front/depth/image")
    assert isinstance(sent, CompressedImage) == bool(end)
    assert np.array_equal(depth_from_ros(sent, front), depth)
    assert np.array_equal(color_from_ros(as_sent(ros_image(0, "", "rgb8", color), section, "color/image")), color)
