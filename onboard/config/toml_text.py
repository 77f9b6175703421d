"""TOML text from a section: what is in effect, or a template with every key of a schema and its comment."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from onboard.config.toml_file import Section

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
WIDTH = 110
"""Longest line of a comment."""


def as_toml(config: Section, head: str, stated_only: bool = False) -> str:
    """Return the TOML text from which `load_config` reads the same configuration. Values of None are omitted.

    stated_only: omit values that are equal to their defaults
    """
    values = config.model_dump(mode="json", exclude_defaults=stated_only)
    tables = [f"\n[{name}]\n{_rows(table)}" for name, table in values.items() if table]
    return head + "".join(tables)


def _rows(table: dict[str, Any]) -> str:
    return "".join(f"{toml_key(key)} = {toml_value(value)}\n" for key, value in table.items() if value is not None)


def toml_value(value: Any) -> str:
    """Return a plain value as TOML writes it."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_key(key)} = {toml_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(one) for one in value) + "]"
    return json.dumps(value)


def toml_key(name: str) -> str:
    """Return a key, quoted if it must be."""
    return name if BARE_KEY.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    """Return a TOML basic string. TOML has the escapes of JSON and also escapes DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# ---- The template: a key that is not stated stands as a comment with its default, `#key = value`


def template(section: type[Section], stated: Mapping[str, Any]) -> str:
    """Return the TOML text of a file in which every key has its comment, made from the section's schema.

    stated: plain values by table and key; a file that is uncommented whole is equal to the defaults but for these
    """
    schema = section.model_json_schema()
    blocks = [
        block
        for name, field in schema["properties"].items()
        for block in _tables(schema["$defs"], name, field, stated.get(name))
    ]
    return "\n".join(blocks)


def _tables(defs: Mapping[str, Any], name: str, field: Mapping[str, Any], stated: Any) -> list[str]:
    """Return the text of a table; of a dictionary of tables one for each that is stated, with comments at the first."""
    if "additionalProperties" in field:
        table = defs[_reference(field["additionalProperties"])]
        return [
            _table(table, f"{name}.{toml_key(one)}", values, commented=number == 0)
            for number, (one, values) in enumerate((stated or {}).items())
        ]
    table = defs[_reference(field)]
    text = _table(table, name, stated or {})
    if stated is None and "anyOf" in field:
        text = f"# {field['description']}\n" + re.sub(r"(?m)^\[", "#[", text.split("\n\n", 1)[1])
    return [text]


def _reference(field: Mapping[str, Any]) -> str:
    kinds = [field, *field.get("anyOf", [])]
    return next(str(kind["$ref"]) for kind in kinds if "$ref" in kind).rpartition("/")[2]


def _table(table: Mapping[str, Any], name: str, stated: Mapping[str, Any], *, commented: bool = True) -> str:
    lines = [*_comment(table["description"]), ""] if commented else []
    lines.append(f"[{name}]")
    for key, field in table["properties"].items():
        if commented:
            lines += _comment(_meaning(field))
        if key in stated:
            lines.append(f"{toml_key(key)} = {toml_value(stated[key])}")
        elif commented:
            lines.append(f"#{toml_key(key)} = {_default(field)}")
    return "\n".join(lines) + "\n"


def _default(field: Mapping[str, Any]) -> str:
    """Return the default; of a key without one, or unset, its example."""
    empty: Any = {"array": [], "object": {}}.get(field.get("type", ""), "")
    value = field.get("default")
    value = field.get("examples", [empty])[0] if value is None else value
    return str(value) if "date" in str(field.get("anyOf")) else toml_value(value)


LIMITS = {"exclusiveMinimum": "above", "minimum": "at least", "maximum": "at most", "enum": "one of"}


def _meaning(field: Mapping[str, Any]) -> str:
    """Return what a key means, with its limits."""
    rules = {name: value for one in (field, *field.get("anyOf", [])) for name, value in one.items() if name in LIMITS}
    parts = [
        f"{word} {', '.join(map(json.dumps, rules[name])) if name == 'enum' else format(rules[name], 'g')}"
        for name, word in LIMITS.items()
        if name in rules
    ]
    optional = ["optional"] if field.get("default", "") is None else []
    return "; ".join([field["description"], *parts, *optional])


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="#   ", break_long_words=False)
