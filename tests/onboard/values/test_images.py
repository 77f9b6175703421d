"""The policy's colour image is the exact mean over blocks, halves rounded up."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.values.errors import InputError
from onboard.values.images import MAX_FACTOR, POLICY_HEIGHT, POLICY_WIDTH, area_average, covered, policy_image


def plain_average(image: npt.NDArray[np.uint8], height: int, width: int) -> npt.NDArray[np.uint8]:
    """The definition in exact fractions, pixel by pixel."""
    rows, columns = image.shape[0] // height, image.shape[1] // width
    result = np.empty((height, width, 3), dtype=np.uint8)
    for y, x, channel in np.ndindex(result.shape):
        block = image[y * rows : (y + 1) * rows, x * columns : (x + 1) * columns, channel]
        result[y, x, channel] = floor(Fraction(int(block.sum(dtype=np.int64)), block.size) + Fraction(1, 2))
    return result


@given(
    height=st.integers(1, 4),
    width=st.integers(1, 4),
    rows=st.integers(1, MAX_FACTOR),
    columns=st.integers(1, MAX_FACTOR),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_definition(height: int, width: int, rows: int, columns: int, seed: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (height * rows, width * columns, 3), dtype=np.uint8)
    assert np.array_equal(area_average(image, height, width), plain_average(image, height, width))


def plain_policy_image(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The definition: the middle 16:9, then the mean over each new pixel's area, halves rounded up."""
    height, width = image.shape[:2]
    high, wide = (height, max(height * 16 // 9, 1)) if width * 9 > height * 16 else (max(width * 9 // 16, 1), width)
    top, left = (height - high) // 2, (width - wide) // 2
    middle = image[top : top + high, left : left + wide].astype(np.float64)
    across = plain_overlap(wide, POLICY_WIDTH)
    down = plain_overlap(high, POLICY_HEIGHT)
    sums = np.stack([down @ middle[..., channel] @ across.T for channel in range(3)], axis=-1)
    sums = sums.astype(np.int64)  # exact: below 2**53
    return ((2 * sums + high * wide) // (2 * high * wide)).astype(np.uint8)


def plain_overlap(size: int, count: int) -> npt.NDArray[np.float64]:
    """Return (count, size): how much of each pixel is in each of `count` equal parts, in units of 1/count pixel."""
    part, pixel = np.arange(count)[:, np.newaxis], np.arange(size)
    return 1.0 * np.maximum(
        np.minimum((part + 1) * size, (pixel + 1) * count) - np.maximum(part * size, pixel * count), 0
    )


SIZES = [
    (480, 640), (1080, 1920), (800, 1280), (720, 1280), (480, 848), (240, 424), (144, 256), (72, 128), (3, 2), (1, 1),
    (1, 400),
]  # fmt: skip


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_an_image_of_any_size_equals_the_definition(height: int, width: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    assert np.array_equal(policy_image(image), plain_policy_image(image))


def test_the_largest_image_is_summed_exactly() -> None:
    assert (policy_image(np.full((4095, 4096, 3), 255, np.uint8)) == 255).all()


def test_every_sum_of_a_camera_block_is_rounded_exactly() -> None:
    sums = np.arange(25 * 255 + 1)
    blocks = np.repeat((sums // 25)[:, None], 25, axis=1) + (np.arange(25) < (sums % 25)[:, None])
    strip = blocks.reshape(-1, 5, 5).transpose(1, 0, 2).reshape(5, -1).astype(np.uint8)
    averaged = area_average(np.repeat(strip[:, :, None], 3, axis=2), 1, len(sums))
    assert np.array_equal(averaged[0, :, 1], (2 * sums + 25) // 50)


def test_an_image_of_the_policys_size_is_copied_not_shared() -> None:
    image = np.random.default_rng(1).integers(0, 256, (POLICY_HEIGHT, POLICY_WIDTH, 3), dtype=np.uint8)
    small = policy_image(image)
    assert np.array_equal(small, image)
    assert not np.shares_memory(small, image)


#   name                 image                                          part of the message
REFUSED = [
    ("empty", np.zeros((0, 640, 3), np.uint8), "shape (0, 640, 3)"),
    ("grey", np.zeros((720, 1280), np.uint8), "shape (720, 1280)"),
    ("with alpha", np.zeros((720, 1280, 4), np.uint8), "shape (720, 1280, 4)"),
    ("float", np.zeros((720, 1280, 3), np.float32), "float32"),
]


@pytest.mark.parametrize(("name", "image", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refuses(name: str, image: npt.NDArray[np.uint8], message: str) -> None:
    with pytest.raises(InputError) as error:
        policy_image(image)
    assert message in str(error.value)


#   valid of 100 pixels, covered
COVERED = [(0, True), (4, True), (5, False), (100, False)]


@pytest.mark.parametrize(("valid", "is_covered"), COVERED)
def test_too_few_valid_pixels_are_a_covered_lens(valid: int, is_covered: bool) -> None:
    assert bool(covered(valid, 100)) == is_covered


def test_a_covered_lens_is_told_with_its_limit() -> None:
    assert covered(1, 80) == "covered: 1.2 % valid pixels, limit 5 %"
