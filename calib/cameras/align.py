"""Point-to-line ICP in the plane over all cameras and key frames, with the odometry as a prior.

All upright patches must fall on each other: those of one camera at several places, and those of different cameras. The
unknowns are x, y, yaw of every camera and of every key frame but the first, and `ODOMETRY`. A residual is the distance
of a patch from the line through another patch, by the standard deviation of both.

The odometry's way ahead and turn between two key frames are compared with what the surfaces say. Wheels do not slip
sideways, so the base moves ahead in the frame halfway through the turn, whatever the wheels measured. That shows where
forward is. Each of the three is trusted only as far as the surfaces agree with it.

Each pass matches the patches again and takes Gauss-Newton steps with a soft L1 loss. The normal equations are solved
exactly: scipy's `least_squares` solves sparse ones by LSMR, which leaves the common yaw of all cameras unresolved.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix, csr_matrix, identity
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree

from calib.cameras.patches import Patches
from onboard.values.geometry import between, wrap
from onboard.values.messages import Pose

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

RADII_M = (0.6, 0.45, 0.35, 0.25, 0.2, 0.15, 0.15, 0.1, 0.1, 0.1)
"""Largest distance of two patches that are matched, pass by pass."""
COSINES = (0.8, 0.9)
"""Least cosine between their normals, in the first passes and in the last."""
NEIGHBOURS = 3
"""Matches of a patch among the other cameras, and among the other places of its own camera."""
STEPS_A_PASS = 2
AGREE = 3.0
"""Patches agree within this many standard deviations."""
DAMPING = 1e-6
MOST_PATCHES = 14000
HEIGHT_WEIGHT = 0.5
"""A metre of height counts as this many metres along the floor when neighbours are sought."""
SURFACE_SD_M = 0.004
"""Roughness of surfaces, added to the noise of a patch."""
ODOMETRY = (1.0, 1.0, 0.0, 0.0)
"""Odometry without errors: scales of distance and turning, creep (the way ahead by a turn [m/rad]), and bend: the share
of a turn by which the way leaves the direction halfway through it, as turning begins before driving."""
ODOMETRY_SD = (0.05, 0.05, 0.05, 0.1)
"""Standard deviations of the same before the data."""
STEP_SD_M, STEP_SD_RAD = 0.002, math.radians(0.15)
WAY_SD, TURN_SD = 0.01, 0.01
"""Standard deviations of the odometry between two key frames: constant, and in proportion to the motion."""
SD_OF_MEDIAN = 1.4826
"""A standard deviation by the median of absolute errors: a key frame that fits nowhere does not count."""
MOST_LOOSE = 30.0
"""The odometry's standard deviations grow by up to this factor, as far as the surfaces contradict it."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """All patches in their cameras' level frames. camera, frame: (n,) index; the rest as in `Patches`."""

    camera: Indices
    frame: Indices
    xy_m: Floats
    z_m: Floats
    normal: Floats
    sd_m: Floats


@dataclass(frozen=True, slots=True)
class Placement:
    """cameras: (c, 3) x, y, yaw in the base frame; frames: (k, 3) of the base; odometry: (4,) as `ODOMETRY`."""

    cameras: Floats
    frames: Floats
    odometry: Floats

    def vector(self) -> Floats:
        """Return the unknowns; the first key frame is fixed."""
        return np.concatenate([self.cameras.ravel(), self.frames[1:].ravel(), self.odometry])

    def at(self, vector: Floats) -> Placement:
        """Return the placement of unknowns."""
        c, k = 3 * len(self.cameras), 3 * len(self.frames)
        frames = np.concatenate([self.frames[:1], vector[c : c + k - 3].reshape(-1, 3)])
        return Placement(vector[:c].reshape(-1, 3), frames, vector[-len(ODOMETRY) :])


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of patches: (m,) indices, the (m, 2) normal in the world, the (m,) standard deviation."""

    one: Indices
    other: Indices
    normal: Floats
    sd_m: Floats


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of `align`.

    covariance: (3 c, 3 c) of the cameras' x, y, yaw
    residuals_m: (m,) distances of the matched patches from each other along their normals
    normals:    (m, 2) of them in the world
    pairs:      (c, c) matches between cameras
    loose:      (3,) factors on the odometry's standard deviations: ahead, to the left, yaw
    agreeing:   (c,) share of a camera's patches that fall on a patch of another camera, or of the only camera itself
    """

    placement: Placement
    covariance: Floats
    residuals_m: Floats
    normals: Floats
    pairs: npt.NDArray[np.int64]
    agreeing: Floats
    loose: Floats


def cloud_of(patches: Sequence[tuple[int, int, Patches]], rng: np.random.Generator, most: int = MOST_PATCHES) -> Cloud:
    """Return the patches of (camera, frame) images as one cloud, thinned at random to `most`."""
    camera = np.concatenate([np.full(len(one.z_m), c) for c, _, one in patches])
    frame = np.concatenate([np.full(len(one.z_m), k) for _, k, one in patches])
    kept = np.sort(rng.permutation(len(camera))[:most])
    xy, z, normal, sd = (
        np.concatenate([getattr(one, name) for _, _, one in patches])[kept]
        for name in ("xy_m", "z_m", "normal", "sd_m")
    )
    return Cloud(camera[kept], frame[kept], xy, z, normal, sd)


def align(cloud: Cloud, cameras: Floats, odometry: Sequence[Pose], radii_m: Sequence[float] = RADII_M) -> Alignment:
    """Return where cameras and key frames are, from a guess of the cameras and the odometry of the key frames."""
    found = starting(cameras, odometry)
    steps, loose = _steps(odometry), np.asarray(np.ones(3))
    for number, radius_m in enumerate(radii_m):
        late = number >= len(radii_m) // 2
        matches = _matched(cloud, found, radius_m, COSINES[late])
        problem = _Problem(cloud, matches, steps, found, loose)
        for _ in range(STEPS_A_PASS):
            found = found.at(found.vector() + problem.step(found.vector(), late))
        loose = np.clip(loose * problem.odometry_scatter(found), 1.0, MOST_LOOSE)
    return _judged(cloud, matches, problem, found, loose)


def starting(cameras: Floats, odometry: Sequence[Pose]) -> Placement:
    """Return the placement before any alignment: the guess of the cameras, and the key frames by the odometry."""
    frames = np.array([[p.x_m, p.y_m, p.yaw_rad] for p in (between(odometry[0], pose) for pose in odometry)])
    frames[:, 2] = np.unwrap(frames[:, 2])
    return Placement(cameras.copy(), frames, np.array(ODOMETRY))


def _steps(odometry: Sequence[Pose]) -> Floats:
    """Return (k - 1, 3) motions between key frames by the odometry: ahead, to the left, yaw, seen from halfway."""
    moves = [between(a, b) for a, b in itertools.pairwise(odometry)]
    moved = np.array([[move.x_m, move.y_m, wrap(move.yaw_rad)] for move in moves]).reshape(-1, 3)
    return np.column_stack([_rotated(-0.5 * moved[:, 2], moved[:, :2]), moved[:, 2]])


def _rotated(yaw: Floats, xy: Floats) -> Floats:
    c, s = np.cos(yaw), np.sin(yaw)
    return np.stack([c * xy[:, 0] - s * xy[:, 1], s * xy[:, 0] + c * xy[:, 1]], axis=1)


def world(cloud: Cloud, placement: Placement) -> tuple[Floats, Floats, Floats]:
    """Return (n, 2) middles of the patches in the base frame and in the world, and (n, 2) normals in the world."""
    camera, frame = placement.cameras[cloud.camera], placement.frames[cloud.frame]
    in_base = _rotated(camera[:, 2], cloud.xy_m) + camera[:, :2]
    return (
        in_base,
        _rotated(frame[:, 2], in_base) + frame[:, :2],
        _rotated(frame[:, 2] + camera[:, 2], cloud.normal),
    )


def _matched(cloud: Cloud, placement: Placement, radius_m: float, least_cosine: float) -> Matches:
    """Return pairs of patches near each other that face alike: of two cameras, or of two places of one camera."""
    _, xy, normal = world(cloud, placement)
    place = np.column_stack([xy, HEIGHT_WEIGHT * cloud.z_m, 0.5 * normal])
    smooth = np.zeros_like(normal)
    ones, others = [], []
    cameras = range(len(placement.cameras))
    trees = [(np.flatnonzero(cloud.camera == c), np.flatnonzero(cloud.camera != c)) for c in cameras]
    for mine, rest in trees:
        for among, own in ((rest, False), (mine, True)):
            if len(mine) == 0 or len(among) <= 4 * NEIGHBOURS:
                continue
            count = 4 * NEIGHBOURS if own else 2 * NEIGHBOURS
            away, index = cKDTree(place[among]).query(place[mine], count, distance_upper_bound=radius_m, workers=-1)
            near = np.isfinite(away)
            one, other = np.repeat(mine, near.sum(axis=1)), among[index[near]]
            alike = (normal[one] * normal[other]).sum(axis=1) > least_cosine
            np.add.at(smooth, one[alike], normal[other[alike]])
            if own:
                alike &= cloud.frame[one] != cloud.frame[other]
            one, other = _first_few(one[alike], other[alike], NEIGHBOURS)
            ones.append(one)
            others.append(other)
    one = np.concatenate(ones) if ones else np.empty(0, np.int64)
    other = np.concatenate(others) if others else np.empty(0, np.int64)
    smooth += normal
    smooth /= np.maximum(np.linalg.norm(smooth, axis=1), 1e-9)[:, None]
    mean = smooth[one] + smooth[other]
    mean /= np.maximum(np.linalg.norm(mean, axis=1), 1e-9)[:, None]
    sd_m = np.sqrt(cloud.sd_m[one] ** 2 + cloud.sd_m[other] ** 2 + SURFACE_SD_M**2)
    return Matches(one, other, mean, sd_m)


def _first_few(one: Indices, other: Indices, most: int) -> tuple[Indices, Indices]:
    """Return the pairs, at most the first `most` of each `one`, which is sorted."""
    starts = np.r_[0, np.flatnonzero(np.diff(one)) + 1] if len(one) else np.empty(0, np.int64)
    rank = np.arange(len(one)) - np.repeat(starts, np.diff(np.r_[starts, len(one)]))
    return one[rank < most], other[rank < most]


class _Problem:
    """Residuals and their sparse Jacobian for fixed matches."""

    def __init__(self, cloud: Cloud, matches: Matches, steps: Floats, like: Placement, loose: Floats) -> None:
        self._cloud, self._matches, self._steps, self._like = cloud, matches, steps, like
        way = np.hypot(steps[:, 0], steps[:, 1])
        along = STEP_SD_M + WAY_SD * way
        self._step_sd = loose * np.stack([along, along, STEP_SD_RAD + TURN_SD * np.abs(steps[:, 2])], axis=1)

    def residuals(self, vector: Floats) -> Floats:
        """Return distances of matches, then errors of the odometry, then of `ODOMETRY`, all by standard deviation."""
        placed, matches = self._like.at(vector), self._matches
        _, xy, _ = world(self._cloud, placed)
        difference = ((xy[matches.one] - xy[matches.other]) * self._normals(placed)).sum(axis=1) / matches.sd_m
        drawn = (placed.odometry - ODOMETRY) / ODOMETRY_SD
        return np.concatenate([difference, self._odometry_errors(placed).ravel(), drawn])

    def _normals(self, placed: Placement) -> Floats:
        """Return the (m, 2) normals of the matches, turned with the mean of their two patches."""
        cloud, matches = self._cloud, self._matches

        def yaw(at: Placement) -> Floats:
            return np.asarray(at.cameras[cloud.camera, 2] + at.frames[cloud.frame, 2])

        turned = yaw(placed) - yaw(self._like)
        return _rotated(0.5 * (turned[matches.one] + turned[matches.other]), matches.normal)

    def step(self, vector: Floats, late: bool) -> Floats:
        """Return the Gauss-Newton step with the weights of a soft L1 loss: on the matches, late on the odometry too.

        Early, the odometry holds the key frames together. Late, one that fits nowhere must not turn all cameras.
        """
        residuals, jacobian = self.residuals(vector), self.jacobian(vector)
        weight = (1.0 + residuals**2) ** -0.5
        if not late:
            weight[len(self._matches.one) :] = 1.0
        weighted = jacobian.multiply(weight[:, None]).tocsr()
        return np.asarray(-_factor(jacobian.T @ weighted).solve(weighted.T @ residuals))

    def odometry_scatter(self, placed: Placement) -> Floats:
        """Return (3,) by how much the odometry's usual errors are larger than their standard deviations."""
        errors = np.abs(self._odometry_errors(placed))
        return np.asarray(SD_OF_MEDIAN * np.median(errors, axis=0)) if len(errors) else np.ones(3)

    def _odometry_errors(self, placed: Placement) -> Floats:
        before, after = placed.frames[:-1], placed.frames[1:]
        halfway = 0.5 * (before[:, 2] + after[:, 2])
        moved = np.column_stack([_rotated(-halfway, after[:, :2] - before[:, :2]), after[:, 2] - before[:, 2]])
        expected = self._steps * placed.odometry[[0, 0, 1]]
        expected[:, 0] += placed.odometry[2] * np.abs(self._steps[:, 2])
        expected[:, 1] = placed.odometry[3] * self._steps[:, 2] * moved[:, 0]
        return np.asarray((moved - expected) / self._step_sd)

    def jacobian(self, vector: Floats) -> csr_matrix:
        """Return the (residuals, unknowns) sparse Jacobian."""
        placed, matches, cloud = self._like.at(vector), self._matches, self._cloud
        c, k, m = len(placed.cameras), len(placed.frames), len(matches.one)
        in_base, xy, _ = world(cloud, placed)
        rows: list[Indices] = []
        columns: list[Indices] = []
        values: list[Floats] = []

        def put(row: Indices, column: Indices, value: Floats) -> None:
            kept = column >= 0
            rows.append(row[kept])
            columns.append(column[kept])
            values.append(value[kept])

        row, normals, difference = np.arange(m), self._normals(placed), xy[matches.one] - xy[matches.other]
        twist = 0.5 * (normals[:, 0] * difference[:, 1] - normals[:, 1] * difference[:, 0]) / matches.sd_m
        for index, sign in ((matches.one, 1.0), (matches.other, -1.0)):
            weighted = sign * normals / matches.sd_m[:, None]
            camera, frame = cloud.camera[index], cloud.frame[index]
            to_frame = xy[index] - placed.frames[frame, :2]
            to_camera = _rotated(placed.frames[frame, 2], in_base[index] - placed.cameras[camera, :2])
            turned = _rotated(-placed.frames[frame, 2], weighted)
            frame_column = np.where(frame > 0, 3 * c + 3 * (frame - 1), -3)
            put(row, 3 * camera, turned[:, 0])
            put(row, 3 * camera + 1, turned[:, 1])
            put(row, 3 * camera + 2, twist + weighted[:, 1] * to_camera[:, 0] - weighted[:, 0] * to_camera[:, 1])
            put(row, frame_column, weighted[:, 0])
            put(row, frame_column + 1, weighted[:, 1])
            put(row, frame_column + 2, twist + weighted[:, 1] * to_frame[:, 0] - weighted[:, 0] * to_frame[:, 1])
        self._put_odometry(placed, m, put)
        last, size, own = m + 3 * (k - 1), 3 * c + 3 * (k - 1) + len(ODOMETRY), np.arange(len(ODOMETRY))
        put(last + own, size - len(ODOMETRY) + own, 1.0 / np.array(ODOMETRY_SD))
        built = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        return coo_matrix(built, shape=(last + len(own), size)).tocsr()

    def _put_odometry(self, placed: Placement, first: int, put: Callable[[Indices, Indices, Floats], None]) -> None:
        c, k = len(placed.cameras), len(placed.frames)
        before, after, sd = placed.frames[:-1], placed.frames[1:], self._step_sd
        halfway = 0.5 * (before[:, 2] + after[:, 2])
        cos, sin = np.cos(halfway), np.sin(halfway)
        dx, dy = (after[:, :2] - before[:, :2]).T
        row = first + 3 * np.arange(k - 1)
        old = 3 * c + 3 * (np.arange(k - 1) - 1)
        old[0] = -3
        new = 3 * c + 3 * np.arange(k - 1)
        odometry, slope = 3 * c + 3 * (k - 1), placed.odometry[3] * self._steps[:, 2]
        for column, sign in ((old, -1.0), (new, 1.0)):
            parts = (
                (sign * cos, sign * sin, 0.5 * (cos * dy - sin * dx)),
                (-sign * sin, sign * cos, -0.5 * (cos * dx + sin * dy)),
            )
            for unknown, (ahead, left) in enumerate(zip(*parts, strict=True)):
                put(row, column + unknown, ahead / sd[:, 0])
                put(row + 1, column + unknown, (left - slope * ahead) / sd[:, 1])
            put(row + 2, column + 2, sign / sd[:, 2])
        for part, scale in ((0, 0), (2, 1)):
            put(row + part, np.full(k - 1, odometry + scale), -self._steps[:, part] / sd[:, part])
        put(row, np.full(k - 1, odometry + 2), -np.abs(self._steps[:, 2]) / sd[:, 0])
        put(row + 1, np.full(k - 1, odometry + 3), -self._steps[:, 2] * (cos * dx + sin * dy) / sd[:, 1])


