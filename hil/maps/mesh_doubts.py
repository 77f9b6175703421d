"""What a mesh file asks of its reader beyond triangles, and extents that no building has. Each is refused by a line."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.values.errors import InputError

# ---- glTF

GLB_HEAD = struct.Struct("<4sIIII")
HARMLESS = (
    "KHR_materials_", "KHR_texture_", "EXT_texture_", "MSFT_texture_", "KHR_lights_", "EXT_lights_", "KHR_xmp",
    "KHR_animation_", "KHR_mesh_quantization", "EXT_mesh_features", "EXT_structural_metadata", "CESIUM_RTC",
)  # fmt: skip
"""Extensions, by their beginnings, that change looks only, or that the reader follows."""
MOVING = ("EXT_mesh_gpu_instancing", "KHR_node_visibility")
"""Extensions of a node that add or hide geometry; they are often not listed as required."""
TRIANGLE_FAN = 6


def check_gltf(path: Path) -> None:
    """Raise InputError if a glTF file places triangles by a means that the reader leaves out, and name it.

    A file that is no glTF passes: the reader says what is wrong with it.
    """
    try:
        table = _gltf_table(path)
    except (OSError, ValueError, struct.error, RecursionError):
        return
    required, nodes, meshes = (_listed(table, key) for key in ("extensionsRequired", "nodes", "meshes"))
    unknown = {str(name) for name in required if not str(name).startswith(HARMLESS)}
    unknown |= {name for node in nodes for name in MOVING if name in _table(node, "extensions")}
    primitives = [one for mesh in meshes for one in _listed(mesh, "primitives")]
    positions = {_table(one, "attributes").get("POSITION") for one in primitives}
    used = [one for number, one in enumerate(_listed(table, "accessors")) if number in positions]
    means = {
        "KHR_mesh_quantization with normalized positions": any(_has(one, "normalized") for one in used),
        "positions without data (of an extension)": any(
            isinstance(one, dict) and "bufferView" not in one for one in used
        ),
        "sparse accessors": any(_has(one, "sparse") for one in _listed(table, "accessors")),
        "triangle fans": any(_has(one, "mode", TRIANGLE_FAN) for one in primitives),
        "skins": any("skin" in node for node in nodes if isinstance(node, dict)),
        "morph targets": any(any(_listed(one, "weights")) for one in (*nodes, *meshes)),
    }
    found = sorted(unknown) + [name for name, there in means.items() if there]
    if found:
        raise InputError(
            f"{path}: uses {', '.join(found)}, which is not read, so walls would be missing or elsewhere; export it "
            "with plain triangles, without compression and instancing"
        )


def _gltf_table(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        head = stream.read(GLB_HEAD.size)
        binary = head[:4] == b"glTF"
        text = stream.read(GLB_HEAD.unpack(head)[3]) if binary else head + stream.read()
    table = json.loads(text)
    return table if isinstance(table, dict) else {}


def _listed(table: Any, key: str) -> list[Any]:
    found = table.get(key) if isinstance(table, dict) else None
    return found if isinstance(found, list) else []


def _table(table: Any, key: str) -> dict[str, Any]:
    found = table.get(key) if isinstance(table, dict) else None
    return found if isinstance(found, dict) else {}


def _has(table: Any, key: str, value: Any = None) -> bool:
    found = table.get(key) if isinstance(table, dict) else None
    return bool(found) if value is None else found == value


# ---- Extents

STOREY_M = (1.5, 6.0)
"""Heights of one storey, and of a hall."""
FLOOR_OFF_M = 0.5
"""A building's floor is so near to z = 0."""
BELOW = 0.35
"""Part of a mesh below the floor that no building has."""
NARROW_M = 4.0
LEAST_WIDE_M, MOST_HIGH_M = 1.0, 100.0


def check_extents(
    path: Path, lowest_m: npt.NDArray[np.float64], highest_m: npt.NDArray[np.float64], y_up: bool, stated: str
) -> None:
    """Raise InputError for a mesh that seems to lie on its side, or to be of another unit.

    lowest_m, highest_m: (3,) extents as read, z up
    y_up:                whether the file was read with y up
    stated:              what says so, for the message
    """
    low, high = float(lowest_m[2]), float(highest_m[2])
    wide, deep, tall = (float(one) for one in highest_m - lowest_m)
    extents = f"{wide:.2f} x {deep:.2f} m wide and {tall:.2f} m high"
    if max(wide, deep) < LEAST_WIDE_M or tall > MOST_HIGH_M:
        raise InputError(f"{path}: is {extents}; is its unit right? {stated}")
    other = (-float(highest_m[1]), -float(lowest_m[1])) if y_up else (float(lowest_m[1]), float(highest_m[1]))
    storey = abs(other[0]) < FLOOR_OFF_M and STOREY_M[0] < deep < STOREY_M[1]
    if storey and tall > deep and (low < -BELOW * tall or (deep < NARROW_M < tall)):
        axis, reach = "z" if y_up else "y", f"{other[0]:.2f} to {other[1]:.2f} m"
        raise InputError(
            f"{path}: is {extents}, from z = {low:.2f} to {high:.2f} m: it seems to lie on its side. {stated} With "
            f"{axis} up it would reach from {reach}: change the axis in the file, or export it again"
        )
