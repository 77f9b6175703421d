"""Results of evaluations as files: read when complete, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onboard.values.errors import InputError

CODE = ("code", "engines")
"""Of an evaluation's configuration: the digests of the code that drove it; the second only where `engines` did."""
NOT_COMPARED = ("version", *CODE, "policy")
"""Of an evaluation's configuration: a result of older code is kept, and said to be that; a model has its digest."""


def read_result(file: Path) -> dict[str, Any] | None:
    """Return a complete result of an evaluation, None where there is none. Raises InputError for another file."""
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
    """Return whether a result is there, of this model, robot, condition and episodes.

    What a result does not say, being of an older version, is not compared.
    """
    if result is None:
        return False
    there, here = _compared(result["configuration"]), _compared(configuration)
    return there == {name: value for name, value in here.items() if name in there}


def is_current(result: Mapping[str, Any], configuration: Mapping[str, Any]) -> bool:
    """Return whether this state of the code has driven a result."""
    return all(result["configuration"].get(name) == configuration.get(name) for name in CODE)


def write_whole(file: Path, text: str) -> None:
    """Write a file beside the old one, then in its place. Raises InputError."""
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
