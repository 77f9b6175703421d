"""Which weights imitation and reinforcement change, and how they go from the trainer to who drives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

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
