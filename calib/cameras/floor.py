"""The floor in one depth image: roll, pitch and height of the camera.

A plane is linear in 1/depth: with the ray r = ((u - cx) / fx, (v - cy) / fy, 1), points d r of the plane n . p = -h
have 1/d = -(n / h) . r. The noise of a stereo camera is nearly the same at all depths in 1/depth, so RANSAC and least
squares both work there.

The mount may be wrong by 30 degrees, so this searches; `onboard/health/floor.py` only checks a mount, outside the loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.config.mounts import BODY_FROM_OPTICAL_XYZW, Mount
from onboard.values.errors import InputError
from onboard.values.geometry import rotation_from_quaternion

Floats = npt.NDArray[np.float64]

MOST_TILT_DEG = 30.0
"""Largest angle between the floor and the floor that the mount expects."""
MOST_LIFT_M = 0.4
"""Largest difference between the camera's height and the height that the mount states."""
FURTHEST_M = 5.0
"""Farther points are not used: a stereo camera's error grows with depth squared."""
SD_PER_M = 0.006
"""Standard deviation of 1/depth on a plane, at the upper end of `hil/sensors/depth_noise.toml`."""
GATE = 3.0
"""Inliers are within this many standard deviations of the plane."""
TRIPLES = 400
"""Planes that RANSAC tries."""
JUDGES = 1000
"""Pixels that judge these planes."""
LEAST_INLIERS = 60
LEAST_SHARE = 0.02
"""A floor has at least this many pixels and so large a share of the image's valid pixels."""
LOWER_SHARE = 0.15
"""A lower plane replaces a larger one, for example a table, if it has this share of its pixels."""
LOWER_M = 0.05
BODY_FROM_OPTICAL = rotation_from_quaternion(BODY_FROM_OPTICAL_XYZW)


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor that a camera sees.

    up:       (3,) unit normal of the floor in the optical frame, away from the floor
    height_m: of the camera above the floor
    inliers:  pixels on the floor
    rms_m:    of their distances from the plane
    per_m:    standard deviation of their 1/depth [1/m]
    """

    up: Floats
    height_m: float
    inliers: int
    rms_m: float
    per_m: float

    @property
    def roll_deg(self) -> float:
        """Roll of the camera's body frame (REP-103) against the floor, as in `rotation_rpy_deg`."""
        _, y, z = BODY_FROM_OPTICAL @ self.up
        return math.degrees(math.atan2(y, z))

    @property
    def pitch_deg(self) -> float:
        """Pitch of the camera's body frame against the floor; positive looks down."""
        return -math.degrees(math.asin(max(-1.0, min(1.0, float((BODY_FROM_OPTICAL @ self.up)[0])))))


def floor_in(depth: npt.NDArray[np.uint16], mount: Mount) -> Floor:
    """Return the floor in a depth image; see `find_floor`."""
    depth_m = depth.astype(np.float32) * np.float32(mount.depth_scale_m)
    return find_floor(np.divide(1.0, depth_m, out=np.zeros_like(depth_m), where=depth > 0), mount)


def find_floor(per_m: npt.NDArray[np.float32], mount: Mount, seed: int = 0) -> Floor:
    """Return the floor in an image of 1/depth (0 for no return): RANSAC, then least squares over its inliers.

    The mount's pose gives the approximate floor, so a larger wall is not the floor. Of two level planes the lower is
    the floor. Raises InputError, beginning with the camera's name, if no floor is seen.
    """
    most = max(LEAST_INLIERS, LEAST_SHARE * np.count_nonzero(per_m))
    rays, near_per_m = _near_floor(per_m, mount)
    return _lowest(rays, near_per_m, mount, most, np.random.default_rng(seed))


def on_floor(per_m: npt.NDArray[np.float32], mount: Mount, plane: Floats) -> tuple[Floats, Floats]:
    """Return (n, 3) rays and (n,) 1/depth of the pixels on a plane q, where 1/depth = q . ray."""
    rays, near_per_m = _near_floor(per_m, mount)
    inside = np.abs(near_per_m - rays @ plane) < GATE * SD_PER_M
    return rays[inside], near_per_m[inside]


