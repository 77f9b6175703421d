"""A step of learning by an optimizer: gradients are shortened, each group of parameters on its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from onboard.values.errors import OnboardError

# ---- How exactly the matrices of learning are multiplied on a CPU

Precision = Literal["float32", "bfloat16"]
_ONEDNN: dict[Precision, str] = {"float32": "ieee", "bfloat16": "bf16"}


@contextmanager
def products_in(precision: Precision) -> Iterator[None]:
    """Let the factors of a product be rounded so far for a while; weights, sums and everything else stay single.

    With "bfloat16" PyTorch leaves products to oneDNN, which rounds where the CPU has units for it (AMX). With AVX-512
    alone it rounds nothing, and is still faster than MKL is on an AMD processor; with neither nothing changes, nor on
    a GPU. tests/benchmarks/test_recurrence_speed.py compares.
    """
    onednn = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = onednn.fp32_precision
    onednn.fp32_precision = _ONEDNN[precision]
    try:
        yield
    finally:
        onednn.fp32_precision = before


def make_step(loss: Tensor, optimizer: torch.optim.Optimizer, most: float, where: str, checkpoint: Path) -> None:
    """Change the weights by one step. most: longer gradients are shortened to this.

    where: the update, in words; checkpoint: of the stage, which has its name
    Raises OnboardError for a loss or gradient that is no number; no weight is changed then.
    """
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = shortened(optimizer, most, loss.device)
    if not (torch.isfinite(loss) and torch.isfinite(norm)):
        raise OnboardError(
            f"{checkpoint.stem}: the loss is {float(loss.detach())}, its gradient {float(norm)} in {where}; "
            f"{last_good(checkpoint)}"
        )
    optimizer.step()


def last_good(checkpoint: Path) -> str:
    """Return how a line about numbers that are not finite ends: with where the training can go on from."""
    return f"the last good checkpoint is {checkpoint}" if checkpoint.exists() else "there is no checkpoint yet"


def shortened(optimizer: torch.optim.Optimizer, most: float, device: torch.device) -> Tensor:
    """Shorten the gradient of each group to a length; return the sum of the lengths before, on the device.

    A group without any gradient, as all others have while only the critic learns, counts as 0: PyTorch's own 0 of it
    lies on the CPU, wherever the network is.
    """
    groups = [group["params"] for group in optimizer.param_groups]
    return torch.stack([torch.nn.utils.clip_grad_norm_(group, most).to(device) for group in groups]).sum()


# ---- Which weights imitation and reinforcement change, and how they go from the trainer to who drives

Weights = Mapping[str, npt.NDArray[np.float32]]
"""Of a network, by name."""


def is_learned(name: str) -> bool:
    """Return whether imitation and reinforcement change a weight: all but those of the colour encoder."""
    return not name.startswith("rgb.")


def learned_weights(network: nn.Module) -> dict[str, Tensor]:
    """Return those weights by name, as they are in the network."""
    return {name: value for name, value in network.state_dict().items() if is_learned(name)}


def trainable(network: nn.Module) -> list[nn.Parameter]:
    """Return what imitation and reinforcement change."""
    return [parameter for name, parameter in network.named_parameters() if is_learned(name)]


def weights_of(network: nn.Module) -> Weights:
    """Return what training changes, by name, as arrays of their own."""
    return {name: value.detach().cpu().numpy().copy() for name, value in learned_weights(network).items()}


def put_weights(network: nn.Module, weights: Weights) -> None:
    """Put weights into a network, in place; those that are not named stay as they are."""
    state = {name: torch.from_numpy(np.array(values)) for name, values in weights.items()}
    network.load_state_dict(state, strict=False)
