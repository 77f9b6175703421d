"""The cost to go on a grid against a plain definition, with and without a robot that directs the wave."""

from __future__ import annotations

import heapq
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.policy.dwa.cost_to_go import (
    BEYOND_M,
    LETHAL_PRICE,
    SEED_CELLS,
    UNREACHED_M,
    make_prices,
    price_of,
    refine,
    solve,
)

CELL_M = 0.2
SIDE = 30
PRICES = make_prices(0.25, CELL_M)
CORNER = (-3.0, -3.0)


def definition(nearness: np.ndarray, goal: tuple[float, float]) -> np.ndarray:
    """Fast marching with a heap, from the goal's surroundings, every cell fixed once."""
    price = PRICES.table[nearness] * CELL_M
    cost = np.full(nearness.shape, np.inf)
    where = (np.array(goal) - CORNER) / CELL_M - 0.5
    heap: list[tuple[float, int, int]] = []
    low = np.maximum(where.astype(int) - 2, 1)
    high = np.minimum(where.astype(int) + 3, SIDE - 2)
    for i in range(low[0], high[0] + 1):
        for j in range(low[1], high[1] + 1):
            away = math.hypot(i - where[0], j - where[1])
            if away < 1.0 or (away <= SEED_CELLS and price[i, j] < LETHAL_PRICE * CELL_M):
                cost[i, j] = CELL_M * away
                heapq.heappush(heap, (cost[i, j], i, j))
    done = np.zeros(nearness.shape, bool)
    while heap:
        _, i, j = heapq.heappop(heap)
        if done[i, j]:
            continue
        done[i, j] = True
        for p, q in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            if done[p, q] or not np.isfinite(price[p, q]):
                continue
            a, b = min(cost[p - 1, q], cost[p + 1, q]), min(cost[p, q - 1], cost[p, q + 1])
            new = min(a, b) + price[p, q]
            if abs(a - b) < price[p, q]:
                new = 0.5 * (a + b + math.sqrt(2.0 * price[p, q] ** 2 - (a - b) ** 2))
            if new < cost[p, q]:
                cost[p, q] = new
                heapq.heappush(heap, (new, p, q))
    return cost


def grid(obstacles: list[tuple[int, int]]) -> np.ndarray:
    """Return the nearness of a closed grid with obstacles in some cells."""
    nearness = np.full((SIDE, SIDE), PRICES.far, np.int16)
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    for i, j in obstacles:
        nearness = np.minimum(nearness, (4 * ((rows - i) ** 2 + (columns - j) ** 2)).astype(np.int16))
    nearness[[0, -1]] = nearness[:, [0, -1]] = PRICES.closed
    return nearness


places = st.tuples(st.floats(-2.5, 2.5), st.floats(-2.5, 2.5))
clutter = st.lists(st.tuples(st.integers(1, SIDE - 2), st.integers(1, SIDE - 2)), max_size=25)


@given(obstacles=clutter, goal=places)
@settings(max_examples=30, deadline=None)
def test_the_field_equals_its_definition(obstacles, goal):
    nearness = grid(obstacles)
    field, plain = solve(nearness, PRICES, CORNER, CELL_M, goal), definition(nearness, goal)
    inner = np.s_[1:-1, 1:-1]
    np.testing.assert_allclose(field.cost[inner], plain[inner], rtol=0.03, atol=0.06)


@given(obstacles=clutter, goal=places, robot=places)
@settings(max_examples=50, deadline=None)
def test_directed_to_the_robot_the_cost_there_is_the_whole_fields(obstacles, goal, robot):
    nearness = grid(obstacles)
    whole, led = solve(nearness, PRICES, CORNER, CELL_M, goal), solve(nearness, PRICES, CORNER, CELL_M, goal, robot)
    here = tuple((np.rint((np.array(robot) - CORNER) / CELL_M - 0.5)).astype(int))
    assert led.cost[here] == pytest.approx(whole.cost[here], rel=0.03, abs=0.06)
    assert led.most_m == pytest.approx(led.cost[here] + BEYOND_M)
    assert (led.cost >= whole.cost * 0.97 - 0.06).all()