def _lowest(rays: Floats, per_m: Floats, mount: Mount, most: float, rng: np.random.Generator) -> Floor:
    """Return the lowest level plane that is large enough. Raises as `find_floor`."""
    plane, inside = _largest_plane(rays, per_m, mount, rng)
    while plane is not None:
        # Points clearly below this plane: there the measured 1/depth is smaller than the plane's.
        height_m = 1.0 / float(np.linalg.norm(plane))
        below = per_m < (rays @ plane) * height_m / (height_m + LOWER_M) - GATE * SD_PER_M
        lower, of_lower = _largest_plane(rays[below], per_m[below], mount, rng)
        if lower is None or of_lower.sum() < max(most, LOWER_SHARE * inside.sum()):
            break
        plane, inside = lower, np.abs(per_m - rays @ lower) < GATE * SD_PER_M
    if plane is None or inside.sum() < most:
        found = 0 if plane is None else int(inside.sum())
        raise InputError(f"camera {mount.name}: no floor seen: {found} pixels on it, at least {math.ceil(most)}")
    return _refined(rays, per_m, plane, inside, mount)


def _near_floor(image_per_m: npt.NDArray[np.float32], mount: Mount) -> tuple[Floats, Floats]:
    """Return (n, 3) rays and (n,) 1/depth of the pixels that may be on the floor, by the mount's pose."""
    v, u = np.nonzero(image_per_m)
    depth_m = 1.0 / image_per_m[v, u].astype(np.float64)
    rays = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(len(u))], axis=1)
    rotation, position = mount.base_from_camera[:3, :3], mount.base_from_camera[:3, 3]
    points = depth_m[:, None] * (rays @ rotation.T)
    tolerance_m = MOST_LIFT_M + math.sin(math.radians(MOST_TILT_DEG)) * np.linalg.norm(points, axis=1)
    kept = (np.abs(points[:, 2] + position[2]) < tolerance_m) & (depth_m < FURTHEST_M)
    kept &= depth_m >= (mount.least_m or 0.0)
    return rays[kept], 1.0 / depth_m[kept]


def _largest_plane(
    rays: Floats, per_m: Floats, mount: Mount, rng: np.random.Generator
) -> tuple[Floats | None, npt.NDArray[np.bool_]]:
    """Return the level plane with the most inliers, as q with 1/depth = q . ray, and its inliers; None without one."""
    if len(per_m) < LEAST_INLIERS:
        return None, np.zeros(len(per_m), np.bool_)
    three = rng.integers(len(per_m), size=(TRIPLES, 3))
    corners = rays[three]
    sound = np.abs(np.linalg.det(corners)) > 1e-6
    planes = np.linalg.solve(corners[sound], per_m[three[sound]][..., None])[..., 0]
    planes = planes[_is_level(planes, mount)]
    if len(planes) == 0:
        return None, np.zeros(len(per_m), np.bool_)
    judges = rng.permutation(len(per_m))[:JUDGES]
    votes = (np.abs(per_m[judges] - planes @ rays[judges].T) < GATE * SD_PER_M).sum(axis=1)
    best = planes[int(votes.argmax())]
    return best, np.abs(per_m - rays @ best) < GATE * SD_PER_M


def _is_level(planes: Floats, mount: Mount) -> npt.NDArray[np.bool_]:
    """Return (n,) whether planes can be the floor: tilt and height near those of the mount."""
    rotation, height_m = mount.base_from_camera[:3, :3], mount.base_from_camera[2, 3]
    size = np.linalg.norm(planes, axis=1)
    upright = -(planes @ rotation[2]) > math.cos(math.radians(MOST_TILT_DEG)) * size
    return np.asarray(upright & (np.abs(1.0 / np.maximum(size, 1e-9) - height_m) < MOST_LIFT_M))


def _refined(rays: Floats, per_m: Floats, plane: Floats, inside: npt.NDArray[np.bool_], mount: Mount) -> Floor:
    """Return the least-squares floor over the inliers, which are chosen again until they stay the same."""
    for _ in range(10):
        plane = np.asarray(np.linalg.lstsq(rays[inside], per_m[inside], rcond=None)[0], np.float64)
        errors: Floats = per_m - rays @ plane
        per_m_sd = max(1.4826 * float(np.median(np.abs(errors[inside]))), 1e-4)
        before, inside = inside, np.abs(errors) < min(GATE * per_m_sd, GATE * SD_PER_M)
        if (before == inside).all():
            break
    if not _is_level(plane[None], mount)[0]:
        raise InputError(
            f"camera {mount.name}: no floor seen: the lowest plane is more than {MOST_TILT_DEG:g} deg or "
            f"{MOST_LIFT_M:g} m from the floor that its mount expects"
        )
    height_m = 1.0 / float(np.linalg.norm(plane))
    away_m = (errors[inside] / per_m[inside]) * height_m  # along the normal: a ray of length d meets it at h / d
    return Floor(
        up=-plane * height_m,
        height_m=height_m,
        inliers=int(inside.sum()),
        rms_m=float(np.sqrt(np.mean(away_m**2))),
        per_m=per_m_sd,
    )
