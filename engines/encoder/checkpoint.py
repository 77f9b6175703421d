"""Where the encoder's training goes on from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.torch_file import read_torch, write_torch
from onboard.errors import InputError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A training after `step` steps. Batches are functions of seed and step, so there is no generator to keep.

    identity: a line that is the same for the same training
    model, optimizer: their state dicts
    """

    identity: str
    step: int
    model: dict[str, Any]
    optimizer: dict[str, Any]


def save_checkpoint(file: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in place of the one before. Raises InputError."""
    table = {"identity": checkpoint.identity, "step": checkpoint.step}
    write_torch(file, table | {"model": checkpoint.model, "optimizer": checkpoint.optimizer})


def load_checkpoint(file: Path, identity: str) -> Checkpoint | None:
    """Return the checkpoint of this training, None where there is none. Raises InputError for that of another one."""
    if not file.exists():
        return None
    table = read_torch(file)
    if set(table) != {"identity", "step", "model", "optimizer"}:
        raise InputError(f"{file}: not a checkpoint of the encoder's training")
    if table["identity"] != identity:
        raise InputError(
            f"{file}: a checkpoint of another configuration ({short(table['identity'])}, this one is "
            f"{short(identity)}): name another folder, or delete it to begin again"
        )
    return Checkpoint(**table)


def short(identity: str) -> str:
    """Return a short name of a configuration."""
    return hashlib.sha256(identity.encode()).hexdigest()[:12]
