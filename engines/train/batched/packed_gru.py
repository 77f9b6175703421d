"""A GRU over packed runs: the same results as `torch.nn.GRU`, with a faster backward pass on a CPU.

PyTorch adds the gradient of the recurrent weights step by step. With few parallel runs that is most of the work. Here
one matrix product at the end gives the gradient; tests/benchmarks/test_recurrence_speed.py compares both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Gates(NamedTuple):
    """Gates of each step in packed order, (R, H). recalled: the factor of the reset gate."""

    reset: Tensor
    update: Tensor
    new: Tensor
    recalled: Tensor


def packed_gru(gru: nn.GRU, rows: Tensor, sizes: Tensor, memory: Tensor) -> Tensor:
    """Return the output (R, H) of `gru` for rows (R, in) in packed order.

    sizes:  (T,) number of active runs at each step, as in `PackedSequence.batch_sizes`
    memory: (layers, runs, H) before the first step, runs in packed order
    """
    steps = sizes.tolist()
    for layer in range(gru.num_layers):
        weight_in, weight, bias_in, bias = (getattr(gru, f"{name}_l{layer}") for name in _NAMES)
        inputs = nn.functional.linear(rows, weight_in, bias_in)
        rows = _Layer.apply(inputs, memory[layer], weight, bias, steps)  # type: ignore[no-untyped-call]  # PyTorch's own
    return rows


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class _Layer(torch.autograd.Function):
    """One layer, from the input's part of the gates (R, 3 H). The initial memory gets no gradient."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, memory: Tensor, weight: Tensor, bias: Tensor, steps: list[int]) -> Tensor:
        width = weight.shape[1]
        states, before = inputs.new_empty(len(inputs), width), inputs.new_empty(len(inputs), width)
        gates = Gates(*(torch.empty_like(states) for _ in Gates._fields))
        turned, state, at = weight.t(), memory, 0
        for count in steps:
            now, state = slice(at, at + count), state[:count]
            state = _step(gates, now, inputs[now], state, torch.addmm(bias, state, turned), before)
            states[now] = state
            at += count
        ctx.save_for_backward(before, weight, *gates)
        ctx.steps = steps
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        (found,) = outer
        before, weight, *kept = ctx.saved_tensors
        gates = Gates(*kept)
        width, at = weight.shape[1], len(before)
        of_inputs = before.new_empty(len(before), 3 * width)
        of_recalled = torch.empty_like(of_inputs)
        later = before.new_zeros(ctx.steps[0], width)
        for count in reversed(ctx.steps):
            now, at = slice(at - count, at), at - count
            grad = later[:count] + found[now]
            _step_back(gates, now, grad, before[now], of_inputs[now], of_recalled[now])
            later[:count] = torch.addmm(grad * gates.update[now], of_recalled[now], weight)
        return of_inputs, None, of_recalled.t() @ before, of_recalled.sum(dim=0), None


def _step(gates: Gates, now: slice, inputs: Tensor, state: Tensor, recalled: Tensor, before: Tensor) -> Tensor:
    """Return the next state (N, H), and store gates and state for the backward pass."""
    from_reset, from_update, from_new = inputs.chunk(3, dim=1)
    reset, update, new = recalled.chunk(3, dim=1)
    reset = torch.sigmoid(from_reset + reset)
    update = torch.sigmoid(from_update + update)
    gates.recalled[now] = new
    new = torch.tanh(torch.addcmul(from_new, reset, new))
    gates.reset[now], gates.update[now], gates.new[now], before[now] = reset, update, new, state
    return torch.lerp(new, state, update)


def _step_back(gates: Gates, now: slice, grad: Tensor, before: Tensor, of_inputs: Tensor, of_recalled: Tensor) -> None:
    """Write the gradients of the input's and the memory's parts of the gates, (N, 3 H) each."""
    reset, update, new, recalled = (gate[now] for gate in gates)
    width = new.shape[1]
    of_new = grad * (1.0 - update) * (1.0 - new * new)
    of_inputs[:, :width] = of_new * recalled * reset * (1.0 - reset)
    of_inputs[:, width : 2 * width] = grad * (before - new) * update * (1.0 - update)
    of_inputs[:, 2 * width :] = of_new
    of_recalled[:, : 2 * width] = of_inputs[:, : 2 * width]
    of_recalled[:, 2 * width :] = of_new * reset
