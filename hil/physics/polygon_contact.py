"""Contact kernels of a polygon: overlap with solid cells and moving cylinders, and distance to them.

Lengths of the grid are in cells, a body's corners in metres. Exact for square cells, convex polygons and others.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hil.physics.contact import nearest_blocked
from onboard.values.kernel import kernel

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Gaps = npt.NDArray[np.uint8]


@kernel
def placed(corners: Floats, x: float, y: float, yaw: float, unit: float) -> Floats:
    """Return corners (n, 2) of the base frame at a pose; x, y are in units of `unit` [m]."""
    c, s = math.cos(yaw), math.sin(yaw)
    at = np.empty_like(corners)
    for i in range(len(corners)):
        at[i, 0] = x + (c * corners[i, 0] - s * corners[i, 1]) / unit
        at[i, 1] = y + (s * corners[i, 0] + c * corners[i, 1]) / unit
    return at


@kernel
def polygon_overlaps(at: Floats, blocked: Bools, gap: Gaps) -> bool:
    """Return whether a polygon (n, 2) [cells] overlaps a blocked cell. Touching is no overlap; outside is blocked.

    gap: chessboard distance to the nearest blocked cell
    """
    rows, columns = blocked.shape
    first_column, last_column = math.floor(at[:, 0].min()), math.floor(at[:, 0].max())
    first_row, last_row = math.floor(at[:, 1].min()), math.floor(at[:, 1].max())
    if first_column < 0 or first_row < 0 or last_column >= columns or last_row >= rows:
        return True
    for row in range(first_row, last_row + 1):
        column = first_column
        while column <= last_column:
            free = int(gap[row, column])
            if free > 0:
                column += free
                continue
            if blocked[row, column] and _on_cell(at, column, row):
                return True
            column += 1
    return False


@kernel
def polygon_clearance(at: Floats, x: float, y: float, reach: float, at_most: float, blocked: Bools, gap: Gaps) -> float:
    """Return the distance from a polygon (n, 2) to the nearest blocked cell, at most `at_most`; 0 on overlap [cells].

    x, y, reach: a point in the polygon, and a circle about it that holds the polygon
    """
    nearest = nearest_blocked(x, y, at_most + reach, blocked, gap)
    if nearest - reach >= at_most:
        return at_most
    if polygon_overlaps(at, blocked, gap):
        return 0.0
    best = min(at_most, nearest)
    rows, columns = blocked.shape
    last_column = min(math.floor(at[:, 0].max() + best), columns - 1)
    last_row = min(math.floor(at[:, 1].max() + best), rows - 1)
    first_column = max(math.floor(at[:, 0].min() - best), 0)
    for row in range(max(math.floor(at[:, 1].min() - best), 0), last_row + 1):
        column = first_column
        while column <= last_column:
            free = int(gap[row, column])
            if free > 0:
                column += free
                continue
            if blocked[row, column]:
                middle = math.hypot(column + 0.5 - x, row + 0.5 - y)
                if middle - reach - math.sqrt(0.5) < best:
                    best = min(best, _from_cell(at, column, row))
            column += 1
    return best


@kernel
def body_distance(at: Floats, bottom_m: float, top_m: float, at_most_m: float, bodies: Floats) -> float:
    """Return the signed distance from a polygon (n, 2) to the nearest cylinder in the height band [m].

    Negative where a cylinder overlaps the polygon. bodies: as `contact.Bodies`
    """
    best = at_most_m
    for i in range(len(bodies)):
        if bodies[i, 3] <= top_m and bodies[i, 4] >= bottom_m:
            best = min(best, _signed(at, bodies[i, 0], bodies[i, 1]) - bodies[i, 2])
    return best


@kernel
def polygon_into_body(before: Floats, after: Floats, bottom_m: float, top_m: float, bodies: Floats) -> bool:
    """Return whether a step of a polygon ends in a cylinder of the height band and reduces the distance to it."""
    for i in range(len(bodies)):
        if bodies[i, 3] <= top_m and bodies[i, 4] >= bottom_m:
            distance = _signed(after, bodies[i, 0], bodies[i, 1])
            if distance < bodies[i, 2] and distance < _signed(before, bodies[i, 0], bodies[i, 1]):
                return True
    return False


@kernel
def _inside(at: Floats, x: float, y: float) -> bool:
    inside = False
    for i in range(len(at)):
        j = (i + 1) % len(at)
        spans = (at[i, 1] > y) != (at[j, 1] > y)
        if spans and x < at[i, 0] + (y - at[i, 1]) * (at[j, 0] - at[i, 0]) / (at[j, 1] - at[i, 1]):
            inside = not inside
    return inside


@kernel
def _from_edge(at: Floats, i: int, x: float, y: float) -> float:
    """Return the distance of a point from edge i."""
    j = (i + 1) % len(at)
    dx, dy = at[j, 0] - at[i, 0], at[j, 1] - at[i, 1]
    along = ((x - at[i, 0]) * dx + (y - at[i, 1]) * dy) / (dx * dx + dy * dy)
    along = min(max(along, 0.0), 1.0)
    return math.hypot(x - at[i, 0] - along * dx, y - at[i, 1] - along * dy)


@kernel
def _signed(at: Floats, x: float, y: float) -> float:
    best = math.inf
    for i in range(len(at)):
        best = min(best, _from_edge(at, i, x, y))
    return -best if _inside(at, x, y) else best


@kernel
def _on_cell(at: Floats, column: int, row: int) -> bool:
    """Return whether a polygon overlaps the inside of a cell: an edge crosses it, or it lies in the polygon."""
    for i in range(len(at)):
        j = (i + 1) % len(at)
        low, high = 0.0, 1.0
        for axis in range(2):
            edge = float(column) if axis == 0 else float(row)
            start, step = at[i, axis] - edge, at[j, axis] - at[i, axis]
            if step == 0.0:
                if not 0.0 < start < 1.0:
                    high = -1.0
            else:
                a, b = -start / step, (1.0 - start) / step
                low, high = max(low, min(a, b)), min(high, max(a, b))
        if low < high:
            return True
    return _inside(at, column + 0.5, row + 0.5)


@kernel
def _from_cell(at: Floats, column: int, row: int) -> float:
    """Return the distance between a polygon and a cell that it does not overlap."""
    best = math.inf
    for i in range(len(at)):
        dx = at[i, 0] - min(max(at[i, 0], float(column)), column + 1.0)
        dy = at[i, 1] - min(max(at[i, 1], float(row)), row + 1.0)
        best = min(best, math.hypot(dx, dy))
        for right in range(2):
            for up in range(2):
                best = min(best, _from_edge(at, i, column + float(right), row + float(up)))
    return best
