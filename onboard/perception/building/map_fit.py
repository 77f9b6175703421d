"""How a scan fits a map: the pose at which its points lie on obstacles, and how well it agrees there. Pure.

Gauss-Newton on the distance of the scan's points to the nearest obstacle of the map, with the guess and its covariance
as one more measurement. Points far from every obstacle count little (Geman and McClure): people, furniture that the map
lacks. Where the walls do not tell a direction, as along a corridor, the covariance says so.

Agreement has two shares:

    explained  of the points that lie on obstacles of the map
    through    of the rays that go on behind an obstacle of the map; furniture and people only shorten rays, so this
               share is small wherever the map is true
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from onboard.perception.building.map_image import OCCUPIED
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.building.reach import Reach, reach_in
from onboard.perception.scan_matching import scan_points, solved, times, untold
from onboard.values.geometry import IDENTITY, compose, inverse, wrap
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_RAD, BINS, Pose, Scan

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

LEAST_POINTS = 12
"""Fewer points on obstacles are no fit."""
UNKNOWN = 1.0
"""Information of a direction that the walls do not tell [1/m^2, 1/rad^2]."""
CORRELATED = 1.0
"""So many points count as one. With 3 the filter trusted its wheels more, and was off by half as much again."""
FLOOR = np.diag(np.square([0.01, 0.01, 0.004]))
"""Covariance of any fit: cells are no points [m^2, rad^2]."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """points, rays: numbers counted; explained, through: shares of them, see above; 1 and 0 where none is counted.

    expected: points that are explained, or whose ray meets an obstacle of the map within `FAR_M`
    """

    points: int = 0
    explained: float = 1.0
    rays: int = 0
    through: float = 0.0
    expected: int = 0


class Fit(NamedTuple):
    """likely: pose in the map by scan and guess; measured: by the scan alone, with its (3, 3) covariance."""

    likely: Pose
    measured: Pose
    covariance: Floats
    points: int


def fit(scan: Scan, reach: Reach, guess: Pose, covariance: Floats) -> Fit | None:
    """Return the pose of a scan in the map; None if too few points lie on obstacles.

    guess: in the map; covariance: (3, 3) of it, positive definite
    """
    corner, cell_m = reach.grid.map_from_grid, reach.grid.cell_m
    turned = _turned(-corner.yaw_rad)
    prior = np.asarray(np.linalg.inv(turned @ covariance @ turned.T), np.float64)
    begin = _vector(compose(inverse(corner), guess))
    wide_m = SURE_SD * math.sqrt(float(np.diag(covariance)[:2].max() + covariance[2, 2] * TURN_M**2))
    wide_m = min(max(wide_m, NARROW_M), WIDE_M)
    turn_rad = SURE_SD * math.sqrt(float(covariance[2, 2]))
    ranges_m = scan.ranges_m.astype(np.float64)
    found, information, points = _fitted(ranges_m, reach.distance_m, cell_m, begin, prior, wide_m, turn_rad)
    if points < LEAST_POINTS or not np.isfinite(found).all() or not np.isfinite(information).all():
        return None
    alone = np.asarray(np.linalg.inv(information + UNKNOWN * np.eye(3)), np.float64)
    without = found + alone @ prior @ (found - begin)  # the guess taken out again
    measured = 0.5 * (alone + alone.T) + untold(alone) + FLOOR
    return Fit(_in_map(corner, found), _in_map(corner, without), turned.T @ measured @ turned, int(points))


def agreement(scan: Scan, reach: Reach, pose: Pose) -> Agreement:
    """Return how well a scan agrees with the map at a pose in it."""
    at = _vector(compose(inverse(reach.grid.map_from_grid), pose))
    ranges_m = np.where(scan.seen, scan.ranges_m, np.float32(0.0)).astype(np.float64)
    points, explained, rays, through, expected = _agreement(ranges_m, reach.distance_m, reach.grid.cell_m, at)
    shares = explained / points if points else 1.0, through / rays if rays else 0.0
    return Agreement(int(points), shares[0], int(rays), shares[1], int(expected))


def search(scan: Scan, reach: Reach, about: Pose, half_m: float, half_rad: float) -> tuple[Pose, Agreement]:
    """Return the best pose within a square and a turn about a pose in the map, and the agreement there.

    Correlative: every pose of a grid of `STEP_M` and `STEP_RAD` is tried; then a fit.
    """
    corner = reach.grid.map_from_grid
    begin = _vector(compose(inverse(corner), about))
    steps, turns = math.ceil(half_m / STEP_M), math.ceil(half_rad / STEP_RAD)
    found = _search(scan.ranges_m.astype(np.float64), reach.distance_m, reach.grid.cell_m, begin, steps, turns)
    best = fit(scan, reach, _in_map(corner, found), np.diag(np.square([STEP_M, STEP_M, STEP_RAD])))
    pose = _in_map(corner, found) if best is None else best.likely
    return pose, agreement(scan, reach, pose)


def warm_up() -> None:
    """Compile the kernels, before the first tick."""
    reach = reach_in(OccupancyGrid(1.0, IDENTITY, np.full((3, 3), OCCUPIED, np.int8)), 0.0)
    scan, here = Scan(0, np.ones(BINS, np.float32), np.ones(BINS, np.bool_)), Pose(0.0, 0.0, 0.0)
    fit(scan, reach, here, np.eye(3))
    agreement(scan, reach, here)


def _vector(pose: Pose) -> Floats:
    return np.array([pose.x_m, pose.y_m, pose.yaw_rad])


def _in_map(corner: Pose, at: Floats) -> Pose:
    return compose(corner, Pose(float(at[0]), float(at[1]), wrap(float(at[2]))))


def _turned(yaw_rad: float) -> Floats:
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


# ---- Kernels

WIDE_M, NARROW_M = 0.3, 0.06
"""A point this far from obstacles counts a quarter: at most, in the first `COARSE` steps, and then. Twice as far it
does not count."""
COARSE, STEPS, STILL = 5, 20, 1e-5
"""Coarse steps, most steps, and the change [m, rad] that ends them."""
SURE_SD, TURN_M = 2.0, 3.0
"""The first steps are as wide as so many deviations of the guess, with its turn at this range: furniture near a wall
must not pull a pose that is known."""
TURNS = (0.0, 0.0, 1.0, -1.0)
"""Turns of the guess from which the searches begin; the second search is narrow."""
SD_M, SD_PER_M = 0.03, 0.004
"""Standard deviation of a point at no distance, and its growth with the square of the range [1/m]."""
ON_M, NEAR_M, FAR_M = 0.15, 0.3, 8.0
"""A point this near to an obstacle is on it; ranges that are compared."""
BEHIND_M, BESIDE, SURE_M = 0.35, 2, 6.0
"""A ray goes on behind an obstacle by this much, and so do `BESIDE` rays on each side; farther, headings matter."""
STEP_M, STEP_RAD, EVERY = 0.1, 0.06, 3
SHARP_M = 0.15


@kernel
def _distance(field: Floats32, cell_m: float, x_m: float, y_m: float) -> tuple[float, float, float]:
    """Return the distance to the nearest obstacle at a place, and its two derivatives; inf outside the map."""
    i, j = y_m / cell_m - 0.5, x_m / cell_m - 0.5
    if not (0.0 <= i < field.shape[0] - 1 and 0.0 <= j < field.shape[1] - 1):
        return math.inf, 0.0, 0.0
    a, b = int(i), int(j)
    p, q = i - a, j - b
    low, high = (1.0 - q) * field[a, b] + q * field[a, b + 1], (1.0 - q) * field[a + 1, b] + q * field[a + 1, b + 1]
    dx = ((1.0 - p) * (field[a, b + 1] - field[a, b]) + p * (field[a + 1, b + 1] - field[a + 1, b])) / cell_m
    return (1.0 - p) * low + p * high, dx, (high - low) / cell_m


@kernel
def _fitted(
    ranges_m: Floats, field: Floats32, cell_m: float, guess: Floats, prior: Floats, wide_m: float, turn_rad: float
) -> tuple[Floats, Floats, int]:
    """Return pose (3,) in the grid, the information of the scan alone (3, 3), and the number of points on obstacles.

    Of a search that begins wide and one that begins narrow, the better: wide steps may take furniture for a wall.
    """
    points = np.empty((BINS, 2))
    scan_points(ranges_m, points)
    pose, information, count, least = guess.copy(), np.zeros((3, 3)), 0, math.inf
    reported = np.zeros((3, 3))
    for trial in range(4):
        at = guess.copy()
        at[2] += TURNS[trial] * turn_rad
        coarse_m = NARROW_M if trial == 1 else wide_m
        here, cost = _descended(points, ranges_m, field, cell_m, guess, prior, coarse_m, at, reported)
        if cost < least:
            pose[:], information[:], count, least = at, reported, here, cost
    return pose, information, count


@kernel
def _descended(
    points: Floats,
    ranges_m: Floats,
    field: Floats32,
    cell_m: float,
    guess: Floats,
    prior: Floats,
    coarse_m: float,
    pose: Floats,
    information: Floats,
) -> tuple[int, float]:
    """Improve `pose` in place and set `information`; return the number of points on obstacles, and the cost."""
    count, cost = 0, 0.0
    slope = np.empty(3)
    for step in range(STEPS):
        information[:] = 0.0
        pull, count = times(prior, pose - guess), 0
        cost = ((pose - guess) * pull).sum()
        sharp_m = coarse_m if step < COARSE else NARROW_M
        c, s = math.cos(pose[2]), math.sin(pose[2])
        for i in range(BINS):
            if math.isnan(points[i, 0]):
                continue
            sd_m = SD_M + SD_PER_M * ranges_m[i] * ranges_m[i]
            most = sharp_m * sharp_m / (CORRELATED * sd_m * sd_m)
            cost += most
            x, y = c * points[i, 0] - s * points[i, 1], s * points[i, 0] + c * points[i, 1]
            away_m, dx, dy = _distance(field, cell_m, pose[0] + x, pose[1] + y)
            if away_m > max(ON_M, 2.0 * sharp_m):
                continue
            off_m = away_m - 0.5 * cell_m  # rays end at the cell's side
            slope[0], slope[1], slope[2] = dx, dy, dy * x - dx * y
            sharp = 1.0 + (off_m / sharp_m) ** 2
            weight = 1.0 / (CORRELATED * sharp * sharp * sd_m * sd_m)
            cost -= most / sharp
            for row in range(3):
                pull[row] += weight * slope[row] * off_m
                for column in range(3):
                    information[row, column] += weight * slope[row] * slope[column]
            count += int(away_m < ON_M)
        change = solved(information + prior, pull)
        pose -= change
        if step >= COARSE and abs(change[0]) + abs(change[1]) + abs(change[2]) < STILL:
            break
    return count, cost


@kernel
def _obstacle_m(field: Floats32, cell_m: float, x_m: float, y_m: float, angle: float) -> float:
    """Return the distance to the first obstacle of the map along a ray, inf if it meets none within `FAR_M`."""
    c, s = math.cos(angle), math.sin(angle)
    way_m = 0.0
    while way_m < FAR_M:
        away_m = _distance(field, cell_m, x_m + way_m * c, y_m + way_m * s)[0]
        if away_m < 0.5 * cell_m:
            return way_m
        way_m += max(0.5 * cell_m, away_m - 0.5 * cell_m)
    return math.inf


@kernel
def _agreement(ranges_m: Floats, field: Floats32, cell_m: float, pose: Floats) -> tuple[int, int, int, int, int]:
    """Return the points counted, those explained, the rays counted, those that go on behind an obstacle, and the
    points that are explained or expected."""
    points, explained, rays, through, expected = 0, 0, 0, 0, 0
    for i in range(BINS):
        angle = pose[2] - math.pi + (i + 0.5) * BIN_RAD
        c, s = math.cos(angle), math.sin(angle)
        obstacle_m = _obstacle_m(field, cell_m, pose[0], pose[1], angle)
        if NEAR_M <= ranges_m[i] <= FAR_M:
            points += 1
            away_m = _distance(field, cell_m, pose[0] + ranges_m[i] * c, pose[1] + ranges_m[i] * s)[0]
            on = away_m < ON_M + SD_PER_M * ranges_m[i] * ranges_m[i]
            explained += int(on)
            expected += int(on or obstacle_m < FAR_M)
        free_m = SURE_M
        for k in range(i - BESIDE, i + BESIDE + 1):
            free_m = min(free_m, ranges_m[k % BINS] - BEHIND_M)
        if free_m <= NEAR_M:
            continue
        rays += 1
        through += int(obstacle_m < free_m)
    return points, explained, rays, through, expected


@kernel
def _search(ranges_m: Floats, field: Floats32, cell_m: float, about: Floats, steps: int, turns: int) -> Floats:
    """Return the pose (3,) whose points lie nearest to obstacles."""
    points = np.empty((BINS, 2))
    scan_points(ranges_m, points)
    best = -1.0
    found: Floats = about.copy()
    for turn in range(-turns, turns + 1):
        yaw = about[2] + turn * STEP_RAD
        c, s = math.cos(yaw), math.sin(yaw)
        for row in range(-steps, steps + 1):
            for column in range(-steps, steps + 1):
                x_m, y_m, score = about[0] + column * STEP_M, about[1] + row * STEP_M, 0.0
                for i in range(0, BINS, EVERY):
                    if math.isnan(points[i, 0]):
                        continue
                    x, y = c * points[i, 0] - s * points[i, 1], s * points[i, 0] + c * points[i, 1]
                    away_m = _distance(field, cell_m, x_m + x, y_m + y)[0]
                    score += 1.0 / (1.0 + (away_m / SHARP_M) ** 2) ** 2
                if score > best:
                    best = score
                    found[0], found[1], found[2] = x_m, y_m, yaw
    return found
