"""Which files a map or an episode file consists of, so that whoever drives there can tell when one has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from hil.maps import ROS_SUFFIXES
from hil.vector_map import MAX_BYTES

JSON_SUFFIX, BUFFERS_SUFFIX = ".json", ".gltf"


def files_of(file: Path) -> list[Path]:
    """Return a file and those that it names: an episode file's map, a map's image, a mesh's buffers.

    They need not be there. Of a file that is damaged no others: whoever reads it says what is wrong.
    """
    named = _named_in(file)
    further = [one for map_file in named for one in _named_in(map_file)] if _suffix(file) == JSON_SUFFIX else []
    return [file, *named, *further]


def _named_in(file: Path) -> list[Path]:
    table = _table_in(file)
    if _suffix(file) == BUFFERS_SUFFIX:
        buffers = table.get("buffers")
        uris = [one.get("uri") for one in buffers if isinstance(one, dict)] if isinstance(buffers, list) else []
        return [file.parent / uri for uri in uris if isinstance(uri, str) and not uri.startswith("data:")]
    if _suffix(file) in ROS_SUFFIXES:
        return [file.parent / Path(str(table["image"])).expanduser()] if "image" in table else []
    named = Path(str(table.get("map", "")))
    return [file.parent / named] if named.suffix else []  # without one it is a map that ships


def _table_in(file: Path) -> dict[str, Any]:
    """Return the table in a file of a kind that names others; nothing of others, or where it cannot be read."""
    suffix = _suffix(file)
    if suffix not in (*ROS_SUFFIXES, JSON_SUFFIX, BUFFERS_SUFFIX):
        return {}
    try:
        if suffix == JSON_SUFFIX and file.stat().st_size > MAX_BYTES:
            return {}
        text = file.read_text(encoding="utf-8")
        table: Any = yaml.safe_load(text) if suffix in ROS_SUFFIXES else json.loads(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _suffix(file: Path) -> str:
    return file.suffix.lower()
