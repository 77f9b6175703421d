"""A small window of remembered obstacles about the robot, and the cost of going from each of its cells to the goal.

The window moves with the robot over a fixed grid in the start frame. A cell remembers that something stood in it until
it is seen free, or for `LIFE_DECISIONS` decisions. What was never seen counts as free: the way is planned through it,
and planned again when it proves shut. This is no localisation and no building's map: what leaves the window is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard.messages import BINS, Pose, Scan

CELL_M = 0.1
SIDE = 240
"""Cells along one side of the window: 24 m."""
LIFE_DECISIONS = 360
"""Two minutes at 3 Hz."""

SEE_M = 6.0
"""Returns from farther away are not entered: one bin is then wider than two cells."""
CLEAR_BEFORE_M = 0.15
"""A cell is seen free when it lies this much before the nearest return of its bin and of both neighbours."""
HIDDEN_M = 1.6
"""A low camera does not see what hangs at the height of the robot's head when it is nearer than this."""
FREE_FAR = 1.0
FREE_NEAR = 1.0 / 20.0
"""Evidence lost by a cell that is seen free: all of it, or near, where a look says little, a twentieth."""
STAND_FRACTION = 0.6
"""Cells within this part of the footprint's radius are free: the robot stands there."""

LETHAL_M = -0.02
TIGHT_M = 0.08
WIDE_M = 0.40
LETHAL_COST = 60.0
TIGHT_COST = 6.0
WIDE_COST = 1.5
"""Cost of a metre by the distance to an obstacle beyond the footprint: LETHAL_COST below LETHAL_M, then from TIGHT_COST
to WIDE_COST at TIGHT_M, and to 1 at WIDE_M. Lethal is finite: a way is always found, and noise shuts no door for good.
"""

SWEEPS = 80
CONVERGED_M = 1e-3
SEED_CELLS = 2
UNREACHED = 1e5
"""Metres; more than any way in the window costs."""


@dataclass(frozen=True, slots=True)
class LocalMap:
    """The window: `evidence[i, j]` in 0..1 is cell (corner[0] + i, corner[1] + j) of the start frame's grid.

    Cell (a, b) covers [a, a + 1) x [b, b + 1) times CELL_M; evidence above 0 is an obstacle.
    """

    corner: tuple[int, int]
    evidence: npt.NDArray[np.float32]


