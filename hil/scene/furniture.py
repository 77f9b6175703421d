"""Random furniture in a building, with sizes of real furniture: the same (map, seed) gives the same bytes.

An item at a wall has its back to the wall and `PASSAGE_M` of free floor on the other sides. Other items have
`PASSAGE_M` on all sides. So furniture never closes a passage for a body of that width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hil.maps.world_grid import World, make_world
from hil.physics.free_space import indoor_cells
from hil.scene.furniture_kinds import KINDS, Item, Kind
from hil.scene.placement import (
    QUARTER_TURNS,
    TRIES,
    TURNS,
    Cells,
    Floor,
    below,
    place_at_skewed_wall,
    places_at_skewed_walls,
)

ITEMS_PER_M2 = 0.10
DENSEST = 10.0
"""Largest density: ten times an office's furniture. More does not fit into a room."""
"""Placement attempts per m² of free indoor floor at density 1; in small rooms more of them fail."""
INTERVALS = 4
"""Vertical intervals per cell of a furnished world, enough for the boards of a shelf."""
SKEWED = 0.5
"""Fraction of the free-standing items at an angle to the grid axes."""


def furnish(world: World, seed: int, density: float = 1.0) -> World:
    """Return the world with furniture on its indoor floor.

    density: 1 is an office (`ITEMS_PER_M2`), 0 gives no furniture
    """
    inside = indoor_cells(world)
    return furnish_cells(world, inside, item_count(world, inside, density), np.random.default_rng(seed))


def item_count(world: World, inside: Cells, density: float) -> int:
    """Return the number of placement attempts for (rows, columns) True cells at a density."""
    return round(density * ITEMS_PER_M2 * float(inside.sum()) * world.cell_m**2)


def furnish_cells(
    world: World, inside: Cells, count: int, rng: np.random.Generator, kinds: Sequence[Kind] = KINDS
) -> World:
    """Return the world with up to `count` items on True cells; items without room are left out."""
    rows, columns, had = world.low_m.shape
    low = np.full((rows, columns, max(INTERVALS, had)), np.inf, np.float32)
    high = np.full(low.shape, -np.inf, np.float32)
    low[..., :had], high[..., :had] = world.low_m, world.high_m
    floor = Floor(world.cell_m, world.gap == 0, inside, low, high, world.material.copy())
    sides = [_side_of(floor, quarter) for quarter in range(QUARTER_TURNS)]
    roomy = np.argwhere(inside & (world.gap > floor.ring))
    skewed, unplaced = places_at_skewed_walls(floor), list[Item]()
    shares = np.cumsum([kind.share for kind in kinds])
    for _ in range(count):
        kind = kinds[int(np.searchsorted(shares, rng.random() * shares[-1], side="right"))]
        item = _draw(kind, rng)
        placed = _place_at_wall(floor, sides, item, rng) if kind.at_wall else _place_free(floor, roomy, item, rng)
        if kind.at_wall and not placed:
            unplaced.append(item)
    for item in unplaced:
        place_at_skewed_wall(floor, skewed, item, rng)
    made = make_world(world.name, world.cell_m, world.map_from_grid, low, high, world.yard, floor.material)
    return replace(made, unseen=world.unseen, read_as=world.read_as)


def _draw(kind: Kind, rng: np.random.Generator) -> Item:
    sizes = kind.sizes_m()
    return kind.build(*sizes[below(rng, len(sizes))], rng.random())


class _Side(NamedTuple):
    """The floor rotated by quarter turns, so that walls behind items are at lower rows.

    taken, inside: rotated views of the floor's arrays
    cells:         (n, 2) row, column of free cells with a taken cell in the row below
    """

    taken: Cells
    inside: Cells
    cells: npt.NDArray[np.int64]


def _side_of(floor: Floor, quarter: int) -> _Side:
    taken, inside = np.rot90(floor.taken, quarter), np.rot90(floor.inside, quarter)
    at_wall = inside & ~taken
    at_wall[1:] &= taken[:-1]
    at_wall[0] = False
    return _Side(taken, inside, np.argwhere(at_wall))


