"""A training from its configuration to a policy: encoder, imitation, reinforcement, each going on where it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from engines.encoder.features import load_encoder
from engines.encoder.training import train_encoder
from engines.network import PolicyNetwork, untrained
from engines.train import checkpoint, imitation, reinforce
from engines.train.config import TrainConfig, described, rules_of
from engines.train.imitation import Imitation
from engines.train.journal import Journal
from engines.train.reinforce import Reinforce
from onboard.errors import InputError

STAGES = ("encoder", "imitation", "reinforce")
POLICY_FILE = "policy.pt"
ENCODER_FOLDER = "encoder"

Initial = Callable[[TrainConfig], PolicyNetwork]


def train(config: TrainConfig, folder: Path, device: torch.device, until: str, initial: Initial | None = None) -> Path:
    """Live all stages up to one of `STAGES` and return the policy's file, for `onboard-engines export --checkpoint`.

    initial: the network to begin with, in place of an untrained one
    Raises OnboardError; whatever was made before stays, and the same call goes on there.
    """
    if until not in STAGES:
        raise InputError(f"--until {until}: must be one of {', '.join(STAGES)}")
    check(config, device)
    torch.manual_seed(config.seed)
    network = beginning(config) if initial is None else initial(config)
    made: dict[str, Any] = {"stages": []}
    if sees_colour(config) and initial is None:
        load_encoder(network.get_submodule("rgb"), _encoder(config, folder, device))
        made["stages"].append("encoder")
    if until != "encoder":
        Imitation(config, network, folder, device).run()
        made["stages"].append(imitation.STAGE)
    if until == "reinforce" and config.reinforce.chapters > 0:
        reinforcing = Reinforce(config, network, folder, device)
        reinforcing.run()
        made["stages"] += [reinforce.STAGE] if reinforcing.kept != reinforce.BEFORE else []
    file = folder / POLICY_FILE
    checkpoint.save_policy(file, network, described(config) | made)
    return file


def sees_colour(config: TrainConfig) -> bool:
    """Return whether any drive of the training renders colour; if none does, the encoder is not needed."""
    section = config.imitation
    return config.network.rgb and section.colour > 0.0 and section.coloured > 0.0


def check(config: TrainConfig, device: torch.device) -> None:
    """Raise InputError or ConfigError, before anything is trained, for what cannot work."""
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: PyTorch finds no CUDA device here")
    rules_of(config)


def beginning(config: TrainConfig) -> PolicyNetwork:
    """Return an untrained network whose recurrent layer puts no weight yet on what the colour encoder says.

    Colour comes late in the training; until then the encoder's features are zeros, and nothing would hold the weights.
    """
    network = untrained(config.seed, config.network.widths, config.network.variant)
    silent = network.widths.rgb if network.variant.rgb else 0
    with torch.no_grad():
        network.gru.weight_ih_l0[:, :silent] = 0.0
    return network


def _encoder(config: TrainConfig, folder: Path, device: torch.device) -> Path:
    """Return the weights of the colour encoder, trained now if they are not there."""
    with Journal(folder, ENCODER_FOLDER, 1, 0) as journal:

        def tell(step: int, total: int, metrics: Mapping[str, float]) -> None:
            journal.show(step, total, metrics)
            if step > 0:
                journal.note(step, metrics)

        return train_encoder(
            config.encoder,
            config.seed,
            folder / ENCODER_FOLDER,
            config.network.widths,
            device=str(device),
            jobs=max(1, config.imitation.collectors),
            report=tell,
        )
