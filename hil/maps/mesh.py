"""Buildings as meshes: glTF, OBJ and COLLADA, read by trimesh (extra `mesh`), as vertical intervals per cell.

Every cell under a triangle is solid at the exact heights of the triangle there. Enclosed volumes are not filled. If a
cell has more surfaces than intervals, the nearest are merged.

The floor is z = 0. Geometry below `FLOOR_M` counts as floor, and geometry above `WALL_HEIGHT_M` is ignored, so the mesh
may contain floors and ceilings. x and y are in the map frame. The format defines the up axis and the unit:

    glTF     y up, metres (specification)
    COLLADA  as its header states; default y up, metres
    OBJ      z up, metres, as ROS tools assume; the format states neither

From y up, (x, y, z) becomes (x, -z, y).
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from hil.maps.cell_kernels import add_interval
from hil.maps.materials import MATERIALS
from hil.maps.mesh_doubts import check_gltf, check_shape, extents_of
from hil.maps.world_grid import CELL_M, WALL_HEIGHT_M, World, check_coordinates, make_world
from onboard.perception.building.map_image import check_size
from onboard.values.errors import InputError, MissingExtraError
from onboard.values.kernel import kernel
from onboard.values.messages import Pose

FLOOR_M = 0.03
"""Below the obstacle threshold of a scan, above the unevenness of most mesh floors."""
MARGIN_M = 2.0
"""Open ground around a mesh."""
INTERVALS = 4
MAX_BYTES = 512_000_000
MAX_FACES = 8_000_000
TALL_M = 2.0
"""Cells of at least this height get the wall material, lower cells the furniture material."""
WALL, FURNITURE = "wall", "wood"
MOST_CORNERS = 8
"""Upper limit of the corners of a triangle after clipping to a cell."""
COLLADA_SUFFIX, OBJ_SUFFIX = ".dae", ".obj"
READ_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, SyntaxError, TypeError,
    ValueError, struct.error,
    UnboundLocalError,  # trimesh, for a GLB with an accessor of an unknown kind
)  # fmt: skip
"""Exceptions of trimesh and pycollada for damaged files."""

Z_UP = np.eye(3)
Y_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
X_UP = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
UPS = {"X_UP": X_UP, "Y_UP": Y_UP, "Z_UP": Z_UP}
"""Rotations to z up, by COLLADA's names."""


def load_mesh(path: Path, as_is: bool = False) -> World:
    """Return the world of a mesh. as_is: also of one whose shape is in doubt

    Raises InputError with one line, MissingExtraError without trimesh or pycollada.
    """
    rotation, unit_m, stated = _up_and_unit(path)
    triangles = _triangles(path, rotation, unit_m)
    lowest, highest = triangles.reshape(-1, 3).min(axis=0), triangles.reshape(-1, 3).max(axis=0)
    if lowest[2] > WALL_HEIGHT_M or highest[2] < FLOOR_M:
        raise InputError(
            f"{path}: lies between z = {lowest[2]:.2f} and {highest[2]:.2f} m; the floor must be at z = 0, "
            f"and something from {FLOOR_M} to {WALL_HEIGHT_M} m over it; is its up axis right? {stated}"
        )
    if not as_is:
        other_axis = "" if rotation is X_UP else "z" if rotation is Y_UP else "y"
        check_shape(path, triangles, other_axis, path.suffix.lower() == COLLADA_SUFFIX, stated)
    # Coordinates are often multiples of the cell size; half a cell moves them off the cell edges.
    corner = lowest[:2] - MARGIN_M - CELL_M / 2
    extent = (highest[:2] + MARGIN_M - corner) / CELL_M
    check_size(path, float(extent[1]), float(extent[0]))
    columns, rows = np.ceil(extent).astype(int)
    low = np.full((rows, columns, INTERVALS), np.inf, np.float32)
    high = np.full((rows, columns, INTERVALS), -np.inf, np.float32)
    triangles[..., :2] = (triangles[..., :2] - corner) / CELL_M
    # From the lowest upwards, so that connected surfaces merge before all intervals are in use.
    _voxelise(triangles[np.argsort(triangles[..., 2].min(axis=1), kind="stable")], FLOOR_M, WALL_HEIGHT_M, low, high)
    _add_border(low, high)
    looks = np.where(high.max(axis=2) < TALL_M, MATERIALS.index(FURNITURE), MATERIALS.index(WALL))
    looks[~(high >= low).any(axis=2)] = MATERIALS.index(WALL)
    pose = Pose(float(corner[0]), float(corner[1]), 0.0)
    world = make_world(path.stem, CELL_M, pose, low, high, True, looks.astype(np.uint8))
    return replace(
        world,
        read_as=f"; {path} {extents_of(lowest, highest)}. {stated} Does it lie on its side, or is its unit wrong?",
    )


def _add_border(low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32]) -> None:
    """Make the border cells walls, in place."""
    for edge in (np.s_[0, :], np.s_[-1, :], np.s_[:, 0], np.s_[:, -1]):
        low_m[edge], high_m[edge] = np.inf, -np.inf
        low_m[edge][..., 0], high_m[edge][..., 0] = 0.0, WALL_HEIGHT_M


def _triangles(path: Path, rotation: npt.NDArray[np.float64], unit_m: float) -> npt.NDArray[np.float64]:
    """Return (n, 3 corners, 3) all triangles of a file, z up [m]. Raises InputError, MissingExtraError."""
    scene = _scene(path)
    try:
        parts = _parts(scene)
    except READ_ERRORS as error:
        raise _unreadable(path, error) from error
    count = sum(len(part) for part in parts)
    if count == 0:
        raise InputError(f"{path}: a mesh without faces")
    if count > MAX_FACES:
        raise InputError(f"{path}: {count} faces, the limit is {MAX_FACES}")
    triangles = np.concatenate(parts) @ rotation.T * unit_m
    check_coordinates(str(path), triangles)
    return np.asarray(triangles)


