"""Contact kernels: solid cells in a height band, distances to cells and to moving cylinders."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.values.kernel import kernel

# ---- Moving bodies as upright cylinders: pedestrians and other robots

Bodies = npt.NDArray[np.float64]
"""(n, 6): x, y in the map frame [m], radius, low, high [m], and the material as an index into `materials.MATERIALS`."""

NO_BODIES: Bodies = np.empty((0, 6))
NO_BODIES.setflags(write=False)


@kernel
def solid_between(
    low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32], bottom_m: float, top_m: float
) -> npt.NDArray[np.bool_]:
    """Return the result of `World.overlapping`, without temporary arrays; heights are float32."""
    rows, columns, intervals = low_m.shape
    solid = np.zeros((rows, columns), np.bool_)
    for row in range(rows):
        for column in range(columns):
            for k in range(intervals):
                if low_m[row, column, k] <= top_m and high_m[row, column, k] >= bottom_m:
                    solid[row, column] = True
                    break
    return solid


@kernel
def nearest_blocked(
    x: float, y: float, at_most: float, blocked: npt.NDArray[np.bool_], gap: npt.NDArray[np.uint8]
) -> float:
    """Return the exact distance from a point to the nearest blocked cell, at most `at_most` [cells].

    Outside the grid the distance is 0. gap: chessboard distance to the nearest blocked cell
    """
    rows, columns = blocked.shape
    column, row = math.floor(x), math.floor(y)
    if not (0 <= row < rows and 0 <= column < columns):
        return 0.0
    best = at_most
    # Cells in ring k are at least k - 1 cells away, plus the distance to the edge of the own cell.
    inside = min(x - column, column + 1.0 - x, y - row, row + 1.0 - y)
    ring = np.int64(gap[row, column])
    last = max(row, rows - 1 - row, column, columns - 1 - column)
    while ring <= last and ring - 1.0 + inside < best:
        for r in range(max(row - ring, 0), min(row + ring + 1, rows)):
            step = 1 if r in (row - ring, row + ring) or ring == 0 else 2 * ring
            for c in range(column - ring, column + ring + 1, step):
                if 0 <= c < columns and blocked[r, c]:
                    dx = x - min(max(x, float(c)), c + 1.0)
                    dy = y - min(max(y, float(r)), r + 1.0)
                    best = min(best, math.sqrt(dx * dx + dy * dy))
        ring += 1
    return best


@kernel
def nearest_body(
    x_m: float, y_m: float, bottom_m: float, top_m: float, at_most_m: float, bodies: npt.NDArray[np.float64]
) -> float:
    """Return the signed distance from a point to the nearest cylinder in the height band, at most `at_most_m` [m].

    Negative inside a cylinder. bodies: as `Bodies`
    """
    best = at_most_m
    for i in range(len(bodies)):
        if bodies[i, 3] <= top_m and bodies[i, 4] >= bottom_m:
            best = min(best, math.hypot(bodies[i, 0] - x_m, bodies[i, 1] - y_m) - bodies[i, 2])
    return best


@kernel
def step_into_body(
    x_m: float, y_m: float, next_x_m: float, next_y_m: float, radius_m: float, bottom_m: float, top_m: float,
    bodies: npt.NDArray[np.float64],
) -> bool:  # fmt: skip
    """Return whether a step of a circle ends in a body of the height band and reduces the distance to it."""
    for i in range(len(bodies)):
        if bodies[i, 3] <= top_m and bodies[i, 4] >= bottom_m:
            before = math.hypot(bodies[i, 0] - x_m, bodies[i, 1] - y_m)
            after = math.hypot(bodies[i, 0] - next_x_m, bodies[i, 1] - next_y_m)
            if after < radius_m + bodies[i, 2] and after < before:
                return True
    return False
