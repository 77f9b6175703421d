"""Made floors: offices, flats and halls with dead ends and loops, drawn by a seed. They are not real buildings.

A rectangle is split by corridors, in a flat by walls alone, and what is left between them into rooms. Every space gets
a door into a space that is connected already, some get more. So rooms lead into rooms, corridors end blind, and there
is often a second path. Between two halls there are rows of rooms behind long walls: a goal behind such a wall is near,
but the path there is long.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hil.maps.vector_map import world_of_segments
from hil.maps.world_grid import World
from onboard.values.errors import InputError

PREFIX = "made-"
GENERATOR = 3
"""Raised with every change of the floors: a training states it (`engines/train/config.py`)."""
MOST_SEED, MOST_AT_ONCE = 10**9, 1000
STEP_M = 0.25
"""Walls lie on a grid of this width."""
WIDTH_M, DEPTH_M, CORRIDOR_M, ROOM_M, DOOR_CELLS = (18.0, 34.0), (14.0, 28.0), (1.5, 2.5), (3.0, 6.5), (4, 5)
"""Lengths, drawn between two, and the widths of a door [cells]."""
FLAT, FLAT_WIDTH_M, FLAT_DEPTH_M = 0.4, (11.0, 24.0), (8.0, 16.0)
"""Share of the other floors that have no corridors: a room leads into the next one."""
HALLS, HALLS_WIDTH_M, HALLS_DEPTH_M, HALL_PART, ROW_M = 0.6, (20.0, 40.0), (9.0, 20.0), (0.1, 0.3), (2.0, 5.0)
"""Share of the floors that have two halls with rows between them; a hall's part of the width; the depth of a row."""
WHOLE_ROW, ROW_DOOR = 0.5, 0.06
"""Probabilities: a row is one space; two neighbours in different rows may get a door."""
BLOCK_M, DEEPEST = 8.0, 5
"""A block longer than this is split, at most this many times."""
HALL, MORE_DOORS, OPEN, BLIND = 0.12, 0.12, 0.8, 0.3
"""Probabilities: a block, or the rest of its rooms, stays a hall; two connected neighbours get a door too; two
corridors meet without a wall; they do so only after the rooms have doors, and then often not."""
STREAM = 0x6D616465
"""Keeps these random numbers apart from those of other seeds."""

Labels = npt.NDArray[np.int32]


class _Run(NamedTuple):
    """A straight piece of wall between two spaces, along a row or a column of the grid, from `first` to `last`."""

    upright: bool
    at: int
    first: int
    last: int


def is_made(name: str) -> bool:
    """Return whether a place is named like a made floor. A file's name has a suffix."""
    return re.fullmatch(rf"{PREFIX}[^./\\]*", name) is not None


def made_range(place: str) -> list[str]:
    """Return the made floors of `made-FIRST-LAST`; any other place alone. Raises ValueError if there are too many."""
    found = re.fullmatch(rf"{PREFIX}([0-9]{{1,10}})-([0-9]{{1,10}})", place)
    if found is None:
        return [place]
    first, last = int(found[1]), int(found[2])
    if not first <= last < first + MOST_AT_ONCE:
        raise ValueError(f"{place}: must name 1 to {MOST_AT_ONCE} floors, the first seed first")
    return [f"{PREFIX}{seed}" for seed in range(first, last + 1)]


def made_floor(name: str) -> World:
    """Return the world of `made-SEED`. Raises InputError for a name without a seed of 0 to `MOST_SEED`."""
    found = re.fullmatch(rf"{PREFIX}([0-9]{{1,10}})", name)
    if found is None or int(found[1]) > MOST_SEED:
        raise InputError(f"map {name}: must be {PREFIX}SEED with a seed of 0 to {MOST_SEED}")
    return world_of_segments(name, _walls(np.random.default_rng([STREAM, int(found[1])])) * STEP_M)


def _cells(rng: np.random.Generator, lengths_m: tuple[float, float]) -> int:
    return round(rng.uniform(*lengths_m) / STEP_M)


