"""What a base's wheels really do, by least squares over its drives.

A base reports its speed v and turn w by wheels that it believes in. With the true ones they are

    v' = speed * v
    w' = turning * w + turn_per_m * v

`speed` is the mean wheel radius, `speed / turning` the track, and `turn_per_m * track` the difference of the radii,
each over what the base believes. A difference of radii also moves the centre of a turn. That is left out: 0.5 % of
0.5 m of track moves it by 0.6 mm.

The unknowns are these three, the bias of a gyroscope, and the pose of the robot at each node of each drive. Nodes are
the fixes, or the scans that are matched. The wheels tie successive nodes; the references tie nodes to the world or to
each other. The sizes of both kinds of noise are estimated too (variance components).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_matrix, csr_matrix, eye
from scipy.sparse.linalg import splu

from calib.wheels.runs import Fixes, Floats, Run, yaw_of

FACTORS = 3
"""speed, turning, turn_per_m: the first unknowns."""
WAY_SD, TURN_SD, TURN_BY_WAY_SD = 0.01, 0.02, 0.01
"""Random error of the wheels to begin with, per root of a metre and of a radian: [m], [rad], [rad]."""
IMU_SD = 0.002
"""Random error of a gyroscope, per root of a second [rad]."""
LEAST_SD = 1e-4
UNTIED = 1e6
"""Factor on the random error of the wheels where a gap hides their motion: they tie no nodes there."""
HUBER = 3.0
"""Residuals beyond this many standard deviations weigh less: a wrong fix, a slip."""
ROUNDS, STEPS = 4, 25
MOST_NODES = 400
"""Of all drives together; more fixes are thinned."""
STEP_S = 1.0
"""Between two nodes of a drive that only a gyroscope observes."""


@dataclass(frozen=True, slots=True)
class Link:
    """A measured pose of node `then` in the frame of node `first`, with its (3, 3) covariance."""

    first: int
    then: int
    pose: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True)
class Reference:
    """A drive with what is known of it.

    t_s:   (n,) times of the nodes; ascending, within the wheels' times
    fixes: poses of nodes in the world; their times are nodes
    links: poses of nodes in each other
    """

    run: Run
    t_s: Floats
    fixes: Fixes
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class FitResult:
    """Result of `fit`.

    factors, sd:  (3,) speed, turning, turn_per_m, and their standard deviations; inf where nothing observes one
    noise:        factor on WAY_SD, TURN_SD, TURN_BY_WAY_SD that the drives show
    reference:    the same for the references' standard deviations
    poses:        per drive (n, 3) of its nodes
    """

    factors: Floats
    sd: Floats
    noise: float
    reference: float
    poses: tuple[Floats, ...]


def by_fixes(run: Run, most: int = MOST_NODES) -> Reference:
    """Return a drive with its localisation as reference. `most`: largest number of fixes."""
    inside = (run.fixes.t_s >= run.t_s[0]) & (run.fixes.t_s <= run.t_s[-1])
    kept = np.flatnonzero(inside)
    kept = (
        kept[np.unique(np.linspace(0, len(kept) - 1, min(most, len(kept))).round().astype(int))] if len(kept) else kept
    )
    fixes = Fixes(run.fixes.t_s[kept], run.fixes.poses[kept], run.fixes.sd[kept])
    return Reference(run, fixes.t_s, fixes)


def by_end(run: Run, end: Sequence[float], sd: Sequence[float]) -> Reference:
    """Return a drive whose end was measured from its start: x, y [m], yaw [rad] and their standard deviations."""
    t_s = run.t_s[[0, -1]]
    poses, spread = np.array([[0.0, 0.0, 0.0], end]), np.array([[LEAST_SD] * 3, sd])
    return Reference(run, t_s, Fixes(t_s, poses, spread))


def by_gyroscope(run: Run, most: int = MOST_NODES) -> Reference:
    """Return a drive measured only by a gyroscope: turning and turn_per_m, but not the speed."""
    count = max(2, min(most, int((run.t_s[-1] - run.t_s[0]) / STEP_S)))
    t_s = np.linspace(run.t_s[0], run.t_s[-1], count)
    return Reference(run, t_s, Fixes(t_s[:1], np.zeros((1, 3)), np.full((1, 3), LEAST_SD)))


def driven(run: Run, t_s: Floats, factors: Floats) -> Floats:
    """Return (n - 1, 3): the pose of each node in the frame of the node before, by the corrected wheels."""
    way = factors[0] * run.way_m
    turn = factors[1] * run.turn_rad + factors[2] * run.way_m
    yaw = np.cumsum(turn)
    heading = yaw - 0.5 * turn
    x, y = np.cumsum(way * np.cos(heading)), np.cumsum(way * np.sin(heading))
    at = np.column_stack([np.interp(t_s, run.t_s, values) for values in (x, y, yaw)])
    return between(at[:-1], at[1:], wrapped=False)


def between(first: Floats, then: Floats, *, wrapped: bool = True) -> Floats:
    """Return (n, 3): poses `then` in the frames of poses `first`."""
    c, s = np.cos(first[:, 2]), np.sin(first[:, 2])
    dx, dy, yaw = (then - first).T
    return np.column_stack([c * dx + s * dy, c * dy - s * dx, yaw_of(yaw) if wrapped else yaw])


def chained(start: Floats, steps: Floats) -> Floats:
    """Return (n + 1, 3): the poses that follow from a start and steps, each in the frame before."""
    yaw = start[2] + np.concatenate([[0.0], np.cumsum(steps[:, 2])])
    c, s = np.cos(yaw[:-1]), np.sin(yaw[:-1])
    x = start[0] + np.concatenate([[0.0], np.cumsum(c * steps[:, 0] - s * steps[:, 1])])
    y = start[1] + np.concatenate([[0.0], np.cumsum(s * steps[:, 0] + c * steps[:, 1])])
    return np.column_stack([x, y, yaw])


def fit(drives: Sequence[Reference]) -> FitResult:
    """Return what fits the drives best. Raises ValueError if they do not determine the poses of their nodes."""
    graph = _Graph(drives)
    values, noise = graph.start(), np.ones(2)
    for _ in range(ROUNDS):
        values = graph.solved(values, noise)
        sd, noise = graph.spread(values, noise)
    sd = np.where(np.array([graph.sees_way, True, True]), sd, np.inf)
    return FitResult(values[:FACTORS].copy(), sd, float(noise[WHEELS]), float(noise[OTHERS]), graph.poses(values))


WHEELS, OTHERS = 0, 1
"""Which noise a residual has: the wheels', or the references'."""


class _Graph:
    """The unknowns of several drives (factors, biases, nodes) and their residuals, three numbers each."""

    def __init__(self, drives: Sequence[Reference]) -> None:
        self._drives = drives
        counts = [len(drive.t_s) for drive in drives]
        nodes = FACTORS + len(drives)
        self._first = [nodes + 3 * sum(counts[:number]) for number in range(len(drives))]
        self._size = nodes + 3 * sum(counts)
        self.sees_way = any(len(drive.fixes.t_s) > 1 or drive.links for drive in drives)

    def start(self) -> Floats:
        """Return the unknowns by the wheels alone, and by the fixes where every node has one."""
        values = np.zeros(self._size)
        values[:2] = 1.0
        for drive, first in zip(self._drives, self._first, strict=True):
            start = drive.fixes.poses[0] if len(drive.fixes.t_s) else np.zeros(3)
            poses = chained(start, driven(drive.run, drive.t_s, values[:FACTORS]))
            if len(drive.fixes.t_s) == len(drive.t_s) > 2:
                poses = drive.fixes.poses
            values[first : first + poses.size] = poses.ravel()
        return values

    def poses(self, values: Floats) -> tuple[Floats, ...]:
        """Return the poses of each drive's nodes."""
        pairs = zip(self._drives, self._first, strict=True)
        return tuple(values[first : first + 3 * len(one.t_s)].reshape(-1, 3).copy() for one, first in pairs)

    def solved(self, values: Floats, noise: Floats) -> Floats:
        """Return the unknowns after Gauss-Newton steps with Huber's weights."""
        for _ in range(STEPS):
            residual, jacobian, _ = self._weighted(values, noise)
            step = _solver(jacobian).solve(-(jacobian.T @ residual))
            values = values + step
            if np.abs(step[:FACTORS]).max() < 1e-8:
                break
        return values

    def spread(self, values: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return the (3,) standard deviations of the factors, and both noises as their residuals show them."""
        residual, jacobian, kinds = self._weighted(values, noise)
        covariance = _solver(jacobian).solve(np.eye(self._size))
        leverage = np.asarray(jacobian.multiply(jacobian @ covariance).sum(axis=1)).ravel()
        shown = noise.copy()
        for kind in (WHEELS, OTHERS):
            free = float(np.clip(1.0 - leverage[kinds == kind], 0.0, 1.0).sum())
            if free > 1.0:
                ratio = np.sqrt(np.square(residual[kinds == kind]).sum() / free)
                shown[kind] = np.clip(noise[kind] * ratio, *NOISE_WITHIN)
        return np.sqrt(np.maximum(np.diag(covariance)[:FACTORS], 0.0)), shown

    def _weighted(self, values: Floats, noise: Floats) -> tuple[Floats, csr_matrix, npt.NDArray[np.int64]]:
        """Return whitened residuals, their derivative, and the kind of each."""
        parts = [part for number in range(len(self._drives)) for part in self._parts(number, values, noise)]
        residual, kinds = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
        counts = np.cumsum([0, *(len(part[0]) for part in parts)])
        rows = np.concatenate([part[2][0] + count for part, count in zip(parts, counts, strict=False)])
        columns, entries = (np.concatenate([part[2][place] for part in parts]) for place in (1, 2))
        weight = np.sqrt(np.minimum(1.0, HUBER / np.maximum(np.abs(residual), 1e-12)))
        jacobian = csr_matrix((entries * weight[rows], (rows, columns)), (len(residual), self._size))
        return weight * residual, jacobian, kinds

    def _parts(self, number: int, values: Floats, noise: Floats) -> list[Part]:
        """Return the residuals of a drive: its wheels, links, fixes and gyroscope."""
        one, first, bias_at = self._drives[number], self._first[number], FACTORS + number
        factors, run = values[:FACTORS], one.run
        steps = driven(run, one.t_s, factors)
        by_factors = np.stack(
            [
                (driven(run, one.t_s, factors + d) - driven(run, one.t_s, factors - d)) / (2 * BY)
                for d in BY * np.eye(3)
            ],
            axis=2,
        )
        at = first + 3 * np.arange(len(one.t_s))
        root = 1.0 / (noise[WHEELS] * _wheels_sd(run, one.t_s))
        whitening = root[:, :, None] * np.eye(3)
        parts = [_tied(values, at[:-1], at[1:], steps, whitening, np.arange(FACTORS), by_factors, WHEELS)]
        nodes = at[np.searchsorted(one.t_s, one.fixes.t_s)]
        parts.append(_placed(values, nodes, one.fixes.poses, 1.0 / (noise[OTHERS] * one.fixes.sd)))
        if one.links:
            ends = np.array([(link.first, link.then) for link in one.links])
            roots = np.array([np.linalg.inv(np.linalg.cholesky(link.covariance)) for link in one.links])
            measured = np.array([link.pose for link in one.links])
            parts.append(_tied(values, at[ends[:, 0]], at[ends[:, 1]], measured, roots / noise[OTHERS]))
        if run.imu_rad is not None:
            dt_s = np.diff(one.t_s)
            turned = np.diff(np.interp(one.t_s, run.t_s, np.cumsum(run.imu_rad))) - values[bias_at] * dt_s
            blind = np.zeros((len(dt_s), 3, 3))
            blind[:, 2, 2] = 1.0 / (noise[OTHERS] * IMU_SD * np.sqrt(dt_s))
            measured, by_bias = np.zeros((len(dt_s), 3)), np.zeros((len(dt_s), 3, 1))
            measured[:, 2], by_bias[:, 2, 0] = turned, -dt_s
            parts.append(_tied(values, at[:-1], at[1:], measured, blind, np.array([bias_at]), by_bias, seen=(2,)))
        else:
            parts.append(_placed(values, np.array([bias_at - 2]), np.zeros((1, 3)), np.ones((1, 3)), seen=(2,)))
        return parts


Part = tuple[Floats, npt.NDArray[np.int64], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]]
"""Residuals, the kind of each, and their derivative as rows, columns and entries."""
BY = 1e-6
NOISE_WITHIN = (0.01, 100.0)
ALL = (0, 1, 2)


def _tied(
    values: Floats, first: npt.NDArray[np.int64], then: npt.NDArray[np.int64], measured: Floats, roots: Floats,
    columns: npt.NDArray[np.int64] | None = None, by_columns: Floats | None = None, kind: int = OTHERS,
    seen: Sequence[int] = ALL,
) -> Part:  # fmt: skip
    """Return the residuals of nodes `then` in the frames of nodes `first` against measured poses.

    first, then: (n,) places of the nodes' x in `values`; measured: (n, 3); roots: (n, 3, 3), whitening
    columns, by_columns: (k,) further unknowns, and (n, 3, k), the derivative of `measured` by them
    """
    a, b = values[first[:, None] + np.arange(3)], values[then[:, None] + np.arange(3)]
    c, s, zero, one = np.cos(a[:, 2]), np.sin(a[:, 2]), np.zeros(len(a)), np.ones(len(a))
    predicted = between(a, b, wrapped=False)
    off = predicted - measured
    off[:, 2] = yaw_of(off[:, 2])
    by_then = np.moveaxis(np.array([[c, s, zero], [-s, c, zero], [zero, zero, one]]), 2, 0)
    by_first = np.moveaxis(np.array([[-c, -s, predicted[:, 1]], [s, -c, -predicted[:, 0]], [zero, zero, -one]]), 2, 0)
    blocks = [by_first, by_then] if by_columns is None else [by_first, by_then, -by_columns]
    places = [first[:, None] + np.arange(3), then[:, None] + np.arange(3)]
    if columns is not None:
        places.append(np.tile(columns, (len(a), 1)))
    whitened = roots @ np.concatenate(blocks, axis=2)
    return _part((roots @ off[:, :, None])[:, :, 0], whitened, np.concatenate(places, axis=1), kind, seen)


def _placed(
    values: Floats, nodes: npt.NDArray[np.int64], poses: Floats, roots: Floats, seen: Sequence[int] = ALL
) -> Part:
    """Return the residuals of nodes against poses in the world. roots: (n, 3), whitening."""
    places = nodes[:, None] + np.arange(3)
    off = values[places] - poses
    off[:, 2] = yaw_of(off[:, 2])
    return _part(roots * off, roots[:, :, None] * np.eye(3), places, OTHERS, seen)


def _part(off: Floats, derivative: Floats, places: npt.NDArray[np.int64], kind: int, seen: Sequence[int]) -> Part:
    """Return residuals (n, 3), their derivative (n, 3, k) by the unknowns at `places` (n, k); only rows `seen`."""
    off, derivative = off[:, seen], derivative[:, seen]
    rows = np.broadcast_to(np.arange(off.size).reshape(*off.shape, 1), derivative.shape)
    columns = np.broadcast_to(places[:, None, :], derivative.shape)
    return off.ravel(), np.full(off.size, kind), (rows.ravel(), columns.ravel(), derivative.ravel())


def _wheels_sd(run: Run, t_s: Floats) -> Floats:
    """Return (n - 1, 3): standard deviations of x, y, yaw of each step between two nodes, by the wheels' noise."""
    way, turn = (np.diff(np.interp(t_s, run.t_s, np.cumsum(np.abs(moved)))) for moved in (run.way_m, run.turn_rad))
    yaw = np.sqrt(TURN_SD**2 * turn + TURN_BY_WAY_SD**2 * way)
    along = WAY_SD * np.sqrt(way)
    sd: Floats = np.column_stack([along, np.hypot(along, yaw * way / np.sqrt(3.0)), yaw])
    sd[run.has_gap(t_s)] *= UNTIED
    return np.maximum(sd, LEAST_SD * np.where(run.has_gap(t_s), UNTIED, 1.0)[:, None])


def _solver(jacobian: csr_matrix) -> Any:
    """Return the factorised normal equations. Raises ValueError if an unknown is not determined."""
    normal = csc_matrix(jacobian.T @ jacobian)
    try:
        return splu(csc_matrix(normal + TINY * eye(normal.shape[0])))
    except RuntimeError as error:
        raise ValueError("the reference does not determine the drive") from error


TINY = 1e-9
"""Added to the diagonal, so that an unknown that nothing observes stays where it is."""
