"""Runs between resets, side by side, give what one step after the other gives."""

from __future__ import annotations

import numpy as np
import torch

from engines.network.network import TINY, Variant, untrained
from engines.train.rollout.optimizer_step import is_learned, trainable
from engines.train.rollout.sequences import Recorder, batch_of, decisions_in, unroll
from onboard.policy.contract import INPUTS

VARIANT = Variant(rgb=False, goal_from="pose")
NAMES = [name for name in untrained(0, TINY, VARIANT).inputs if name != "memory_in"]


def row(rng: np.random.Generator):
    table = {name: rng.standard_normal(INPUTS[name].type.shape).astype(np.float32) for name in NAMES}
    return table | {"prev_action": rng.integers(0, 28, 1)}


def recorded(fresh: list[bool], most: int = 48):
    """Return a network, its rows, and the runs of one lane in which the memory is reset where `fresh` says."""
    network, rng, recorder = untrained(0, TINY, VARIANT), np.random.default_rng(0), Recorder(most)
    memory, rows, states = torch.zeros(2, 1, TINY.memory), [], []
    for new in fresh:
        memory = torch.zeros_like(memory) if new else memory
        rows.append(row(rng))
        recorder.add(rows[-1], new, memory[:, 0].numpy())
        with torch.no_grad():
            step = network.step(
                {name: torch.from_numpy(value) for name, value in rows[-1].items()} | {"memory_in": memory}
            )
        memory = step.memory
        states.append(step.logits)
    return network, recorder.take(), torch.cat(states)


def test_a_lane_is_cut_at_resets_and_at_the_longest_run():
    _, runs, _ = recorded([True] + [False] * 6 + [True] + [False] * 2, most=5)
    assert [len(run) for run in runs] == [5, 2, 3]
    assert [run.memory is None for run in runs] == [True, False, True]
    assert decisions_in(runs) == 10


def test_a_batch_of_runs_gives_what_single_steps_gave():
    network, runs, expected = recorded([True] + [False] * 6 + [True] + [False] * 2, most=5)
    batch = batch_of(runs, network.memory_shape, torch.device("cpu"))
    with torch.no_grad():
        logits = network.actor(unroll(network, batch))
    # Packed order: the first of each run, longest first, then the second of each, and so on.
    order = [0, 7, 5, 1, 8, 6, 2, 9, 3, 4]
    torch.testing.assert_close(logits, expected[order], atol=2e-3, rtol=0.0)  # memories are kept in half precision
    np.testing.assert_array_equal(batch.rows["odom"].numpy(), np.concatenate([run.rows["odom"] for run in runs])[order])


def test_pytorchs_own_gru_gives_the_same_and_can_be_learned_from_on_cuda():
    network, runs, _ = recorded([True] + [False] * 6 + [True] + [False] * 2, most=5)
    network.eval()
    batch, learned = batch_of(runs, network.memory_shape, torch.device("cpu")), []
    for by_torch in (False, True):
        network.zero_grad()
        states = unroll(network, batch, by_torch)
        states.square().sum().backward()
        learned.append([states.detach(), *(weight.grad.clone() for weight in network.gru.parameters())])
    for one, other in zip(*learned, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    # In evaluation mode cuDNN refuses the way back.
    assert (network.gru.training, network.gru.dropout) == (True, 0.0)


def test_the_recorder_forgets_what_was_taken():
    recorder = Recorder(4)
    recorder.add({"odom": np.zeros((1, 5), np.float32)}, True, np.zeros((2, 4), np.float32))
    assert len(recorder.take()) == 1
    assert recorder.take() == []


def test_the_colour_encoder_is_not_learned_here():
    network = untrained(0, TINY)
    assert not is_learned("rgb.0.conv1.weight")
    learned = {id(parameter) for parameter in trainable(network)}
    assert not any(id(parameter) in learned for parameter in network.rgb.parameters())
    assert all(id(parameter) in learned for parameter in network.gru.parameters())
