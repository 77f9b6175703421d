"""Files by `torch.save`: written atomically, and read without running code from the file."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from onboard.values.errors import InputError, naming

_DAMAGED = (
    pickle.UnpicklingError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, OverflowError,
    RuntimeError, TypeError, ValueError, struct.error, zipfile.BadZipFile,
)  # fmt: skip
"""Errors of PyTorch's unpickler for a damaged file."""


def write_torch(file: Path, table: Mapping[str, Any]) -> None:
    """Write a table atomically. Raises InputError if it cannot be written."""
    part = file.with_name(file.name + ".part")
    with naming(file, "written"):
        file.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as target:
            torch.save(dict(table), target)
            target.flush()
            os.fsync(target.fileno())
        os.replace(part, file)


def read_torch(file: Path) -> dict[str, Any]:
    """Return the table in a file, on the CPU. Raises InputError for any other file, or a missing file."""
    if not file.is_file():
        raise InputError(f"{file}: there is no such file")
    try:
        found = torch.load(file, map_location="cpu", weights_only=True) if zipfile.is_zipfile(file) else None
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except _DAMAGED as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{file}: not a file by torch.save: {reason}") from error
    if not isinstance(found, dict):
        raise InputError(f"{file}: not a file by torch.save, or a truncated one")
    return found


def require_finite(where: object, weights: Mapping[str, Any], mend: str = "use another file") -> None:
    """Raise InputError for the first tensor with numbers that are not finite.

    where: the file, for the message; mend: what the operator can do
    """
    for name, value in weights.items():
        if isinstance(value, torch.Tensor) and not (finite := torch.isfinite(value)).all():
            wrong = value.numel() - int(finite.sum())
            raise InputError(f"{where}: {name}: {wrong} of {value.numel()} numbers are not finite; {mend}")
