"""TOML files, checked at load. An unknown key is an error; each error is one line with file, field and limit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from onboard.values.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """A frozen table of a TOML file; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table in a TOML file. Raises ConfigError with the file and, if known, the line."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also numbers of 5000 digits and deep arrays
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def validation_line(path: Path, error: ValidationError) -> str:
    """Return pydantic's first error as one line: file, field, value, limit."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "file"
    if first["type"] == "extra_forbidden":
        return f"{path}: unknown key {where}"
    value = "" if first["type"] in ("missing", "value_error") else f" (is {first['input']!r})"
    return f"{path}: {where}: {first['msg']}{value}"
