"""What a planner knows of a building: the part of a map about an episode, on the cells on which the way is sought."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.maps import World
from onboard.cost_field import Nearness, Prices
from onboard.geometry import apply
from onboard.local_map import CELL_M
from onboard.nearness import COARSE, coarse, empty_grid, enter

Floats32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

MARGIN_M = 12.0
"""The map is known so far around start and goal."""


@dataclass(frozen=True, slots=True)
class Floor:
    """What stands on a floor, in the frame of its map's grid, on cells of CELL_M; nearness also on coarse ones.

    occupied: (n, m) bool; fine, coarse: nearness as of `cost_field.Prices`
    first:    the first cell (a, b), multiples of COARSE; cell (a, b) covers [a, a + 1) x [b, b + 1) times CELL_M
    """

    occupied: Flags
    fine: Nearness
    coarse: Nearness
    first: tuple[int, int]

    @property
    def corner_xy_m(self) -> tuple[float, float]:
        """Return the corner of the first cell [m]."""
        return self.first[0] * CELL_M, self.first[1] * CELL_M

    def changed(self, gone: Floats32, new: Floats32, prices: Prices) -> Floor:
        """Return the floor without the obstacles in some cells and with others in further ones, both (k, 2 or more).

        Those gone lie on the floor.
        """
        occupied, fine = self.occupied, self.fine.copy()
        if len(gone):
            at = gone[:, :2].astype(np.int64) - self.first
            occupied = occupied.copy()
            occupied[at[:, 0], at[:, 1]] = False
            reach = math.ceil(0.5 * math.sqrt(prices.far))
            first, last = np.maximum(at.min(axis=0) - reach, 0), at.max(axis=0) + reach + 1
            part = fine[first[0] : last[0], first[1] : last[1]]
            again = empty_grid(part.shape, prices)
            begin = np.maximum(first - reach, 0)
            around = occupied[begin[0] : last[0] + reach, begin[1] : last[1] + reach]
            enter(again, (np.argwhere(around) + begin).astype(np.float32), int(first[0]), int(first[1]), prices.far)
            part[:] = again
        enter(fine, new, *self.first, prices.far)
        return Floor(occupied, fine, coarse(fine, prices.closed), self.first)

    def unknown(self, cells: Floats32, beyond: int) -> Floats32:
        """Return those of some obstacles' cells (k, 2 or more) from which the nearest known one is farther."""
        at = cells[:, :2].astype(np.int64) - self.first
        inside = ((at >= 0) & (at < self.fine.shape)).all(axis=1)
        new = np.zeros(len(cells), np.bool_)
        new[inside] = self.fine[at[inside, 0], at[inside, 1]] > beyond
        return cells[new]


def floor_about(
    world: World,
    z_m: tuple[float, float],
    prices: Prices,
    places_xy_map_m: list[tuple[float, float]],
    margin_m: float = MARGIN_M,
) -> Floor:
    """Return what is known of a map about some places: everything that is solid at a height in z [m].

    The frame is that of the map's grid, x along its columns. Beyond the part nothing is known, and there is no way.
    """
    points = np.array([apply(world.grid_from_map, place) for place in places_xy_map_m])
    low, high = points.min(axis=0) - margin_m, points.max(axis=0) + margin_m
    rows, columns = world.gap.shape
    first_column, first_row = np.maximum(np.floor(low / world.cell_m), 0).astype(int)
    last_column, last_row = np.minimum(np.ceil(high / world.cell_m), (columns, rows)).astype(int)
    part = np.s_[first_row:last_row, first_column:last_column]
    solid = ((world.low_m[part] <= z_m[1]) & (world.high_m[part] >= z_m[0])).any(axis=2)
    return _floor_of(solid.T, (int(first_column), int(first_row)), world.cell_m, prices)


def _floor_of(solid: Flags, first: tuple[int, int], cell_m: float, prices: Prices) -> Floor:
    """Return the floor of solid cells (columns, rows) of another width, which count for the cell of their centre."""
    span = COARSE * CELL_M
    corner = [COARSE * math.floor(start * cell_m / span) for start in first]
    ends = [(start + count) * cell_m for start, count in zip(first, solid.shape, strict=True)]
    shape = [COARSE * math.ceil(end / span) - start for end, start in zip(ends, corner, strict=True)]
    columns, rows = (
        np.floor((start + np.arange(count) + 0.5) * cell_m / CELL_M).astype(int) - begin
        for start, count, begin in zip(first, solid.shape, corner, strict=True)
    )
    occupied = np.zeros(shape, np.bool_)
    at = np.nonzero(solid)
    occupied[columns[at[0]], rows[at[1]]] = True
    fine = empty_grid((shape[0], shape[1]), prices)
    enter(fine, (np.argwhere(occupied) + corner).astype(np.float32), corner[0], corner[1], prices.far)
    return Floor(occupied, fine, coarse(fine, prices.closed), (corner[0], corner[1]))
