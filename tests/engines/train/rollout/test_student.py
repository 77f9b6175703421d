"""All lanes' decisions in one pass are each lane's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from engines.network.network import TINY, Variant, untrained
from engines.train.rollout.student import Student
from engines.train.rollout.vector_env import DecisionRequest
from onboard.policy.contract import INPUTS
from onboard.policy.encode import RgbScale, rgb_tensor
from onboard.values.errors import OnboardError
from onboard.values.messages import ColorFrame

CPU = torch.device("cpu")


def request(seed: int, *, fresh: bool = False, image: bool = False) -> DecisionRequest:
    rng = np.random.default_rng(seed)
    names = [name for name in INPUTS if name not in ("rgb", "memory_in", "prev_action")]
    tensors = {name: rng.standard_normal(INPUTS[name].type.shape).astype(np.float32) for name in names}
    picture = rng.integers(0, 256, (144, 256, 3), dtype=np.uint8) if image else None
    tensors["prev_action"] = rng.integers(0, 28, 1)
    return DecisionRequest(tensors, picture, fresh, None, np.zeros(3, np.float32), 1.0, 0, None)


def decide(network, steps):
    """Return the logits of the last of some steps, each a list of a request a lane."""
    student = Student(network, len(steps[0]), CPU)
    for requests in steps:
        student.refresh(requests)
        logits, _ = student.decide(student.rows(requests))
    return logits


def test_lanes_do_not_disturb_each_other():
    network = untrained(0, TINY, Variant(goal_from="pose"))
    one, other = [request(1), request(2)], [request(3, image=True), request(4)]
    together = decide(network, [list(pair) for pair in zip(one, other, strict=True)])
    np.testing.assert_allclose(together[0], decide(network, [[step] for step in one])[0], atol=1e-5)
    np.testing.assert_allclose(together[1], decide(network, [[step] for step in other])[0], atol=1e-5)


def test_a_fresh_memory_forgets():
    network = untrained(0, TINY)
    first, second = request(1), request(2)
    fresh = decide(network, [[replace(second, fresh=True)]])
    np.testing.assert_array_equal(decide(network, [[first], [replace(second, fresh=True)]]), fresh)
    assert not np.array_equal(decide(network, [[first], [second]]), fresh)


def test_features_stand_for_the_image():
    """What a lane decides by features is what the network decides by the image, and by none."""
    network = untrained(0, TINY)
    for picture in (True, False):
        seen = request(5, image=picture, fresh=True)
        rgb = (
            rgb_tensor(ColorFrame(0, 0, seen.image), RgbScale()) if picture else np.zeros((1, 3, 144, 256), np.float32)
        )
        given = {name: torch.from_numpy(value) for name, value in {**seen.tensors, "rgb": rgb}.items()}
        with torch.no_grad():
            expected = network.step(given | {"memory_in": torch.zeros(2, 1, TINY.memory)}).logits.numpy()
        np.testing.assert_allclose(decide(network, [[seen]]), expected, atol=2e-3)


def test_a_policy_that_gives_no_numbers_does_not_drive():
    network = untrained(0, TINY)
    with torch.no_grad():
        network.actor.bias[3] = torch.inf
    with pytest.raises(OnboardError, match="gives logits that are not finite in 2 of 2 lanes") as failed:
        decide(network, [[request(1), request(2)]])
    assert "\n" not in str(failed.value)
