"""What happens to images: by the generator alone, within range, and nothing where nothing is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from engines.encoder.augmentation import blurred, compressed, motion_blurred
from engines.encoder.config import BlurSection

NOTHING = BlurSection(soft=0.0, motion=0.0, jpeg=0.0, exposure=1.0, gamma=1.0, tint=0.0, colour=(1.0, 1.0), noise=0.0)


def picture(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (144, 256, 3), np.uint8)


def edge() -> np.ndarray:
    """Black at the left, grey at the right."""
    image = np.zeros((144, 256, 3), np.uint8)
    image[:, 128:] = 100
    return image


def test_nothing_happens_where_nothing_is_asked_for():
    np.testing.assert_array_equal(blurred(picture(), NOTHING, np.random.default_rng(1)), picture())


def test_the_same_generator_gives_the_same_image_and_another_one_another():
    first, again, other = (blurred(picture(), BlurSection(), np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.5
    assert first.shape == (144, 256, 3)
    assert first.dtype == np.uint8


def test_the_image_given_stays_as_it_is():
    image = picture()
    image.setflags(write=False)
    blurred(image, BlurSection(soft=1.0, motion=1.0, jpeg=1.0), np.random.default_rng(3))
    np.testing.assert_array_equal(image, picture())


#    what happens      section                                             mean at the right
KINDS = [
    ("exposure", NOTHING.model_copy(update={"exposure": 1.5}), (100 / 1.5, 150.0)),
    ("gamma", NOTHING.model_copy(update={"gamma": 1.3}), (70.0, 130.0)),
    ("noise", NOTHING.model_copy(update={"noise": 8.0}), (99.0, 101.0)),
    ("compression", NOTHING.model_copy(update={"jpeg": 1.0}), (95.0, 105.0)),
]


@pytest.mark.parametrize(("name", "section", "limits"), KINDS, ids=[row[0] for row in KINDS])
def test_each_kind_stays_within_its_limits(name, section, limits):
    means = [blurred(edge(), section, np.random.default_rng(seed))[:, 160:].mean() for seed in range(20)]
    assert limits[0] <= min(means)
    assert max(means) <= limits[1]
    assert np.ptp(means) > 0.0


def test_a_turn_spreads_an_edge_along_the_row_only():
    planes = edge().astype(np.float32)
    wide = motion_blurred(planes, 5)
    assert (np.diff(wide[0, :, 0]) > 0).sum() == 5
    np.testing.assert_allclose(wide.mean(), planes.mean(), rtol=0.02)
    np.testing.assert_array_equal(motion_blurred(planes.transpose(1, 0, 2), 5), planes.transpose(1, 0, 2))


def test_one_pixel_of_turning_is_none():
    planes = picture().astype(np.float32)
    np.testing.assert_array_equal(motion_blurred(planes, 1), planes)


def test_worse_compression_is_farther_from_the_image():
    ramp = np.add.outer(np.arange(144), np.arange(256)) // 2
    image = np.stack([ramp, ramp[::-1], ramp[:, ::-1]], axis=-1).astype(np.uint8)
    worse, better = (np.abs(compressed(image, quality).astype(int) - image).mean() for quality in (40, 95))
    assert worse > 1.5 * better > 0
