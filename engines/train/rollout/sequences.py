"""Training data: runs of decisions between two memory resets, and batches of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from engines.network.network import PolicyNetwork
from engines.train.rollout.gru import packed_gru
from engines.train.rollout.vector_env import Tensors

Floats32 = npt.NDArray[np.float32]
Rows = dict[str, npt.NDArray[np.generic]]

TARGETS, WEIGHT, COMPASS = "targets", "weight", "compass"
SMALL = np.float16
"""Type of stored features and memories, which need not be exact."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive decisions; at most the first has a fresh memory.

    rows:   (T, ...) by name: the contract's tensors and the labels
    memory: (layers, width) before the first decision; None if fresh
    """

    rows: Rows
    memory: npt.NDArray[np.float16] | None

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))


@dataclass(slots=True)
class Recorder:
    """Cuts the decisions of one lane into runs of at most `most` decisions."""

    most: int
    _rows: list[Tensors] = field(default_factory=list)
    _memory: npt.NDArray[np.float16] | None = None
    _done: list[Run] = field(default_factory=list)

    def add(self, row: Tensors, fresh: bool, memory: Floats32) -> None:
        """Add a decision, (1, ...) by name; memory: (layers, width) before it."""
        if fresh or len(self._rows) == self.most:
            self.cut()
        if not self._rows:
            self._memory = None if fresh else memory.astype(SMALL)
        self._rows.append(row)

    def cut(self) -> None:
        """End the current run."""
        if self._rows:
            rows = {name: np.concatenate([row[name] for row in self._rows]) for name in self._rows[0]}
            self._done.append(Run(rows, self._memory))
        self._rows = []

    def take(self) -> list[Run]:
        """Return and remove all runs, the current run included."""
        self.cut()
        done, self._done = self._done, []
        return done


@dataclass(frozen=True, slots=True)
class Batch:
    """Packed runs. rows: (all decisions, ...) in packed order; memory: (layers, runs, width)."""

    rows: dict[str, Tensor]
    sizes: Tensor
    order: Tensor
    back: Tensor
    memory: Tensor

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))


def batch_of(runs: Sequence[Run], memory_shape: tuple[int, int], device: torch.device) -> Batch:
    """Return runs of any lengths as a batch on a device."""
    index = pack_sequence([torch.arange(len(run)) for run in runs], enforce_sorted=False)
    first = np.cumsum([0, *(len(run) for run in runs)])[:-1]
    whose = pack_sequence([torch.full((len(run),), number) for number, run in enumerate(runs)], enforce_sorted=False)
    flat = torch.from_numpy(first)[whose.data] + index.data
    names = runs[0].rows
    rows = {name: torch.from_numpy(np.concatenate([run.rows[name] for run in runs]))[flat] for name in names}
    memory = np.zeros((memory_shape[0], len(runs), memory_shape[1]), np.float32)
    for number, run in enumerate(runs):
        if run.memory is not None:
            memory[:, number] = run.memory
    if index.sorted_indices is None or index.unsorted_indices is None:
        raise ValueError("packed sequences carry their order")
    return Batch(
        rows={name: _wide(values).to(device) for name, values in rows.items()},
        sizes=index.batch_sizes,
        order=index.sorted_indices,
        back=index.unsorted_indices,
        memory=torch.from_numpy(memory).to(device),
    )


def unroll(network: PolicyNetwork, batch: Batch, by_torch: bool | None = None) -> Tensor:
    """Return the top layer's memory after each decision, (all decisions, width) in packed order.

    by_torch: use PyTorch's GRU instead of `packed_gru`; None: if the network is not on a CPU
    """
    encoded = network.encode(batch.rows)
    by_torch = encoded.device.type != "cpu" if by_torch is None else by_torch
    if not by_torch:
        return packed_gru(network.gru, encoded, batch.sizes, batch.memory[:, batch.order])
    # cuDNN has no backward pass of a GRU in evaluation mode. Without dropout both modes are equal.
    network.gru.train()
    packed = PackedSequence(encoded, batch.sizes, batch.order.to(encoded.device), batch.back.to(encoded.device))
    states, _ = network.gru(packed, batch.memory)
    top: Tensor = states.data
    return top


def _wide(values: Tensor) -> Tensor:
    return values.float() if values.dtype == torch.float16 else values


def decisions_in(runs: Iterable[Run]) -> int:
    """Return the number of decisions in runs."""
    return sum(len(run) for run in runs)
