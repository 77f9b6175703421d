"""Where the robot can go in a map: the connected free ground that the footprint's inner circle fits into.

Unknown ground is no ground to drive on, and no obstacle beside it: maps of real buildings have specks of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.perception.building.map_image import FREE, OCCUPIED
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.values.geometry import apply, inverse
from onboard.values.kernel import kernel

Floats32 = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

HERE_M = 1.0
"""The map holds the robot if it has passable ground this near to it: maps and poses are wrong by less."""
FAR_M = 1e4
FINE_M = 0.05


@dataclass(frozen=True)
class Reach:
    """A map with its passable ground.

    distance_m: (rows, columns) float32, from the cell's centre to that of the nearest obstacle [m], at most `FAR_M`
    labels:     (rows, columns) int32, 0 where the robot does not fit, else the number of the connected part
    """

    grid: OccupancyGrid
    distance_m: Floats32
    labels: Labels

    def kind_at(self, xy_map_m: tuple[float, float]) -> str:
        """Return what the map has at a place: "free ground", "an obstacle", "unknown ground" or "nothing"."""
        row, column = self._cell(xy_map_m)
        rows, columns = self.labels.shape
        if not (0 <= row < rows and 0 <= column < columns):
            return "nothing"
        percent = int(self.grid.percent[row, column])
        return {FREE: "free ground", OCCUPIED: "an obstacle"}.get(percent, "unknown ground")

    def part_at(self, xy_map_m: tuple[float, float]) -> int:
        """Return the label of the passable ground nearest to a place within `HERE_M`, 0 without one."""
        away_m, row, column = self._nearest(xy_map_m, 0)
        return int(self.labels[row, column]) if away_m <= HERE_M else 0

    def nearest(self, xy_map_m: tuple[float, float], part: int) -> tuple[float, tuple[float, float]]:
        """Return the distance [m] to the nearest place of a part, and that place in the map [m]."""
        away_m, row, column = self._nearest(xy_map_m, part)
        cell_m = self.grid.cell_m
        return away_m, apply(self.grid.map_from_grid, ((column + 0.5) * cell_m, (row + 0.5) * cell_m))

    def obstruction(
        self, xy_map_m: tuple[float, float], part: int, tolerance_m: float
    ) -> tuple[str, tuple[float, float]] | None:
        """Return what keeps a robot in this part (0: in any) from a place, and the nearest place that it can reach.

        None if it can reach the place within the tolerance.
        """
        away_m, near = self.nearest(xy_map_m, part)
        kind = self.kind_at(xy_map_m)
        return None if away_m <= tolerance_m else ("no path to it" if kind == "free ground" else kind, near)

    def common_part(self, places_xy_m: Iterable[tuple[float, float]], tolerance_m: float) -> int:
        """Return the label of the ground that holds the most of these places; 0 if it holds none of them."""
        found = [self._nearest(place, 0) for place in places_xy_m]
        parts = Counter(int(self.labels[row, column]) for away_m, row, column in found if away_m <= tolerance_m)
        return parts.most_common(1)[0][0] if parts else 0

    def _cell(self, xy_map_m: tuple[float, float]) -> tuple[int, int]:
        x_m, y_m = apply(inverse(self.grid.map_from_grid), xy_map_m)
        return math.floor(y_m / self.grid.cell_m), math.floor(x_m / self.grid.cell_m)

    def _nearest(self, xy_map_m: tuple[float, float], part: int) -> tuple[float, int, int]:
        x_m, y_m = apply(inverse(self.grid.map_from_grid), xy_map_m)
        cell_m = self.grid.cell_m
        away, row, column = nearest_cell(self.labels, part, y_m / cell_m - 0.5, x_m / cell_m - 0.5)
        return away * cell_m, row, column


def reach_in(grid: OccupancyGrid, radius_m: float) -> Reach:
    """Return where a circle of this radius can go."""
    distance_m = distances(grid.occupied, grid.cell_m)
    free = (grid.percent == FREE) & fits(distance_m, grid.cell_m, radius_m)
    return Reach(grid, distance_m, labelled(free))


def fits(distance_m: Floats32, cell_m: float, radius_m: float) -> Flags:
    """Return where a circle fits, by the distances between cells' centres: an obstacle begins half a cell nearer.

    Of cells wider than `FINE_M` it counts less, as the circle may stand between two centres.
    """
    return np.asarray(distance_m > radius_m + 0.5 * min(cell_m, FINE_M))


def warm_up() -> None:
    """Compile the kernels, before the first tick."""
    there = np.zeros((3, 3), np.bool_)
    there[1, 1] = True
    distances(there, 1.0)
    nearest_cell(labelled(there), 0, 0.0, 0.0)


def distances(occupied: Flags, cell_m: float) -> Floats32:
    """Return the distance of each cell to the nearest occupied one, from centre to centre [m]; at most `FAR_M`."""
    squares = np.where(occupied, 0.0, (FAR_M / cell_m) ** 2).astype(np.float32)
    _transform(squares)
    root: Floats32 = np.sqrt(squares, out=squares)
    root *= np.float32(cell_m)
    return root


def barred(occupied: Flags, cell_m: float, width_m: float) -> Flags:
    """Return the free cells across gaps between obstacles that are at most this wide: a line of cells closes each gap.

    A gap is between two obstacle cells if the circle on their connection holds no third one.
    """
    across: Flags = _barred(occupied, distances(occupied, 1.0), width_m / cell_m + 1.0 + 1e-6)
    return across


# ---- Kernels

INSIDE = 0.3
"""An obstacle's centre is so far inside of a circle that it holds it, in cells."""


