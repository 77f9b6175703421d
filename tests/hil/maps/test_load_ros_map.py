"""ROS maps: occupancy of pixels in every mode, computed by hand from map_server's rules, and unusable files."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engines.train.config import map_content
from hil.evaluate.episode_selection import find_sets, load_set
from hil.maps.load import files_of, free_cells, load_map, load_ros_map
from hil.maps.world_grid import WALL_HEIGHT_M
from hil.physics.collision_world import Body
from hil.physics.free_space import free_space
from hil.scene.furniture import furnish
from onboard.perception.building.map_image import MAX_CELLS, UNKNOWN, RosMapTable, averaged_occupancy, occupancy
from onboard.values.errors import InputError

PIXELS = np.array([[0, 100, 205, 254], [254, 254, 254, 254]], np.uint8)
YAML = (
    "image: map.pgm\nresolution: 0.05\norigin: [1.0, 2.0, 0.0]\nnegate: 0\noccupied_thresh: 0.65\nfree_thresh: 0.196\n"
)


def write_map(folder: Path, text: str = YAML, pixels: np.ndarray = PIXELS) -> Path:
    Image.fromarray(pixels).save(folder / "map.pgm")
    (folder / "map.yaml").write_text(text)
    return folder / "map.yaml"


def table(**changes: object) -> RosMapTable:
    return RosMapTable.model_validate({"image": "map.pgm", "resolution": 0.05, "origin": [0, 0, 0], **changes})


NEGATED, RAW, SCALE = {"negate": 1}, {"mode": "raw"}, {"mode": "scale"}

# name, changes of the yaml, pixel, occupancy.  Thresholds are 0.196 and 0.65; of grey g occupancy is (255 - g) / 255:
# 205 is 0.19608, 206 is 0.19216, 90 is 0.64706, 89 is 0.65098.
GREYS = [
    ("black", {}, 0, 100),
    ("just occupied", {}, 89, 100),
    ("just not occupied", {}, 90, UNKNOWN),
    ("what map_saver calls unknown", {}, 205, UNKNOWN),
    ("just free", {}, 206, 0),
    ("white", {}, 254, 0),
    ("negated black", NEGATED, 0, 0),
    ("negated, 49 / 255 is 0.19216", NEGATED, 49, 0),
    ("negated, 50 / 255 is 0.19608", NEGATED, 50, UNKNOWN),
    ("negated, 166 / 255 is 0.65098", NEGATED, 166, 100),
    ("negated white", NEGATED, 255, 100),
    ("another free threshold", {"free_thresh": 0.25}, 205, 0),
    ("another occupied threshold", {"occupied_thresh": 0.9}, 89, UNKNOWN),
    ("raw is the percentage", RAW, 37, 37),
    ("raw free", RAW, 0, 0),
    ("raw occupied", RAW, 100, 100),
    ("raw above 100", RAW, 101, UNKNOWN),
    ("raw, what map_saver writes for unknown", RAW, 255, UNKNOWN),
    ("raw is not negated", {**RAW, **NEGATED}, 0, 0),
    ("scale free", SCALE, 206, 0),
    ("scale occupied", SCALE, 89, 100),
    ("scale between: (0.49804 - 0.196) / 0.454 is 0.6653", SCALE, 128, 67),
    ("scale just above free: (0.19608 - 0.196) / 0.454 is 0.0002", SCALE, 205, 0),
    ("scale negated: (128 / 255 - 0.196) / 0.454 is 0.6739", {**SCALE, **NEGATED}, 128, 67),
    ("modes in capitals", {"mode": "Scale"}, 128, 67),
    # Colours count by their luma: 0.299 * 250 + 0.114 * 250 is 103.25.
    ("a colour", {}, (250, 0, 250), UNKNOWN),
    ("another colour: luma 169.9, occupancy 0.337", {}, (255, 110, 255), UNKNOWN),
    ("raw, the luma of a colour", RAW, (10, 20, 60), 21),
    ("trinary, opaque", {}, (206, 206, 206, 255), 0),
    ("trinary, see-through", {}, (206, 206, 206, 0), UNKNOWN),
    ("trinary, opaque black", {}, (0, 0, 0, 255), 100),
    ("trinary, see-through black", {}, (0, 0, 0, 254), UNKNOWN),
    ("trinary, grey and opacity", {}, (0, 255), 100),
    ("scale, opaque", SCALE, (206, 206, 206, 255), 0),
    ("scale, not fully opaque", SCALE, (206, 206, 206, 254), UNKNOWN),
    ("scale, see-through black", SCALE, (0, 0, 0, 0), UNKNOWN),
    ("raw leaves opacity out", RAW, (30, 30, 30, 0), 30),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "pixel", "value"), GREYS, ids=[row[0] for row in GREYS])
def test_occupancy_of_a_pixel(name, changes, pixel, value):
    pixels = np.array([[pixel]], np.uint8)
    assert occupancy(pixels, table(**changes)).item() == value


# name, changes of the yaml, pixel, occupancy by the mean of nav2's Humble and ROS 1, where it differs
AVERAGED = [
    ("mean 206.67, occupancy 0.1895", {}, (255, 110, 255), 0),
    ("raw, the mean of a colour", RAW, (10, 20, 60), 30),
    ("trinary, see-through black: (0 * 3 + 254) / 4 is 63.5", {}, (0, 0, 0, 254), 100),
    ("trinary, opaque grey: (60 * 3 + 255) / 4 is 108.75, occupancy 0.574", {}, (60, 60, 60, 255), UNKNOWN),
    ("trinary, a grey with opacity counts as three colours", {}, (60, 255), UNKNOWN),
    ("trinary, see-through white: (255 * 3 + 0) / 4 is 191.25, occupancy 0.25", {}, (255, 0), UNKNOWN),
    ("scale leaves opacity out", SCALE, (128, 128, 128, 255), 67),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "pixel", "value"), AVERAGED, ids=[row[0] for row in AVERAGED])
def test_averaged_occupancy_of_a_pixel(name, changes, pixel, value):
    pixels = np.array([[pixel]], np.uint8)
    assert averaged_occupancy(pixels, table(**changes)).item() == value


# name, changes, occupancy, free
FREE = [
    ("0", {}, 0, True),
    ("unknown", {}, UNKNOWN, False),
    ("occupied", {}, 100, False),
    ("1 in scale", SCALE, 1, False),
    ("19 in raw, below 19.6", RAW, 19, True),
    ("20 in raw", RAW, 20, False),
    ("unknown in raw", RAW, UNKNOWN, False),
]


@pytest.mark.parametrize(("name", "changes", "value", "free"), FREE, ids=[row[0] for row in FREE])
def test_free_cells(name, changes, value, free):
    assert free_cells(np.array([[value]], np.int8), table(**changes)).item() == free


# name, image, greys as they should come out of the file
IMAGES = [
    ("grey png", Image.fromarray(PIXELS), "png", PIXELS),
    ("black and white", Image.fromarray(PIXELS > 128), "png", (PIXELS > 128) * 255),
    ("sixteen bits", Image.fromarray(PIXELS.astype(np.uint16) * 257), "png", PIXELS),
    ("colour", Image.fromarray(np.repeat(PIXELS[..., None], 3, axis=2)), "png", PIXELS),
    ("colours of a palette", Image.fromarray(np.repeat(PIXELS[..., None], 3, axis=2)).quantize(8), "png", PIXELS),
    ("bmp", Image.fromarray(PIXELS), "bmp", PIXELS),
]


@pytest.mark.parametrize(("name", "image", "suffix", "greys"), IMAGES, ids=[row[0] for row in IMAGES])
def test_images_of_all_kinds(name, image, suffix, greys, tmp_path):
    image.save(tmp_path / f"map.{suffix}")
    (tmp_path / "map.yaml").write_text(YAML.replace("map.pgm", f"map.{suffix}"))
    expected = free_cells(occupancy(np.asarray(greys, np.uint8), table()), table())
    assert (~load_ros_map(tmp_path / "map.yaml").overlapping(0.0, 1.0))[1:-1, 1:-1].tolist() == expected[::-1].tolist()


def test_a_pgm_is_placed_with_its_lowest_row_at_the_origin(tmp_path):
    world = load_ros_map(write_map(tmp_path))
    assert world.overlapping(0.0, 1.0)[1:-1, 1:-1].tolist() == [[False] * 4, [True, True, True, False]]
    assert world.cell_of((1.01, 2.01)) == (1, 1)
    assert world.centre_of((1, 1)) == pytest.approx((1.025, 2.025))
    assert world.high_m[2, 1].tolist() == [WALL_HEIGHT_M, -math.inf]


# yaw [rad], a point of the map [m], row and column of the image's cells from its lower left corner, (1, 2) in the map
TURNED = [
    (0.0, (1.0 + 0.175, 2.0 + 0.025), (0, 3)),
    (math.pi / 2, (1.0 - 0.025, 2.0 + 0.175), (0, 3)),
    (math.pi, (1.0 - 0.175, 2.0 - 0.075), (1, 3)),
    (math.pi / 6, (1.0 + 0.175 * math.cos(math.pi / 6) - 0.075 / 2, 2.0 + 0.175 / 2 + 0.075 * math.sqrt(0.75)), (1, 3)),
]


@pytest.mark.parametrize(("yaw", "point", "cell"), TURNED)
def test_the_origin_may_be_turned(yaw, point, cell, tmp_path):
    world = load_ros_map(write_map(tmp_path, YAML.replace("[1.0, 2.0, 0.0]", f"[1.0, 2.0, {yaw}]")))
    assert world.cell_of(point) == (cell[0] + 1, cell[1] + 1)  # one more cell of border
    assert world.centre_of((cell[0] + 1, cell[1] + 1)) == pytest.approx(point)


def test_coarse_pgm_cells_are_subdivided(tmp_path):
    world = load_ros_map(write_map(tmp_path, YAML.replace("0.05", "0.10")))
    assert (world.cell_m, world.gap.shape) == (0.05, (2 * 2 + 2, 2 * 4 + 2))
    assert world.overlapping(0.0, 1.0)[3:5, 1:-1].tolist() == [[True] * 6 + [False] * 2] * 2


# name, text of the yaml, what the line names
BAD_YAML = [
    ("not yaml", "image: [", "not valid YAML"),
    ("a list", "- 1", "must be a table"),
    ("no image", YAML.replace("image: map.pgm\n", ""), "image"),
    ("missing image file", YAML.replace("map.pgm", "other.pgm"), "other.pgm: cannot be read: No such file"),
    ("an image that is a folder", YAML.replace("map.pgm", "."), "cannot be read: Is a directory"),
    ("no resolution", YAML.replace("resolution: 0.05\n", ""), "resolution: Field required"),
    ("resolution of zero", YAML.replace("0.05", "0.0"), "resolution: Input should be greater than or equal to 0.005"),
    ("resolution below zero", YAML.replace("0.05", "-0.05"), "resolution: Input should be greater than or equal"),
    ("resolution NaN", YAML.replace("0.05", ".nan"), "resolution"),
    ("resolution too fine", YAML.replace("0.05", "0.0001"), "resolution: Input should be greater than"),
    ("resolution too coarse", YAML.replace("0.05", "3.0"), "resolution: Input should be less than or equal to 1"),
    ("resolution not a number", YAML.replace("0.05", "fine"), "resolution"),
    ("origin of two", YAML.replace("[1.0, 2.0, 0.0]", "[1.0, 2.0]"), "origin"),
    ("origin infinite", YAML.replace("[1.0, 2.0, 0.0]", "[.inf, 2.0, 0.0]"), "origin.0"),
    ("origin NaN", YAML.replace("[1.0, 2.0, 0.0]", "[1.0, .nan, 0.0]"), "origin.1: Input should be a finite number"),
    ("origin far away", YAML.replace("[1.0, 2.0, 0.0]", "[1.0e+300, 0, 0]"), "origin.0: Input should be less than or"),
    ("origin far below", YAML.replace("[1.0, 2.0, 0.0]", "[0, -1000001, 0]"), "origin.1: Input should be greater than"),
    ("yaw NaN", YAML.replace("[1.0, 2.0, 0.0]", "[1.0, 2.0, .NaN]"), "origin.2: Input should be a finite number"),
    ("negate of 2", YAML.replace("negate: 0", "negate: 2"), "negate"),
    ("thresholds crossed", YAML.replace("0.196", "0.7"), "free_thresh 0.7 must be below occupied_thresh 0.65"),
    ("a threshold in percent", YAML.replace("0.65", "65"), "occupied_thresh: Input should be less than or equal to 1"),
    ("unknown mode", YAML + "mode: colourful\n", "mode"),
    ("a mode that is a number", YAML + "mode: 3\n", "mode"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "named"), BAD_YAML, ids=[row[0] for row in BAD_YAML])
def test_a_bad_yaml_is_refused_in_one_line(name, text, named, tmp_path):
    with pytest.raises(InputError) as refused:
        load_map(write_map(tmp_path, text))
    assert named in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("mode", ["trinary", "scale", "raw"])
def test_a_map_without_a_free_cell_is_refused(mode, tmp_path):
    occupied = np.full((3, 4), 100 if mode == "raw" else 0, np.uint8)
    with pytest.raises(InputError, match=rf"map\.yaml: map\.pgm: no cell is free in mode {mode}, free_thresh 0\.196"):
        load_map(write_map(tmp_path, YAML + f"mode: {mode}\n", occupied))


@pytest.mark.parametrize(("width", "height"), [(20_000, 20_000), (10_000, 10_000), (8_000, 6_000)])
def test_a_huge_image_is_refused_by_its_header(width, height, tmp_path, recwarn):
    """The file contains only a header."""
    file = write_map(tmp_path)
    (tmp_path / "map.pgm").write_bytes(f"P5\n{width} {height}\n255\n".encode())
    with pytest.raises(InputError) as refused:
        load_map(file)
    assert str(refused.value).startswith(str(tmp_path / "map.pgm"))
    assert f"the limit is {MAX_CELLS}" in str(refused.value)
    assert not recwarn.list


def test_an_image_too_large_after_subdivision_is_refused(tmp_path):
    file = write_map(tmp_path, YAML.replace("0.05", "1.0"), np.full((400, 400), 254, np.uint8))
    with pytest.raises(InputError, match=r"map\.pgm: 8000 x 8000 cells, the limit is"):
        load_map(file)


# name, what the image's file holds, what the line names
BAD_IMAGES = [
    ("truncated", b"P5\n4 2\n255\n\0\0\0\0", "cannot be read"),
    ("text", b"nothing of an image", "not an image"),
    ("empty", b"", "not an image"),
    ("no size", b"P5\n0 0\n255\n", "map.pgm"),
    ("a size of letters", b"P5\nfour two\n255\n", "map.pgm"),
]


@pytest.mark.parametrize(("name", "content", "named"), BAD_IMAGES, ids=[row[0] for row in BAD_IMAGES])
def test_a_bad_image_is_refused_in_one_line(name, content, named, tmp_path):
    file = write_map(tmp_path)
    (tmp_path / "map.pgm").write_bytes(content)
    with pytest.raises(InputError) as refused:
        load_map(file)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


WHITE_WITH = np.full((60, 80), 254, np.uint8)
#   name, grey of the left half, yaml, share of the warning; None: no warning
UNSEEN = [
    ("map_saver's default of nav2", 205, {"free_thresh": 0.25}, "50%"),
    ("map_saver's default of ROS 1", 205, {}, None),
    ("another unknown grey", 128, {"free_thresh": 0.6}, "50%"),
    ("scale", 205, {"free_thresh": 0.25, "mode": "scale"}, "50%"),
    ("a light grey is free by any rule", 220, {"free_thresh": 0.25}, None),
    ("a wall", 0, {"free_thresh": 0.25}, None),
    ("unknown by this rule too", 128, {"free_thresh": 0.25}, None),
    ("raw has no greys", 0, {"free_thresh": 0.25, "mode": "raw"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "grey", "changes", "share"), UNSEEN, ids=[row[0] for row in UNSEEN])
def test_no_start_or_goal_on_free_ground_that_may_be_unknown(name, grey, changes, share, tmp_path, capsys):
    """The map itself stays: the robot may drive there, as map_server's free cells say."""
    pixels = WHITE_WITH.copy() if changes.get("mode") != "raw" else np.zeros((60, 80), np.uint8)
    pixels[:, :40] = grey
    text = YAML.replace("0.196", str(changes.get("free_thresh", 0.196))) + f"mode: {changes.get('mode', 'trinary')}\n"
    world = load_ros_map(write_map(tmp_path, text, pixels))
    space = free_space(furnish(world, 0, 0.0), Body(0.2, 1.0))
    left, right = space.standing[:, 6:34], space.standing[:, 50:74]
    assert right.any()
    assert left.any() == (grey == 220 or changes.get("mode") == "raw")
    assert space.passable[:, 6:34].any() == (share is not None or left.any())
    warning = capsys.readouterr().err
    assert (f"map.yaml: {share} of the cells" in warning) == (share is not None)
    assert ("state free_thresh: 0.196" in warning) == (share is not None)
    load_ros_map(tmp_path / "map.yaml")
    assert capsys.readouterr().err == "", "said once"


# ---- Files that a map references

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
