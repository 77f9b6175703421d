"""Solid intervals in cells: touching intervals merge, no solid part is lost, thin parts have no holes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.maps.cell_kernels import SEAM_M, add_interval, put_parts

NONE = (math.inf, -math.inf)


def cell(*intervals: tuple[float, float], room: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return low and high of a cell after adding the intervals in order."""
    low, high = np.full(room, np.inf, np.float32), np.full(room, -np.inf, np.float32)
    for each in intervals:
        add_interval(low, high, *each)
    return low, high


# name, intervals added, what the cell holds
ADDED = [
    ("one", [(0.0, 1.0)], [(0.0, 1.0)]),
    ("sorted", [(2.0, 2.5), (0.0, 1.0)], [(0.0, 1.0), (2.0, 2.5)]),
    ("a leg under its top", [(0.7, 0.75), (0.0, 0.7)], [(0.0, 0.75)]),
    ("closer than a seam", [(0.0, 0.7), (0.7 + SEAM_M / 2, 1.0)], [(0.0, 1.0)]),
    ("farther than a seam", [(0.0, 0.5), (0.75, 1.0)], [(0.0, 0.5), (0.75, 1.0)]),
    ("one inside another", [(0.0, 2.0), (0.5, 1.0)], [(0.0, 2.0)]),
    ("across two", [(0.0, 0.5), (1.0, 1.5), (0.25, 1.25)], [(0.0, 1.5)]),
    ("too many, the nearest are joined", [(0.0, 0.25), (1.0, 1.25), (2.0, 2.25), (2.5, 3.0)],
     [(0.0, 0.25), (1.0, 1.25), (2.0, 3.0)]),
    ("too many, between", [(0.0, 0.25), (1.0, 1.25), (2.0, 2.25), (1.5, 1.75)],
     [(0.0, 0.25), (1.0, 1.75), (2.0, 2.25)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "added", "held"), ADDED, ids=[row[0] for row in ADDED])
def test_intervals_of_a_cell(name, added, held):
    low, high = cell(*added)
    expected = held + [NONE] * (len(low) - len(held))
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == expected


eighths = st.integers(0, 40).map(lambda number: number / 8)
spans = st.tuples(eighths, eighths).map(lambda ends: (min(ends), max(ends)))


@given(st.lists(spans, max_size=8), st.integers(1, 8))
def test_a_cell_contains_the_union_of_its_intervals(added, room):
    low, high = cell(*added, room=room)
    used = low <= high
    assert (low[used][1:] > high[used][:-1]).all()
    assert not used[used.sum() :].any()
    for height in np.arange(0.0, 5.01, 1 / 16):
        wanted = any(a <= height <= b for a, b in added)
        held = bool(((low <= height) & (height <= high)).any())
        assert held or not wanted
        if room == 8:
            assert held == wanted


def put(*parts: tuple[float, ...], centre: tuple[float, float] = (20.0, 20.0), degrees: float = 0.0) -> np.ndarray:
    """Return (40, 40) bool: cells that are not empty."""
    low, high = np.full((40, 40, 2), np.inf, np.float32), np.full((40, 40, 2), -np.inf, np.float32)
    material = np.zeros((40, 40), np.uint8)
    angle = math.radians(degrees)
    put_parts(low, high, material, np.array(parts), centre, (math.cos(angle), math.sin(angle)))
    written = (high >= low).any(axis=2)
    assert (material[written] == 3).all()
    assert not material[~written].any()
    return written


def test_a_positive_rotation_is_counter_clockwise():
    """A part towards +u is then towards +y."""
    written = put((2.0, -1.0, 8.0, 1.0, 0.0, 1.0, 3.0), degrees=90)
    assert written[22:28, 19:21].all()
    assert written.sum() == 12


@pytest.mark.parametrize("degrees", range(0, 360, 15))
def test_a_thin_board_has_no_hole_at_any_angle(degrees):
    """The cells are 4-connected from end to end."""
    written = put((-12.0, 0.0, 12.0, 0.0, 0.0, 1.0, 3.0), centre=(20.3, 19.6), degrees=degrees)
    cells = {(int(row), int(column)) for row, column in np.argwhere(written)}
    seen, edge = set(), [next(iter(cells))]
    while edge:
        row, column = edge.pop()
        if (row, column) in cells - seen:
            seen.add((row, column))
            edge += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
    assert seen == cells
    assert len(cells) >= 24 * max(abs(math.cos(math.radians(degrees))), abs(math.sin(math.radians(degrees)))) - 1
