"""A position agent's training is driven and taught by position actions, not by those of all others."""

from __future__ import annotations

import numpy as np
import torch

from engines.ablations import position_training
from engines.ablations.position_drive import COUNT
from engines.train.sequences import TARGETS
from tests.train_rig import small


def test_the_trainer_drives_with_the_position_agents_own_collector(tmp_path, monkeypatch):
    rounds = []

    class Seen(position_training.PositionCollector):
        def collect(self, weights):
            rounds.append(super().collect(weights))
            return rounds[-1]

    monkeypatch.setattr(position_training, "PositionCollector", Seen)
    config = small(network__rgb=False, imitation__chapters=1)
    position_training.train_position(config, tmp_path, torch.device("cpu"))
    assert len(rounds) == config.imitation.rounds
    targets = np.concatenate([run.rows[TARGETS] for one in rounds for run in one.runs])
    assert np.allclose(targets[:, COUNT:], 0.0)