def empty_map() -> LocalMap:
    """Return a window about the start with nothing in it."""
    return LocalMap((-SIDE // 2, -SIDE // 2), np.zeros((SIDE, SIDE), np.float32))


def recentred(window: LocalMap, pose: Pose) -> LocalMap:
    """Return the window with the robot in its middle; cells that come in are empty."""
    corner = (math.floor(pose.x_m / CELL_M) - SIDE // 2, math.floor(pose.y_m / CELL_M) - SIDE // 2)
    di, dj = corner[0] - window.corner[0], corner[1] - window.corner[1]
    evidence = np.zeros_like(window.evidence)
    if abs(di) < SIDE and abs(dj) < SIDE:
        to_i, from_i = slice(max(0, -di), SIDE - max(0, di)), slice(max(0, di), SIDE - max(0, -di))
        to_j, from_j = slice(max(0, -dj), SIDE - max(0, dj)), slice(max(0, dj), SIDE - max(0, -dj))
        evidence[to_i, to_j] = window.evidence[from_i, from_j]
    return LocalMap(corner, evidence)


def observed(window: LocalMap, pose: Pose, scan: Scan, radius_m: float) -> LocalMap:
    """Return the window after one scan taken at `pose`: all evidence a decision older, seen cells freed or marked.

    radius_m: of the robot's footprint
    """
    evidence = window.evidence.copy()
    ranges = np.where(scan.seen, scan.ranges_m, 0.0).astype(np.float64)
    x, y = pose.x_m / CELL_M - window.corner[0], pose.y_m / CELL_M - window.corner[1]
    _enter_scan(evidence, x, y, pose.yaw_rad, ranges, radius_m)
    return LocalMap(window.corner, evidence)


def obstacles(window: LocalMap, pose: Pose, radius_m: float) -> npt.NDArray[np.float64]:
    """Return (k, 2): centres of the occupied cells within the radius of the pose, in the start frame [m]."""
    centres = (np.argwhere(window.evidence > 0.0) + np.asarray(window.corner) + 0.5) * CELL_M
    near = np.hypot(centres[:, 0] - pose.x_m, centres[:, 1] - pose.y_m) < radius_m
    return np.asarray(centres[near], dtype=np.float64)


def cost_to_go(window: LocalMap, goal_xy_m: tuple[float, float], radius_m: float) -> npt.NDArray[np.float64]:
    """Return (SIDE, SIDE): length of the cheapest way from each cell's centre to the goal, in metres of free space.

    The eikonal equation |grad T| = cost of a metre, solved by sweeping. A goal outside the window is reached from
    the window's edge in a straight line.
    """
    price = _price(window.evidence, radius_m)
    goal = goal_xy_m[0] / CELL_M - window.corner[0] - 0.5, goal_xy_m[1] / CELL_M - window.corner[1] - 0.5
    cost = np.full((SIDE, SIDE), UNREACHED)
    active = np.zeros((SIDE, SIDE), np.bool_)
    _seed(cost, active, goal[0], goal[1])
    _sweep(cost, active, price)
    return cost


@njit(cache=True, nogil=True)
def sample(cost: npt.NDArray[np.float64], i: float, j: float) -> tuple[float, float, float]:  # pragma: no cover
    """Return the cost and its two derivatives a cell at (i, j), in cells from the first cell's centre; bilinear."""
    i, j = min(max(i, 0.0), SIDE - 1.001), min(max(j, 0.0), SIDE - 1.001)
    a, b = int(i), int(j)
    p, q = i - a, j - b
    c00, c10, c01, c11 = cost[a, b], cost[a + 1, b], cost[a, b + 1], cost[a + 1, b + 1]
    di = (1 - q) * (c10 - c00) + q * (c11 - c01)
    dj = (1 - p) * (c01 - c00) + p * (c11 - c10)
    return (1 - p) * ((1 - q) * c00 + q * c01) + p * ((1 - q) * c10 + q * c11), di, dj


@njit(cache=True, nogil=True)
def _enter_scan(
    evidence: npt.NDArray[np.float32],
    x: float,
    y: float,
    yaw_rad: float,
    ranges: npt.NDArray[np.float64],
    radius_m: float,
) -> None:  # pragma: no cover - compiled
    """Age, clear and mark in place; (x, y) in cells, ranges 0 in blind bins, where nothing is known."""
    bin_rad = 2.0 * math.pi / BINS
    for i in range(SIDE):
        for j in range(SIDE):
            if evidence[i, j] <= 0.0:
                continue
            evidence[i, j] = max(0.0, evidence[i, j] - 1.0 / LIFE_DECISIONS)
            dx, dy = i + 0.5 - x, j + 0.5 - y
            distance_m = CELL_M * math.hypot(dx, dy)
            k = math.floor((math.atan2(dy, dx) - yaw_rad + math.pi) / bin_rad) % BINS
            free_m = min(ranges[k - 1], ranges[k], ranges[(k + 1) % BINS]) - CLEAR_BEFORE_M
            if distance_m < min(free_m, SEE_M):
                evidence[i, j] = max(0.0, evidence[i, j] - (FREE_NEAR if distance_m < HIDDEN_M else FREE_FAR))
            if distance_m < STAND_FRACTION * radius_m:
                evidence[i, j] = 0.0
    for k in range(BINS):
        if 0.0 < ranges[k] < SEE_M:
            azimuth = yaw_rad - math.pi + (k + 0.5) * bin_rad
            i = math.floor(x + ranges[k] / CELL_M * math.cos(azimuth))
            j = math.floor(y + ranges[k] / CELL_M * math.sin(azimuth))
            if 0 <= i < SIDE and 0 <= j < SIDE:
                evidence[i, j] = 1.0


@njit(cache=True, nogil=True)
def _price(
    evidence: npt.NDArray[np.float32], radius_m: float
) -> npt.NDArray[np.float64]:  # pragma: no cover - compiled
    """Return the cost of a metre in each cell, from its distance to the nearest occupied one."""
    reach = math.ceil((radius_m + WIDE_M) / CELL_M)
    squared = np.full((SIDE, SIDE), 1 << 20)
    for i in range(SIDE):
        for j in range(SIDE):
            if evidence[i, j] > 0.0:
                for a in range(max(0, i - reach), min(SIDE, i + reach + 1)):
                    for b in range(max(0, j - reach), min(SIDE, j + reach + 1)):
                        squared[a, b] = min(squared[a, b], (a - i) ** 2 + (b - j) ** 2)
    price = np.ones((SIDE, SIDE))
    for i in range(SIDE):
        for j in range(SIDE):
            clear_m = CELL_M * math.sqrt(squared[i, j]) - radius_m
            if clear_m < LETHAL_M:
                price[i, j] = LETHAL_COST
            elif clear_m < TIGHT_M:
                price[i, j] = TIGHT_COST + (WIDE_COST - TIGHT_COST) * (clear_m - LETHAL_M) / (TIGHT_M - LETHAL_M)
            elif clear_m < WIDE_M:
                price[i, j] = WIDE_COST + (1.0 - WIDE_COST) * (clear_m - TIGHT_M) / (WIDE_M - TIGHT_M)
    return price


@njit(cache=True, nogil=True)
def _seed(
    cost: npt.NDArray[np.float64], active: npt.NDArray[np.bool_], goal_i: float, goal_j: float
) -> None:  # pragma: no cover - compiled
    """Set the known costs in place: the cells about the goal, or the whole edge when the goal lies outside.

    Cells that are known are no more active; their neighbours are.
    """
    inside = min(goal_i, goal_j) > SEED_CELLS and max(goal_i, goal_j) < SIDE - 1 - SEED_CELLS
    for i in range(SIDE):
        for j in range(SIDE):
            squared = (i - goal_i) ** 2 + (j - goal_j) ** 2
            edge = i == 0 or j == 0 or i == SIDE - 1 or j == SIDE - 1
            if (inside and squared <= SEED_CELLS**2) or (not inside and edge):
                cost[i, j] = math.sqrt(squared) * CELL_M
            else:
                near = squared <= (SEED_CELLS + 2) ** 2
                next_to_edge = min(i, j) == 1 or max(i, j) == SIDE - 2
                active[i, j] = not edge and (near if inside else next_to_edge)


@njit(cache=True, nogil=True)
def _sweep(
    cost: npt.NDArray[np.float64], active: npt.NDArray[np.bool_], price: npt.NDArray[np.float64]
) -> None:  # pragma: no cover - compiled
    """Solve in place: Gauss-Seidel in the four diagonal orders by turns, until nothing changes.

    Only active cells are looked at: those of which a neighbour has become cheaper than they are. The window's outermost
    cells are only ever seeds.
    """
    for sweep in range(SWEEPS):
        changed = False
        first_i, last_i, step_i = (1, SIDE - 1, 1) if sweep % 4 < 2 else (SIDE - 2, 0, -1)
        first_j, last_j, step_j = (1, SIDE - 1, 1) if sweep % 2 == 0 else (SIDE - 2, 0, -1)
        for i in range(first_i, last_i, step_i):
            for j in range(first_j, last_j, step_j):
                if not active[i, j]:
                    continue
                active[i, j] = False
                a, b = min(cost[i - 1, j], cost[i + 1, j]), min(cost[i, j - 1], cost[i, j + 1])
                width = price[i, j] * CELL_M
                if abs(a - b) >= width:
                    new = min(a, b) + width
                else:
                    new = 0.5 * (a + b + math.sqrt(2.0 * width * width - (a - b) ** 2))
                if new < cost[i, j] - CONVERGED_M:
                    changed = True
                    cost[i, j] = new
                    for p, q in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                        if cost[p, q] > new and 0 < p < SIDE - 1 and 0 < q < SIDE - 1:
                            active[p, q] = True
        if not changed:
            return
