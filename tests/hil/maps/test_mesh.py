"""Meshes: heights of a room with a table in every format, and unusable files."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hil.drive.episodes import make_episodes
from hil.maps import mesh
from hil.maps.load import load_map
from hil.maps.mesh import FLOOR_M, load_mesh
from hil.maps.world_grid import WALL_HEIGHT_M, World
from hil.physics.collision_world import Body
from hil.physics.free_space import FreeSpace, free_space, pick_episode
from hil.scene.furniture import furnish
from onboard.values.errors import InputError, MissingExtraError

trimesh = pytest.importorskip("trimesh")
collada = pytest.importorskip("collada")

#   name            x              y              z [m], z up
BOXES = [
    ("floor", (0.0, 6.0), (0.0, 4.0), (-0.10, 0.0)),
    ("ceiling", (0.0, 6.0), (0.0, 4.0), (2.60, 2.70)),
    ("west", (-0.1, 0.0), (-0.1, 4.1), (0.0, 2.6)),
    ("east", (6.0, 6.1), (-0.1, 4.1), (0.0, 2.6)),
    ("south", (-0.1, 6.1), (-0.1, 0.0), (0.0, 2.6)),
    ("north", (-0.1, 6.1), (4.0, 4.1), (0.0, 2.6)),
    ("top", (2.0, 3.2), (1.0, 1.8), (0.70, 0.74)),
    ("leg", (2.02, 2.06), (1.02, 1.06), (0.0, 0.70)),
    ("shelf's low board", (4.0, 5.0), (3.6, 3.9), (0.30, 0.33)),
    ("shelf's high board", (4.0, 5.0), (3.6, 3.9), (1.50, 1.53)),
]
TO_Y_UP = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]], np.float64)


def boxes(turned: np.ndarray | None = None, scale: float = 1.0) -> trimesh.Scene:
    """Return the room as a scene of ten boxes, each in its own node."""
    scene = trimesh.Scene()
    for name, *sides in BOXES:
        ends = np.array(sides)
        box = trimesh.creation.box(extents=ends[:, 1] - ends[:, 0])
        place = np.eye(4)
        place[:3, 3] = ends.mean(axis=1)
        frame = (np.eye(4) if turned is None else turned) @ place
        frame[:3] *= scale
        scene.add_geometry(box, node_name=name, transform=frame)
    return scene


def as_collada(file: Path, up: str | None, unit_m: float | None, turned: np.ndarray | None) -> None:
    mesh = boxes(turned, 1.0 if unit_m is None else 1.0 / unit_m).to_geometry()
    text = trimesh.exchange.dae.export_collada(mesh).decode()
    start, end = text.index("<up_axis>"), text.index("</up_axis>") + len("</up_axis>")
    unit = "" if unit_m is None else f'<unit name="own" meter="{unit_m}"/>'
    file.write_text(text[:start] + unit + ("" if up is None else f"<up_axis>{up}</up_axis>") + text[end:])


def make(folder: Path, name: str) -> Path:
    """Write the room in one of `FORMATS`."""
    file = folder / f"room.{name.split()[0]}"
    if file.suffix == ".dae":
        up, unit_m, turned = {
            "dae": (None, None, TO_Y_UP),
            "dae Y_UP": ("Y_UP", 1.0, TO_Y_UP),
            "dae Z_UP": ("Z_UP", 1.0, None),
            "dae Z_UP centimetres": ("Z_UP", 0.01, None),
            "dae X_UP": ("X_UP", None, np.array([[0, 0, 1, 0], [-1, 0, 0, 0], [0, -1, 0, 0], [0, 0, 0, 1.0]])),
        }[name]
        as_collada(file, up, unit_m, turned)
    elif file.suffix == ".obj":
        file.write_text(trimesh.exchange.obj.export_obj(boxes()))
    else:
        boxes(TO_Y_UP).export(file)
    return file


FORMATS = ["glb", "gltf", "obj", "dae", "dae Y_UP", "dae Z_UP", "dae Z_UP centimetres", "dae X_UP"]


def held(world: World, x: float, y: float) -> list[tuple[float, float]]:
    """Return the intervals at a point, rounded to a millimetre."""
    cell = world.cell_of((x, y))
    used = world.low_m[cell] <= world.high_m[cell]
    pairs = zip(world.low_m[cell][used], world.high_m[cell][used], strict=True)
    return [(round(float(low), 3), round(float(high), 3)) for low, high in pairs]


# what is at a point, x, y, intervals: hollow things are their surfaces
POINTS = [
    ("the floor and the ceiling are neither", 1.0, 3.0, []),
    ("a wall, from what is floor up", 6.001, 2.0, [(FLOOR_M, WALL_HEIGHT_M)]),
    ("a table's middle: bottom and top face", 2.6, 1.4, [(0.7, 0.7), (0.74, 0.74)]),
    ("a table's edge", 2.6, 1.001, [(0.7, 0.74)]),
    ("a table's leg joins its top", 2.04, 1.04, [(FLOOR_M, 0.7), (0.74, 0.74)]),
    ("two boards over each other", 4.5, 3.601, [(0.3, 0.33), (1.5, 1.53)]),
    ("beside the shelf", 3.9, 3.75, []),
    ("outside", -1.0, 2.0, []),
]


@pytest.mark.parametrize("name", FORMATS)
def test_a_room_in_every_format(name, tmp_path):
    world = load_map(make(tmp_path, name))
    assert world.name == "room"
    for what, x, y, intervals in POINTS:
        assert held(world, x, y) == intervals, what


def test_a_triangle_fills_the_cells_below_it():
    """For random points in the triangle, the cell of the point is solid at the point's height."""
    rng = np.random.default_rng(4)
    for _ in range(30):
        triangle = rng.uniform([1.0, 1.0, 0.1], [19.0, 19.0, 2.4], (3, 3))
        low = np.full((20, 20, 2), np.inf, np.float32)
        high = np.full((20, 20, 2), -np.inf, np.float32)
        mesh._voxelise(triangle[None], FLOOR_M, WALL_HEIGHT_M, low, high)
        weights = rng.dirichlet((1.0, 1.0, 1.0), 300)
        for x, y, z in weights @ triangle:
            cell = int(y), int(x)
            assert ((low[cell] <= z + 1e-5) & (z - 1e-5 <= high[cell])).any()
        assert low[np.isfinite(low)].min() >= triangle[:, 2].min() - 1e-5


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def exported(folder: Path, name: str, *points: list[float]) -> Path:
    lines = [f"v {x} {y} {z}" for x, y, z in points] + ["f 1 2 3"]
    return write(folder, name, "\n".join(lines) + "\n")