@kernel
def _between(occupied: Flags, i: int, j: int, di: int, dj: int) -> bool:  # pragma: no cover - compiled
    """Return whether the circle on the connection of the cells (i, j) and (i + di, j + dj) holds an obstacle."""
    x, y, half = i + 0.5 * di, j + 0.5 * dj, 0.5 * math.sqrt(di * di + dj * dj) - INSIDE
    for row in range(max(0, math.ceil(x - half)), min(occupied.shape[0] - 1, int(x + half)) + 1):
        for column in range(max(0, math.ceil(y - half)), min(occupied.shape[1] - 1, int(y + half)) + 1):
            if occupied[row, column] and (row - x) ** 2 + (column - y) ** 2 < half * half:
                return True
    return False


@kernel
def _barred(occupied: Flags, away: Floats32, most: float) -> Flags:  # pragma: no cover - compiled
    """Return `barred`. away: distance of each cell to the nearest obstacle; most: of two obstacles, in cells."""
    rows, columns = occupied.shape
    across = np.zeros((rows, columns), np.bool_)
    reach = int(most)
    for i in range(rows):
        for j in range(columns):
            if not occupied[i, j]:
                continue
            for di in range(min(reach, rows - 1 - i) + 1):
                for dj in range(max(-reach, -j) if di else 2, min(reach, columns - 1 - j) + 1):
                    long = math.sqrt(di * di + dj * dj)
                    if long < 2.0 or long > most or not occupied[i + di, j + dj]:
                        continue
                    if away[i + di // 2, j + dj // 2] < 0.5 * long - 1.0 or _between(occupied, i, j, di, dj):
                        continue
                    steps = max(abs(di), abs(dj))
                    for k in range(1, steps):
                        across[i + (k * di + steps // 2) // steps, j + (k * dj + steps // 2) // steps] = True
    return across & ~occupied


@kernel
def _transform(squares: Floats32) -> None:  # pragma: no cover - compiled
    """Replace 0 and large values by the squared distance to the nearest 0, in cells.

    Felzenszwalb and Huttenlocher, "Distance transforms of sampled functions", 2012: the lower envelope of parabolas,
    along columns, then along rows.
    """
    rows, columns = squares.shape
    most = max(rows, columns)
    line, at, ends = np.empty(most), np.empty(most, np.int64), np.empty(most + 1)
    for axis in range(2):
        count, length = (columns, rows) if axis == 0 else (rows, columns)
        for other in range(count):
            for i in range(length):
                line[i] = squares[i, other] if axis == 0 else squares[other, i]
            last = 0
            at[0], ends[0], ends[1] = 0, -math.inf, math.inf
            for i in range(1, length):
                cut = 0.5 * ((line[i] + i * i) - (line[at[last]] + at[last] * at[last])) / (i - at[last])
                while cut <= ends[last]:
                    last -= 1
                    cut = 0.5 * ((line[i] + i * i) - (line[at[last]] + at[last] * at[last])) / (i - at[last])
                last += 1
                at[last], ends[last], ends[last + 1] = i, cut, math.inf
            k = 0
            for i in range(length):
                while ends[k + 1] < i:
                    k += 1
                value = np.float32((i - at[k]) ** 2 + line[at[k]])
                if axis == 0:
                    squares[i, other] = value
                else:
                    squares[other, i] = value


@kernel
def labelled(free: Flags) -> Labels:  # pragma: no cover - compiled
    """Return the number of each cell's connected part (by sides), from 1 on; 0 for cells that are not free."""
    rows, columns = free.shape
    labels = np.zeros((rows, columns), np.int32)
    queue = np.empty((rows * columns, 2), np.int32)
    parts = 0
    for row in range(rows):
        for column in range(columns):
            if not free[row, column] or labels[row, column]:
                continue
            parts += 1
            labels[row, column], queue[0, 0], queue[0, 1] = parts, row, column
            first, count = 0, 1
            while first < count:
                i, j = queue[first]
                first += 1
                for di, dj in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                    a, b = i + di, j + dj
                    if 0 <= a < rows and 0 <= b < columns and free[a, b] and not labels[a, b]:
                        labels[a, b], queue[count, 0], queue[count, 1] = parts, a, b
                        count += 1
    return labels


@kernel
def nearest_cell(
    labels: Labels, part: int, row: float, column: float
) -> tuple[float, int, int]:  # pragma: no cover - compiled
    """Return distance [cells], row and column of the nearest cell of a part, of any part for 0; inf without one."""
    best, at_row, at_column = math.inf, 0, 0
    for i in range(labels.shape[0]):
        across = (i - row) ** 2
        if across >= best:
            continue
        for j in range(labels.shape[1]):
            if labels[i, j] and (part == 0 or labels[i, j] == part):
                square = across + (j - column) ** 2
                if square < best:
                    best, at_row, at_column = square, i, j
    return math.sqrt(best), at_row, at_column
