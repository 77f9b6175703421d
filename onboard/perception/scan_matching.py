"""Scan matching: how the robot moved between two scans. Pure: two scans and a guess in, a motion out.

Point-to-line ICP (Censi, "An ICP variant using a point-to-line metric", 2008) on the 180-bin scan. The nearest obstacle
of a bin may lie anywhere in its 2 degrees; on a wall it lies on the edge towards the nearer neighbour. There a point is
put. A point has a line if both neighbours continue it. Points pair only where their lines have about one direction.
The guess, with its covariance, is one more measurement. Large residuals count little (Geman and McClure), so that
walking people do not move the robot.

Where the walls do not tell a direction, as along a bare corridor, the result says so: noise alone gives lines a little
of every direction, so a direction with a hundredth of the best one's information counts as unknown.

What fills most of the view is taken for the world: a robot that follows a moving panel is carried along.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.values.geometry import wrap
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_RAD, BINS, Pose, bins_within

Floats = npt.NDArray[np.float64]
Ranges = npt.NDArray[np.float32]

LEAST_PAIRS = 12
"""Fewer pairs are no match."""
UNKNOWN = 1.0
"""Information of a direction that the walls do not tell [1/m^2, 1/rad^2]."""
LEAST_TOLD = 0.01
"""A direction with less than this share of the best direction's information is not told."""
FLOOR = np.diag(np.square([0.003, 0.003, 0.001]))
"""Covariance of any match: bins are not points [m^2, rad^2]."""


@dataclass(frozen=True, slots=True)
class Match:
    """The motion between two scans, in the base frame of the first.

    likely:     by the scans and the guess together
    measured:   by the scans alone
    covariance: (3, 3) of `measured`, x, y, yaw [m, rad]
    pairs:      number of points near a line of the first scan
    """

    likely: Pose
    measured: Pose
    covariance: Floats
    pairs: int


def match(first: Ranges, second: Ranges, guess: Pose, covariance: Floats) -> Match | None:
    """Return the motion of the base from one scan to a later one; None if too few points agree.

    first, second: (180,) ranges of `Scan.ranges_m` [m]
    guess:         the motion by the wheels; covariance: (3, 3) of it, positive definite
    """
    prior = np.asarray(np.linalg.inv(covariance), np.float64)
    wheels = np.array([guess.x_m, guess.y_m, guess.yaw_rad], np.float64)
    motion, information, pairs = _best(first.astype(np.float64), second.astype(np.float64), wheels, prior)
    if pairs < LEAST_PAIRS or not np.isfinite(motion).all() or not np.isfinite(information).all():
        return None
    alone = np.asarray(np.linalg.inv(information + UNKNOWN * np.eye(3)), np.float64)
    without = motion + alone @ prior @ (motion - wheels)  # the guess taken out again
    return Match(_pose(motion), _pose(without), 0.5 * (alone + alone.T) + untold(alone) + FLOOR, int(pairs))


def untold(covariance: Floats) -> Floats:
    """Return the (3, 3) covariance to add for a direction of x and y that the walls do not tell."""
    variances, directions = np.linalg.eigh(covariance[:2, :2])
    added: Floats = np.zeros((3, 3))
    if variances[0] < LEAST_TOLD * variances[1]:
        added[:2, :2] = np.outer(directions[:, 1], directions[:, 1]) / UNKNOWN
    return added


def warm_up() -> None:
    """Compile the kernels, before the first tick."""
    match(np.ones(BINS, np.float32), np.ones(BINS, np.float32), Pose(0.0, 0.0, 0.0), np.eye(3))


def _pose(motion: Floats) -> Pose:
    return Pose(float(motion[0]), float(motion[1]), wrap(float(motion[2])))


# ---- Kernels