def _factor(information: csr_matrix) -> Any:
    """Return the factors of a symmetric matrix. What no data determines stays, by a little added to the diagonal."""
    return splu((information + DAMPING * identity(information.shape[0])).tocsc())


def _judged(cloud: Cloud, matches: Matches, problem: _Problem, found: Placement, loose: Floats) -> Alignment:
    """Return the result with its covariance: from the Jacobian, by the scatter of the residuals.

    A patch is in several matches, so matches are not independent: the covariance grows by their number a patch.
    """
    vector, c = found.vector(), len(found.cameras)
    residuals, jacobian = problem.residuals(vector), problem.jacobian(vector)
    m = len(matches.one)
    weight = (1.0 + residuals**2) ** -0.5  # of soft_l1
    per_patch = m / max(1, len(np.unique(np.concatenate([matches.one, matches.other]))))
    scatter = max(1.0, float((weight[:m] * residuals[:m] ** 2).mean())) if m else 1.0
    weight[:m] /= max(1.0, per_patch) * scatter
    factor = _factor(jacobian.T @ jacobian.multiply(weight[:, None]))
    covariance = factor.solve(np.eye(len(vector), 3 * c))[: 3 * c]
    pairs = np.zeros((c, c), np.int64)
    np.add.at(pairs, (cloud.camera[matches.one], cloud.camera[matches.other]), 1)
    fits = np.abs(residuals[:m]) < AGREE
    if c > 1:
        fits &= cloud.camera[matches.one] != cloud.camera[matches.other]
    agreed = np.bincount(cloud.camera[np.unique(matches.one[fits])], minlength=c)
    agreeing = agreed / np.maximum(np.bincount(cloud.camera, minlength=c), 1)
    return Alignment(found, covariance, residuals[:m] * matches.sd_m, matches.normal, pairs, agreeing, loose)
