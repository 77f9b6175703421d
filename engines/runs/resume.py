"""Resuming a training: a checkpoint with missing, foreign or non-finite numbers is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engines.runs.torch_file import require_finite
from onboard.values.errors import InputError

MEND = "use another --out, or remove it"
"""What the operator can do about a refused checkpoint."""
REFUSED = (AttributeError, KeyError, RuntimeError, TypeError, ValueError)
"""Errors of PyTorch's `load_state_dict` for a table of another shape."""


def take_weights(file: Path, name: str, network: nn.Module, wanted: Mapping[str, Tensor], found: object) -> None:
    """Load the weights of a checkpoint into a network, in place.

    name:   of the entry in the checkpoint
    wanted: the network's weights that a checkpoint keeps
    Raises InputError unless the entry has exactly these names, these shapes and finite numbers.
    """
    table = table_in(file, name, found)
    for key in sorted(wanted.keys() ^ table.keys()):
        raise InputError(f"{file}: {name}.{key}: {'is missing' if key in wanted else 'unknown'}; {MEND}")
    try:
        require_finite(f"{file}: {name}", table, MEND)
        network.load_state_dict(table, strict=False)
    except REFUSED as error:
        raise _refused(file, name, error) from error


def take_steps(file: Path, name: str, optimizer: torch.optim.Optimizer, found: object) -> None:
    """Load the state of an AdamW. name: of the entry in the checkpoint.

    Raises InputError for the state of another optimizer, for settings or step counts that AdamW cannot have, and for
    moments that are not finite or of another shape.
    """
    table = table_in(file, name, found)
    try:
        optimizer.load_state_dict(table)
        for index, group in enumerate(optimizer.param_groups):
            _require_settings(file, f"{name}.param_groups.{index}", group)
        for parameter, state in optimizer.state.items():
            require_finite(f"{file}: {name}.state", state, MEND)
            for moment in ("exp_avg", "exp_avg_sq"):
                if state[moment].shape != parameter.shape:
                    raise ValueError(f"{moment}: expected shape {tuple(parameter.shape)}")
            _require_number(file, f"{name}.state: step", float(state["step"]))
    except REFUSED as error:
        raise _refused(file, name, error) from error


def taken_count(file: Path, name: str, found: object) -> int:
    """Return a number of chapters, updates or steps. Raises InputError unless it is a whole number of 0 or more."""
    if type(found) is not int or found < 0:
        raise InputError(f"{file}: {name}: expected a whole number, 0 or more, found {found!r}; {MEND}")
    return found


def table_in(file: Path, name: str, found: object) -> dict[Any, Any]:
    """Return an entry of a checkpoint that must be a table. Raises InputError."""
    if not isinstance(found, Mapping):
        raise InputError(f"{file}: {name}: expected a table, found {type(found).__name__}; {MEND}")
    return dict(found)


def _require_settings(file: Path, name: str, group: Mapping[str, Any]) -> None:
    """Raise InputError for the first setting of a parameter group that AdamW refuses at its construction."""
    for setting in ("lr", "eps", "weight_decay"):
        _require_number(file, f"{name}.{setting}", group[setting])
    first, second = group["betas"]
    for index, beta in enumerate((first, second)):
        _require_number(file, f"{name}.betas.{index}", beta, below=1.0)


def _require_number(file: Path, name: str, found: object, below: float = math.inf) -> None:
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0.0 <= found < below:
        limit = "a finite number, 0 or more" if below == math.inf else f"a number, 0 or more and below {below:g}"
        raise InputError(f"{file}: {name}: expected {limit}, found {found!r}; {MEND}")


def _refused(file: Path, name: str, error: Exception) -> InputError:
    return InputError(f"{file}: {name}: {' '.join(str(error).split())}; {MEND}")