LEAST_M, MOST_M = 0.1, 9.9
"""Ranges that are used: at `MOST_M` a bin is 35 cm wide."""
GAP_M, GAP_BINS = 0.09, 3.0
"""Neighbours on a line are at most this far apart, and as many widths of a bin."""
BEND = 0.85
"""Least cosine between the two sides of a point with a line, and between the lines of a pair."""
PAIR_M, PAIR_DEG = 0.3, 16.0
"""Largest distance of a pair's lines, and search to each side. The distance shrinks to `CLOSE` after `WIDE` steps."""
PAIR_BINS = bins_within(PAIR_DEG)
CLOSE, WIDE = 0.4, 4
STEPS, STILL = 15, 1e-6
"""Most steps, and the change [m, rad] that ends them."""
SD_M, SD_PER_M = 0.01, 0.004
"""Standard deviation of a point across its line at no distance, and its growth with the square of the range [1/m]."""
SHARP = 3.0
"""A residual of this many deviations counts a quarter."""
TURNS = np.array([0.0, -0.12, 0.12, -0.24, 0.24])
"""Turns beside the guess from which the search begins [rad]: slipping wheels turn the guess out of its reach."""
GOOD, DEAR = 0.25, 0.005
"""A search whose points cost less than this share of what unpaired points cost is the last one; the cost of a squared
deviation of the guess."""


@kernel
def scan_points(ranges_m: Floats, points: Floats) -> None:
    """Set the (180, 2) points of a scan, NaN where there is none."""
    for i in range(BINS):
        here = ranges_m[i]
        points[i, 0] = points[i, 1] = math.nan
        if not LEAST_M <= here <= MOST_M:
            continue
        before, after = ranges_m[i - 1], ranges_m[(i + 1) % BINS]
        side = 0.0
        if before < here and not after < here:
            side = -0.5
        elif after < here and not before < here:
            side = 0.5
        angle = -math.pi + (i + 0.5 + side) * BIN_RAD
        points[i, 0], points[i, 1] = here * math.cos(angle), here * math.sin(angle)


@kernel
def _normals(ranges_m: Floats, points: Floats, normals: Floats) -> None:
    """Set the (180, 2) unit normals of the lines through points, NaN where there is none."""
    for i in range(BINS):
        normals[i, 0] = normals[i, 1] = math.nan
        j = (i + 1) % BINS
        ax, ay = points[i, 0] - points[i - 1, 0], points[i, 1] - points[i - 1, 1]
        bx, by = points[j, 0] - points[i, 0], points[j, 1] - points[i, 1]
        a, b, most_m = math.hypot(ax, ay), math.hypot(bx, by), GAP_M + GAP_BINS * ranges_m[i] * BIN_RAD
        if not (a <= most_m and b <= most_m) or ax * bx + ay * by < BEND * a * b:
            continue
        dx, dy = points[j, 0] - points[i - 1, 0], points[j, 1] - points[i - 1, 1]
        way = math.hypot(dx, dy)
        if way > 0.0:
            normals[i, 0], normals[i, 1] = -dy / way, dx / way


@kernel
def _nearest(x: float, y: float, nx: float, ny: float, points: Floats, normals: Floats) -> int:
    """Return the nearest point with a line of this direction in the bins about (x, y), -1 without one."""
    middle = math.floor((math.atan2(y, x) + math.pi) / BIN_RAD)
    best, found = (2.0 * PAIR_M) ** 2, -1
    for k in range(middle - PAIR_BINS, middle + PAIR_BINS + 1):
        j = k % BINS
        if not abs(nx * normals[j, 0] + ny * normals[j, 1]) >= BEND:
            continue
        away = (x - points[j, 0]) ** 2 + (y - points[j, 1]) ** 2
        if away < best:
            best, found = away, j
    return found


@kernel
def times(matrix: Floats, vector: Floats) -> Floats:
    """Return a (3, 3) matrix times a (3,) vector. numba's own product would load scipy, for 0.3 s at each start."""
    product: Floats = (matrix * vector).sum(axis=1)
    return product


