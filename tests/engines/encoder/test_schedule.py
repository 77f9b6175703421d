"""Which views a step sees, how large, which way round, and how fast it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.encoder.cache import Views
from engines.encoder.config import EncoderSection, PhaseSection, ViewsSection
from engines.encoder.schedule import Batch, batch_of, images_of, learning_rate, steps_of
from onboard.policy.encode import RgbScale, rgb_tensor
from onboard.values.messages import ColorFrame

SECTION = EncoderSection(
    views=ViewsSection(count=10),
    phases=(PhaseSection(shrink=4, epochs=1.2), PhaseSection(shrink=2, epochs=1.0), PhaseSection(shrink=1, epochs=0.4)),
    batch=4,
)


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    frames = tuple(rng.integers(0, 256, (2, 144, 256, 3), np.uint8) for _ in range(2))
    return Views(frames, rng.uniform(0.1, 10.0, (4, 45)).astype(np.float32), 2)


def batch(shrink: int = 1, mirrored: bool = False) -> Batch:
    return Batch(np.array([2, 0]), np.array([mirrored, False]), shrink)


def test_phases_follow_each_other():
    assert steps_of(SECTION) == 3 + 2 + 1
    assert [batch_of(SECTION, 0, step).shrink for step in range(6)] == [4, 4, 4, 2, 2, 1]


@settings(max_examples=20)
@given(st.integers(0, 2**31), st.integers(1, 10))
def test_each_view_comes_once_an_epoch(seed, size):
    section = EncoderSection(views=ViewsSection(count=10), phases=(PhaseSection(shrink=1, epochs=9.0),), batch=size)
    seen = np.concatenate([batch_of(section, seed, step).indices for step in range(steps_of(section))])
    for epoch in range(len(seen) // 10):
        assert sorted(seen[10 * epoch : 10 * epoch + 10]) == list(range(10))


def test_a_step_is_a_function_of_seed_and_number():
    first, same, other = batch_of(SECTION, 1, 2), batch_of(SECTION, 1, 2), batch_of(SECTION, 2, 2)
    np.testing.assert_array_equal(first.indices, same.indices)
    np.testing.assert_array_equal(first.mirrored, same.mirrored)
    assert (first.indices != other.indices).any()


def test_in_each_phase_the_rate_rises_then_falls_to_its_end():
    phases = (PhaseSection(shrink=2, epochs=2.0), PhaseSection(shrink=1, epochs=1.0, rate=0.4))
    section = EncoderSection(views=ViewsSection(count=1600), phases=phases, warm_up=0.1, final=0.05)
    rates = np.array([learning_rate(section, step) for step in range(steps_of(section))])
    for part, highest in ((rates[:200], section.learning_rate), (rates[200:], 0.4 * section.learning_rate)):
        top = int(part.argmax())
        assert (np.diff(part[: top + 1]) > 0).all()
        assert (np.diff(part[top:]) < 0).all()
        assert part.max() == pytest.approx(highest, rel=1e-2)
        assert part[-1] == pytest.approx(0.05 * highest, rel=0.02)


def test_images_are_what_the_contract_makes_of_them(views):
    images, labels = images_of(views, batch(), torch.device("cpu"))
    for place, number in enumerate((2, 0)):
        frame = ColorFrame(0, 0, views.images([number])[0])
        np.testing.assert_array_equal(images[place].numpy(), rgb_tensor(frame, RgbScale())[0])
        np.testing.assert_array_equal(labels[place].numpy(), views.labels[number])


def test_a_mirrored_view_is_mirrored_in_image_and_ranges_but_not_in_its_way(views):
    plain, labels = images_of(views, batch(), torch.device("cpu"))
    turned, mirrored = images_of(views, batch(mirrored=True), torch.device("cpu"))
    assert torch.equal(turned[0], plain[0].flip(2))
    assert torch.equal(mirrored[0, :44], labels[0, :44].flip(0))
    assert mirrored[0, 44] == labels[0, 44]
    assert torch.equal(turned[1], plain[1])
    assert torch.equal(mirrored[1], labels[1])


def test_a_shrunk_image_is_the_mean_of_its_blocks(views):
    full, _ = images_of(views, batch(), torch.device("cpu"))
    small, _ = images_of(views, batch(shrink=4), torch.device("cpu"))
    assert small.shape == (2, 3, 36, 64)
    expected = full.reshape(2, 3, 36, 4, 64, 4).mean(dim=(3, 5))
    torch.testing.assert_close(small, expected)
