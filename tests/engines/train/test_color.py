"""The last stage: colour joins a policy, changes nothing without an image, and learns what helps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from engines.train import color
from engines.train.batched.config import NetworkSection
from engines.train.batched.policy import PaperPolicy
from onboard.config.pretrained import pretrained
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.contract import ACTIONS
from onboard.policy.manifest import load_manifest
from onboard.policy.parity import random_inputs
from onboard.values.errors import InputError

STUDENT = Path(__file__).parents[3] / "docs" / "results" / "onboard-v2" / "policy.onnx"
SHIPPED = pretrained("onboard-v2")


def test_without_an_image_the_shipped_policy_is_the_one_that_was_trained_without_colour():
    rng, engines = np.random.default_rng(0), [OnnxEngine(file, threads=1) for file in (STUDENT, SHIPPED)]
    memory = {"memory_in": rng.standard_normal(load_manifest(STUDENT).memory[0].shape).astype(np.float32)}
    given = {**random_inputs(load_manifest(SHIPPED), rng), **memory}
    seen, without = given["rgb"], np.zeros_like(given["rgb"])
    alone = engines[0].run({name: value for name, value in given.items() if name != "rgb"})
    blind, seeing = (engines[1].run({**given, "rgb": image}) for image in (without, seen))
    for name in ("logits", "memory_out"):
        np.testing.assert_allclose(blind[name], alone[name], atol=1e-5)
        assert np.abs(seeing[name] - alone[name]).max() > 1e-4


def test_a_model_without_colour_has_no_encoder_and_one_with_colour_takes_no_second():
    with pytest.raises(InputError, match=r"policy\.onnx: has no colour encoder"):
        color.encoder_of(STUDENT)
    with pytest.raises(InputError, match=r"onboard-v2\.onnx: has a colour encoder already"):
        color.joined(SHIPPED, color.encoder_of(SHIPPED), np.zeros((1536, 512), np.float32))


def test_the_weights_of_colour_go_behind_those_of_the_other_features():
    weights = np.random.default_rng(1).standard_normal((1536, 512)).astype(np.float16).astype(np.float32)
    graph = color.joined(STUDENT, color.encoder_of(SHIPPED), weights).graph
    wide = next(onnx.numpy_helper.to_array(one) for one in graph.initializer if list(one.dims) == [1, 1536, 928])
    np.testing.assert_array_equal(wide[0, :, 416:], weights)


def test_it_learns_what_the_image_tells_and_the_rest_of_the_policy_stays():
    torch.manual_seed(0)
    policy = PaperPolicy(NetworkSection(channels=(4, 4, 4), scan=8, hidden=8, vector=4, action=4, memory=16, layers=1))
    policy.sharpen(300.0)  # a new policy has nearly equal logits, whatever its memory
    before, rng = {name: value.clone() for name, value in policy.state_dict().items()}, np.random.default_rng(2)
    found = []
    for _ in range(8):
        image = rng.integers(2, size=12)
        taught = np.zeros((12, len(ACTIONS)), np.float32)
        taught[np.arange(12), 3 + image] = 6.0
        scan, state = rng.random((12, 180), np.float32), np.zeros((12, 13), np.float32)
        found.append(color.Driven(scan, state, np.stack([image, 1 - image], 1).astype(np.float32), taught))
    _, numbers = color.learn(policy, found)
    assert numbers["divergence_nats"] < 0.97 * numbers["divergence_without_images_nats"]
    assert all(torch.equal(value, before[name]) for name, value in policy.state_dict().items())