def _place_at_wall(floor: Floor, sides: list[_Side], item: Item, rng: np.random.Generator) -> bool:
    """Place an item at an axis-aligned wall; return whether one of `TRIES` places has room."""
    rows, columns = math.ceil(item.depth_m / floor.cell_m), math.ceil(item.width_m / floor.cell_m)
    ends = np.cumsum([len(side.cells) for side in sides])
    for _ in range(TRIES if ends[-1] else 0):
        pick = below(rng, int(ends[-1]))
        quarter = int(np.searchsorted(ends, pick, side="right"))
        taken, inside, cells = sides[quarter]
        row, column = (int(part) for part in cells[pick - ends[quarter]])
        area = np.s_[row : row + rows, column : column + columns]
        if _fits_at_wall(taken, row, column, rows, columns, floor) and inside[area].all():
            taken[area] = True
            x, y = column + columns / 2, row + item.depth_m / floor.cell_m / 2
            floor.put(item, _to_grid(x, y, quarter, taken.shape), TURNS[quarter * len(TURNS) // QUARTER_TURNS])
            return True
    return False


def _fits_at_wall(taken: Cells, row: int, column: int, rows: int, columns: int, floor: Floor) -> bool:
    """Return whether a rectangle with its back in the first row is at a wall and closes no passage."""
    ring, near, last = floor.ring, floor.near, column + columns
    deep = slice(row, row + rows + ring)
    # A slice that ends at the grid's border contains the border, which is wall.
    return bool(
        not taken[deep, column:last].any()
        and taken[max(row - near, 0) : row, column:last].any(axis=0).all()
        and _side_is_clear(taken[deep, max(column - ring, 0) : column][:, ::-1], rows, near)
        and _side_is_clear(taken[deep, last : last + ring], rows, near)
    )


def _side_is_clear(beside: Cells, rows: int, near: int) -> bool:
    """Return whether one side of an item is all free, or closed by a neighbour or wall without a narrow gap.

    beside: (rows + ring, ring) bool taken; column 0 is next to the item, row 0 at its back
    """
    if not beside.any():
        return True
    closed = np.asarray(beside[:, :near].any(axis=1))
    return bool(closed.all() or (closed[:rows].all() and not beside[rows:].any()))


def _place_free(floor: Floor, roomy: npt.NDArray[np.int64], item: Item, rng: np.random.Generator) -> bool:
    """Place an item with a free ring around it; return whether one of `TRIES` places has room."""
    ring = floor.ring
    for _ in range(TRIES if len(roomy) else 0):
        step = 1 if rng.random() < SKEWED else len(TURNS) // QUARTER_TURNS
        cos, sin = turn = TURNS[below(rng, len(TURNS)) // step * step]
        width, depth = (
            abs(item.width_m * a) + abs(item.depth_m * b) + floor.cell_m for a, b in ((cos, sin), (sin, cos))
        )
        rows, columns = math.ceil(depth / floor.cell_m), math.ceil(width / floor.cell_m)
        middle_row, middle_column = (int(part) for part in roomy[below(rng, len(roomy))])
        row, column = middle_row - rows // 2, middle_column - columns // 2
        area = np.s_[row : row + rows, column : column + columns]
        around = np.s_[row - ring : row + rows + ring, column - ring : column + columns + ring]
        if min(row, column) < ring or floor.taken[around].any() or not floor.inside[area].all():
            continue
        floor.taken[area] = True
        floor.put(item, (column + columns / 2, row + rows / 2), turn)
        return True
    return False


def _to_grid(x: float, y: float, quarter: int, shape: tuple[int, ...]) -> tuple[float, float]:
    """Return grid coordinates of a point in the grid rotated by `np.rot90(..., quarter)`, which has this shape."""
    rows, columns = shape
    return ((x, y), (rows - y, x), (columns - x, rows - y), (y, columns - x))[quarter]
