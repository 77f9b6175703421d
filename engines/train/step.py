"""A step of learning by an optimizer: gradients are shortened, each group of parameters on its own."""

from __future__ import annotations

import torch
from torch import Tensor


def shortened(optimizer: torch.optim.Optimizer, most: float, device: torch.device) -> Tensor:
    """Shorten the gradient of each group to a length; return the sum of the lengths before, on the device.

    A group without any gradient, as all others have while only the critic learns, counts as 0: PyTorch's own 0 of it
    lies on the CPU, wherever the network is.
    """
    groups = [group["params"] for group in optimizer.param_groups]
    return torch.stack([torch.nn.utils.clip_grad_norm_(group, most).to(device) for group in groups]).sum()
