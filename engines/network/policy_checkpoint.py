"""Checkpoints of a training, and its policy: written atomically."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from engines.network.network import PAPER, PAPER_VARIANT, PolicyNetwork, Variant, Widths
from engines.runs.torch_file import read_torch, require_finite, write_torch
from onboard.policy.manifest import sha256_of
from onboard.values.errors import InputError

TRAINING, POLICY = "onboard-training", "onboard-policy"
VERSION = 1


def load(file: Path, form: str) -> dict[str, Any]:
    """Return the table of a file. Raises InputError for another format, a damaged or a missing file."""
    content = read_torch(file)
    if content.get("format") != form or content.get("version") != VERSION:
        raise InputError(f"{file}: not an {form} file of version {VERSION}")
    return content


def save_training(file: Path, stage: str, digest: str, began: str, content: Mapping[str, Any]) -> None:
    """Write a checkpoint of a stage; digest and began as for `load_training`. Raises InputError."""
    head = {"format": TRAINING, "version": VERSION, "stage": stage, "digest": digest, "began": began}
    write_torch(file, {**head, **content})


def load_training(file: Path, digest: str, began: str) -> dict[str, Any] | None:
    """Return the checkpoint to resume from, None without a file.

    digest: of the configuration; began: `digest_of` the initial network of the stage
    Raises InputError for a checkpoint of another configuration, or of another initial network.
    """
    if not file.exists():
        return None
    content = load(file, TRAINING)
    if content.get("digest") != digest:
        raise InputError(
            f"{file}: made with another configuration (digest {str(content.get('digest'))[:12]}, this one has "
            f"{digest[:12]}); use another --out, or remove it"
        )
    if content.get("began") != began:
        raise InputError(
            f"{file}: began with other weights, of another --init or colour encoder (digest "
            f"{str(content.get('began'))[:12]}, these have {began[:12]}); use another --out, or remove it"
        )
    return content


def digest_of(network: nn.Module) -> str:
    """Return a digest of all weights and statistics of a network, with the colour encoder."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def save_policy(file: Path, network: PolicyNetwork, meta: Mapping[str, Any]) -> None:
    """Write a network with its sizes, variant and meta, for `onboard-engines export`.

    Raises InputError, also for weights that are not finite; the old file then stays.
    """
    require_finite(f"{file}: not written", network.state_dict(), "train with a lower rate")
    content = {
        "format": POLICY,
        "version": VERSION,
        "widths": asdict(network.widths),
        "variant": asdict(network.variant),
        "state": {name: value.detach().cpu() for name, value in network.state_dict().items()},
        "meta": dict(meta),
    }
    write_torch(file, content)


def load_policy(file: Path) -> tuple[PolicyNetwork, dict[str, Any]]:
    """Return the network that `save_policy` wrote, in evaluation mode, and its meta.

    Raises InputError for any other file, and for weights that are not finite.
    """
    content = load(file, POLICY)
    try:
        sizes = dict(content["widths"])
        widths = Widths(**{**sizes, "scan_channels": tuple(sizes["scan_channels"])})
        network = PolicyNetwork(widths, Variant(**content["variant"]))
        network.load_state_dict(content["state"])
    except (KeyError, TypeError, RuntimeError, ValueError) as error:
        raise InputError(f"{file}: not the weights that it says: {str(error).strip().splitlines()[0]}") from error
    require_finite(file, network.state_dict())
    return network.eval(), _meta(file, content)


def _meta(file: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    meta = content.get("meta")
    if not isinstance(meta, dict):
        found = "none" if meta is None else type(meta).__name__
        raise InputError(f"{file}: meta: expected a table of how it was trained, found {found}")
    return dict(meta)


# ---- Trained weights for an export or another training: the trainer's file, or a plain state dict

DELAY_TICKS, MEMORY_RESET_S = "training_delay_ticks", "memory_reset_s"
CONTROL_HZ, DECISION_HZ = "control_hz", "decision_hz"
MANIFEST_FIELDS = (DELAY_TICKS, CONTROL_HZ, DECISION_HZ, MEMORY_RESET_S)


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A network in evaluation mode, the origin of its weights, and their training as plain values (`described`).

    meta is empty for a plain state dict.
    """

    network: PolicyNetwork
    origin: str
    meta: Mapping[str, Any] = field(default_factory=dict)


def load_policy_file(path: Path, widths: Widths = PAPER, variant: Variant = PAPER_VARIANT) -> PolicyFile:
    """Return the network in the trainer's file, or in a plain state dict of `widths` and `variant`.

    Raises ConfigError if the file cannot be read, InputError for other weights, and for weights that are not finite.
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
    """Return `meta` with types of JSON. Raises InputError."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(meta, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: meta: must be plain values: {error}") from error
    return plain
