"""The network that a training begins with when it does not begin anew: `onboard-engines train --init`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engines.network import PolicyNetwork
from engines.policy_file import PolicyFile
from engines.restore import initial_weights
from engines.train.config import TrainConfig
from onboard.errors import InputError


def initial_policy(init: str | Path, config: TrainConfig) -> PolicyFile:
    """Return a policy that ships, by name, an exported .onnx, or a file of the trainer, and how it was trained.

    Whether an auxiliary head is learned is the recipe's matter: no exported model holds one.
    Raises InputError in one line where it cannot be read or is not of the recipe's network, ConfigError for a manifest.
    """
    found = initial_weights(str(init))
    _require_same(init, "sizes", asdict(config.network.widths), asdict(found.network.widths))
    _require_same(init, "network", asdict(config.network.variant), asdict(found.network.variant))
    if found.network.variant == config.network.variant:
        return found
    network = PolicyNetwork(config.network.widths, config.network.variant)
    network.load_state_dict(found.network.state_dict())
    return replace(found, network=network.eval())


def _require_same(init: str | Path, table: str, wanted: dict[str, Any], found: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if name != "auxiliary" and found[name] != value:
            raise InputError(
                f"--init {init}: {table}.{name}: the recipe has {value}, this policy was made with {found[name]}"
            )
