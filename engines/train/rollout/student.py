"""The network as driver of all lanes: one forward pass, and a memory for each lane."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from engines.network.encoder_features import encode_images
from engines.network.network import RGB_FEATURES, PolicyNetwork
from engines.train.rollout.vector_env import DecisionRequest, Tensors
from onboard.values.errors import OnboardError

Floats32 = npt.NDArray[np.float32]


class Student:
    """A network that drives all lanes. It keeps the memory, (layers, lanes, width)."""

    def __init__(self, network: PolicyNetwork, lanes: int, device: torch.device) -> None:
        self._network, self._device = network.eval(), device
        layers, width = network.memory_shape
        self._memory = torch.zeros(layers, lanes, width, device=device)

    def rows(self, requests: Sequence[DecisionRequest]) -> list[Tensors]:
        """Return the inputs of each lane by name, (1, ...), with encoder features instead of the colour image."""
        names = [name for name in self._network.inputs if name not in ("rgb", "memory_in")]
        rows = [{name: request.tensors[name] for name in names} for request in requests]
        if self._network.variant.rgb:
            for row, features in zip(rows, self._features(requests), strict=True):
                row[RGB_FEATURES] = features.astype(np.float16)
        return rows

    def refresh(self, requests: Sequence[DecisionRequest]) -> None:
        """Reset the memory of lanes with a fresh memory."""
        kept = torch.tensor([0.0 if request.fresh else 1.0 for request in requests], device=self._device)
        self._memory = self._memory * kept[None, :, None]

    def memory(self, lane: int) -> Floats32:
        """Return the memory (layers, width) of a lane before the next decision."""
        return np.asarray(self._memory[:, lane].cpu().numpy())

    def decide(self, rows: Sequence[Tensors]) -> tuple[Floats32, Floats32]:
        """Return logits (lanes, 28) and values (lanes,); update the memory. Raises OnboardError unless finite."""
        given = {
            name: torch.from_numpy(np.concatenate([row[name] for row in rows])).to(self._device) for name in rows[0]
        }
        given = {name: values.float() if values.dtype == torch.float16 else values for name, values in given.items()}
        with torch.no_grad():
            step = self._network.step({**given, "memory_in": self._memory})
        self._memory, logits = step.memory, step.logits.cpu().numpy()
        lost = int((~np.isfinite(logits).all(axis=1)).sum())
        if lost:
            raise OnboardError(
                f"the policy that drives gives logits that are not finite in {lost} of {len(logits)} lanes: its "
                "weights are too large or damaged; start from others (--init, --encoder), or use a lower learning rate"
            )
        return logits, step.value[:, 0].cpu().numpy()

    def _features(self, requests: Sequence[DecisionRequest]) -> list[Floats32]:
        """Return the colour encoder's features of each image; zeros without an image, as in the network."""
        features = [np.zeros((1, self._network.widths.rgb), np.float32)] * len(requests)
        seeing = [lane for lane, request in enumerate(requests) if request.image is not None]
        if seeing:
            images = np.stack([image for lane in seeing if (image := requests[lane].image) is not None])
            found = encode_images(self._network.get_submodule("rgb"), images).cpu().numpy()
            for lane, row in zip(seeing, found, strict=True):
                features[lane] = row[None]
        return features
