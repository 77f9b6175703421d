"""The network is the paper's: parameter counts, shapes, circular scan encoder, memory in and out."""

from __future__ import annotations

import pytest
import torch

from engines.network.network import (
    TINY,
    CircularConv,
    ResNet18,
    Variant,
    goal_seen_from,
    parameter_count,
    untrained,
)
from onboard.policy.contract import INPUTS
from onboard.values.errors import InputError

REPORTED = 25_589_541
"""Trainable parameters in the paper; which small difference makes its count is not stated."""
LISTED = 25_614_909
"""The sum of the parts that it lists, without the auxiliary head."""


@pytest.fixture(scope="module")
def paper_network():
    return untrained(0)


def inputs(batch: int = 1, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    given = {}
    for name, row in INPUTS.items():
        if name == "prev_action":
            given[name] = torch.randint(0, 29, (batch,), generator=generator)
        elif name != "memory_in":
            given[name] = torch.randn((batch, *row.type.shape[1:]), generator=generator)
    return given


#    part          trainable parameters
PARTS = [
    ("rgb.0", 11_176_512),  # ResNet-18 without its classifier
    ("rgb.1", 512 * 512 + 512),
    ("scan", 648_576),
    ("odom", 71_744),
    ("loc", 71_744),
    ("goal", 69_696),
    ("prev_action", 29 * 32),
    ("gru", 6_985_728 + 6_297_600),
    ("actor", 28_700),
    ("critic", 1_025),
]


def test_parameters_in_all(paper_network):
    auxiliary = parameter_count(paper_network.auxiliary)
    assert parameter_count(paper_network) - auxiliary == LISTED == sum(count for _, count in PARTS)
    assert abs(parameter_count(paper_network) - REPORTED) < 0.002 * REPORTED


def test_the_resnet_shrinks_the_image_32_times():
    resnet = ResNet18().eval()
    with torch.inference_mode():
        stem = resnet.pool(torch.relu(resnet.bn1(resnet.conv1(torch.zeros(1, 3, 144, 256)))))
        assert stem.shape == (1, 64, 36, 64)
        assert resnet.blocks(stem).shape == (1, 512, 5, 8)


@pytest.mark.parametrize("shift", [1, 37, -5])
def test_the_scan_is_a_circle_to_its_convolutions(shift):
    torch.manual_seed(0)
    layer = CircularConv(1, 4, 7, 1)
    scan = torch.randn(1, 1, 180)
    with torch.inference_mode():
        torch.testing.assert_close(layer(torch.roll(scan, shift, -1)), torch.roll(layer(scan), shift, -1))


def test_memory_makes_steps_a_sequence():
    """Two single steps give what the GRU gives for the whole sequence."""
    network = untrained(0, TINY)
    first, second = inputs(seed=1), inputs(seed=2)
    memory = torch.zeros(2, 1, TINY.memory)
    with torch.inference_mode():
        sequence, last = network.gru(torch.stack([network.encode(first), network.encode(second)]), memory)
        one = network.step({**first, "memory_in": memory})
        two = network.step({**second, "memory_in": one.memory})
        torch.testing.assert_close(two.memory, last)
        torch.testing.assert_close(two.logits, network.actor(sequence[-1]))
        assert not torch.equal(two.logits, network.step({**second, "memory_in": memory}).logits)


def test_a_batch_is_its_samples():
    network = untrained(0, TINY)
    given = inputs(batch=3)
    memory = torch.randn(2, 3, TINY.memory)
    with torch.inference_mode():
        together = network.step({**given, "memory_in": memory})
        alone = network.step(
            {name: value[1:2] for name, value in given.items()} | {"memory_in": memory[:, 1:2].contiguous()}
        )
    torch.testing.assert_close(together.logits[1:2], alone.logits)


@pytest.mark.parametrize("name", [name for name in INPUTS if name not in ("memory_in", "prev_action", "pose")])
def test_every_input_matters(name):
    network = untrained(0, TINY)
    given, memory = inputs(), torch.zeros(2, 1, TINY.memory)
    with torch.inference_mode():
        before = network.step({**given, "memory_in": memory}).logits
        after = network.step({**given, name: given[name] + 1.0, "memory_in": memory}).logits
    assert not torch.equal(before, after)


def test_the_seed_decides_the_weights_and_the_global_state_is_kept():
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    one, same, other = (untrained(seed, TINY).actor.weight for seed in (3, 3, 4))
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_the_goal_seen_from_a_pose():
    """The goal 2 m to the left of the start, from 1 m to the left, looking left: 1 m ahead."""
    pose, goal = torch.tensor([[0.0, 1.0, torch.pi / 2, 0.0, 0.0]]), torch.tensor([[2.0, 0.0, 1.0]])
    torch.testing.assert_close(goal_seen_from(pose, goal), torch.tensor([[1.0, 1.0, 0.0]]), atol=1e-5, rtol=0.0)


def test_a_goal_layer_makes_the_logits_the_same_wherever_the_robot_stands():
    """Goal and pose moved together leave the goal as it is seen; the static goal alone does not."""
    network = untrained(0, TINY, Variant(goal_from="odom"))
    near, far = torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[3.0, 1.0, 0.0]])
    here, there = torch.zeros(1, 5), torch.tensor([[2.0, 0.0, 0.0, 0.0, 0.0]])
    seen = [network._encoded("goal", {"odom": pose, "goal": goal}) for pose, goal in ((here, near), (there, far))]
    torch.testing.assert_close(*seen)
    assert not torch.allclose(seen[0], network._encoded("goal", {"odom": here, "goal": far}))


#   variant                                      inputs left out
VARIANTS = [
    (Variant(), ()),
    (Variant(rgb=False), ("rgb",)),
    (Variant(scan=False, loc=False), ("scan", "loc")),
]


@pytest.mark.parametrize(("variant", "without"), VARIANTS)
def test_a_variant_takes_what_it_names(variant, without):
    network = untrained(0, TINY, variant)
    assert network.inputs == tuple(name for name in INPUTS if name not in (*without, "pose"))


def test_a_goal_from_a_missing_localisation_is_refused():
    with pytest.raises(InputError, match="no input loc"):
        Variant(loc=False, goal_from="loc")
