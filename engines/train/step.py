"""A step of learning by an optimizer: gradients are shortened, each group of parameters on its own."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from onboard.errors import OnboardError


def make_step(loss: Tensor, optimizer: torch.optim.Optimizer, most: float, where: str, checkpoint: Path) -> None:
    """Change the weights by one step. most: longer gradients are shortened to this.

    where: the update, in words; checkpoint: of the stage, which has its name
    Raises OnboardError for a loss or gradient that is no number; no weight is changed then.
    """
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
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