def _walls(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return (n, 4) x0, y0, x1, y1 of the walls, in cells."""
    halls, flat = rng.random() < HALLS, rng.random() < FLAT
    size_m = (FLAT_DEPTH_M, FLAT_WIDTH_M) if flat else (DEPTH_M, WIDTH_M)
    size_m = (HALLS_DEPTH_M, HALLS_WIDTH_M) if halls else size_m
    labels = np.zeros([_cells(rng, one) + 2 for one in size_m], np.int32)  # 0 is outside
    corridors, closed = _rows(labels, rng) if halls else (_split(labels, flat, rng), set())
    runs = _runs(labels)
    doors: dict[_Run, tuple[int, int]] = {}
    for pair in _joined({pair: rows for pair, rows in runs.items() if pair not in closed}, corridors, rng):
        run = max(runs[pair], key=lambda one: one.last - one.first)
        doors[run] = _door(run, corridors.issuperset(pair), rng)
    return np.array([part for rows in runs.values() for run in rows for part in _parts(run, doors.get(run))], float)


def _rows(labels: Labels, rng: np.random.Generator) -> tuple[set[int], set[tuple[int, int]]]:
    """Number two halls and the rows between them in place; return those open to a hall, and pairs that get no door."""
    bottom, right = labels.shape[0] - 1, labels.shape[1] - 1
    begin, end = (round(rng.uniform(*HALL_PART) * right) for _ in range(2))
    labels[1:bottom, 1:begin], labels[1:bottom, right - end : right] = 1, 2
    halls, rows, top, count = {1, 2}, [], 1, 2
    while top < bottom:
        deep = _cells(rng, ROW_M)
        if bottom - top - deep < ROW_M[0] / STEP_M:
            deep = bottom - top
        row, first = labels[top : top + deep, begin : right - end], count
        if rng.random() < WHOLE_ROW:
            count += 1
            row[:] = count
            halls.add(count)
        else:
            count = _fill(row, count, rng)
        rows.append(range(first + 1, count + 1))
        top += deep
    closed = {
        (one, other)
        for low, high in itertools.pairwise(rows)
        for one in low
        for other in high
        if rng.random() > ROW_DOOR
    }
    return halls, closed


def _split(labels: Labels, flat: bool, rng: np.random.Generator) -> set[int]:
    """Number the spaces in place; return the numbers of corridors. A flat has none."""
    corridors: set[int] = set()
    blocks, count = [(1, 1, labels.shape[0] - 1, labels.shape[1] - 1, 0)], 0
    while blocks:
        top, left, bottom, right, depth = blocks.pop()
        size, across = (bottom - top, right - left), bottom - top > right - left
        wide = 0 if flat else _cells(rng, CORRIDOR_M)
        rooms = [_cells(rng, ROOM_M) for _ in range(2)]
        spare = max(size) - wide - sum(rooms)
        if max(size) * STEP_M > BLOCK_M and spare > 0 and depth < DEEPEST and (depth < 1 or rng.random() > HALL):
            at = rooms[0] + int(rng.integers(spare + 1))
            if not flat:
                count += 1
                corridors.add(count)
            if across:
                labels[top + at : top + at + wide, left:right] = count
                blocks += [(top, left, top + at, right, depth + 1), (top + at + wide, left, bottom, right, depth + 1)]
            else:
                labels[top:bottom, left + at : left + at + wide] = count
                blocks += [(top, left, bottom, left + at, depth + 1), (top, left + at + wide, bottom, right, depth + 1)]
            continue
        count = _fill(labels[top:bottom, left:right], count, rng)
    return corridors


def _fill(block: Labels, count: int, rng: np.random.Generator) -> int:
    """Number the rooms of a block along its longer side in place; return the last number."""
    long = block if block.shape[0] >= block.shape[1] else block.T
    at = 0
    while at < len(long):
        deep = _cells(rng, ROOM_M)
        if rng.random() < HALL or len(long) - at - deep < ROOM_M[0] / STEP_M:
            deep = len(long) - at
        count += 1
        long[at : at + deep] = count
        at += deep
    return count


def _runs(labels: Labels) -> dict[tuple[int, int], list[_Run]]:
    """Return the walls between each two neighbours, the smaller number first."""
    runs: dict[tuple[int, int], list[_Run]] = {}
    for upright, table in ((True, labels.T), (False, labels)):
        for at in range(1, len(table)):
            low, high = np.minimum(table[at - 1], table[at]), np.maximum(table[at - 1], table[at])
            changes = np.flatnonzero((np.diff(low) != 0) | (np.diff(high) != 0)) + 1
            for first, last in zip([0, *changes], [*changes, len(low)], strict=True):
                if low[first] != high[first]:
                    pair = int(low[first]), int(high[first])
                    runs.setdefault(pair, []).append(_Run(upright, at, int(first), int(last)))
    return runs


def _joined(
    runs: dict[tuple[int, int], list[_Run]], corridors: set[int], rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Return the neighbours that get a door: all spaces are connected, corridors first, and some more."""
    wide = DOOR_CELLS[1] + 2
    pairs = [pair for pair, rows in runs.items() if pair[0] > 0 and max(row.last - row.first for row in rows) >= wide]
    group = {number: number for pair in pairs for number in pair}

    def root(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    def rank(pair: tuple[int, int]) -> float:
        both = corridors.issuperset(pair)
        late = 0.0 if both and rng.random() > BLIND else 1.0 if corridors.intersection(pair) else 1.4
        return late + float(rng.random())

    joined = []
    for pair in sorted(pairs, key=rank):
        first, second = root(pair[0]), root(pair[1])
        if first != second or rng.random() < MORE_DOORS:
            joined.append(pair)
            group[first] = second
    return joined


def _door(run: _Run, corridors: bool, rng: np.random.Generator) -> tuple[int, int]:
    """Return the opening in a wall [cells]: the whole wall where corridors meet openly."""
    if corridors and rng.random() < OPEN:
        return run.first, run.last
    wide = int(rng.integers(DOOR_CELLS[0], DOOR_CELLS[1] + 1))
    first = run.first + 1 + int(rng.integers(max(1, run.last - run.first - wide - 1)))
    return first, first + wide


def _parts(run: _Run, door: tuple[int, int] | None) -> list[tuple[int, int, int, int]]:
    """Return what a door leaves of a wall as x0, y0, x1, y1 [cells]."""
    begin, end = door or (run.last, run.last)
    pieces = [(first, last) for first, last in ((run.first, begin), (end, run.last)) if last > first]
    return [(run.at, a, run.at, b) if run.upright else (a, run.at, b, run.at) for a, b in pieces]
