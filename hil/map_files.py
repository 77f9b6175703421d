"""Which files a map or an episode file consists of, so that whoever drives there can tell when one has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from hil.maps import World
from hil.vector_map import MAX_BYTES
from onboard.errors import InputError

MAPS_FOLDER = Path(__file__).parent / "maps_data"
VECTOR_SUFFIX = ".json"
ROS_SUFFIXES = (".yaml", ".yml")
MESH_SUFFIXES = (".glb", ".gltf", ".obj", ".dae")


def map_names() -> list[str]:
    """Return the names of the maps that ship with the package, sorted."""
    return sorted(file.name.split(".")[0] for file in MAPS_FOLDER.iterdir() if file.suffix in (".yaml", VECTOR_SUFFIX))


def load_map(name_or_path: str | Path) -> World:
    """Return the world of a shipped map, by name, or of a file: .yaml of a pgm, .json of a vector map, or a mesh.

    Raises InputError with one line: file, field, limit.
    """
    path = Path(name_or_path)
    if path.suffix == "":
        found = [file for suffix in (".yaml", VECTOR_SUFFIX) if (file := MAPS_FOLDER / f"{path.name}{suffix}").exists()]
        if not found:
            raise InputError(f"map {name_or_path}: no such map, there are {', '.join(map_names())}")
        path = found[0]
    if path.suffix in ROS_SUFFIXES:
        from hil.ros_map import load_ros_map

        return load_ros_map(path)
    if path.suffix == VECTOR_SUFFIX:
        from hil.vector_map import load_vector_map

        return load_vector_map(path)
    if path.suffix.lower() in MESH_SUFFIXES:
        from hil.mesh import load_mesh

        return load_mesh(path)
    raise InputError(
        f"{path}: a map is the .yaml of a pgm, the .json of a vector map, or a mesh ({', '.join(MESH_SUFFIXES)})"
    )


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
