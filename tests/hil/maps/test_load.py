"""Files that a map references: evaluations and trainings identify a building by the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engines.train.config import map_content
from hil.evaluate.episode_selection import find_sets, load_set
from hil.maps.load import files_of
from hil.physics.collision_world import Body
from onboard.values.errors import InputError

INSIDE = "data:application/octet-stream;base64,AAAA"

#    file         text                                                        names beside it
NAMED = [
    ("a.yaml", "image: a.pgm", ["a.pgm"]),
    ("a.yml", "image: deeper/a.pgm", ["deeper/a.pgm"]),
    ("a.yaml", "resolution: 1", []),
    ("a.yaml", "{", []),
    ("a.gltf", json.dumps({"buffers": [{"uri": "a.bin"}, {"uri": INSIDE}, 3, {}]}), ["a.bin"]),
    ("a.GLTF", json.dumps({"buffers": [{"uri": "a.bin"}]}), ["a.bin"]),
    ("a.gltf", '{"buffers": 3}', []),
    ("a.gltf", "[" * 100_000, []),
    ("a.json", '{"map": "b.yaml", "episodes": []}', ["b.yaml", "b.pgm"]),
    ("a.json", '{"map": "b.gltf", "episodes": []}', ["b.gltf", "b.bin"]),
    ("a.json", '{"map": "a.json", "episodes": []}', ["a.json", "a.json"]),
    ("a.json", '{"map": "gdc1", "episodes": []}', []),
    ("a.json", "[]", []),
    ("a.json", "{", []),
    ("a.obj", "mtllib a.mtl", []),
    ("a.yaml", None, []),
]


@pytest.mark.parametrize(("name", "text", "beside"), NAMED)
def test_files_that_a_map_references(tmp_path, name, text, beside):
    (tmp_path / "b.yaml").write_text("image: b.pgm")
    (tmp_path / "b.gltf").write_text('{"buffers": [{"uri": "b.bin"}]}')
    if text is not None:
        (tmp_path / name).write_text(text)
    assert files_of(tmp_path / name) == [tmp_path / one for one in (name, *beside)]


def hall(folder: Path, name: str) -> Path:
    """Write a hall of 9 m x 7 m as a mesh with an external buffer file; return the mesh file."""
    trimesh = pytest.importorskip("trimesh")
    sides = [((9.0, 2.4, 0.1), y) for y in (0.0, 7.0)]
    scene = trimesh.Scene([trimesh.creation.box(extents, transform=moved(trimesh, 4.5, y)) for extents, y in sides])
    for x in (0.0, 9.0):
        scene.add_geometry(trimesh.creation.box((0.1, 2.4, 7.0), transform=moved(trimesh, x, 3.5)))
    for file, content in trimesh.exchange.gltf.export_gltf(scene, merge_buffers=True).items():
        (folder / (name if file.endswith(".gltf") else file)).write_bytes(content)
    return folder / name


def moved(trimesh, x: float, y: float):
    return trimesh.transformations.translation_matrix((x, 1.2, -y))


@pytest.mark.parametrize("name", ["hall.gltf", "hall.GLTF"])
def test_a_changed_buffer_changes_the_building_digest(tmp_path, name):
    mesh = hall(tmp_path, name)
    (source,) = find_sets([str(mesh)], 1, 1, Body())
    before, (_, buffer) = map_content(str(mesh)), files_of(mesh)
    load_set(source)
    buffer.write_bytes(buffer.read_bytes() + b"\0")
    assert map_content(str(mesh)) != before
    with pytest.raises(InputError, match="has changed since the evaluation began"):
        load_set(source)
