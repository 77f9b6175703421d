"""The network in the lanes' seats: one forward pass for all of them, each with its own memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from engines.network.encoder_features import encode_images
from engines.network.network import RGB_FEATURES, PolicyNetwork
from engines.train.rollout.vector_env import Glimpse, Tensors
from onboard.values.errors import OnboardError

Floats32 = npt.NDArray[np.float32]


class Student:
    """A network that drives in lanes. Its memory is kept here, (layers, lanes, width)."""

    def __init__(self, network: PolicyNetwork, lanes: int, device: torch.device) -> None:
        self._network, self._device = network.eval(), device
        layers, width = network.memory_shape
        self._memory = torch.zeros(layers, lanes, width, device=device)

    def rows(self, glimpses: Sequence[Glimpse]) -> list[Tensors]:
        """Return what each lane's network is given, by name, (1, ...); features stand for the colour image."""
        names = [name for name in self._network.inputs if name not in ("rgb", "memory_in")]
        rows = [{name: glimpse.tensors[name] for name in names} for glimpse in glimpses]
        if self._network.variant.rgb:
            for row, features in zip(rows, self._features(glimpses), strict=True):
                row[RGB_FEATURES] = features.astype(np.float16)
        return rows

    def refresh(self, glimpses: Sequence[Glimpse]) -> None:
        """Forget where the memory is reset before this decision."""
        kept = torch.tensor([0.0 if glimpse.fresh else 1.0 for glimpse in glimpses], device=self._device)
        self._memory = self._memory * kept[None, :, None]

    def memory(self, lane: int) -> Floats32:
        """Return (layers, width) of one lane, before the next decision."""
        return np.asarray(self._memory[:, lane].cpu().numpy())

    def decide(self, rows: Sequence[Tensors]) -> tuple[Floats32, Floats32]:
        """Return (lanes, 28) logits and (lanes,) values, and remember. Raises OnboardError for logits not finite."""
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
                "weights are too large or damaged; begin with others (--init, --encoder), or with a lower learning rate"
            )
        return logits, step.value[:, 0].cpu().numpy()

    def _features(self, glimpses: Sequence[Glimpse]) -> list[Floats32]:
        """Return what the colour encoder makes of each image; zeros of none, as in the network."""
        features = [np.zeros((1, self._network.widths.rgb), np.float32)] * len(glimpses)
        seeing = [lane for lane, glimpse in enumerate(glimpses) if glimpse.image is not None]
        if seeing:
            images = np.stack([image for lane in seeing if (image := glimpses[lane].image) is not None])
            found = encode_images(self._network.get_submodule("rgb"), images).cpu().numpy()
            for lane, row in zip(seeing, found, strict=True):
                features[lane] = row[None]
        return features
