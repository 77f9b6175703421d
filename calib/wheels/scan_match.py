"""The robot's own fused scans as reference: each key scan is matched to the one before, and to earlier ones near by.

Point-to-line ICP (Censi, "An ICP variant using a point-to-line metric", ICRA 2008) on the points of two scans.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from calib.wheels.fit import LEAST_SD, Link, Reference, between, chained, driven
from calib.wheels.runs import Fixes, Floats, Run
from onboard.values.errors import InputError
from onboard.values.messages import BINS, Scan

KEY_M, KEY_RAD = 0.35, 0.35
"""A scan is a key scan when the robot has moved or turned so far since the last."""
MOST_KEYS = 300
FAR_M = 8.0
"""Farther points are left out: depth is too coarse there."""
JOINED_M = 0.4
"""Neighbouring points closer than this lie on one surface."""
GATES_M = (0.6, 0.3, 0.15, 0.1, 0.1, 0.1)
"""Largest distance of a point from its partner, in the rounds of a match."""
LEAST_POINTS, LEAST_SHARE = 25, 0.5
MOST_RMS_M = 0.06
SURFACE_SD_M = 0.015
CLOSE_M, CLOSE_RAD = 0.7, 0.7
"""An earlier key scan so near is matched again."""
CLOSURES = 3
BEARINGS = np.deg2rad(-180.0 + 360.0 / BINS * (np.arange(BINS) + 0.5))


def by_scans(run: Run) -> Reference:
    """Return a drive with matched scans as reference. Raises InputError if too few scans match."""
    keys = _keys(run)
    if len(keys) < 5:
        raise InputError(f"{run.name}: {len(keys)} scans to match, at least 5 needed")
    t_s = np.array([run.scans[key][0] for key in keys])
    points = [_points(run.scans[key][1]) for key in keys]
    steps = driven(run, t_s, np.array([1.0, 1.0, 0.0]))
    poses = chained(np.zeros(3), steps)[:1]
    links: list[Link] = []
    lost = 0
    for now in range(1, len(keys)):
        guess = chained(poses[-1], steps[now - 1 : now])[1]
        step = match(points[now - 1], points[now], steps[now - 1])
        if step is None:
            lost += 1
        else:
            links.append(Link(now - 1, now, *step))
            guess = chained(poses[-1], step[0][None])[1]
        poses = np.vstack([poses, guess])
        links += _closures(points, poses, now)
    if lost > len(keys) // 4:
        raise InputError(
            f"{run.name}: {lost} of {len(keys) - 1} scans do not match the scan before; is the room too empty, or "
            "are the mounts wrong?"
        )
    start = Fixes(t_s[:1], np.zeros((1, 3)), np.full((1, 3), LEAST_SD))
    return Reference(run, t_s, start, tuple(links))


def match(there: Floats, here: Floats, guess: Floats) -> tuple[Floats, Floats] | None:
    """Return the pose of scan `here` in the frame of scan `there` and its (3, 3) covariance; None without a good match.

    there, here: (n, 2) points in the order of their bearings [m]; guess: (3,) x, y, yaw
    """
    if min(len(there), len(here)) < LEAST_POINTS:
        return None
    normals, on_surface = _normals(there)
    tree = cKDTree(there)
    pose = np.array(guess, np.float64)
    for gate_m in GATES_M:
        c, s = np.cos(pose[2]), np.sin(pose[2])
        moved = here @ np.array([[c, s], [-s, c]]) + pose[:2]
        distance_m, partner = tree.query(moved, distance_upper_bound=gate_m)
        paired = np.isfinite(distance_m)
        paired[paired] &= on_surface[partner[paired]]
        if paired.sum() < LEAST_POINTS:
            return None
        normal, at = normals[partner[paired]], moved[paired]
        off = np.sum((at - there[partner[paired]]) * normal, axis=1)
        arm = at - pose[:2]
        derivative = np.column_stack([normal, normal[:, 1] * arm[:, 0] - normal[:, 0] * arm[:, 1]])
        weight = 1.0 / (1.0 + np.square(off / (2.0 * SURFACE_SD_M)))
        information = derivative.T @ (weight[:, None] * derivative)
        pose = pose - np.linalg.solve(information + 1e-6 * np.eye(3), derivative.T @ (weight * off))
    rms_m = float(np.sqrt(np.average(np.square(off), weights=weight)))
    if paired.sum() < LEAST_SHARE * len(here) or rms_m > MOST_RMS_M:
        return None
    covariance = np.linalg.inv(information + 1e-6 * np.eye(3)) * max(rms_m, SURFACE_SD_M) ** 2
    return pose, covariance + np.diag(np.square([0.002, 0.002, 0.0005]))


def _keys(run: Run) -> Sequence[int]:
    """Return the numbers of the key scans."""
    inside = [n for n, (t_s, _) in enumerate(run.scans) if run.t_s[0] <= t_s <= run.t_s[-1]]
    times_s = np.array([run.scans[n][0] for n in inside])
    way, turn = (np.interp(times_s, run.t_s, np.cumsum(np.abs(moved))) for moved in (run.way_m, run.turn_rad))
    keys: list[int] = []
    last = -1
    for number, place in enumerate(inside):
        moved = last < 0 or way[number] - way[last] > KEY_M or turn[number] - turn[last] > KEY_RAD
        if moved or number == len(inside) - 1:
            keys.append(place)
            last = number
    if len(keys) > MOST_KEYS:
        raise InputError(f"{run.name}: {len(keys)} key scans, limit {MOST_KEYS}: cut the recording into loops")
    return keys


def _points(scan: Scan) -> Floats:
    """Return (n, 2) the points of a scan in the base frame, in the order of their bearings."""
    near = np.isfinite(scan.ranges_m) & (scan.ranges_m < FAR_M) & scan.seen
    ranges_m = scan.ranges_m[near].astype(np.float64)
    return np.column_stack([ranges_m * np.cos(BEARINGS[near]), ranges_m * np.sin(BEARINGS[near])])


def _normals(points: Floats) -> tuple[Floats, np.ndarray]:
    """Return (n, 2) unit normals of the surface at each point, and where the neighbours lie on one surface."""
    before, after = np.roll(points, 1, axis=0), np.roll(points, -1, axis=0)
    tangent = after - before
    length = np.linalg.norm(tangent, axis=1)
    joined = (np.linalg.norm(points - before, axis=1) < JOINED_M) & (np.linalg.norm(after - points, axis=1) < JOINED_M)
    joined &= length > 1e-6
    unit = tangent / np.maximum(length, 1e-6)[:, None]
    return np.column_stack([-unit[:, 1], unit[:, 0]]), joined


def _closures(points: Sequence[Floats], poses: Floats, now: int) -> list[Link]:
    """Return links of the newest key scan to the nearest earlier ones, its predecessors left out."""
    earlier = between(poses[: max(0, now - 8)], np.broadcast_to(poses[now], (max(0, now - 8), 3)))
    near = (np.hypot(earlier[:, 0], earlier[:, 1]) < CLOSE_M) & (np.abs(earlier[:, 2]) < CLOSE_RAD)
    order = sorted(np.flatnonzero(near).tolist(), key=lambda one: float(np.hypot(*earlier[one, :2])))[:CLOSURES]
    found = ((one, match(points[one], points[now], earlier[one])) for one in order)
    return [Link(one, now, *pose) for one, pose in found if pose is not None]
