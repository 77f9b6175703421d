"""Features of images, many at once, are those of the network's own way; weights go into a file and out of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from engines.network.encoder_features import encode_images, load_encoder, memory_format_of, save_encoder
from engines.network.network import TINY, untrained
from onboard.policy.encode import RgbScale, rgb_tensor
from onboard.values.errors import InputError
from onboard.values.messages import ColorFrame

EIGHT = replace(TINY, planes=8)
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 144, 256, 3), np.uint8)
SCALES = [("default", None), ("another", RgbScale(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4)))]


@pytest.mark.parametrize("widths", [TINY, EIGHT], ids=["4 planes", "8 planes"])
@pytest.mark.parametrize(("name", "scale"), SCALES, ids=[row[0] for row in SCALES])
def test_features_are_the_network_s_own(widths, name, scale):
    rgb = untrained(0, widths).rgb
    with torch.no_grad():
        planes = [rgb_tensor(ColorFrame(0, 0, image), scale or RgbScale()) for image in IMAGES]
        expected = rgb(torch.from_numpy(np.concatenate(planes)))
    found = encode_images(rgb, IMAGES, scale, batch=2)
    assert found.shape == (5, widths.rgb)
    assert not found.requires_grad
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_module_in_training_is_read_with_what_it_learned_and_stays_in_training():
    rgb = untrained(0, TINY).rgb
    expected = encode_images(rgb, IMAGES)
    rgb.train()
    statistics = {name: value.clone() for name, value in rgb.named_buffers()}
    assert torch.equal(encode_images(rgb, IMAGES), expected)
    assert rgb.training
    assert all(torch.equal(value, statistics[name]) for name, value in rgb.named_buffers())


def test_channels_come_last_only_where_that_is_safe():
    assert memory_format_of(untrained(0, TINY).rgb) == torch.contiguous_format
    assert memory_format_of(untrained(0, EIGHT).rgb) == torch.channels_last


def test_weights_go_through_a_file(tmp_path):
    one, other = untrained(1, EIGHT).rgb.to(memory_format=torch.channels_last), untrained(2, EIGHT).rgb
    save_encoder(tmp_path / "encoder.pt", one)
    load_encoder(other, tmp_path / "encoder.pt")
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


def test_a_policy_takes_the_file_as_part_of_its_weights(tmp_path):
    save_encoder(tmp_path / "encoder.pt", untrained(1, TINY).rgb)
    network = untrained(2, TINY)
    found = network.load_state_dict(torch.load(tmp_path / "encoder.pt", weights_only=True), strict=False)
    assert found.unexpected_keys == []
    assert not [name for name in found.missing_keys if name.startswith("rgb.")]


def test_weights_that_are_not_finite_are_refused_in_one_line(tmp_path):
    one = untrained(1, TINY).rgb
    with torch.no_grad():
        next(one.parameters()).view(-1)[0] = torch.inf
    save_encoder(tmp_path / "encoder.pt", one)
    with pytest.raises(InputError, match=r"encoder\.pt: \S+: 1 of \d+ numbers are not finite; use another file$"):
        load_encoder(untrained(2, TINY).rgb, tmp_path / "encoder.pt")


def test_weights_of_other_widths_are_refused_in_one_line(tmp_path):
    save_encoder(tmp_path / "encoder.pt", untrained(1, EIGHT).rgb)
    with pytest.raises(InputError, match=r"encoder\.pt: not the weights of this encoder: .*shape") as caught:
        load_encoder(untrained(2, TINY).rgb, tmp_path / "encoder.pt")
    assert "\n" not in str(caught.value)
