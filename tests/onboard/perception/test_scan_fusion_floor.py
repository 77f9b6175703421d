"""The floor of real frames gives no range. A fitted floor plane gives the mount of each frame."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onboard.config.mounts import Mount
from onboard.perception.kernels import bins_of
from onboard.perception.scan_fusion import ScanMemory, fuse
from onboard.values.geometry import IDENTITY
from onboard.values.messages import BINS
from tests.rigs.fusion.scan_rigs import frame, rig_of

FRAMES = sorted((Path(__file__).parents[2] / "data" / "realsense-office").glob("*.png"))
F_PX, CX_PX, CY_PX = 384.0, 320.0, 240.0
"""Assumed; the recording does not state them."""
FLOOR_M = 0.02
UP_GUESS = np.array([0.0, -math.cos(math.radians(20)), -math.sin(math.radians(20))])
"""Up, in the optical frame of a camera pitched 20 deg down."""


def floor_plane(points: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Return (up, height) of the plane `up @ p + height = 0` that most points (n, 3) lie on: RANSAC, then refined."""
    sample = points[rng.choice(len(points), 4000, replace=False)]
    best, most = (UP_GUESS, 0.6), 0
    for _ in range(200):
        a, b, c = sample[rng.choice(len(sample), 3, replace=False)]
        normal = np.cross(b - a, c - a)
        if np.linalg.norm(normal) < 1e-6:
            continue
        up = normal / np.linalg.norm(normal) * np.sign(normal @ UP_GUESS)
        on_plane = int((np.abs((sample - a) @ up) < FLOOR_M).sum())
        if up @ UP_GUESS > math.cos(math.radians(20)) and on_plane > most:
            best, most = (up, -float(a @ up)), on_plane
    up, height = best
    for _ in range(4):
        floor = points[np.abs(points @ up + height) < FLOOR_M]
        middle = floor.mean(axis=0)
        normal = np.linalg.svd(floor[::20] - middle, full_matrices=False)[2][2]
        up = normal * np.sign(normal @ UP_GUESS)
        height = -float(up @ middle)
    return up, height


def mount_over(up: np.ndarray, height: float) -> Mount:
    """Return the mount of a camera with this floor: base x is its view along the floor."""
    ahead = np.array([0.0, 0.0, 1.0]) - up[2] * up
    ahead /= np.linalg.norm(ahead)
    transform = np.eye(4)
    transform[:3, :3] = [ahead, np.cross(up, ahead), up]
    transform[2, 3] = height
    return Mount("front", "", 640, 480, F_PX, F_PX, CX_PX, CY_PX, 0.001, transform, (0.0, 0.0, 0.0, 1.0))


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_the_floor_gives_no_range(path: Path) -> None:
    depth = np.asarray(Image.open(path)).astype(np.uint16)
    v, u = np.nonzero(depth)
    z = depth[v, u] * 0.001
    points = np.stack([(u - CX_PX) / F_PX * z, (v - CY_PX) / F_PX * z, z], axis=1)
    up, height = floor_plane(points[(v > CY_PX) & (z < 4.0)], np.random.default_rng(0))
    assert height == pytest.approx(0.63, abs=0.03)

    rig = rig_of(mount_over(up, height))
    above = points @ up + height
    is_floor = np.abs(above) < FLOOR_M
    assert is_floor.mean() > 0.3

    only_floor = np.zeros_like(depth)
    only_floor[v[is_floor], u[is_floor]] = depth[v[is_floor], u[is_floor]]
    scan, _ = fuse({"front": frame("front", only_floor)}, 0, IDENTITY, ScanMemory(), rig)
    assert np.isinf(scan.ranges_m).all()
    assert scan.seen[90]

    scan, _ = fuse({"front": frame("front", depth)}, 0, IDENTITY, ScanMemory(), rig)
    axes = rig.views["front"].mount.base_from_camera[:2, :3]
    x, y = axes @ points[~is_floor].T
    nearest = np.full(BINS, np.inf)
    np.minimum.at(nearest, bins_of(x, y), np.hypot(x, y))
    assert np.isfinite(scan.ranges_m).sum() > 30
    assert (scan.ranges_m >= nearest - 1e-5).all()
