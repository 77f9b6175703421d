"""Vector maps: both formats, map coordinates, and unusable files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hil.maps.load import load_map
from hil.maps.vector_map import MAX_BYTES, load_vector_map, shorten
from onboard.values.errors import InputError


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
    ("as large as a city", json.dumps([segment(0, 0, 9e3, 9e3)]), "the limit is 25000000"),
    (
        "longer than any number",
        "[[1e308, 1e308, 1e308, -1e308]]",
        "segment 0: a coordinate of 1e+308 m",
    ),
    ("too far for a grid", "[[0, 0, 1, 1], [1e20, 1e20, 1e20, 1.1e20]]", "segment 1: a coordinate of 1.1e+20 m"),
    ("just too far", json.dumps([segment(-1_000_001, 0, -1_000_000, 0)]), "segment 0: a coordinate of 1000001 m"),
    ("one point", json.dumps([segment(3, 4, 3, 4)]), "all 1 segments are points"),
    ("points alone", json.dumps([segment(3, 4, 3, 4), [5, 6, 5, 6]]), "all 2 segments are points"),
    ("one end", '[{"p0": {"x": 1, "y": 2}}]', "segment 0"),
    ("a row of three", "[[0, 0, 1]]", "segment 0: must be"),
    ("a row of text", "[[0, 0, 1, null]]", "segment 0: must be"),
    ("a number", "[7]", "segment 0: must be"),
    ("NaN", "[[0, 0, NaN, 1]]", "segment 0: coordinates must be finite"),
    ("a number of 400 digits", f"[[0, 0, 1{'0' * 400}, 1]]", "segment 0: must be"),
    ("nested too deep", "[" * 100_000, "not valid JSON"),
]


@pytest.mark.parametrize(("name", "text", "named"), BAD_VECTORS)
def test_a_bad_vector_map_is_refused_in_one_line(name, text, named, tmp_path):
    file = tmp_path / "map.json"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        load_map(file)
    assert str(refused.value).startswith(str(file))
    assert named in str(refused.value)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path):
    file = tmp_path / "map.json"
    with file.open("wb") as sparse:
        sparse.truncate(MAX_BYTES + 1)
    with pytest.raises(InputError, match=f"{MAX_BYTES + 1} bytes, the limit is {MAX_BYTES}"):
        load_vector_map(file)


def test_a_segment_of_zero_length_is_a_wall_cell(tmp_path: Path):
    file = tmp_path / "map.json"
    file.write_text(json.dumps([[0, 0, 4, 0], [2.02, 2.02, 2.02, 2.02]]))
    world = load_vector_map(file)
    assert world.overlapping(0.0, 1.0)[world.cell_of((2.02, 2.02))]


def test_both_formats_give_the_same_map_to_a_millimetre(tmp_path: Path):
    walls = [(0.0, 0.0, 4.1234, 0.0), (4.1234, 0.0, 4.1234, 3.3336)]
    long, short = tmp_path / "long.json", tmp_path / "short.json"
    long.write_text(json.dumps([segment(*wall) for wall in walls]))
    shorten(long, short)
    assert json.loads(short.read_text()) == [[0.0, 0.0, 4.123, 0.0], [4.123, 0.0, 4.123, 3.334]]
    np.testing.assert_array_equal(load_map(long).low_m, load_map(short).low_m)
