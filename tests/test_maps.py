"""Maps: what a cell of a pgm means, segments without holes, files that cannot be used, and the shipped maps."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rooms import drawn

from hil.grids import chessboard_distance, line_is_free, mark_segments
from hil.maps import WALL_HEIGHT_M, load_map, map_names
from hil.ros_map import RosMapTable, free_pixels, load_ros_map
from hil.routes import indoor_cells
from hil.vector_map import MARGIN_M, load_vector_map
from onboard.errors import InputError

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


# name, changes of the yaml, grey, free; free_thresh is 0.196, occupancy (255 - grey) / 255
GREYS = [
    ("black is a wall", {}, 0, False),
    ("white is free", {}, 254, True),
    ("unknown is not free", {}, 205, False),
    ("just free", {}, 206, True),
    ("negated, black is free", {"negate": 1}, 0, True),
    ("negated, white is a wall", {"negate": 1}, 254, False),
    ("another threshold", {"free_thresh": 0.25}, 205, True),
    ("raw counts percent", {"mode": "raw"}, 19, True),
    ("raw above the threshold", {"mode": "raw"}, 20, False),
    ("raw unknown", {"mode": "raw"}, 255, False),
    ("scale is trinary where nothing is see-through", {"mode": "scale"}, 254, True),
]


@pytest.mark.parametrize(("name", "changes", "grey", "free"), GREYS)
def test_what_a_grey_means(name, changes, grey, free):
    assert free_pixels(np.full((1, 1), grey, np.uint8), table(**changes)).item() == free


def test_scale_mode_takes_what_is_see_through_as_unknown():
    pixels = np.array([[[254, 255], [254, 0]]], np.uint8)
    assert free_pixels(pixels, table(mode="scale")).tolist() == [[True, False]]


def test_a_pgm_is_placed_with_its_lowest_row_at_the_origin(tmp_path):
    world = load_ros_map(write_map(tmp_path))
    assert world.overlapping(0.0, 1.0)[1:-1, 1:-1].tolist() == [[False] * 4, [True, True, True, False]]
    assert world.cell_of((1.01, 2.01)) == (1, 1)
    assert world.centre_of((1, 1)) == pytest.approx((1.025, 2.025))
    assert world.high_m[2, 1].tolist() == [WALL_HEIGHT_M, -math.inf]


def test_the_origin_may_be_turned(tmp_path):
    world = load_ros_map(write_map(tmp_path, YAML.replace("[1.0, 2.0, 0.0]", f"[1.0, 2.0, {math.pi / 2}]")))
    assert world.centre_of((1, 1)) == pytest.approx((1.0 - 0.025, 2.0 + 0.025))
    assert world.cell_of((1.0 - 0.025, 2.0 + 0.175)) == (1, 4)


def test_a_coarse_pgm_is_divided(tmp_path):
    world = load_ros_map(write_map(tmp_path, YAML.replace("0.05", "0.10")))
    assert (world.cell_m, world.gap.shape) == (0.05, (2 * 2 + 2, 2 * 4 + 2))
    assert world.overlapping(0.0, 1.0)[3:5, 1:-1].tolist() == [[True] * 6 + [False] * 2] * 2


# name, text of the yaml, what the line names
BAD_YAML = [
    ("not yaml", "image: [", "not valid YAML"),
    ("a list", "- 1", "must be a table"),
    ("no image", YAML.replace("image: map.pgm\n", ""), "image"),
    ("missing image file", YAML.replace("map.pgm", "other.pgm"), "other.pgm: cannot be read"),
    ("resolution of zero", YAML.replace("0.05", "0.0"), "resolution: Input should be greater than 0"),
    ("resolution too coarse", YAML.replace("0.05", "3.0"), "resolution: Input should be less than or equal to 1"),
    ("resolution not a number", YAML.replace("0.05", "fine"), "resolution"),
    ("origin of two", YAML.replace("[1.0, 2.0, 0.0]", "[1.0, 2.0]"), "origin"),
    ("origin infinite", YAML.replace("[1.0, 2.0, 0.0]", "[.inf, 2.0, 0.0]"), "origin"),
    ("thresholds crossed", YAML.replace("0.196", "0.7"), "free_thresh 0.7 must be below occupied_thresh 0.65"),
    ("unknown mode", YAML + "mode: colourful\n", "mode"),
    ("unknown key", YAML + "colour: red\n", "unknown key colour"),
]


@pytest.mark.parametrize(("name", "text", "named"), BAD_YAML)
def test_a_bad_yaml_is_refused_in_one_line(name, text, named, tmp_path):
    with pytest.raises(InputError) as refused:
        load_map(write_map(tmp_path, text))
    assert named in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_truncated_image_is_refused(tmp_path):
    file = write_map(tmp_path)
    image = tmp_path / "map.pgm"
    image.write_bytes(image.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"map\.pgm: cannot be read"):
        load_map(file)
    image.write_bytes(b"nothing of an image")
    with pytest.raises(InputError, match=r"map\.pgm: not an image"):
        load_map(file)


def segment(x0: float, y0: float, x1: float, y1: float) -> dict[str, dict[str, float]]:
    return {"p0": {"x": x0, "y": y0}, "p1": {"x": x1, "y": y1}}


# name, content, what the line names
BAD_VECTORS = [
    ("not JSON", "[", "not valid JSON"),
    ("a table", "{}", "must be a list"),
    ("empty", "[]", "at least one segment"),
    ("an end is missing", json.dumps([segment(0, 0, 1, 1), {"p0": {"x": 1, "y": 2}}]), "segment 1"),
    ("not a number", '[{"p0": {"x": "a", "y": 0}, "p1": {"x": 1, "y": 1}}]', "segment 0"),
    ("infinite", '[{"p0": {"x": Infinity, "y": 0}, "p1": {"x": 1, "y": 1}}]', "segment 0: coordinates must be finite"),
    ("as large as a city", json.dumps([segment(0, 0, 9e3, 9e3)]), "the limit is 40000000"),
]


@pytest.mark.parametrize(("name", "text", "named"), BAD_VECTORS)
def test_a_bad_vector_map_is_refused_in_one_line(name, text, named, tmp_path):
    file = tmp_path / "map.json"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        load_map(file)
    assert str(refused.value).startswith(str(file))
    assert named in str(refused.value)


def test_unknown_maps_are_refused_with_what_there_is(tmp_path):
    with pytest.raises(InputError, match=r"no such map, there are ahg1, ahg2, apartment, .*willow"):
        load_map("atlantis")
    with pytest.raises(InputError, match="cannot be read"):
        load_map(tmp_path / "missing.json")
    with pytest.raises(InputError, match=r"a map is the \.yaml"):
        load_map(tmp_path / "plan.dxf")


def test_a_vector_map_keeps_its_coordinates(tmp_path):
    file = tmp_path / "map.json"
    file.write_text(json.dumps([segment(10.0, -3.0, 12.0, -3.0)]))
    world = load_vector_map(file)
    wall = world.overlapping(0.0, 1.0)
    assert wall[world.cell_of((11.0, -3.0 + 0.001))]
    assert not wall[world.cell_of((11.0, -3.0 + 0.1))]
    assert not wall[world.cell_of((12.0 + 0.1, -3.0))]
    assert wall.shape[1] * world.cell_m == pytest.approx(2.0 + 2 * MARGIN_M + 2 * world.cell_m, abs=0.051)


coordinate = st.floats(1.0, 19.0)


@given(coordinate, coordinate, coordinate, coordinate)
def test_a_segment_is_a_chain_of_cells_joined_by_edges(x0, y0, x1, y1):
    wall = np.zeros((20, 20), np.bool_)
    mark_segments(wall, np.array([[x0, y0, x1, y1]]))
    moves = abs(math.floor(x1) - math.floor(x0)) + abs(math.floor(y1) - math.floor(y0))
    assert wall.sum() == moves + 1
    assert wall[math.floor(y0), math.floor(x0)]
    assert wall[math.floor(y1), math.floor(x1)]
    for t in np.linspace(0.0, 1.0, 50):
        x, y = x0 + t * (x1 - x0), y0 + t * (y1 - y0)
        around = wall[math.floor(y - 1e-9) : math.floor(y + 1e-9) + 1, math.floor(x - 1e-9) : math.floor(x + 1e-9) + 1]
        assert around.any()


cells = st.tuples(st.integers(0, 19), st.integers(0, 19))


@given(st.lists(cells, min_size=1, max_size=5))
def test_chessboard_distance_is_king_moves(occupied):
    grid = np.zeros((20, 20), np.bool_)
    grid[tuple(np.array(occupied).T)] = True
    rows, columns = np.indices(grid.shape)
    expected = np.min([np.maximum(abs(rows - r), abs(columns - c)) for r, c in occupied], axis=0)
    np.testing.assert_array_equal(chessboard_distance(grid), expected)


@given(cells, cells)
def test_a_line_is_blocked_by_a_wall_across_it(a, b):
    free = np.ones((20, 20), np.bool_)
    assert line_is_free(free, a, b)
    free[10, :] = False
    assert line_is_free(free, a, b) == ((a[0] < 10 and b[0] < 10) or (a[0] > 10 and b[0] > 10))


def test_every_world_is_closed():
    wall = drawn("..\n..", 0.5).overlapping(0.0, WALL_HEIGHT_M)
    assert wall[[0, -1]].all()
    assert wall[:, [0, -1]].all()
    assert not wall[1:-1, 1:-1].any()


SHIPPED = {
    *(f"gdc{floor}" for floor in range(1, 7)),
    *(f"ghc{floor}" for floor in range(1, 10)),
    *("ahg1", "ahg2", "ase1", "ase4", "lgrc1", "apartment", "home", "willow", "depot", "warehouse"),
}


def test_what_ships():
    assert set(map_names()) == SHIPPED


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_maps_load(name):
    world = load_map(name)
    indoors_m2 = indoor_cells(world).sum() * world.cell_m**2
    assert 0.03 <= world.cell_m <= 0.05
    assert (80.0 if name == "home" else 400.0) < indoors_m2 < 6000.0