GLTF = '{"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": []}]}'

# name, file made in a folder, words of the line
BAD = [
    ("points alone", lambda f: write(f, "m.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\n"), ["m.obj", "mesh"]),
    ("an empty scene", lambda f: write(f, "m.gltf", GLTF), ["m.gltf", "mesh"]),
    ("an empty file", lambda f: write(f, "m.obj", ""), ["m.obj", "mesh"]),
    ("an empty glb", lambda f: write(f, "m.glb", ""), ["m.glb", "mesh"]),
    ("text as glb", lambda f: write(f, "m.glb", "nothing of a mesh, but long enough"), ["m.glb", "mesh"]),
    ("text as gltf", lambda f: write(f, "m.gltf", "nothing"), ["m.gltf", "mesh"]),
    ("a buffer that is missing", lambda f: write(f, "m.gltf", GLTF.replace("}]}", '}], "buffers": [{"uri": "no.bin", '
     '"byteLength": 4}]}')), ["m.gltf", "mesh"]),
    ("a face of a corner that is missing", lambda f: write(f, "m.obj", "v 0 0 0\nv 1 0 1\nf 1 2 9\n"), ["m.obj"]),
    ("text as dae", lambda f: write(f, "m.dae", "nothing"), ["m.dae", "not COLLADA"]),
    ("another xml as dae", lambda f: write(f, "m.dae", "<a/>"), ["m.dae", "mesh"]),
    ("an axis of its own", lambda f: write(f, "m.dae", "<COLLADA><asset><up_axis>W_UP</up_axis></asset></COLLADA>"),
     ["m.dae", "up_axis 'W_UP'", "Z_UP"]),
    ("a unit of zero", lambda f: write(f, "m.dae", '<COLLADA><asset><unit meter="0"/></asset></COLLADA>'),
     ["m.dae", "unit 0.0"]),
    ("no file", lambda f: f / "no.glb", ["no.glb", "No such file"]),
    ("no dae", lambda f: f / "no.dae", ["no.dae", "No such file"]),
    ("a folder", lambda f: f, ["mesh"]),
    ("NaN", lambda f: exported(f, "m.obj", [0, 0, 0], [1, 0, "nan"], [0, 1, 1]), ["m.obj"]),
    ("as large as a city", lambda f: exported(f, "m.obj", [0, 0, 0], [9000, 0, 1], [0, 9000, 1]),
     ["m.obj", "the limit is 25000000"]),
    ("far away", lambda f: exported(f, "m.obj", [1e20, 0, 0], [1e20, 1, 1], [1e20, 0, 1]),
     ["m.obj: a coordinate of 1e+20 m, the limit is 1000000 m"]),
    ("in millimetres", lambda f: exported(f, "m.obj", [0, 0, 3000], [40, 0, 3100], [0, 40, 3200]),
     ["m.obj", "between z = 3000.00 and 3200.00 m", "floor must be at z = 0"]),
    ("under the floor", lambda f: exported(f, "m.obj", [0, 0, -3], [4, 0, -2], [0, 4, -1]), ["z = -3.00 and -1.00 m"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "made", "words"), BAD, ids=[row[0] for row in BAD])
def test_a_bad_mesh_is_refused_in_one_line(name, made, words, tmp_path):
    file = made(tmp_path)
    with pytest.raises(InputError) as refused:
        load_mesh(file)
    line = str(refused.value)
    assert line.startswith(str(file))
    assert "\n" not in line
    for word in words:
        assert word in line


def test_a_mesh_without_faces_is_named(tmp_path):
    with pytest.raises(InputError, match=r"m\.gltf: a mesh without faces"):
        load_mesh(write(tmp_path, "m.gltf", GLTF))


@pytest.mark.parametrize(("limit", "words"), [("MAX_FACES", "120 faces, the limit is 3"), ("MAX_BYTES", "bytes, the")])
def test_large_meshes_are_refused(limit, words, tmp_path, monkeypatch):
    file = make(tmp_path, "glb")
    monkeypatch.setattr(mesh, limit, 3)
    with pytest.raises(InputError, match=words):
        load_mesh(file)


@pytest.mark.parametrize(("library", "name"), [("trimesh", "glb"), ("collada", "dae")])
def test_a_missing_library_is_named_with_its_extra(library, name, tmp_path, monkeypatch):
    file = make(tmp_path, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"onboard\[mesh\]"):
        load_mesh(file)


def changed_glb(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Write the room as .glb with a changed header."""
    file = make(folder, "glb")
    data = file.read_bytes()
    (length,) = struct.unpack("<I", data[12:16])
    table = json.loads(data[20 : 20 + length])
    change(table)
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 4)
    rest = data[20 + length :]
    head = struct.pack("<4sIIII", b"glTF", 2, 20 + len(text) + len(rest), len(text), 0x4E4F534A)
    file.write_bytes(head + text + rest)
    return file


def requires(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda table: table.update(extensionsUsed=[name], extensionsRequired=[name])


def of_a_node(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda table: table["nodes"][-1].update({name: value})


def of_a_primitive(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda table: table["meshes"][0]["primitives"][0].update({name: value})


def quantised(table: dict[str, Any]) -> None:
    number = table["meshes"][0]["primitives"][0]["attributes"]["POSITION"]
    table["accessors"][number]["normalized"] = True
    requires("KHR_mesh_quantization")(table)


#   change of the header                                           named in the line; "" where the file is read
HEADERS = {
    "instances": (of_a_node("extensions", {"EXT_mesh_gpu_instancing": {"attributes": {"TRANSLATION": 0}}}),
                  "EXT_mesh_gpu_instancing"),
    "hidden nodes": (of_a_node("extensions", {"KHR_node_visibility": {"visible": False}}), "KHR_node_visibility"),
    "draco": (requires("KHR_draco_mesh_compression"), "KHR_draco_mesh_compression"),
    "meshopt": (requires("EXT_meshopt_compression"), "EXT_meshopt_compression"),
    "an extension of tomorrow": (requires("KHR_brick_walls"), "KHR_brick_walls"),
    "normalized positions": (quantised, "KHR_mesh_quantization with normalized positions"),
    "positions of an extension that is not required": (
        lambda table: [one.pop("bufferView", None) for one in table["accessors"]],
        "positions without data (of an extension)"),
    "sparse accessors": (lambda table: table["accessors"][0].update(sparse={"count": 1}), "sparse accessors"),
    "triangle fans": (of_a_primitive("mode", 6), "triangle fans"),
    "skins": (of_a_node("skin", 0), "skins"),
    "morph targets": (of_a_node("weights", [0.0, 0.5]), "morph targets"),
    "morph targets at rest": (of_a_node("weights", [0.0]), ""),
    "positions as whole numbers": (requires("KHR_mesh_quantization"), ""),
    "materials and lights": (requires("KHR_materials_unlit"), ""),
    "textures": (requires("KHR_texture_basisu"), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_a_gltf_that_would_be_read_in_part_is_refused_by_name(name: str, tmp_path: Path) -> None:
    change, named = HEADERS[name]
    file = changed_glb(tmp_path, change)
    if not named:
        assert held(load_mesh(file), 2.6, 1.4) == [(0.7, 0.7), (0.74, 0.74)]
        return
    with pytest.raises(InputError) as refused:
        load_mesh(file)
    assert str(refused.value).startswith(f"{file}: uses {named}, which is not supported")


def shell(x: tuple[float, float], y: tuple[float, float], z: tuple[float, float]) -> trimesh.Trimesh:
    ends = np.array([x, y, z])
    box = trimesh.creation.box(extents=ends[:, 1] - ends[:, 0])
    box.apply_translation(ends.mean(axis=1))
    return box


def as_file(folder: Path, kind: str, box: trimesh.Trimesh) -> Path:
    """Write a box as it is, in the coordinates of a file."""
    file = folder / f"hall.{kind.split()[0]}"
    if file.suffix == ".dae":
        text = trimesh.exchange.dae.export_collada(box).decode()
        start, end = text.index("<up_axis>"), text.index("</up_axis>")
        file.write_text(text[:start] + f"<up_axis>{kind.split()[1]}" + text[end:])
    else:
        box.export(file)
    return file


STOREY, CENTRED, AWAY = (-0.01, 2.5), (-4.0, 4.0), (0.0, 9.0)
#   file         x          y        z of the file's coordinates    words; "" where it is read
LYING = [
    ("dae Y_UP", (-6.0, 6.0), CENTRED, STOREY, "up_axis Y_UP, unit 1 m; Gazebo and RViz ignore up_axis"),
    ("dae Y_UP", (-6.0, 6.0), AWAY, STOREY, "from z = 0.00 to 9.00 m"),
    ("glb", (-6.0, 6.0), CENTRED, STOREY, "With z up it would reach from -0.01 to 2.50 m"),
    ("obj", (-6.0, 6.0), STOREY, CENTRED, "With y up it would reach from -0.01 to 2.50 m"),
    ("obj", (-6.0, 6.0), STOREY, AWAY, "OBJ is read with z up, in metres."),
    ("dae Z_UP", (-6.0, 6.0), STOREY, CENTRED, "it seems to lie on its side"),
    ("dae Z_UP", (-6.0, 6.0), CENTRED, STOREY, ""),
    ("dae Y_UP", (-6.0, 6.0), STOREY, CENTRED, ""),
    ("glb", (-6.0, 6.0), STOREY, CENTRED, ""),
    ("obj", (-6.0, 6.0), CENTRED, STOREY, ""),
    ("dae Y_UP", (0.0, 10.0), (0.0, 8.0), (0.0, 3.0), "8.00 m high, from z = 0.00 to 8.00 m: it seems to lie"),
    ("dae Y_UP", (0.0, 20.0), (0.0, 12.0), (0.0, 5.0), "it seems to lie on its side"),
    ("dae Y_UP", (0.0, 30.0), (0.0, 20.0), (0.0, 9.0), "it seems to lie on its side"),
    ("dae Y_UP", (0.0, 9.0), (0.0, 3.5), (0.0, 2.5), "it seems to lie on its side"),
    ("obj", (0.0, 20.0), (0.0, 2.0), (0.0, 3.0), ""),  # a corridor
    ("obj", (0.0, 0.3), (0.0, 0.2), (0.0, 0.06), "is 0.30 x 0.20 m wide and 0.06 m high; is its unit right?"),
    (
        "obj",
        (0.0, 12000.0),
        (0.0, 8000.0),
        (0.0, 2500.0),
        "is 12000.00 x 8000.00 m wide and 2500.00 m high; is its unit",
    ),
]


@pytest.mark.parametrize(("kind", "x", "y", "z", "words"), LYING)
def test_a_mesh_on_its_side_or_of_another_unit_is_refused_with_its_extents(kind, x, y, z, words, tmp_path):
    file = as_file(tmp_path, kind, shell(x, y, z))
    if not words:
        assert load_mesh(file).name == "hall"
        return
    with pytest.raises(InputError) as refused:
        load_mesh(file)
    assert str(refused.value).startswith(f"{file}: is ")
    assert words in str(refused.value)
    assert str(refused.value).endswith(f"; {file.name}:as-is reads it as it is")
    assert "\n" not in str(refused.value)


def hall(width: float, depth: float, height: float, low: float, floor: bool) -> trimesh.Trimesh:
    """Return four walls, open above, with two pillars and perhaps a floor, as one mesh with z up."""
    high, w, d = low + height, width - 0.1, depth - 0.1
    sides = [((0.0, width), (0.0, 0.1)), ((0.0, width), (d, depth)), ((0.0, 0.1), (0.1, d)), ((w, width), (0.1, d))]
    sides += [((x, x + 0.2), (1.0, 1.2)) for x in (0.5, 1.5)]
    parts = [shell(x, y, (low, high)) for x, y in sides]
    return trimesh.util.concatenate([*parts, *([shell((0.0, width), (0.0, depth), (low - 0.1, low))] if floor else [])])


@pytest.mark.parametrize("draw", [
    lambda file, _: pick_episode(furnished_space(file), np.random.default_rng(0), 2.0, 15.0),
    lambda file, folder: make_episodes(file, 1, 2, folder),
], ids=["drive", "episodes"])  # fmt: skip
def test_a_mesh_without_room_to_drive_is_named_with_its_extents_and_axis(draw, tmp_path):
    file = as_file(tmp_path, "dae Y_UP", hall(10.0, 6.0, 1.2, 0.0, True))
    with pytest.raises(InputError) as refused:
        draw(f"{file}:as-is", tmp_path)
    assert "m apart; " in str(refused.value)
    assert f"{file} is 10.00 x 1.30 m wide and 6.00 m high. Its header says up_axis Y_UP" in str(refused.value)
    assert str(refused.value).endswith("Does it lie on its side, or is its unit wrong?")


def furnished_space(file: str) -> FreeSpace:
    return free_space(furnish(load_map(file), 1, 0.0), Body(radius_m=0.25, height_m=1.0))


WALLS = [((0.0, 9.0), (0.0, 0.1)), ((0.0, 9.0), (6.0, 6.1)), ((0.0, 0.1), (0.0, 6.0)), ((9.0, 9.1), (0.0, 6.0))]


def walls(low: float, high: float, *more: trimesh.Trimesh) -> trimesh.Trimesh:
    return trimesh.util.concatenate([*(shell(x, y, (low, high)) for x, y in WALLS), *more])


def slab(low: float, high: float) -> trimesh.Trimesh:
    return shell((0.0, 9.0), (0.0, 6.0), (low, high))


#   what, the mesh with z up, words; "" where it is read
FLOORS = [
    ("walls from 1 m", walls(1.0, 3.5), "reaches from z = 1.00 to 3.50 m, and nothing level is at z = 0, where the"
     " floor must be; its lowest point is at 1.00 m: move it by -1.00 m in the file"),
    ("centred on z", walls(-1.25, 1.25), "its lowest point is at -1.25 m: move it by +1.25 m"),
    ("a box, centred", shell((0.0, 9.0), (0.0, 6.0), (-1.5, 1.5)), "its lowest level ground is at -1.50 m"),
    ("a floor at 0.4 m", walls(0.4, 3.0, slab(0.3, 0.4)), "its lowest level ground is at 0.30 m"),
    ("in a country's heights", walls(-0.9, 1.6, slab(-1.0, -0.9)), "move it by +1.00 m"),
    ("walls alone", walls(0.0, 2.5), ""),
    ("a thick slab", walls(0.0, 2.5, slab(-0.4, 0.0)), ""),
    ("a basement", walls(-2.6, 2.5, slab(-2.7, -2.6), slab(-0.1, 0.0)), ""),
    ("foundations", walls(-0.8, 2.5, slab(-0.1, 0.0)), ""),
]  # fmt: skip


@pytest.mark.parametrize(("what", "made", "words"), FLOORS, ids=[row[0] for row in FLOORS])
def test_a_floor_that_is_not_at_zero_is_refused_with_its_offset(what, made, words, tmp_path):
    file = as_file(tmp_path, "obj", made)
    if words:
        with pytest.raises(InputError) as refused:
            load_map(file)
        assert words in str(refused.value)
        assert str(refused.value).endswith("; hall.obj:as-is reads it as it is")
    assert load_map(f"{file}:as-is").name == "hall"
    if not words:
        np.testing.assert_array_equal(load_map(file).low_m, load_map(f"{file}:as-is").low_m)
