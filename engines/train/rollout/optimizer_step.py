"""One optimizer step, with gradients clipped by parameter group."""

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

# ---- Precision of matrix products on a CPU

Precision = Literal["float32", "bfloat16"]
_ONEDNN: dict[Precision, str] = {"float32": "ieee", "bfloat16": "bf16"}


@contextmanager
def products_in(precision: Precision) -> Iterator[None]:
    """Set the precision of the factors of matrix products within the context; weights and sums stay float32.

    With "bfloat16" PyTorch uses oneDNN, which rounds on a CPU with AMX. With AVX-512 alone oneDNN does not round, and
    is still faster than MKL on an AMD processor. Other CPUs and GPUs are not affected.
    tests/benchmarks/test_recurrence_speed.py compares.
    """
    onednn = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = onednn.fp32_precision
    onednn.fp32_precision = _ONEDNN[precision]
    try:
        yield
    finally:
        onednn.fp32_precision = before


def make_step(loss: Tensor, optimizer: torch.optim.Optimizer, most: float, where: str, checkpoint: Path) -> None:
    """Make one optimizer step. most: largest norm of a group's gradient.

    where: the update, in words; checkpoint: file of the stage, named after it
    Raises OnboardError, before any change, for a loss or gradient that is not finite.
    """
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = clipped_norm(optimizer, most, loss.device)
    if not (torch.isfinite(loss) and torch.isfinite(norm)):
        raise OnboardError(
            f"{checkpoint.stem}: the loss is {float(loss.detach())}, its gradient {float(norm)} in {where}; "
            f"{last_good(checkpoint)}"
        )
    optimizer.step()


def last_good(checkpoint: Path) -> str:
    """Return the end of a message about numbers that are not finite: the file to resume from."""
    return f"the last good checkpoint is {checkpoint}" if checkpoint.exists() else "there is no checkpoint yet"


def clipped_norm(optimizer: torch.optim.Optimizer, most: float, device: torch.device) -> Tensor:
    """Clip the gradient norm of each group; return the sum of the norms before, on the device.

    While only the critic learns, other groups have no gradient. PyTorch returns their norm 0 on the CPU.
    """
    groups = [group["params"] for group in optimizer.param_groups]
    return torch.stack([torch.nn.utils.clip_grad_norm_(group, most).to(device) for group in groups]).sum()


# ---- The weights that imitation and reinforcement change, and their way to the collectors

Weights = Mapping[str, npt.NDArray[np.float32]]
"""Weights of a network by name."""


def is_learned(name: str) -> bool:
    """Return whether imitation and reinforcement change a weight: all but the colour encoder's."""
    return not name.startswith("rgb.")


def learned_weights(network: nn.Module) -> dict[str, Tensor]:
    """Return the learned weights by name, not copied."""
    return {name: value for name, value in network.state_dict().items() if is_learned(name)}


def trainable(network: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that imitation and reinforcement change."""
    return [parameter for name, parameter in network.named_parameters() if is_learned(name)]


def weights_of(network: nn.Module) -> Weights:
    """Return copies of the learned weights by name."""
    return {name: value.detach().cpu().numpy().copy() for name, value in learned_weights(network).items()}


def put_weights(network: nn.Module, weights: Weights) -> None:
    """Load weights into a network, in place; weights without a name stay."""
    state = {name: torch.from_numpy(np.array(values)) for name, values in weights.items()}
    network.load_state_dict(state, strict=False)
