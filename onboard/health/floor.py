"""The floor in one depth image against the camera's mount, which is right to a few degrees.

Some milliseconds, outside the loop; the search of `calib/cameras/floor.py` accepts a wrong guess, but is too slow.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.config.mounts import Mount

PIXELS = 5000
"""About this many pixels of an image are used."""
TILT = math.tan(math.radians(10.0))
LIFT_M = 0.25
"""Points may be so far from the expected floor: LIFT_M, and TILT times their distance. So may the floor itself."""
FAR_M = 4.0
TRIPLES, JUDGES = 200, 600
"""Planes through three points each, and the points that vote on them: the foot of a wall is within the gate, too."""
SCALES_PER_M = (0.025, 0.015, 0.01, 0.007, 0.007, 0.007)
"""Width of Tukey's weights in 1/depth, in the rounds of the fit; the noise of stereo is constant in 1/depth [1/m]."""
LEAST_PIXELS, LEAST_SHARE = 80, 0.25
FLATTEST_DEG = 0.5
"""A floor whose tilt has a larger standard deviation than this is not used."""
EXPECTED_M, EXPECTED_SHARE = 2.5, 0.15
"""A camera is expected to see the floor if this share of its pixels meets it within this distance."""


def expects_floor(mount: Mount) -> bool:
    """Return whether a camera at its mount sees enough of the near floor in open space."""
    v, u = np.mgrid[0 : mount.height : 4, 0 : mount.width : 4]
    rays = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)])
    rising = np.tensordot(mount.base_from_camera[2, :3], rays, 1) / np.linalg.norm(rays, axis=0)
    meets = rising * EXPECTED_M <= -float(mount.base_from_camera[2, 3])
    return bool(np.mean(meets) >= EXPECTED_SHARE)


def floor(depth: npt.NDArray[np.uint16], mount: Mount) -> tuple[float, float, float] | None:
    """Return the floor in an image against the mount; None if too little of it is seen.

    The result is the x and y of the floor's normal in the base frame [rad], 0 for a level one, and how much higher the
    camera is than the mount says [m]. A plane is linear in 1/depth: least squares with Tukey's weights, ever narrower.
    """
    stride = max(1, round(math.sqrt(depth.size / PIXELS)))
    image = depth[stride // 2 :: stride, stride // 2 :: stride]
    v, u = np.nonzero(image)
    forward = image[v, u] * mount.depth_scale_m
    across, down = (
        ((u * stride + stride // 2) - mount.cx) / mount.fx,
        ((v * stride + stride // 2) - mount.cy) / mount.fy,
    )
    rays = np.column_stack([across, down, np.ones(len(u))])
    rotation, height_m = mount.base_from_camera[:3, :3], float(mount.base_from_camera[2, 3])
    rising = rays @ rotation[2]
    away_m = forward * np.linalg.norm(rays, axis=1)
    near = (np.abs(forward * rising + height_m) < LIFT_M + TILT * away_m) & (away_m < FAR_M)
    near &= forward > (mount.least_m or 0.0)
    rays, per_m = rays[near], 1.0 / forward[near]
    if len(per_m) < LEAST_PIXELS or height_m <= 0.0:
        return None
    plane = _largest_level_plane(rays, per_m, -rotation[2] / height_m)
    for scale in SCALES_PER_M:
        off = per_m - rays @ plane
        weight = np.square(np.clip(1.0 - np.square(off / (3.0 * scale)), 0.0, None))
        information = rays.T @ (weight[:, None] * rays)
        if np.linalg.cond(information) > 1e8:
            return None
        plane = np.linalg.solve(information, rays.T @ (weight * per_m))
    inside = weight > 0.5
    if inside.sum() < max(LEAST_PIXELS, LEAST_SHARE * len(per_m)):
        return None
    found_m = 1.0 / float(np.linalg.norm(plane))
    spread = np.linalg.inv(information) * float(np.mean(np.square(off[inside]))) * found_m**2
    if math.degrees(math.sqrt(float(np.linalg.eigvalsh(spread)[-1]))) > FLATTEST_DEG:
        return None
    normal = rotation @ (-plane * found_m)
    if math.hypot(normal[0], normal[1]) > TILT or abs(found_m - height_m) > LIFT_M:
        return None
    return float(normal[0]), float(normal[1]), found_m - height_m


def _largest_level_plane(
    rays: npt.NDArray[np.float64], per_m: npt.NDArray[np.float64], expected: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the plane q near the expected one, 1/depth = q . ray, that most points are on."""
    rng = np.random.default_rng(0)
    three = rng.integers(len(per_m), size=(TRIPLES, 3))
    three = three[np.abs(np.linalg.det(rays[three])) > 1e-6]
    planes = np.linalg.solve(rays[three], per_m[three][..., None])[..., 0]
    size, expected_size = np.linalg.norm(planes, axis=1), float(np.linalg.norm(expected))
    with np.errstate(divide="ignore", invalid="ignore"):
        level = planes @ expected > math.cos(math.atan(TILT)) * size * expected_size
        level &= np.abs(1.0 / size - 1.0 / expected_size) < LIFT_M
    planes = np.concatenate([expected[None], planes[level]])
    judges = rng.integers(len(per_m), size=JUDGES)
    on_plane = np.abs(per_m[judges] - planes @ rays[judges].T) < 2.0 * SCALES_PER_M[-1]
    best: npt.NDArray[np.float64] = planes[on_plane.sum(axis=1).argmax()]
    return best
