"""A few boxes in a building: crates, tables on thin legs, plates that hang out over a post, posts. Drawn by seed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.maps import World, make_world

PASSAGE_M = 0.8
"""Free ring around every box, wider than the default body, so that no way is ever closed."""
TRIES_PER_BOX = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """Sizes of one kind of box [m].

    side_m:  least and largest side of its rectangle
    plate_m: (low, high) of the part over the whole rectangle
    legs_m:  height of legs one cell thick, at the corners, or a single one in the middle; 0 is none
    """

    side_m: tuple[float, float]
    plate_m: tuple[float, float]
    legs_m: float
    one_leg: bool = False


KINDS = (
    Kind(side_m=(0.3, 0.8), plate_m=(0.0, 0.5), legs_m=0.0),
    Kind(side_m=(0.6, 1.4), plate_m=(0.70, 0.75), legs_m=0.70),
    Kind(side_m=(0.5, 0.9), plate_m=(0.85, 1.05), legs_m=0.85, one_leg=True),
    Kind(side_m=(0.05, 0.1), plate_m=(0.0, 1.5), legs_m=0.0),
)
"""Crate, table, counter that overhangs its foot, post."""


def add_boxes(world: World, seed: int, count: int) -> World:
    """Return the world with up to `count` boxes along its axes, fewer where there is no room for more.

    Every box has `PASSAGE_M` of free ring around it, from walls and from other boxes, so what was connected stays so.
    """
    rng = np.random.default_rng(seed)
    low, high = world.low_m.copy(), world.high_m.copy()
    ring = math.ceil(PASSAGE_M / world.cell_m)
    taken = np.zeros(world.gap.shape, np.bool_)
    roomy = np.argwhere(world.gap > ring)
    for _ in range(count if len(roomy) else 0):
        kind = KINDS[rng.integers(len(KINDS))]
        place = _place(world, taken, roomy, kind, ring, rng)
        if place is None:
            continue
        row, column, rows, columns = place
        taken[row - ring : row + rows + ring, column - ring : column + columns + ring] = True
        _put(low, high, place, kind)
    return make_world(world.name, world.cell_m, world.map_from_grid, low, high, world.yard)


def _place(
    world: World,
    taken: npt.NDArray[np.bool_],
    roomy: npt.NDArray[np.int64],
    kind: Kind,
    ring: int,
    rng: np.random.Generator,
) -> tuple[int, int, int, int] | None:
    """Return (row, column, rows, columns) of a rectangle with its ring free, or None after `TRIES_PER_BOX`."""
    for _ in range(TRIES_PER_BOX):
        rows, columns = (max(1, round(side / world.cell_m)) for side in rng.uniform(*kind.side_m, 2))
        row, column = (int(index) for index in roomy[rng.integers(len(roomy))])
        gap = world.gap[row : row + rows, column : column + columns]
        if (
            gap.shape == (rows, columns)
            and (gap > ring).all()
            and not taken[row : row + rows, column : column + columns].any()
        ):
            return row, column, rows, columns
    return None


def _put(
    low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32], place: tuple[int, int, int, int], kind: Kind
) -> None:
    """Write one box into the intervals: its plate into the first, its legs into the second."""
    row, column, rows, columns = place
    area = np.s_[row : row + rows, column : column + columns]
    low_m[area][..., 0], high_m[area][..., 0] = kind.plate_m
    if kind.legs_m == 0.0:
        return
    corners = [(0, 0), (0, columns - 1), (rows - 1, 0), (rows - 1, columns - 1)]
    for down, right in [(rows // 2, columns // 2)] if kind.one_leg else corners:
        low_m[row + down, column + right, 1], high_m[row + down, column + right, 1] = 0.0, kind.legs_m