def _parts(scene: Any) -> list[npt.NDArray[np.float64]]:
    """Return (n, 3 corners, 3) triangles of each part of a scene, in the file's axes and unit. Raises READ_ERRORS."""
    parts = [np.empty((0, 3, 3))]
    for node in scene.graph.nodes_geometry:
        transform, name = scene.graph[node]
        geometry = scene.geometry[name]
        faces = getattr(geometry, "faces", None)  # points and lines have none
        if faces is not None and len(faces):
            vertices = geometry.vertices @ transform[:3, :3].T + transform[:3, 3]
            parts.append(np.asarray(vertices, np.float64)[faces])
    return parts


def _unreadable(path: Path, error: BaseException) -> InputError:
    reason = getattr(error, "strerror", None) or " ".join(f"{type(error).__name__}: {error}".split())
    return InputError(f"{path}: cannot be read as a mesh: {reason}")


def _scene(path: Path) -> Any:
    """Return the trimesh scene of a file, without textures. Raises InputError, MissingExtraError."""
    try:
        import trimesh
    except ModuleNotFoundError as error:
        raise MissingExtraError("trimesh", "mesh") from error
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{path}: {size} bytes, the limit is {MAX_BYTES}")
        return trimesh.load(path, force="scene", process=False, skip_materials=True)
    except ModuleNotFoundError as error:
        raise MissingExtraError("pycollada", "mesh") from error
    except (*READ_ERRORS, *_collada_errors()) as error:
        raise _unreadable(path, error) from error


def _collada_errors() -> tuple[type[Exception], ...]:
    """Return the exception types that pycollada defines; none if it is not installed."""
    try:
        from collada.common import DaeError
    except ModuleNotFoundError:
        return ()
    return (DaeError,)


def _up_and_unit(path: Path) -> tuple[npt.NDArray[np.float64], float, str]:
    """Return the rotation to z up, the length of the file's unit [m], and what states both. Raises InputError."""
    if path.suffix.lower() == OBJ_SUFFIX:
        return Z_UP, 1.0, "OBJ is read with z up, in metres."
    if path.suffix.lower() != COLLADA_SUFFIX:
        check_gltf(path)
        return Y_UP, 1.0, "glTF has y up, in metres."
    up, unit_m = "Y_UP", 1.0
    try:
        for _, element in ElementTree.iterparse(path):
            tag = element.tag.rsplit("}", maxsplit=1)[-1]
            if tag == "up_axis":
                up = (element.text or "").strip()
            elif tag == "unit":
                unit_m = float(element.get("meter", "1"))
            elif tag == "asset":
                break
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"{path}: not COLLADA: {error}") from error
    if up not in UPS or not (math.isfinite(unit_m) and unit_m > 0.0):
        raise InputError(f"{path}: asset: up_axis {up!r} must be one of {', '.join(UPS)}, unit {unit_m} above 0")
    return UPS[up], unit_m, f"Its header says up_axis {up}, unit {unit_m:g} m; Gazebo and RViz ignore up_axis."


@kernel
def _voxelise(
    triangles: npt.NDArray[np.float64],
    floor_m: float,
    top_m: float,
    low_m: npt.NDArray[np.float32],
    high_m: npt.NDArray[np.float32],
) -> None:
    """Write the heights of (n, 3, 3) triangles between floor and top into the cells below them; x, y in cells."""
    strip, piece = np.empty((MOST_CORNERS, 3)), np.empty((MOST_CORNERS, 3))
    spare = np.empty((MOST_CORNERS, 3))
    for triangle in triangles:
        if triangle[:, 2].max() < floor_m or triangle[:, 2].min() > top_m:
            continue
        for row in range(math.floor(triangle[:, 1].min()), math.floor(triangle[:, 1].max()) + 1):
            above = _cut(triangle, 3, 1, float(row), 1.0, spare)
            corners = _cut(spare, above, 1, row + 1.0, -1.0, strip)
            if corners == 0:
                continue
            first, last = strip[:corners, 0].min(), strip[:corners, 0].max()
            for column in range(math.floor(first), math.floor(last) + 1):
                right = _cut(strip, corners, 0, float(column), 1.0, spare)
                count = _cut(spare, right, 0, column + 1.0, -1.0, piece)
                if count:
                    low = max(piece[:count, 2].min(), floor_m)
                    high = min(piece[:count, 2].max(), top_m)
                    if low <= high:
                        add_interval(low_m[row, column], high_m[row, column], low, high)


@kernel
def _cut(
    polygon: npt.NDArray[np.float64], count: int, axis: int, at: float, side: float, kept: npt.NDArray[np.float64]
) -> int:
    """Clip a convex polygon to side * (coordinate - at) >= 0, into `kept`; return the number of corners."""
    corners = 0
    for i in range(count):
        a, b = polygon[i], polygon[(i + 1) % count]
        from_a, from_b = side * (a[axis] - at), side * (b[axis] - at)
        if from_a >= 0.0:
            kept[corners] = a
            corners += 1
        if (from_a > 0.0 and from_b < 0.0) or (from_a < 0.0 and from_b > 0.0):
            kept[corners] = a + (b - a) * (from_a / (from_a - from_b))
            corners += 1
    return corners
