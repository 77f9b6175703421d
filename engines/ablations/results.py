"""Result files of evaluations: only complete results are read, and files are written atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onboard.values.errors import InputError

CODE = ("code", "engines")
"""Keys of a configuration: digests of the code that drove; "engines" only for `DrawnEpisodes`."""
NOT_COMPARED = ("version", *CODE, "policy")
"""Keys of a configuration that may differ: results of older code are kept and marked; the model has a digest."""


def read_result(file: Path) -> dict[str, Any] | None:
    """Return the complete result of an evaluation, None without one. Raises InputError for another file."""
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: not the result of an evaluation: {error}") from error
    if not isinstance(table, dict) or not isinstance(table.get("configuration"), dict):
        raise InputError(f"{file}: not the result of an evaluation")
    return table if table.get("complete") else None


def is_of(result: Mapping[str, Any] | None, configuration: Mapping[str, Any]) -> bool:
    """Return whether a result is of this model, robot, condition and episodes; False for None.

    Keys that an older result lacks are not compared.
    """
    if result is None:
        return False
    there, here = _compared(result["configuration"]), _compared(configuration)
    return there == {name: value for name, value in here.items() if name in there}


def is_current(result: Mapping[str, Any], configuration: Mapping[str, Any]) -> bool:
    """Return whether this version of the code drove a result."""
    return all(result["configuration"].get(name) == configuration.get(name) for name in CODE)


def write_whole(file: Path, text: str) -> None:
    """Write a file atomically. Raises InputError."""
    beside = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from error


def _compared(configuration: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in configuration.items() if name not in NOT_COMPARED}
    result: dict[str, Any] = json.loads(json.dumps(plain))
    return result
