"""Learning from runs with the training's GRU and with PyTorch's, and in two precisions, at the paper's size."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from engines.train.rollout.gru import packed_gru
from engines.train.rollout.optimizer_step import products_in

LENGTHS = [30, 30, 30, 24, 24, 18, 18, 12, 12, 6, 6, 6]
RUNS, LENGTH = 16, 48
"""Of a batch of the shipped recipe."""
INPUTS, WIDTH, LAYERS = 1248, 1024, 2
TURNS = 5


def seconds(learn) -> float:
    begun = time.process_time()
    learn()
    return time.process_time() - begun


def medians(*ways) -> list[float]:
    """Return how long each way of learning takes [s], all in turns."""
    torch.set_num_threads(1)
    times = [[seconds(way) for way in ways] for _ in range(TURNS)]
    return [sorted(row)[TURNS // 2] for row in zip(*times, strict=True)]


@pytest.mark.long
def test_learning_is_faster_than_with_pytorchs_gru():
    gru = nn.GRU(INPUTS, WIDTH, num_layers=LAYERS)
    packed = pack_sequence([torch.randn(length, INPUTS) for length in LENGTHS])
    memory = torch.zeros(LAYERS, len(LENGTHS), WIDTH)

    def ours():
        packed_gru(gru, packed.data, packed.batch_sizes, memory).square().mean().backward()

    def theirs():
        gru(PackedSequence(packed.data, packed.batch_sizes), memory)[0].data.square().mean().backward()

    here, there = medians(ours, theirs)
    print(f"\nlearning from {sum(LENGTHS)} decisions: {there / here:.2f} times as fast as torch.nn.GRU")
    assert here < there


@pytest.mark.long
@pytest.mark.skipif("AVX512" not in torch.backends.cpu.get_cpu_capability(), reason="without AVX-512 nothing is gained")
def test_learning_is_faster_where_products_may_be_rounded():
    gru = nn.GRU(INPUTS, WIDTH, num_layers=LAYERS)
    rows, sizes = torch.randn(RUNS * LENGTH, INPUTS), torch.full((LENGTH,), RUNS)

    def learn(precision):
        with products_in(precision):
            packed_gru(gru, rows, sizes, torch.zeros(LAYERS, RUNS, WIDTH)).square().mean().backward()

    rounded, exact = medians(lambda: learn("bfloat16"), lambda: learn("float32"))
    print(f"\nlearning from {RUNS * LENGTH} decisions: {exact / rounded:.2f} times as fast")
    assert rounded < exact
