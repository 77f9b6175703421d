"""A building as few boxes, light enough for a viewer: equal neighbouring cells are joined to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.maps import World

Heights = npt.NDArray[np.float32]

CUT_M = 1.2
"""Walls are shown up to here, so that one looks into the rooms; what a robot can touch lies below."""
MOST_BLOCKS = 60_000
"""Of more than this, a building is shown in coarser cells."""
STEP_M = 0.01
"""Heights are told apart this finely."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Boxes in the grid frame of a world.

    low_m, high_m: (n, 3) corners [m]
    material:      (n,) uint8, as in the world
    cell_m:        edge of the cells that they are made of; a multiple of the world's where that was too fine
    """

    low_m: npt.NDArray[np.float64]
    high_m: npt.NDArray[np.float64]
    material: npt.NDArray[np.uint8]
    cell_m: float


def blocks_of(world: World, cut_m: float = CUT_M, most: int = MOST_BLOCKS) -> Blocks:
    """Return what stands or hangs below `cut_m`, as at most `most` boxes.

    Where there would be more, cells are taken together, two by two, until there are not; each then reaches from the
    lowest low to the highest high of what it was made of.
    """
    halvings = 0
    while True:
        parts = [_rectangles(*_cells(world, k, cut_m, halvings)) for k in range(world.low_m.shape[2])]
        first, last, heights, material = (np.concatenate(column) for column in zip(*parts, strict=True))
        if len(material) <= most or 2**halvings >= max(world.gap.shape):
            break
        halvings += 1
    cell_m = world.cell_m * 2**halvings
    return Blocks(
        low_m=np.column_stack([first * cell_m, heights[:, 0]]),
        high_m=np.column_stack([last * cell_m, heights[:, 1]]),
        material=material,
        cell_m=cell_m,
    )


def _cells(world: World, interval: int, cut_m: float, halvings: int) -> tuple[Heights, Heights, npt.NDArray[np.uint8]]:
    """Return (rows, columns) low, high and material of one interval below the cut, in coarser cells.

    Heights are whole steps; (inf, -inf) where there is nothing.
    """
    low, high, material = world.low_m[..., interval], world.high_m[..., interval], world.material
    shown = (high >= low) & (low < cut_m)
    steps = np.float32(1.0 / STEP_M)
    low = np.where(shown, np.rint(low * steps) / steps, np.float32(np.inf))
    high = np.where(shown, np.rint(np.minimum(high, np.float32(cut_m)) * steps) / steps, np.float32(-np.inf))
    for _ in range(halvings):
        low, high, material = _pairs(low, np.minimum), _pairs(high, np.maximum), _pairs(material, np.maximum)
    return low, high, material


def _pairs(cells: npt.NDArray[Any], combine: np.ufunc) -> npt.NDArray[Any]:
    """Return the cells taken together two by two; an odd last row or column stays by itself."""
    for axis in (0, 1):
        cells = combine.reduceat(cells, np.arange(0, cells.shape[axis], 2), axis=axis)
    return cells


def _rectangles(
    low: Heights, high: Heights, material: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.uint8]]:
    """Return (n, 2) first and (n, 2) last x, y [cells], (n, 2) low and high [m], (n,) material of one interval.

    Equal cells side by side in a row are joined first, then equal stretches of adjacent rows.
    """
    row, start, stop = _stretches(low, high, material)
    at = low[row, start], high[row, start], material[row, start]
    order = np.lexsort((row, *at, stop, start))
    row, start, stop = row[order], start[order], stop[order]
    at = tuple(values[order] for values in at)
    same = np.ones(max(len(row) - 1, 0), np.bool_)
    for values in (start, stop, *at):
        same &= values[1:] == values[:-1]
    goes_on = same & (row[1:] == row[:-1] + 1)
    top = np.flatnonzero(np.r_[True, ~goes_on]) if len(row) else np.empty(0, np.intp)
    bottom = np.r_[top[1:], len(row)] - 1 if len(row) else top
    first = np.column_stack([start[top], row[top]]).astype(np.float64)
    last = np.column_stack([stop[top], row[bottom] + 1]).astype(np.float64)
    return first, last, np.column_stack([at[0][top], at[1][top]]).astype(np.float64), at[2][top]


def _stretches(
    low: Heights, high: Heights, material: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return row, first column and column after the last of every stretch of equal cells with something in them."""
    solid = high >= low
    like_last = np.zeros(solid.shape, np.bool_)
    like_last[:, 1:] = solid[:, 1:] & solid[:, :-1]
    for values in (low, high, material):
        like_last[:, 1:] &= values[:, 1:] == values[:, :-1]
    ends = np.zeros(solid.shape, np.bool_)
    ends[:, :-1] = solid[:, :-1] & ~like_last[:, 1:]
    ends[:, -1] = solid[:, -1]
    row, start = np.nonzero(solid & ~like_last)
    return row, start, np.nonzero(ends)[1] + 1