def test_directed_to_the_robot_the_wave_skips_most_of_the_grid():
    led = solve(grid([]), PRICES, CORNER, CELL_M, (-2.0, 0.0), (0.0, 0.0))
    assert (led.cost == np.float32(UNREACHED_M)).mean() > 0.3


@given(obstacles=clutter, goal=places)
@settings(max_examples=30, deadline=None)
def test_a_patch_entered_from_its_edge_has_the_cost_of_the_whole(obstacles, goal):
    nearness = grid(obstacles)
    whole = solve(nearness, PRICES, CORNER, CELL_M, goal)
    patch = nearness[8:21, 10:23].copy()
    patch[[0, -1]] = patch[:, [0, -1]] = PRICES.closed
    refined = refine(patch, PRICES, (CORNER[0] + 8 * CELL_M, CORNER[1] + 10 * CELL_M), CELL_M, goal, whole)
    np.testing.assert_allclose(refined.cost[1:-1, 1:-1], whole.cost[9:20, 11:22], rtol=0.04, atol=0.15)


#   clear [m]  price
PRICED = [(-0.2, LETHAL_PRICE), (-0.02, 6.0), (0.08, 1.5), (0.24, 1.25), (0.4, 1.0), (3.0, 1.0)]


@pytest.mark.parametrize(("clear_m", "price"), PRICED)
def test_price_by_distance(clear_m, price):
    assert price_of(clear_m) == pytest.approx(price)


@given(clear_m=st.floats(-0.25, 2.0), further_m=st.floats(0.0, 1.0))
def test_farther_from_obstacles_is_never_dearer(clear_m, further_m):
    assert price_of(clear_m + further_m) <= price_of(clear_m)


#   goal in cells     home in cells
MARCHES = [
    ("15.0, 15.0",    "math.nan, math.nan"),
    ("1.0, 28.0",     "math.nan, math.nan"),
    ("-9.0, 40.0",    "math.nan, math.nan"),
    ("15.0, 15.0",    "28.0, 28.0"),
    ("15.0, 15.0",    "900.0, -900.0"),
]  # fmt: skip
MARCH = """
import math
import numpy as np
from onboard.policy.dwa.cost_to_go import UNREACHED_M, _march, _seed_goal, make_prices
from tests.rigs.machine.guarded_array import guarded
prices = make_prices(0.25, 0.2)
near = np.full((30, 30), prices.far, np.int16)
near[[0, -1]] = near[:, [0, -1]] = prices.closed
near, table, cost = guarded(near), guarded(prices.table), guarded(np.full(900, np.float32(UNREACHED_M)))
goal, home = ({goal}), ({home})
_march(cost, guarded(_seed_goal(cost, near, table, goal, 0.2)), near, table, 0.2, goal, home)
print((cost < UNREACHED_M).sum() > 100)
"""


@pytest.mark.parametrize(("goal", "home"), MARCHES)
def test_the_wave_reads_nothing_behind_its_arrays(goal: str, home: str) -> None:
    """A read behind a large array ended the process, if no memory followed there."""
    program = MARCH.format(goal=goal, home=home)
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr


def test_the_wave_stays_near_the_path_also_where_a_map_leaves_only_walls_to_cross():
    nearness = np.zeros((SIDE * 4, SIDE * 4), np.int16)
    nearness[[0, -1]] = nearness[:, [0, -1]] = PRICES.closed
    nearness[50:60, 50:60] = nearness[50:60, 64:70] = PRICES.far  # the rooms of the goal and of the robot
    field = solve(nearness, PRICES, (0.0, 0.0), CELL_M, (11.0, 11.0), (11.0, 13.3))
    visited = field.cost < UNREACHED_M
    assert 4 * 60.0 < field.cost[54, 66] < field.most_m
    assert 100 < visited.sum() < 1500
