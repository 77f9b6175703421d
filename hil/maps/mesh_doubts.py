"""What a mesh file asks of its reader beyond triangles, and shapes that no building has. Each is refused by a line.

A shape is a doubt only: `AS_IS` behind the file's name lets it pass.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.values.errors import InputError

Floats = npt.NDArray[np.float64]
Triangles = npt.NDArray[np.float64]

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
    positions = {_table(primitive, "attributes").get("POSITION") for primitive in primitives}
    used = [one for number, one in enumerate(_listed(table, "accessors")) if number in positions]
    means = {
        "KHR_mesh_quantization with normalized positions": any(_has(one, "normalized") for one in used),
        "positions without data (of an extension)": any(
            isinstance(one, dict) and "bufferView" not in one for one in used
        ),
        "sparse accessors": any(_has(one, "sparse") for one in _listed(table, "accessors")),
        "triangle fans": any(_has(primitive, "mode", TRIANGLE_FAN) for primitive in primitives),
        "skins": any("skin" in node for node in nodes if isinstance(node, dict)),
        "morph targets": any(any(_listed(one, "weights")) for one in (*nodes, *meshes)),
    }
    found = sorted(unknown) + [name for name, there in means.items() if there]
    if found:
        raise InputError(
            f"{path}: uses {', '.join(found)}, which is not supported, so walls would be missing or elsewhere; export "
            "it with plain triangles, without compression and instancing"
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


# ---- Shapes that no building has

AS_IS = ":as-is"
"""Behind the name of a mesh: read it, whatever is in doubt."""
STOREY_M = 6.0
"""Highest room whose height may exceed the other sides by much."""
FLOOR_OFF_M = 0.5
"""The floor of a mesh with the right axis is so near to z = 0."""
BELOW = 0.35
"""Part of a mesh below the floor that no building has."""
NARROW_M = 4.0
"""A closed box that is narrower than this and higher seems to lie."""
ABOUT_SQUARE, AS_HIGH, OPEN_HIGH = 1.05, 1.2, 1.8
"""Most that a height exceeds the narrower side: if sizes alone decide, if the levels decide, if an open top does.
"""
COVERED, OPEN = 0.5, 0.25
"""Parts of the plan at an end of an axis that faces cover: at least where a wall, floor or ceiling ends it, at most
where nothing does."""
LEAST_WIDE_M, MOST_HIGH_M = 1.0, 100.0
LEVEL_M = 0.3
"""Walls of one storey begin and end within this height."""
MOSTLY, CLEARLY = 0.9, 0.1
"""Along the axis that is up at least the first part of the surface begins and ends on two levels, and more than along
the other axis by the second."""
FLOOR_M = 0.15
"""The floor is within this height of z = 0."""
FLAT = 0.9
FLOOR_SHARE, GROUND_SHARE = 0.05, 0.2
"""Parts of the plan that are level at z = 0 where there is a floor, and at least where it could be instead."""


def check_shape(path: Path, triangles: Triangles, other_axis: str, collada: bool, stated: str) -> None:
    """Raise InputError for a mesh that seems to lie on its side, to be of another unit, or to have its floor elsewhere.

    triangles:  (n, 3, 3) as read, z up [m]
    other_axis: the file's axis that could be up instead: "z" where it was read with y up, "y" with z, "" for neither
    collada:    whether a COLLADA header says so
    stated:     what says so, for the message
    """
    lowest_m, highest_m = triangles.min(axis=(0, 1)), triangles.max(axis=(0, 1))
    low, high = float(lowest_m[2]), float(highest_m[2])
    wide, deep, tall = (float(one) for one in highest_m - lowest_m)
    extents = extents_of(lowest_m, highest_m)
    if max(wide, deep) < LEAST_WIDE_M or tall > MOST_HIGH_M:
        raise _doubt(path, f"{extents}; is its unit right? {stated}")
    y_up = other_axis == "z"
    other = (-float(highest_m[1]), -float(lowest_m[1])) if y_up else (float(lowest_m[1]), float(highest_m[1]))
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    areas = np.linalg.norm(normals, axis=1) / 2.0
    tilt = abs(normals) / np.maximum(2.0 * areas, 1e-12)[:, None]
    levels = [_on_two_levels(triangles[..., axis], areas * (1.0 - tilt[:, axis])) for axis in range(3)]
    top_y, top_z = 0 if y_up else 1, 1
    cover_y, cover_z = (_covers(triangles, areas * (tilt[:, axis] > FLAT), axis) for axis in (1, 2))
    stands = cover_z[top_z] < OPEN and min(cover_y) > COVERED
    if levels[1] > max(MOSTLY, levels[2] + CLEARLY) and deep < max(STOREY_M, AS_HIGH * tall):
        lies = True
    elif stands or levels[2] >= levels[1] + CLEARLY:
        lies = False
    elif cover_y[top_y] < OPEN and min(cover_z) > COVERED:
        lies = deep < OPEN_HIGH * tall
    elif collada and y_up:
        lies = deep < ABOUT_SQUARE * tall
    else:
        narrow = abs(other[0]) < FLOOR_OFF_M and deep < max(NARROW_M, tall / 2.0) and tall > NARROW_M
        lies = deep < tall and (low < -BELOW * tall or narrow)
    if lies and other_axis:
        raise _doubt(
            path,
            f"{extents}, from z = {low:.2f} to {high:.2f} m: it seems to lie on its side. {stated} With "
            f"{other_axis} up it would reach from {other[0]:.2f} to {other[1]:.2f} m: change the axis in the "
            "file, or export it again",
        )
    flat = tilt[:, 2] > FLAT
    heights = triangles[flat].mean(axis=1)[:, 2]
    plan_m2 = wide * deep
    if abs(low) > FLOOR_M and areas[flat][abs(heights) < FLOOR_M].sum() < FLOOR_SHARE * plan_m2:
        ground = _ground(heights, areas[flat], plan_m2)
        at = low if ground is None else ground
        raise _doubt(
            path,
            f"reaches from z = {low:.2f} to {high:.2f} m, and nothing level is at z = 0, where the floor must be; "
            f"{'its lowest point' if ground is None else 'its lowest level ground'} is at {at:.2f} m: move it by "
            f"{-at:+.2f} m in the file",
        )


def extents_of(lowest_m: Floats, highest_m: Floats) -> str:
    """Return the words for the extents of a mesh, from its least and its greatest x, y, z [m]."""
    wide, deep, tall = highest_m - lowest_m
    return f"is {wide:.2f} x {deep:.2f} m wide and {tall:.2f} m high"


def _doubt(path: Path, what: str) -> InputError:
    return InputError(f"{path}: {what}; {path.name}{AS_IS} reads it as it is")


def _on_two_levels(along_m: Floats, areas: Floats) -> float:
    """Return the part of the corners on the two fullest levels of an axis: both ends of walls, where it is up."""
    bins = np.floor((along_m - along_m.min()) / LEVEL_M + 0.5).astype(np.int64)
    full = np.sort(np.bincount(bins.ravel(), np.repeat(areas, 3)))
    return float(full[-2:].sum() / max(full.sum(), 1e-12))


def _covers(triangles: Triangles, level_m2: Floats, axis: int) -> tuple[float, float]:
    """Return the parts of the plan across an axis that faces cover at its low and at its high end.

    level_m2: (n,) areas of the faces across the axis, 0 of others
    """
    extent_m = np.ptp(triangles, axis=(0, 1))
    plan_m2 = max(float(np.delete(extent_m, axis).prod()), 1e-12)
    within_m = min(LEVEL_M, float(extent_m[axis]) / 4.0)
    at_m = triangles[..., axis].mean(axis=1)
    low, high = at_m < at_m.min() + within_m, at_m > at_m.max() - within_m
    return float(level_m2[low].sum() / plan_m2), float(level_m2[high].sum() / plan_m2)


def _ground(heights: Floats, areas: Floats, plan_m2: float) -> float | None:
    """Return the lowest height that a floor-sized part of the plan is level at [m]; None without one."""
    order = np.argsort(heights)
    sums = np.concatenate([[0.0], np.cumsum(areas[order])])
    ends = np.searchsorted(heights[order], heights[order] + LEVEL_M, side="right")
    large = np.flatnonzero(sums[ends] - sums[:-1] >= GROUND_SHARE * plan_m2)
    return float(heights[order][large[0]]) if large.size else None
