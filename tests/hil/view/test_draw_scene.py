"""A building as boxes: the boxes cover exactly the occupied cells."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hil.maps.load import load_map
from hil.maps.world_grid import World, make_world
from hil.view.draw_scene import CUT_M, blocks_of
from onboard.values.messages import Pose

CELL_M = 0.1
NONE = (np.inf, -np.inf)
#   number  low, high [m], material
THINGS = [(*NONE, 0), (0.0, 2.5, 0), (0.0, 0.4, 1), (0.7, 0.75, 1), (0.7, 0.75, 2), (1.3, 2.0, 3)]


def world_of(*layers: list[list[int]]) -> World:
    """Return the world whose cells hold these things, one layer an interval; the first names the material."""
    things = np.array(layers)
    table = np.array(THINGS, np.float32)
    low, high = (np.moveaxis(table[things, column], 0, -1) for column in (0, 1))
    return make_world("test", CELL_M, Pose(0, 0, 0), low, high, material=table[things[0], 2].astype(np.uint8))


def filled(world: World, cut_m: float = CUT_M) -> dict[tuple[int, int], Counter[tuple[float, float, int]]]:
    """Return (low, high, material) of what is below the cut, by cell."""
    found: dict[tuple[int, int], Counter[tuple[float, float, int]]] = {}
    for row, column, k in np.argwhere((world.high_m >= world.low_m) & (world.low_m < cut_m)).tolist():
        low, high = float(world.low_m[row, column, k]), min(float(world.high_m[row, column, k]), cut_m)
        thing = (round(low, 2), round(high, 2), int(world.material[row, column]))
        found.setdefault((row, column), Counter())[thing] += 1
    return found


def covered(world: World) -> dict[tuple[int, int], Counter[tuple[float, float, int]]]:
    """Return the same, read off the boxes."""
    blocks = blocks_of(world)
    found: dict[tuple[int, int], Counter[tuple[float, float, int]]] = {}
    for low, high, material in zip(blocks.low_m, blocks.high_m, blocks.material.tolist(), strict=True):
        first, last = np.rint(low[:2] / CELL_M).astype(int), np.rint(high[:2] / CELL_M).astype(int)
        thing = (round(float(low[2]), 2), round(float(high[2]), 2), material)
        for column in range(first[0], last[0]):
            for row in range(first[1], last[1]):
                found.setdefault((row, column), Counter())[thing] += 1
    return found


#   name                      cells                                        boxes
PLANS = [
    ("nothing",               [[0, 0], [0, 0]],                            0),
    ("one wall cell",         [[0, 0], [0, 1]],                            1),
    ("a row is one box",      [[1, 1, 1]],                                 1),
    ("a block is one box",    [[1, 1], [1, 1], [1, 1]],                    1),
    ("a corner is two",       [[1, 1], [1, 0]],                            2),
    ("other heights part",    [[1, 2]],                                    2),
    ("other materials part",  [[3, 4]],                                    2),
    ("above the cut",         [[5, 5]],                                    0),
    ("a gap parts rows",      [[1, 1], [0, 0], [1, 1]],                    2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "cells", "boxes"), PLANS, ids=[row[0] for row in PLANS])
def test_equal_neighbours_are_one_box(name, cells, boxes):
    assert len(blocks_of(world_of(cells)).material) == boxes


@given(arrays(np.int64, (2, 5, 7), elements=st.integers(0, len(THINGS) - 1)))
def test_the_boxes_are_the_cells(things):
    world = world_of(*things.tolist())
    assert covered(world) == filled(world)


@given(arrays(np.int64, (1, 6, 5), elements=st.integers(0, 4)), st.integers(1, 6))
def test_of_too_many_boxes_coarser_ones_are_made_that_still_cover_every_cell(things, most):
    world = world_of(*things.tolist())
    blocks = blocks_of(world, most=most)
    assert len(blocks.material) <= most
    for row, column in filled(world):
        centre = np.array([(column + 0.5) * CELL_M, (row + 0.5) * CELL_M])
        assert ((blocks.low_m[:, :2] < centre) & (centre < blocks.high_m[:, :2])).all(axis=1).any()


def test_a_floor_of_a_real_building_is_light():
    world = load_map("gdc1")
    blocks = blocks_of(world)
    assert 100 < len(blocks.material) < 20_000 < np.count_nonzero(world.gap == 0)
    assert blocks.cell_m == world.cell_m
