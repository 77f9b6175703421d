"""Maps by name or file, shipped maps, and the grid kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.maps.cell_kernels import chessboard_distance, line_is_free, mark_segments
from hil.maps.load import load_map, map_names
from hil.physics.free_space import indoor_cells
from onboard.values.errors import InputError


def test_unknown_maps_are_refused_with_the_list_of_maps(tmp_path):
    with pytest.raises(InputError, match=r"no such map, there are ahg1, ahg2, apartment, .*willow"):
        load_map("atlantis")
    with pytest.raises(InputError, match="cannot be read"):
        load_map(tmp_path / "missing.json")
    with pytest.raises(InputError, match=r"a map is the \.yaml"):
        load_map(tmp_path / "plan.dxf")


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
        surroundings = wall[
            math.floor(y - 1e-9) : math.floor(y + 1e-9) + 1, math.floor(x - 1e-9) : math.floor(x + 1e-9) + 1
        ]
        assert surroundings.any()


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


SHIPPED = {
    *(f"gdc{floor}" for floor in range(1, 7)),
    *(f"ghc{floor}" for floor in range(1, 10)),
    *("ahg1", "ahg2", "ase1", "ase4", "lgrc1", "apartment", "home", "willow", "depot", "warehouse"),
}


def test_shipped_files():
    assert set(map_names()) == SHIPPED


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_maps_load(name):
    world = load_map(name)
    indoors_m2 = indoor_cells(world).sum() * world.cell_m**2
    assert 0.03 <= world.cell_m <= 0.05
    assert (80.0 if name == "home" else 400.0) < indoors_m2 < 6000.0
