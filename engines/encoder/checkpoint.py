"""What the encoder's training writes by `torch.save`: whole files or none, and read back without running code."""

from __future__ import annotations

import hashlib
import os
import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from onboard.errors import InputError

UNREADABLE = (pickle.UnpicklingError, EOFError, KeyError, RuntimeError, TypeError)


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


def write_torch(file: Path, table: dict[str, Any]) -> None:
    """Save under another name, then rename. Raises InputError when it cannot be written."""
    part = file.with_name(file.name + ".part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as target:
            torch.save(table, target)
            target.flush()
            os.fsync(target.fileno())
        os.replace(part, file)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from error


def read_torch(file: Path) -> dict[str, Any]:
    """Return what a file of `write_torch` holds, on the CPU. Raises InputError for any other file."""
    try:
        whole = zipfile.is_zipfile(file)
        found = torch.load(file, map_location="cpu", weights_only=True) if whole else None
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except UNREADABLE as error:
        raise InputError(f"{file}: not a file by torch.save: {str(error).strip().splitlines()[0]}") from error
    if not isinstance(found, dict):
        raise InputError(f"{file}: not a file by torch.save, or a truncated one")
    return found
