"""Trained weights as an export or another training begins with them: the trainer's file, or a plain state dict.

The trainer's (`engines/train/checkpoint.py`, `save_policy`) says what network it is, and in `meta` how it was trained;
what of `MANIFEST_FIELDS` it states there goes into the manifest's own fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.network import PAPER, PAPER_VARIANT, PolicyNetwork, Variant, Widths
from engines.torch_file import read_torch, require_finite
from engines.train.checkpoint import load_policy
from onboard.errors import InputError
from onboard.manifest import sha256_of

DELAY_TICKS, MEMORY_RESET_S = "training_delay_ticks", "memory_reset_s"
CONTROL_HZ, DECISION_HZ = "control_hz", "decision_hz"
MANIFEST_FIELDS = (DELAY_TICKS, CONTROL_HZ, DECISION_HZ, MEMORY_RESET_S)


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A network in evaluation mode, where its weights come from, and how they were trained (`described`), in plain
    values; nothing of a plain state dict."""

    network: PolicyNetwork
    origin: str
    meta: Mapping[str, Any] = field(default_factory=dict)


def load_policy_file(path: Path, widths: Widths = PAPER, variant: Variant = PAPER_VARIANT) -> PolicyFile:
    """Return the network in the trainer's file, or in a plain state dict, whose sizes `widths` and `variant` say.

    Raises ConfigError when the file cannot be read, InputError in one line when it holds no weights of such a network,
    or some that are not finite.
    """
    origin = f"checkpoint {path.name}, sha256 {sha256_of(path)}"
    table = read_torch(path)
    if "format" not in table:
        network = PolicyNetwork(widths, variant)
        try:
            network.load_state_dict(table)
        except (RuntimeError, TypeError) as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise InputError(f"{path}: not the weights of this network: {reason}") from error
        require_finite(path, network.state_dict())
        return PolicyFile(network.eval(), origin)
    network, meta = load_policy(path)
    return PolicyFile(network, origin, _plain(path, meta))


def _plain(path: Path, meta: dict[str, Any]) -> dict[str, Any]:
    """Return `meta` as JSON knows it. Raises InputError."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(meta, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: meta: must be plain values: {error}") from error
    return plain
