"""The pose graph: all poses of keyframes that fit their relative motions best, by sparse least squares.

Gauss-Newton; residuals of closures far beyond their deviation count little (Cauchy), as a wrong closure must not bend
the map. The first pose is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix, identity
from scipy.sparse.linalg import spsolve

from onboard.values.geometry import wrap
from onboard.values.messages import Pose

Floats = npt.NDArray[np.float64]

STEPS, STILL = 30, 1e-4
DOUBTED = 3.0
"""A closure so many deviations off counts half."""


@dataclass(frozen=True)
class Edge:
    """The motion from one keyframe to another, with its information (3, 3). closure: found by a search"""

    first: int
    second: int
    motion: Pose
    information: Floats
    closure: bool = False


def optimized(poses: Sequence[Pose], edges: Sequence[Edge]) -> list[Pose]:
    """Return the poses that fit the edges best."""
    at = np.array([[pose.x_m, pose.y_m, pose.yaw_rad] for pose in poses])
    for _ in range(STEPS):
        rows, columns, values, right = [], [], [], np.zeros(at.size)
        for edge in edges:
            residual, a, b = _linear(at[edge.first], at[edge.second], edge.motion)
            weight = edge.information / _doubt(residual, edge)
            for first, to_first in ((edge.first, a), (edge.second, b)):
                right[3 * first : 3 * first + 3] -= to_first.T @ weight @ residual
                for second, to_second in ((edge.first, a), (edge.second, b)):
                    block = to_first.T @ weight @ to_second
                    i, j = np.mgrid[0:3, 0:3]
                    rows.append((3 * first + i).ravel())
                    columns.append((3 * second + j).ravel())
                    values.append(block.ravel())
        shape = (at.size, at.size)
        matrix = coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape).tocsc()
        free = slice(3, None)
        change = spsolve(matrix[free, free] + 1e-9 * identity(at.size - 3, format="csc"), right[free])
        at[1:] += change.reshape(-1, 3)
        if np.abs(change).max() < STILL:
            break
    return [Pose(float(x), float(y), wrap(float(yaw))) for x, y, yaw in at]


def _doubt(residual: Floats, edge: Edge) -> float:
    return 1.0 + float(residual @ edge.information @ residual) / DOUBTED**2 if edge.closure else 1.0


def _linear(first: Floats, second: Floats, motion: Pose) -> tuple[Floats, Floats, Floats]:
    """Return the residual (3,) of an edge and its derivatives (3, 3) by both poses."""
    c, s = math.cos(first[2]), math.sin(first[2])
    turned = np.array([[c, s], [-s, c]])
    off = second[:2] - first[:2]
    local = turned @ off
    yaw = wrap(float(second[2] - first[2] - motion.yaw_rad))
    residual = np.array([local[0] - motion.x_m, local[1] - motion.y_m, yaw])
    a, b = np.zeros((3, 3)), np.zeros((3, 3))
    a[:2, :2], b[:2, :2] = -turned, turned
    a[:2, 2] = local[1], -local[0]
    a[2, 2], b[2, 2] = -1.0, 1.0
    return residual, a, b
