"""A distance field: exact distances to obstacles on a fine grid around the robot, interpolated in between.

At a footprint's distance from an obstacle the interpolation error is a millimetre; midway between two it is larger.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from onboard.config.footprint import Footprint
from onboard.values.kernel import kernel

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

GRID_M = 0.05
MARGIN_M = 2.0 * GRID_M
"""Distances are entered this much farther than requested, so that interpolation is not cut off."""


class Clearance(NamedTuple):
    """distance_m[i, j] is the distance from corner + (i, j) * GRID_M to the nearest obstacle [m], at most `most_m`."""

    distance_m: Floats32
    corner_x_m: float
    corner_y_m: float
    most_m: float


RIM_M = 0.02
"""Spacing of the points on a polygon's edges."""
ROUND_STRIDE, CORNER_STRIDE = 3, 1
"""Every so many states of a path are checked: for a circle each 10 cm at 1 m/s. A corner sweeps farther in a turn."""


class Rim(NamedTuple):
    """The points of a footprint from which distances count.

    points_m: (n, 2) in the base frame: the edges of a polygon, or the centre of a circle
    inner_m, reach_m: radii about the centre of a circle inside the points, and of a circle that holds them
    stride:   every so many states of a path are checked
    """

    points_m: Floats
    inner_m: float
    reach_m: float
    stride: int


def rim_of(footprint: Footprint) -> Rim:
    """Return the rim of a footprint."""
    if footprint.is_round:
        return Rim(np.zeros((1, 2)), 0.0, 0.0, ROUND_STRIDE)
    corners = footprint.outline_m()
    points = [
        start + (end - start) * part
        for start, end in pairwise(corners)
        for part in np.linspace(0.0, 1.0, math.ceil(math.dist(start, end) / RIM_M), endpoint=False)
    ]
    return Rim(np.array(points), footprint.inner_m, footprint.reach_m, CORNER_STRIDE)


@kernel
def clearance_about(
    points: Floats, x_m: float, y_m: float, reach_m: float, far_m: float
) -> Clearance:  # pragma: no cover - compiled
    """Return the distances to points (k, 2), valid up to `far_m`, in a square of `reach_m` to all sides of (x, y).

    Each point is entered into the cells around it, row by row.
    """
    far_m += MARGIN_M
    half = math.ceil(reach_m / GRID_M) + 1
    side, corner_x_m, corner_y_m = 2 * half + 1, x_m - half * GRID_M, y_m - half * GRID_M
    squared = np.full((side, side), np.float32(far_m * far_m))
    along = (np.arange(side) * GRID_M).astype(np.float32)
    reach = far_m / GRID_M
    for k in range(len(points)):
        x, y = points[k, 0] - corner_x_m, points[k, 1] - corner_y_m
        i, j = x / GRID_M, y / GRID_M
        first, last = max(0, math.ceil(j - reach)), min(side, math.floor(j + reach) + 1)
        for row in range(max(0, math.ceil(i - reach)), min(side, math.floor(i + reach) + 1)):
            across, middle = np.float32((x - row * GRID_M) ** 2), np.float32(y)
            cells = squared[row]
            for column in range(first, last):
                offset = along[column] - middle
                cells[column] = min(cells[column], across + offset * offset)
    return Clearance(np.sqrt(squared), corner_x_m, corner_y_m, np.sqrt(np.float32(far_m * far_m)))


@kernel
def distance_at(clearance: Clearance, x_m: float, y_m: float) -> float:  # pragma: no cover - compiled
    """Return the distance at a position [m]: bilinear, or `most_m` where the grid's cell has it.

    Outside the square, the distance at the nearest edge.
    """
    most = clearance.distance_m.shape[0] - 1.001
    i = min(max((x_m - clearance.corner_x_m) / GRID_M, 0.0), most)
    j = min(max((y_m - clearance.corner_y_m) / GRID_M, 0.0), most)
    a, b = int(i), int(j)
    if clearance.distance_m[a, b] >= clearance.most_m:
        return float(clearance.most_m)
    p, q = i - a, j - b
    near = (1.0 - q) * clearance.distance_m[a, b] + q * clearance.distance_m[a, b + 1]
    far = (1.0 - q) * clearance.distance_m[a + 1, b] + q * clearance.distance_m[a + 1, b + 1]
    return float((1.0 - p) * near + p * far)


@kernel
def rim_distance(
    clearance: Clearance, x_m: float, y_m: float, cos: float, sin: float, rim: Rim
) -> float:  # pragma: no cover - compiled
    """Return the distance from a rim at a pose to the nearest obstacle [m], at most `most_m`; negative inside.

    The distance changes by at most the way between two points, so far points are skipped.
    """
    middle_m = distance_at(clearance, x_m, y_m)
    points = rim.points_m
    if len(points) == 1 or middle_m >= clearance.most_m:
        return middle_m
    if middle_m < rim.inner_m:
        return middle_m - rim.inner_m
    best_m, i = clearance.most_m, 0
    while i < len(points):
        dx, dy = cos * points[i, 0] - sin * points[i, 1], sin * points[i, 0] + cos * points[i, 1]
        here_m = distance_at(clearance, x_m + dx, y_m + dy)
        best_m = min(best_m, here_m)
        i += max(1, int((here_m - best_m) / RIM_M))
    return float(best_m)
