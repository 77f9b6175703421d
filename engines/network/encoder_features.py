"""The colour encoder: images of a camera -> features for the policy's memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from engines.runs.torch_file import read_torch, require_finite, write_torch
from onboard.policy.encode import RgbScale
from onboard.values.errors import InputError

PREFIX = "rgb."
"""Prefix of the encoder's weights in the policy network's state dict."""
COLOUR_MAX = 255.0
BATCH = 32
LANES = 8
"""Channels last needs a multiple of this many channels: with 4, PyTorch 2.13 on a CPU (oneDNN) writes beyond its arrays
in the backward pass."""


def planes_of(images: Tensor, scale: RgbScale) -> Tensor:
    """Return (N, 3, H, W) float32 of (N, H, W, 3) uint8 RGB on the same device, as `encode.rgb_tensor` scales it.

    The memory layout stays channels last.
    """
    std, mean = np.asarray(scale.std), np.asarray(scale.mean)
    gain = torch.from_numpy((1.0 / (COLOUR_MAX * std)).astype(np.float32)).to(images.device)
    offset = torch.from_numpy((-mean / std).astype(np.float32)).to(images.device)
    return images.to(torch.float32).mul_(gain).add_(offset).permute(0, 3, 1, 2)


def memory_format_of(rgb: nn.Module) -> torch.memory_format:
    """Return the memory format for an encoder's weights and images: channels last, which is faster, if it is safe."""
    stem = next(rgb.parameters())
    return torch.channels_last if stem.shape[0] % LANES == 0 else torch.contiguous_format


def encode_images(
    rgb: nn.Module, images: npt.NDArray[np.uint8], scale: RgbScale | None = None, batch: int = BATCH
) -> Tensor:
    """Return (N, features) of (N, 144, 256, 3) uint8 RGB, without gradients, on the encoder's device.

    rgb:   `PolicyNetwork.rgb`; it runs in evaluation mode
    scale: of the manifest; None: the default
    """
    scale = RgbScale() if scale is None else scale
    device, layout = next(rgb.parameters()).device, memory_format_of(rgb)
    parts = []
    with torch.no_grad(), _evaluating(rgb):
        for first in range(0, len(images), batch):
            part = torch.from_numpy(np.ascontiguousarray(images[first : first + batch]))
            parts.append(rgb(planes_of(part.to(device), scale).contiguous(memory_format=layout)))
    return torch.cat(parts)


def save_encoder(file: Path, rgb: nn.Module) -> None:
    """Write the encoder's weights as `rgb.*`, on the CPU. Raises InputError when the file cannot be written."""
    weights = rgb.state_dict()
    write_torch(file, {PREFIX + name: value.cpu().contiguous() for name, value in weights.items()})


def load_encoder(rgb: nn.Module, file: Path) -> None:
    """Load the weights that `save_encoder` wrote.

    Raises InputError for any other file, and for weights that are not finite.
    """
    found = read_torch(file)
    weights = {name[len(PREFIX) :]: value for name, value in found.items() if name.startswith(PREFIX)}
    try:
        rgb.load_state_dict(weights)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"{file}: not the weights of this encoder: {str(error).strip().splitlines()[-1]}") from error
    require_finite(file, weights)


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Keep a module in evaluation mode within the context."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)
