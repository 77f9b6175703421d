"""Grids of nearness: entered obstacles, coarse cells, and patches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.policy.dwa.cost_to_go import UNREACHED_M, CostField, make_prices
from onboard.policy.dwa.costmap import COARSE, coarse, empty_grid, enter, near_robot

CELL_M = 0.1
PRICES = make_prices(0.25, CELL_M)
ROWS, COLUMNS = 24, 30
FIRST = (-7, 40)

cells = st.lists(st.tuples(st.integers(-9, ROWS + 8), st.integers(-9, COLUMNS + 8)), max_size=60)


def entered(obstacles: list[tuple[int, int]]) -> np.ndarray:
    near = empty_grid((ROWS, COLUMNS), PRICES)
    enter(near, (np.array(obstacles).reshape(-1, 2) + FIRST).astype(np.float32), *FIRST, PRICES.far)
    return near


@given(obstacles=cells)
@settings(max_examples=80, deadline=None)
def test_nearness_is_the_squared_distance_in_half_cells(obstacles):
    rows, columns = np.mgrid[0:ROWS, 0:COLUMNS]
    plain = np.full((ROWS, COLUMNS), PRICES.far)
    for a, b in obstacles:
        plain = np.minimum(plain, np.maximum(1, 4 * ((rows - a) ** 2 + (columns - b) ** 2)))
    np.testing.assert_array_equal(entered(obstacles), plain)


@given(obstacles=cells)
@settings(max_examples=30, deadline=None)
def test_a_coarse_cell_is_as_good_as_the_best_of_its_cells(obstacles):
    near = entered(obstacles)
    best = coarse(near, PRICES.closed)
    assert best.shape == (ROWS // COARSE, COLUMNS // COARSE)
    blocks = near.reshape(ROWS // COARSE, COARSE, COLUMNS // COARSE, COARSE).max(axis=(1, 3))
    np.testing.assert_array_equal(best[1:-1, 1:-1], blocks[1:-1, 1:-1])
    assert (np.concatenate([best[0], best[-1], best[:, 0], best[:, -1]]) == PRICES.closed).all()


@pytest.mark.parametrize("bend", [0, 1, 2])
def test_a_wall_one_cell_thick_stays_shut_on_coarse_cells(bend):
    wall = [(11 + (b * bend) // 8, b) for b in range(-9, COLUMNS + 9)]
    price = PRICES.table[coarse(entered(wall), PRICES.closed)[1:-1, 1:-1]]
    assert (price.max(axis=0) == PRICES.table[1]).all()


def test_a_patch_about_places_takes_its_edge_from_the_field_around():
    around = CostField(np.full((ROWS // COARSE, COLUMNS // COARSE), 7.0, np.float32), (0.0, 0.0), 0.2, UNREACHED_M)
    near = empty_grid((ROWS, COLUMNS), PRICES)
    places = np.array([(1.0, 1.2), (1.3, 1.6)])
    patch = near_robot(near, PRICES, (0.0, 0.0), (50.0, 50.0), around, places)
    assert patch.cell_m == CELL_M
    assert 7.0 - 1e-3 <= patch.cost[1:-1, 1:-1].min() <= patch.cost[1:-1, 1:-1].max() < 8.0
    rows, columns = patch.cost.shape
    for x, y in places:
        assert patch.corner_xy_m[0] + CELL_M < x < patch.corner_xy_m[0] + (rows - 1) * CELL_M
        assert patch.corner_xy_m[1] + CELL_M < y < patch.corner_xy_m[1] + (columns - 1) * CELL_M
