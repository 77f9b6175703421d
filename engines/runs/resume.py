"""What a training takes up of its checkpoint: all that must be there, of the right sizes and finite, or nothing.

So must all be finite before it takes the place of the checkpoint before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engines.runs.torch_file import require_finite
from onboard.values.errors import InputError

MEND = "give another --out, or remove it"
NUMBERS, BETAS = ("lr", "eps", "weight_decay"), "betas"
"""What every group of AdamW's state has, beside its parameters: numbers, and a pair of them."""
STEP, MOMENTS = "step", ("exp_avg", "exp_avg_sq")
"""What AdamW keeps of a parameter that has been changed."""


def take_weights(file: Path, name: str, network: nn.Module, wanted: Mapping[str, Tensor], found: object) -> None:
    """Put the weights of a checkpoint into a network, in place. name: that of the entry in the checkpoint.

    wanted: those of the network that are kept in a checkpoint
    Raises InputError in one line, and nothing is changed, unless exactly these are there, as large, and finite.
    """
    table = table_in(file, name, found)
    for one in {**wanted, **table}:
        if one not in table or one not in wanted:
            raise InputError(f"{file}: {name}.{one}: {'is missing' if one in wanted else 'unknown'}; {MEND}")
        _require_size(file, f"{name}.{one}", table[one], wanted[one])
    require_finite(f"{file}: {name}", table, MEND)
    network.load_state_dict(table, strict=False)


def take_steps(file: Path, name: str, optimizer: torch.optim.Optimizer, found: object) -> None:
    """Let an AdamW go on from what its `state_dict` was. name: that of the entry in the checkpoint.

    A parameter that has not been changed yet has no state. Raises InputError in one line, and nothing is changed, for
    the state of another optimizer, and for one whose numbers are not finite or that none can have.
    """
    table = table_in(file, name, found)
    _check_groups(file, name, optimizer, table.get("param_groups"))
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, state in table_in(file, f"{name}.state", table.get("state")).items():
        where = f"{name}.state.{index}"
        if index not in range(len(parameters)):
            raise InputError(f"{file}: {where}: expected 0 to {len(parameters) - 1}; {MEND}")
        kept = table_in(file, where, state)
        _require_size(file, f"{where}.{STEP}", kept.get(STEP), torch.zeros(()))
        for moment in MOMENTS:
            _require_size(file, f"{where}.{moment}", kept.get(moment), parameters[index])
        require_finite(f"{file}: {where}", kept, MEND)
        _require_number(file, f"{where}.{STEP}", kept[STEP].item())
    optimizer.load_state_dict(table)


def require_finite_step(where: str, network: nn.Module, optimizer: torch.optim.Optimizer, kept: str) -> None:
    """Raise InputError for weights, or what the optimizer keeps of them, that a step left without finite numbers.

    Loss and gradient may be finite before it. where: the stage and the step; kept: where the training can go on from
    """
    require_finite(f"{where}: its weights", network.state_dict(), kept)
    for index, state in enumerate(optimizer.state.values()):
        require_finite(f"{where}: its optimizer, parameter {index}", state, kept)


def taken_count(file: Path, name: str, found: object) -> int:
    """Return a number of chapters or updates. Raises InputError for what is none."""
    if type(found) is not int or found < 0:
        raise InputError(f"{file}: {name}: expected a whole number, 0 or more, found {_told(found)}; {MEND}")
    return found


def _check_groups(file: Path, name: str, optimizer: torch.optim.Optimizer, found: object) -> None:
    """Raise InputError unless these are groups of as many parameters as the optimizer's, with numbers to step by."""
    groups = found if isinstance(found, list) else []
    sizes = [_size(group) for group in groups]
    wanted = [len(group["params"]) for group in optimizer.param_groups]
    if sizes != wanted:
        raise InputError(f"{file}: {name}.param_groups: expected groups of {wanted} parameters, found {sizes}; {MEND}")
    for index, group in enumerate(groups):
        _check_numbers(file, f"{name}.param_groups.{index}", group)


def _check_numbers(file: Path, name: str, group: Mapping[str, Any]) -> None:
    for one in NUMBERS:
        _require_number(file, f"{name}.{one}", group[one])
    betas = group[BETAS]
    if not isinstance(betas, (list, tuple)) or len(betas) != 2:
        raise InputError(f"{file}: {name}.{BETAS}: expected two numbers, found {_told(betas)}; {MEND}")
    for index, beta in enumerate(betas):
        _require_number(file, f"{name}.{BETAS}.{index}", beta, below=1.0)


def _require_number(file: Path, name: str, found: object, below: float = math.inf) -> None:
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0.0 <= found < below:
        most = "" if below == math.inf else f" and below {below:g}"
        raise InputError(f"{file}: {name}: expected a finite number, 0 or more{most}, found {_told(found)}; {MEND}")


def _size(group: object) -> int | None:
    """Return how many parameters a group has, None for what is none."""
    if not isinstance(group, dict) or not isinstance(group.get("params"), list) or not {*NUMBERS, BETAS} <= {*group}:
        return None
    return len(group["params"])


def table_in(file: Path, name: str, found: object) -> dict[Any, Any]:
    """Return an entry of a checkpoint that must be a table. Raises InputError for what is none."""
    if not isinstance(found, Mapping):
        raise InputError(f"{file}: {name}: expected a table, found {_told(found)}; {MEND}")
    return dict(found)


def _require_size(file: Path, name: str, found: object, wanted: Tensor) -> None:
    if not isinstance(found, Tensor) or found.shape != wanted.shape:
        size = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else _told(found)
        raise InputError(f"{file}: {name}: expected numbers of shape {tuple(wanted.shape)}, found {size}; {MEND}")


def _told(found: object) -> str:
    """Return a value in one line, or what it is where it is long."""
    if found is None:
        return "none"
    return repr(found) if isinstance(found, (bool, int, float)) else type(found).__name__
