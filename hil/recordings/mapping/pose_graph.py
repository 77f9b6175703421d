"""The pose graph: all poses of keyframes that fit their relative motions best, by sparse least squares.

Gauss-Newton; residuals of closures far beyond their deviation count little (Cauchy), as a wrong closure must not bend
the map. The first pose is fixed.
"""

from __future__ import annotations

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
    first, second = np.array([edge.first for edge in edges]), np.array([edge.second for edge in edges])
    motions = np.array([[edge.motion.x_m, edge.motion.y_m, edge.motion.yaw_rad] for edge in edges])
    information, closure = np.array([edge.information for edge in edges]), np.array([edge.closure for edge in edges])
    free = slice(3, None)
    for _ in range(STEPS):
        residuals, a, b = _linear(at[first], at[second], motions)
        off = np.einsum("ni,nij,nj->n", residuals, information, residuals)
        weights = information / np.where(closure, 1.0 + off / DOUBTED**2, 1.0)[:, np.newaxis, np.newaxis]
        right, rows, columns, values = np.zeros_like(at), [], [], []
        for p, slope in ((first, a), (second, b)):
            weighed = np.einsum("nji,njk->nik", slope, weights)
            np.subtract.at(right, p, np.einsum("nik,nk->ni", weighed, residuals))
            for q, other in ((first, a), (second, b)):
                block = np.einsum("nik,nkl->nil", weighed, other)
                axes = np.arange(3)
                rows.append(np.broadcast_to((3 * p[:, np.newaxis] + axes)[:, :, np.newaxis], block.shape).ravel())
                columns.append(np.broadcast_to((3 * q[:, np.newaxis] + axes)[:, np.newaxis, :], block.shape).ravel())
                values.append(block.ravel())
        shape = (at.size, at.size)
        matrix = coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape).tocsc()
        change = spsolve(matrix[free, free] + 1e-9 * identity(at.size - 3, format="csc"), right.ravel()[free])
        at[1:] += change.reshape(-1, 3)
        if np.abs(change).max() < STILL:
            break
    return [Pose(float(x), float(y), wrap(float(yaw))) for x, y, yaw in at]


def _linear(first: Floats, second: Floats, motion: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the residuals (n, 3) of edges and their derivatives (n, 3, 3) by both poses; all poses are (n, 3)."""
    c, s = np.cos(first[:, 2]), np.sin(first[:, 2])
    turned = np.array([[c, s], [-s, c]]).transpose(2, 0, 1)
    local = np.einsum("nij,nj->ni", turned, second[:, :2] - first[:, :2])
    yaw = second[:, 2] - first[:, 2] - motion[:, 2]
    residuals = np.column_stack([local - motion[:, :2], np.arctan2(np.sin(yaw), np.cos(yaw))])
    a, b = np.zeros((len(first), 3, 3)), np.zeros((len(first), 3, 3))
    a[:, :2, :2], b[:, :2, :2] = -turned, turned
    a[:, :2, 2] = np.column_stack([local[:, 1], -local[:, 0]])
    a[:, 2, 2], b[:, 2, 2] = -1.0, 1.0
    return residuals, a, b
