"""The training's GRU gives the values and the gradients of PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from engines.train.batched.packed_gru import packed_gru

LENGTHS = ([1], [5, 3, 3, 1], [4, 4])


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_values_and_gradients_are_pytorchs(lengths, layers):
    torch.manual_seed(0)
    gru = nn.GRU(6, 8, num_layers=layers).double()
    packed = pack_sequence([torch.randn(length, 6, dtype=torch.float64) for length in lengths])
    memory, wanted = torch.randn(layers, len(lengths), 8, dtype=torch.float64), torch.randn(sum(lengths), 8).double()

    def learned(run):
        rows = packed.data.clone().requires_grad_()
        gru.zero_grad()
        states = run(rows)
        (states * wanted).sum().backward()
        return [states.detach(), rows.grad, *(parameter.grad.clone() for parameter in gru.parameters())]

    expected = learned(lambda rows: gru(PackedSequence(rows, packed.batch_sizes), memory)[0].data)
    found = learned(lambda rows: packed_gru(gru, rows, packed.batch_sizes, memory))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
