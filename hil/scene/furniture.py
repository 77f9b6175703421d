"""Random furniture in a building, with sizes of real furniture: the same (map, seed) gives the same bytes.

An item at a wall has its back to the wall and `PASSAGE_M` of free floor on the other sides. Other items have
`PASSAGE_M` on all sides. So furniture never closes a passage for a body of that width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hil.maps.cell_kernels import chessboard_distance, put_parts
from hil.maps.materials import MATERIALS
from hil.maps.world_grid import World, make_world
from hil.physics.free_space import indoor_cells
from hil.scene.furniture_kinds import KINDS, Item, Kind
from onboard.values.kernel import kernel

# ---- The floor during furnishing, and its free space

PASSAGE_M = 0.9
"""Free floor beside and between items; the default body is 0.5 m wide."""
WALL_GAP_M = 0.15
"""A back or side within this distance of a solid cell counts as at the wall; scanned walls are not straight."""
TRIES = 40
"""Upper limit of placement attempts per item."""
QUARTER_TURNS = 4
TURNS = tuple((round(math.cos(k * math.pi / 12), 12), round(math.sin(k * math.pi / 12), 12)) for k in range(24))
"""Cosine and sine of angles in steps of 15 deg, rounded to be equal on all machines."""

Cells = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor during furnishing; placement writes into the arrays.

    taken:  (rows, columns) bool; walls and the rectangles of placed items
    inside: (rows, columns) bool; cells where items are allowed
    low_m, high_m, material: as in `World`
    """

    cell_m: float
    taken: Cells
    inside: Cells
    low_m: npt.NDArray[np.float32]
    high_m: npt.NDArray[np.float32]
    material: npt.NDArray[np.uint8]

    @property
    def ring(self) -> int:
        """Return `PASSAGE_M` in cells."""
        return math.ceil(PASSAGE_M / self.cell_m)

    @property
    def near(self) -> int:
        """Return `WALL_GAP_M` in cells."""
        return math.ceil(WALL_GAP_M / self.cell_m)

    def put(self, item: Item, centre: tuple[float, float], turn: tuple[float, float]) -> None:
        """Write an item's parts into the cells around a centre x, y [cells]; turn: cosine and sine of the rotation."""
        cell = self.cell_m
        parts = [
            (p.u0 / cell, p.v0 / cell, p.u1 / cell, p.v1 / cell, p.low, p.high, MATERIALS.index(p.material))
            for p in item.parts
        ]
        put_parts(self.low_m, self.high_m, self.material, np.array(parts), centre, turn)


def below(rng: np.random.Generator, count: int) -> int:
    """Return an integer in [0, count). Uses only `random()`, which gives the same numbers in every numpy release."""
    return int(rng.random() * count)


BEHIND_M = 0.3
"""Upper limit of the gap between back and wall; rounding to steps of 15 deg turns items by up to 7.5 deg."""
LOOK_M = 0.6
"""Radius of the taken cells that determine a wall's direction."""
RUN_M = 0.4
"""A wall with a straight run of this length to either side of a cell is axis-aligned."""
FINE, LOOSE = 0.7, 1.5
"""Spacing of the test points, and distance of the back from the cell at the wall [cells]."""

Points = npt.NDArray[np.float64]


