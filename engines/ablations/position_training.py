"""The position agent's training: the imitation of `engines/train`, with lanes and a teacher of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from engines.ablations.position_drive import COUNT
from engines.ablations.position_lane import PositionLane
from engines.lineage import POLICY
from engines.lock import alone_in
from engines.network import untrained
from engines.train.checkpoint import save_policy
from engines.train.collector import Collector, Round
from engines.train.config import TrainConfig, described, rules_of
from engines.train.crew import Crew, LocalCrew
from engines.train.imitation import Imitation
from engines.train.stages import check
from onboard.errors import InputError

Floats32 = npt.NDArray[np.float32]


class PositionCollector(Collector):
    """Drives by position actions; of the network's 28 logits all but four are left out."""

    lane = PositionLane

    def _action(self, lane: int, logits: Floats32, scores: Floats32) -> int:
        four = np.where(np.arange(len(logits)) < COUNT, logits, np.float32(-np.inf))
        return super()._action(lane, four, scores)


class PositionImitation(Imitation):
    """The trainer, with one collector in place."""

    def _crew(self, colour: float) -> Crew[Round]:
        return LocalCrew(PositionCollector, rules_of(self._config, colour), self._network, self._device)


def train_position(config: TrainConfig, folder: Path, device: torch.device) -> Path:
    """Train, or go on, and return the policy's file, as `stages.train` does. Raises OnboardError."""
    if config.network.rgb:
        raise InputError(f"{config.name}: the position agent has no colour")
    check(config)
    torch.manual_seed(config.seed)
    network = untrained(config.seed, config.network.widths, config.network.variant)
    with alone_in(folder):
        PositionImitation(config, network, folder, device).run()
        file = folder / POLICY
        save_policy(file, network, described(config))
    return file
