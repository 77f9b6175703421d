"""Map loading: shipped maps by name, files by suffix, ROS maps, and the list of files that a map depends on."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from hil.maps.made_floor import PREFIX, is_made, made_floor
from hil.maps.mesh_doubts import AS_IS
from hil.maps.vector_map import MAX_BYTES
from hil.maps.world_grid import CELL_M, World, world_of_walls
from onboard.perception.building.map_image import FREE, OCCUPIED, RosMapTable, check_size, read_map_image
from onboard.values.errors import InputError
from onboard.values.messages import Pose

MAPS_FOLDER = Path(__file__).parent / "data"
VECTOR_SUFFIX = ".json"
ROS_SUFFIXES = (".yaml", ".yml")
SURE_FREE_THRESH = 0.196
"""ROS 1's default, which separates map_saver's unknown (grey 205, occupancy 0.19608) from free ground (254)."""
_TOLD: set[Path] = set()
"""Maps whose warning is written; worker processes write none."""
MESH_SUFFIXES = (".glb", ".gltf", ".obj", ".dae")


def map_names() -> list[str]:
    """Return the names of the maps that ship with the package, sorted."""
    return sorted(file.name.split(".")[0] for file in MAPS_FOLDER.iterdir() if file.suffix in (".yaml", VECTOR_SUFFIX))


def load_map(name_or_path: str | Path) -> World:
    """Return the world of a shipped map or a made floor (by name), or of a map file (ROS .yaml, vector .json, mesh).

    `:as-is` behind the name of a mesh reads it although its shape is in doubt. Raises InputError with one line: file,
    field, limit.
    """
    path = without_as_is(name_or_path)
    if is_made(str(name_or_path)):
        return made_floor(str(name_or_path))
    if path.suffix == "":
        found = [file for suffix in (".yaml", VECTOR_SUFFIX) if (file := MAPS_FOLDER / f"{path.name}{suffix}").exists()]
        if not found:
            raise InputError(f"map {name_or_path}: no such map, there are {', '.join(map_names())}, and {PREFIX}SEED")
        path = found[0]
    if path.suffix in ROS_SUFFIXES:
        return load_ros_map(path)
    if path.suffix == VECTOR_SUFFIX:
        from hil.maps.vector_map import load_vector_map

        return load_vector_map(path)
    if path.suffix.lower() in MESH_SUFFIXES:
        from hil.maps.mesh import load_mesh

        return load_mesh(path, as_is=path != Path(name_or_path))
    raise InputError(
        f"{path}: a map is the .yaml of a pgm, the .json of a vector map, or a mesh ({', '.join(MESH_SUFFIXES)})"
    )


def without_as_is(name_or_path: str | Path) -> Path:
    """Return a map's file, or name, without the mark that lets a mesh in doubt pass."""
    return Path(str(name_or_path).removesuffix(AS_IS))


JSON_SUFFIX, BUFFERS_SUFFIX = ".json", ".gltf"


def files_of(file: Path) -> list[Path]:
    """Return a file and the files that it references: an episode file's map, a map's image, a mesh's buffers.

    The files may be missing. A damaged file yields no references; the loader reports the damage.
    """
    file = without_as_is(file)
    named = _named_in(file)
    further = [one for map_file in named for one in _named_in(map_file)] if _suffix(file) == JSON_SUFFIX else []
    return [file, *named, *further]


def _named_in(file: Path) -> list[Path]:
    table = _table_in(file)
    if _suffix(file) == BUFFERS_SUFFIX:
        buffers = table.get("buffers")
        uris = (
            [buffer.get("uri") for buffer in buffers if isinstance(buffer, dict)] if isinstance(buffers, list) else []
        )
        return [file.parent / uri for uri in uris if isinstance(uri, str) and not uri.startswith("data:")]
    if _suffix(file) in ROS_SUFFIXES:
        return [file.parent / Path(str(table["image"])).expanduser()] if "image" in table else []
    named = Path(str(table.get("map", "")))
    return [file.parent / named] if named.suffix else []  # a name without suffix is a shipped map


def _table_in(file: Path) -> dict[str, Any]:
    """Return the table of a file that can reference others; empty for other formats and for unreadable files."""
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


# ---- ROS occupancy maps, read as map_server and nav2 do (`onboard/perception/building/map_image.py`)


def load_ros_map(path: Path) -> World:
    """Return the world of a map_server yaml; occupied and unknown cells are walls. Raises InputError.

    The cell size is the map's resolution, divided by an integer if the resolution is coarser than `CELL_M`.
    """
    table, value = read_map_image(path, free_cells)
    free = free_cells(value, table)
    if not free.any():
        raise InputError(
            f"{path}: {table.image}: no cell is free in mode {table.mode}, free_thresh {table.free_thresh}"
        )
    divide = max(1, round(table.resolution / CELL_M))
    check_size(path.parent / table.image.expanduser(), free.shape[0] * divide, free.shape[1] * divide)

    def cells(image: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        return image[::-1].repeat(divide, axis=0).repeat(divide, axis=1)

    world = world_of_walls(path.stem, table.resolution / divide, Pose(*table.origin), ~cells(free))
    unseen = _unseen(path, table, free)
    return world if unseen is None else replace(world, unseen=np.pad(cells(unseen), 1))


def _unseen(path: Path, table: RosMapTable, free: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | None:
    """Return where the image is free by a `free_thresh` so high that map_saver's unknown is free too; None elsewhere.

    A map without any brighter cell means its greys: then all of it is free ground. So does a map that ships, whose
    committed episodes start there. Says the share, once.
    """
    if table.mode == "raw" or table.free_thresh <= SURE_FREE_THRESH or path.parent == MAPS_FOLDER:
        return None
    strictly = {"free_thresh": SURE_FREE_THRESH, "mode": "trinary"}
    sure = free_cells(read_map_image(path, lambda value, _: np.zeros(value.shape), **strictly)[1], table)
    unseen = free & ~sure
    if not sure.any() or not unseen.any():
        return None
    if path not in _TOLD and parent_process() is None:
        _TOLD.add(path)
        sys.stderr.write(
            f"warning: {path}: {unseen.mean():.0%} of the cells are as dark as map_saver's unknown ground (grey 205) "
            f"and yet free, by free_thresh {table.free_thresh:g}: state free_thresh: {SURE_FREE_THRESH:g}; no start "
            "or goal is drawn there\n"
        )
    return unseen


def free_cells(value: npt.NDArray[np.int8], table: RosMapTable) -> npt.NDArray[np.bool_]:
    """Return where occupancy is 0. In mode raw ROS defines no threshold, so this applies `free_thresh`."""
    return np.asarray((value >= FREE) & (value <= (OCCUPIED * table.free_thresh if table.mode == "raw" else FREE)))