@kernel
def solved(matrix: Floats, right: Floats) -> Floats:
    """Return x of `matrix` x = `right`, for a positive definite (3, 3) matrix, by its factors L L^T."""
    lower = np.zeros((3, 3))
    x: Floats = right.copy()
    for i in range(3):
        for j in range(i + 1):
            rest = matrix[i, j]
            for k in range(j):
                rest -= lower[i, k] * lower[j, k]
            lower[i, j] = math.sqrt(rest) if i == j else rest / lower[j, j]
        for k in range(i):
            x[i] -= lower[i, k] * x[k]
        x[i] /= lower[i, i]
    for i in range(2, -1, -1):
        for k in range(i + 1, 3):
            x[i] -= lower[k, i] * x[k]
        x[i] /= lower[i, i]
    return x


@kernel
def _best(first: Floats, second: Floats, guess: Floats, prior: Floats) -> tuple[Floats, Floats, int]:
    """Return the motion (3,), the information of the scans alone (3, 3), and the pairs of the best search."""
    points, normals = np.empty((2, BINS, 2)), np.empty((2, BINS, 2))
    for k in range(2):
        ranges_m = first if k == 0 else second
        scan_points(ranges_m, points[k])
        _normals(ranges_m, points[k], normals[k])
    found, information, found_pairs, least = guess.copy(), np.zeros((3, 3)), 0, math.inf
    reported = np.zeros((3, 3))
    for turn in TURNS:
        motion = guess.copy()
        motion[2] += turn
        pairs, cost = _search(second, points, normals, guess, prior, motion, reported)
        off = motion - guess
        cost += DEAR * (off * times(prior, off)).sum()
        if cost < least:
            found[:], information[:], found_pairs, least = motion, reported, pairs, cost
        if least < GOOD:
            break
    return found, information, found_pairs


@kernel
def _search(
    ranges_m: Floats,
    points: Floats,
    normals: Floats,
    guess: Floats,
    prior: Floats,
    motion: Floats,
    information: Floats,
) -> tuple[int, float]:
    """Improve `motion` in place and set `information`; return the number of pairs, and the mean cost of a point.

    ranges_m: of the second scan; a point without a pair costs 1
    """
    pairs, count, cost, squares, weights = 0, 0, 0.0, 0.0, 0.0
    slope = np.empty(3)
    for step in range(STEPS):
        information[:] = 0.0
        pull, pairs, squares, weights, count, cost = times(prior, motion - guess), 0, 0.0, 0.0, 0, 0.0
        most_m = PAIR_M if step < WIDE else CLOSE * PAIR_M
        c, s = math.cos(motion[2]), math.sin(motion[2])
        for i in range(BINS):
            if math.isnan(normals[1, i, 0]):
                continue
            count, cost = count + 1, cost + 1.0
            x, y = c * points[1, i, 0] - s * points[1, i, 1], s * points[1, i, 0] + c * points[1, i, 1]
            nx, ny = c * normals[1, i, 0] - s * normals[1, i, 1], s * normals[1, i, 0] + c * normals[1, i, 1]
            j = _nearest(motion[0] + x, motion[1] + y, nx, ny, points[0], normals[0])
            if j < 0:
                continue
            slope[0], slope[1] = normals[0, j, 0], normals[0, j, 1]
            slope[2] = slope[1] * x - slope[0] * y
            off_m = slope[0] * (motion[0] + x - points[0, j, 0]) + slope[1] * (motion[1] + y - points[0, j, 1])
            if abs(off_m) > most_m:
                continue
            sd_m = SD_M + SD_PER_M * ranges_m[i] * ranges_m[i]
            sharp = 1.0 + (off_m / (SHARP * sd_m)) ** 2
            weight = 1.0 / (sharp * sharp * sd_m * sd_m)
            for row in range(3):
                pull[row] += weight * slope[row] * off_m
                for column in range(3):
                    information[row, column] += weight * slope[row] * slope[column]
            pairs, squares, weights = pairs + 1, squares + weight * off_m * off_m, weights + 1.0 / (sharp * sharp)
            cost -= 1.0 / sharp
        change = solved(information + prior, pull)
        motion -= change
        if abs(change[0]) + abs(change[1]) + abs(change[2]) < STILL:
            break
    # Residuals above the assumed deviations leave less information.
    if squares > weights:
        information *= weights / squares
    return pairs, cost / max(count, 1)