def places_at_skewed_walls(floor: Floor) -> npt.NDArray[np.int64]:
    """Return (n, 3) row and column of free cells at walls at an angle to the grid, and an index into `TURNS`.

    The index gives the rotation of an item with its back to the wall there.
    """
    beside = np.argwhere(floor.inside & ~floor.taken & (chessboard_distance(floor.taken) == 1))
    angles_rad = _angles(floor.taken, beside, math.ceil(LOOK_M / floor.cell_m), math.ceil(RUN_M / floor.cell_m))
    steps = np.rint(angles_rad / (2.0 * math.pi) * len(TURNS)).astype(np.int64) % len(TURNS)
    skewed = steps % (len(TURNS) // QUARTER_TURNS) != 0
    return np.column_stack([beside[skewed], steps[skewed]])


def place_at_skewed_wall(floor: Floor, places: npt.NDArray[np.int64], item: Item, rng: np.random.Generator) -> bool:
    """Place an item at one of `places_at_skewed_walls`; return whether one of `TRIES` places has room."""
    width, depth, behind = item.width_m / floor.cell_m, item.depth_m / floor.cell_m, BEHIND_M / floor.cell_m
    across = np.arange(-width / 2, width / 2 + FINE, FINE)
    wide = np.arange(-width / 2 - floor.ring, width / 2 + floor.ring + FINE, FINE)
    body, back = np.arange(0.0, depth + FINE, FINE), np.arange(-behind, 0.0, FINE)
    around = np.arange(behind, depth + floor.ring, FINE)
    shape = floor.taken.shape
    for _ in range(TRIES if len(places) else 0):
        row, column, step = (int(part) for part in places[below(rng, len(places))])
        cos, sin = turn = TURNS[step]
        corner = column + 0.5 - LOOSE * sin, row + 0.5 + LOOSE * cos
        under = _cells(corner, turn, across, body, shape)
        if (
            not floor.taken[under].any()
            and floor.taken[_cells(corner, turn, across, back, shape)].any(axis=1).all()
            and not floor.taken[_cells(corner, turn, wide, around, shape)].any()
            and floor.inside[under].all()
        ):
            floor.taken[under] = True
            floor.put(item, (corner[0] - sin * depth / 2, corner[1] + cos * depth / 2), turn)
            return True
    return False


@kernel
def _angles(taken: Cells, beside: npt.NDArray[np.int64], reach: int, run: int) -> npt.NDArray[np.float64]:
    """Return (n,) direction of the wall next to each cell, with the wall on the right [rad]; 0 if axis-aligned.

    The direction is the principal axis of the taken cells within `reach` cells.
    """
    rows, columns = taken.shape
    angles = np.empty(len(beside))
    for index in range(len(beside)):
        row, column = beside[index]
        angles[index] = 0.0
        if _along_grid(taken, row, column, run):
            continue
        count, x, y, xx, yy, xy = 0, 0.0, 0.0, 0.0, 0.0, 0.0
        for r in range(max(row - reach, 0), min(row + reach + 1, rows)):
            for c in range(max(column - reach, 0), min(column + reach + 1, columns)):
                dx, dy = float(c - column), float(r - row)
                if taken[r, c] and dx * dx + dy * dy <= reach * reach:
                    count += 1
                    x, y, xx, yy, xy = x + dx, y + dy, xx + dx * dx, yy + dy * dy, xy + dx * dy
        x, y = x / count, y / count
        xx, yy, xy = xx / count - x * x, yy / count - y * y, xy / count - x * y
        angle = 0.5 * math.atan2(2.0 * xy, xx - yy)
        if math.sin(angle) * x - math.cos(angle) * y < 0.0:
            angle += math.pi
        angles[index] = angle
    return angles


@kernel
def _along_grid(taken: Cells, row: int, column: int, run: int) -> bool:
    """Return whether a straight row of taken cells borders a free cell and the next `run` cells on one side."""
    rows, columns = taken.shape
    for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        for way in (-1, 1):
            straight = 0
            for step in range(run + 1):
                r, c = row + way * step * right, column + way * step * down
                if not (1 <= r < rows - 1 and 1 <= c < columns - 1) or taken[r, c] or not taken[r + down, c + right]:
                    break
                straight += 1
            if straight == run + 1:
                return True
    return False


def _cells(
    corner: tuple[float, float], turn: tuple[float, float], u: Points, v: Points, shape: tuple[int, ...]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return rows and columns, each (len(u), len(v)), of points (u, v) relative to the middle of an item's back.

    Points outside the grid map to its border, which is taken.
    """
    cos, sin = turn
    columns = np.floor(corner[0] + u[:, None] * cos - v * sin).astype(np.int64)
    rows = np.floor(corner[1] + u[:, None] * sin + v * cos).astype(np.int64)
    return rows.clip(0, shape[0] - 1), columns.clip(0, shape[1] - 1)


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
