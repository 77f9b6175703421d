"""TOML files, checked at load. An unknown key is an error; each error is a line with file, field, value and limit."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from onboard import __version__
from onboard.values.errors import ConfigError, OnboardError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1)]

MOST_MISTAKES = 20
"""Largest number of a file's mistakes that are named."""
OTHER_TABLE = 0.8
"""Likeness (of difflib, 0 to 1) from which a key of another table is proposed."""


class Section(BaseModel):
    """A frozen table of a TOML file; an unknown key is an error.

    The schema describes the table by its docstring, and each key by the description of its `Field`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        table = handler.resolve_ref_schema(schema)
        table["description"] = " ".join((cls.__doc__ or "").split())
        for field in table.get("properties", {}).values():
            field.pop("title", None)
            if "$ref" in field:
                field.pop("default", None)  # the table states the default of each key
        return schema


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table in a TOML file. Raises ConfigError with the file and, if known, the line."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also numbers of 5000 digits and deep arrays
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def toml_or_text(text: str) -> Any:
    """Return the value that a text has in TOML; a text that is no value, as `reactive`, is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def validation_lines(source: object, error: ValidationError) -> str:
    """Return a line for each of pydantic's errors: source (a file), field, value, limit; the nearest known key."""
    lines = [f"{source}: {_mistake(error.title, dict(one))}" for one in error.errors(include_url=False)]
    more = len(lines) - MOST_MISTAKES
    return "\n".join([*lines[:MOST_MISTAKES], *([f"{source}: {more} more mistakes"] if more > 0 else [])])


@contextmanager
def checked(source: object, kind: type[OnboardError] = ConfigError) -> Iterator[None]:
    """Raise an error with the lines of `validation_lines` for what pydantic refuses within."""
    try:
        yield
    except ValidationError as error:
        raise kind(validation_lines(source, error)) from error


def _mistake(section: str, found: dict[str, Any]) -> str:
    parts = [str(part) if str(part).isprintable() else repr(part) for part in found["loc"]]
    where = ".".join(parts) or "file"
    if found["type"] == "extra_forbidden":
        near = nearest_key(_section(section), parts)
        hint = (
            f"did you mean {near}?"
            if near
            else f"onboard {__version__} has no such key: was the file written for another version?"
        )
        return f"unknown key {where}; {hint}"
    value = "" if found["type"] in ("missing", "value_error") else f" (is {found['input']!r})"
    return f"{where}: {found['msg'].removeprefix('Value error, ')}{value}"


def _section(name: str) -> type[Section] | None:
    """Return the section of a name, by which pydantic titles its errors."""
    return next((subclass for subclass in Section.__subclasses__() if subclass.__name__ == name), None)


def nearest_key(section: type[Section] | None, parts: Sequence[str]) -> str | None:
    """Return the known key that looks most like an unknown key: of its own table, else of another.

    section: what the file holds; parts: the unknown key, with its tables before it
    """
    *tables, key = parts
    own: Any = section
    for table in tables:
        own = _value_type(own, table)
    if near := difflib.get_close_matches(key, _fields(own), 1):
        return ".".join([*tables, near[0]])
    others = {name: table for table in reversed(_fields(section)) for name in _fields(_value_type(section, table))}
    near = difflib.get_close_matches(key, others, 1, OTHER_TABLE)
    return f"{others[near[0]]}.{near[0]}" if near else None


def _fields(kind: Any) -> list[str]:
    section = section_of(kind)
    return [] if section is None else list(section.model_fields)


def _value_type(kind: Any, key: str) -> Any:
    """Return what a table holds at a key: a section its field, a dictionary or a list its values."""
    if get_origin(kind) in (dict, list):
        return get_args(kind)[-1]
    section = section_of(kind)
    return None if section is None or key not in section.model_fields else section.model_fields[key].annotation


def section_of(kind: Any) -> type[Section] | None:
    """Return the section of an annotation: the section itself, or of `Section | None`; None for all others."""
    for one in (kind, *(get_args(kind) if get_origin(kind) not in (dict, list, tuple) else ())):
        if get_origin(one) is None and isinstance(one, type) and issubclass(one, Section):
            return one
    return None
