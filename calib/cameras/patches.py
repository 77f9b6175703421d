"""Upright patches of surface in a depth image: a plane fitted to each window, in 1/depth, where it is linear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib.cameras.floor import SD_PER_M, Floor
from onboard.config.mounts import Mount

Floats = npt.NDArray[np.float64]

HALF_RAD = 0.045
"""Half the width of a window, along the image's axes."""
LEAST_FILLED = 0.8
"""Fraction of a window's pixels that have a depth."""
MOST_SCATTER = 2.0
"""Largest scatter about the plane, in standard deviations of 1/depth."""
UPRIGHT = 0.35
"""Largest vertical part of an upright patch's normal."""
LEAST_DEPTH_M, MOST_DEPTH_M = 0.2, 4.5
ABOVE_FLOOR_M, BELOW_CEILING_M = 0.06, 2.3
CORRELATED_RAD = 7.0 / 384.0
"""Correlation length of the noise (`hil/sensors/depth_noise.toml`), which bounds what averaging gains."""


@dataclass(frozen=True, slots=True)
class Patches:
    """Upright patches of one image, in the level frame: x ahead of the camera, y left, below it the floor.

    xy_m:   (n, 2) middle
    z_m:    (n,) height above the floor
    normal: (n, 2) unit normal towards the camera
    sd_m:   (n,) standard deviation of the middle along the normal
    """

    xy_m: Floats
    z_m: Floats
    normal: Floats
    sd_m: Floats


def upright_patches(
    per_m: npt.NDArray[np.float32], mount: Mount, level_from_optical: Floats, height_m: float
) -> Patches:
    """Return the upright patches of an image.

    per_m:              (height, width) 1/depth, 0 for no return [1/m]
    level_from_optical: (3, 3) rotation that levels the camera
    height_m:           of the camera above the floor
    """
    half = max(1, round(HALF_RAD * mount.fx)), max(1, round(HALF_RAD * mount.fy))
    rays, planes, scatter, filled = _window_planes(per_m, mount, half)
    size = np.linalg.norm(planes, axis=1)
    depth_m = 1.0 / np.maximum((planes * rays).sum(axis=1), 1e-9)
    normal = -(planes / np.maximum(size, 1e-9)[:, None]) @ level_from_optical.T
    middle = depth_m[:, None] * (rays @ level_from_optical.T)
    z_m = middle[:, 2] + height_m
    kept = (filled >= LEAST_FILLED) & (scatter < MOST_SCATTER * SD_PER_M) & (np.abs(normal[:, 2]) < UPRIGHT)
    kept &= (depth_m > max(LEAST_DEPTH_M, mount.least_m or 0.0)) & (depth_m < MOST_DEPTH_M)
    kept &= (z_m > ABOVE_FLOOR_M) & (z_m < BELOW_CEILING_M)
    span_rad = (2 * half[0] + 1) / mount.fx, (2 * half[1] + 1) / mount.fy
    independent = min(
        float((2 * half[0] + 1) * (2 * half[1] + 1)), max(1.0, span_rad[0] * span_rad[1] / CORRELATED_RAD**2)
    )
    flat = np.hypot(normal[:, 0], normal[:, 1])
    return Patches(
        middle[kept, :2],
        z_m[kept],
        normal[kept, :2] / flat[kept, None],
        SD_PER_M / np.sqrt(independent) * depth_m[kept] / size[kept],
    )


def upright_planes(per_m: npt.NDArray[np.float32], mount: Mount, floor: Floor) -> Floats:
    """Return (n, 3) unit normals in the optical frame of the pieces of surface well above the floor."""
    half = max(1, round(HALF_RAD * mount.fx)), max(1, round(HALF_RAD * mount.fy))
    rays, planes, scatter, filled = _window_planes(per_m, mount, half)
    normal = planes / np.maximum(np.linalg.norm(planes, axis=1), 1e-9)[:, None]
    depth_m = 1.0 / np.maximum((planes * rays).sum(axis=1), 1e-9)
    above_m = depth_m * (rays @ floor.up) + floor.height_m
    kept = (filled >= LEAST_FILLED) & (scatter < MOST_SCATTER * SD_PER_M) & (above_m > 3.0 * ABOVE_FLOOR_M)
    kept &= (depth_m > max(LEAST_DEPTH_M, mount.least_m or 0.0)) & (depth_m < MOST_DEPTH_M)
    return np.asarray(normal[kept])


def _window_planes(
    per_m: npt.NDArray[np.float32], mount: Mount, half: tuple[int, int]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return for each window (n, 3) middle ray, (n, 3) plane q with 1/depth = q . ray, (n,) scatter, (n,) filling."""
    v, u = np.mgrid[0 : mount.height, 0 : mount.width]
    x, y = (u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy
    d, seen = per_m.astype(np.float64), (per_m > 0.0).astype(np.float64)
    columns = np.arange(half[0], mount.width - half[0], half[0] + 1)
    rows = np.arange(half[1], mount.height - half[1], half[1] + 1)

    def sums(values: Floats) -> Floats:
        total = np.pad(values, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
        low, high = rows - half[1], rows + half[1] + 1
        left, right = columns - half[0], columns + half[0] + 1
        return np.asarray(
            total[np.ix_(high, right)]
            - total[np.ix_(low, right)]
            - total[np.ix_(high, left)]
            + total[np.ix_(low, left)]
        ).ravel()

    parts = (x, y, np.ones_like(x))
    normal: Floats = np.empty((len(rows) * len(columns), 3, 3))
    right = np.empty((len(normal), 3))
    for i, part in enumerate(parts):
        right[:, i] = sums(seen * part * d)
        for j in range(i + 1):
            normal[:, i, j] = normal[:, j, i] = sums(seen * part * parts[j])
    count = normal[:, 2, 2]
    normal[count < 6] = np.eye(3)
    planes = np.asarray(np.linalg.solve(normal + 1e-9 * np.eye(3), right[..., None])[..., 0], np.float64)
    squares = sums(seen * d * d) - (planes * right).sum(axis=1)
    scatter: Floats = np.sqrt(np.maximum(squares, 0.0) / np.maximum(count - 3.0, 1.0))
    grid_v, grid_u = (one.ravel() for one in np.meshgrid(rows, columns, indexing="ij"))
    rays = np.stack([x[grid_v, grid_u], y[grid_v, grid_u], np.ones(len(grid_u))], axis=1)
    return rays, planes, scatter, count / ((2 * half[0] + 1) * (2 * half[1] + 1))
