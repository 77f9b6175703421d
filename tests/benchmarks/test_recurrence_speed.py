"""Learning from runs with the training's GRU and with PyTorch's, in one run, at the paper's size."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from engines.train.recurrence import packed_gru

LENGTHS = [30, 30, 30, 24, 24, 18, 18, 12, 12, 6, 6, 6]
TURNS = 5


@pytest.mark.long
def test_learning_is_faster_than_with_pytorchs_gru():
    torch.set_num_threads(1)
    gru = nn.GRU(1248, 1024, num_layers=2)
    packed, memory = (
        pack_sequence([torch.randn(length, 1248) for length in LENGTHS]),
        torch.zeros(2, len(LENGTHS), 1024),
    )

    def seconds(run) -> float:
        begun = time.process_time()
        run().square().mean().backward()
        return time.process_time() - begun

    def ours():
        return packed_gru(gru, packed.data, packed.batch_sizes, memory)

    def theirs():
        return gru(PackedSequence(packed.data, packed.batch_sizes), memory)[0].data

    times = [(seconds(ours), seconds(theirs)) for _ in range(TURNS)]
    here, there = (sorted(row)[TURNS // 2] for row in zip(*times, strict=True))
    print(f"\nlearning from {sum(LENGTHS)} decisions: {there / here:.2f} times as fast as torch.nn.GRU")
    assert here < there
