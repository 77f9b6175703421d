"""Simulated depth and colour images. `hil/sensors/direct_scan.py` computes scans without images."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.maps.materials import (
    BARS,
    BRICKS,
    CEILING_SURFACE,
    CHECKS,
    FLAT,
    FLOOR_SURFACE,
    NOISE,
    PLAIN,
    STRIPES,
    Appearance,
    Light,
)
from hil.maps.world_grid import World
from hil.physics.contact import NO_BODIES, Bodies
from hil.sensors.direct_scan import SCAN_RADIUS_M, SCAN_Z_MAX_M, SCAN_Z_MIN_M, cast_scan
from hil.sensors.raycast import (
    BODY_LEVEL,
    BODY_SIDE,
    CEILING,
    FLOOR,
    NOTHING,
    SIDE_X,
    SIDE_Y,
    Grid,
    bodies_by_bearing,
    descend,
    floor_of,
    grid_of,
    trace,
)
from onboard.config.mounts import Mount
from onboard.values.geometry import apply, compose
from onboard.values.kernel import kernel
from onboard.values.messages import Pose

BLUR = 0.01
"""Angle [rad] below which the contrast of a pattern cell fades: two pixels of the colour camera."""
BRICK_LENGTH = 3.0
"""Length of a brick relative to its height."""
JOINT = 0.08
"""Width of a joint relative to a brick's height or a panel's side."""
FADES = 0.25
"""Upper limit of the random share of the second colour in bricks and panels."""
COARSE, FINE = 0.6, 0.4
"""Weights of noise at the pattern's size and at half of it."""
LAMP_ON = 0.75
"""Fraction of ceiling lamps that are on."""
LAMP_RADIUS = 0.12
"""Visible radius of a lamp relative to the lamp spacing."""
LAMP_BRIGHTNESS = 1.6
WHOLE_32 = 4294967296.0
LAMP_SALT = 17


@kernel
def scatter(i: int, j: int, salt: int) -> float:
    """Return a pseudo-random number in [0, 1) from a hash of three integers."""
    mask = np.uint64(0xFFFFFFFF)
    h = np.uint64(i) * np.uint64(374761393) + np.uint64(j) * np.uint64(668265263) + np.uint64(salt) * np.uint64(69069)
    h &= mask
    h = ((h ^ (h >> np.uint64(13))) * np.uint64(1274126177)) & mask
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(2246822519)) & mask
    share: float = np.float64(h ^ (h >> np.uint64(15))) / WHOLE_32
    return share


@kernel
def second_share(pattern: int, size: float, u: float, v: float, salt: int) -> float:
    """Return the share of the second colour of a surface at (u, v) [m], in [0, 1]."""
    if pattern == FLAT:
        return 0.0
    u, v = u / size, v / size
    i, j = math.floor(u), math.floor(v)
    if pattern == STRIPES:
        return float(i & 1)
    if pattern == BARS:
        return float(j & 1)
    if pattern == CHECKS:
        return float((i + j) & 1)
    if pattern == NOISE:
        return COARSE * scatter(i, j, salt) + FINE * scatter(math.floor(2.0 * u), math.floor(2.0 * v), salt + 1)
    length = 1.0
    if pattern == BRICKS:
        length = BRICK_LENGTH
        u = u / BRICK_LENGTH + 0.5 * (j & 1)
        i = math.floor(u)
    if (u - i) * length < JOINT or v - j < JOINT:
        return 1.0
    return FADES * scatter(i, j, salt)


@kernel
def lamp_light(x: float, y: float, light: Light) -> tuple[float, float]:
    """Return (share of the nearest lamp's light at a point in the grid frame, distance to it in lamp spacings).

    The share is 0 if the lamp is off. It reaches 0 half way to the next lamp, so there is no edge between lamps.
    """
    u, v = x / light.lamp_every_m, y / light.lamp_every_m
    i, j = math.floor(u), math.floor(v)
    if scatter(i, j, LAMP_SALT) >= LAMP_ON:
        return 0.0, 1.0
    u, v = u - i - 0.5, v - j - 0.5
    return (1.0 - 4.0 * u * u) * (1.0 - 4.0 * v * v), math.sqrt(u * u + v * v)


@kernel
def paint(
    image: npt.NDArray[np.uint8], i: int, surface: int, u: float, v: float, place: tuple[float, float],
    facing: float, t: float, colours: Floats, pattern: npt.NDArray[np.int64], size_m: Floats, light: Light,
) -> None:  # fmt: skip
    """Set pixel i to the colour of a surface at (u, v), at a position in the grid frame and a distance t.

    facing: cosine between the surface's normal and the light
    """
    size = size_m[surface]
    share = second_share(pattern[surface], size, u, v, surface)
    contrast = min(1.0, size / (BLUR * t + 1e-9))
    if pattern[surface] != FLAT:
        share = 0.5 + (share - 0.5) * contrast
    brightness = light.ambient + light.direct * (0.5 + 0.5 * facing)
    if light.lamp > 0.0:
        near, away = lamp_light(place[0], place[1], light)
        brightness += light.lamp * near
        if surface == CEILING_SURFACE and away < LAMP_RADIUS:
            brightness, share = LAMP_BRIGHTNESS, 0.0
    brightness *= light.fade_m / (light.fade_m + t)
    tint = (light.red, light.green, light.blue)
    for channel in range(3):
        first, second = colours[surface, 0, channel], colours[surface, 1, channel]
        image[i, channel] = np.uint8(min((first + (second - first) * share) * brightness * tint[channel], 255.0))


__all__ = [
    "MAX_RANGE_M",
    "SCAN_Z_MAX_M",
    "SCAN_Z_MIN_M",
    "Rays",
    "cast_scan",
    "rays_of",
    "render_color",
    "render_depth",
]

MAX_RANGE_M = SCAN_RADIUS_M
"""Larger depths give no return (0); larger scan ranges are inf."""
LARGEST_UNITS = 65535
COLOR_RANGE_M = 60.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rays:
    """The rays of one camera, computed once.

    directions: (height * width, 3) in the base frame, with component 1 along the optical axis
    origin_m:   (3,) camera position in the base frame
    unit_m:     depth unit [m]
    """

    height: int
    width: int
    directions: npt.NDArray[np.float64]
    origin_m: npt.NDArray[np.float64]
    unit_m: float


def rays_of(mount: Mount) -> Rays:
    """Return the rays through the pixel centres of a camera."""
    v, u = np.mgrid[0 : mount.height, 0 : mount.width]
    optical = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)], axis=-1)
    directions = optical.reshape(-1, 3) @ mount.base_from_camera[:3, :3].T
    return Rays(
        mount.height,
        mount.width,
        np.ascontiguousarray(directions),
        np.ascontiguousarray(mount.base_from_camera[:3, 3]),
        mount.depth_scale_m,
    )


def render_depth(world: World, rays: Rays, pose: Pose, bodies: Bodies = NO_BODIES) -> npt.NDArray[np.uint16]:
    """Return (height, width) uint16: depth along the optical axis in the mount's units, 0 beyond `MAX_RANGE_M`.

    Depths too large for uint16 give 0 too.

    pose:   pose of the base in the map frame
    bodies: moving bodies in the map frame
    """
    depth = np.empty(rays.height * rays.width, np.uint16)
    x, y, yaw = _in_grid(world, pose)
    _depth_kernel(
        x, y, yaw, rays.directions, rays.origin_m, MAX_RANGE_M, 1.0 / rays.unit_m,
        grid_of(world), floor_of(world), _bodies_in_grid(world, bodies), depth,
    )  # fmt: skip
    return depth.reshape(rays.height, rays.width)


def render_color(
    world: World, rays: Rays, pose: Pose, look: Appearance = PLAIN, bodies: Bodies = NO_BODIES
) -> npt.NDArray[np.uint8]:
    """Return (height, width, 3) uint8 RGB under a look; black where no surface is within 60 m.

    A missing floor (`raycast.py`) is painted like a normal floor, so its colour gives a policy no hint.
    """
    image = np.empty((rays.height * rays.width, 3), np.uint8)
    x, y, yaw = _in_grid(world, pose)
    _color_kernel(
        x, y, yaw, rays.directions, rays.origin_m, grid_of(world), _bodies_in_grid(world, bodies),
        look.colours, look.pattern, look.size_m, look.light, image,
    )  # fmt: skip
    return image.reshape(rays.height, rays.width, 3)


def _in_grid(world: World, pose: Pose) -> tuple[float, float, float]:
    placed = compose(world.grid_from_map, pose)
    return placed.x_m, placed.y_m, placed.yaw_rad


def _bodies_in_grid(world: World, bodies: Bodies) -> Bodies:
    """Return a copy of the bodies with positions in the grid frame."""
    placed = np.array(bodies, dtype=np.float64, order="C")
    grid_from_map = world.grid_from_map
    for body in placed:
        body[:2] = apply(grid_from_map, (body[0], body[1]))
    return placed


@kernel
def _depth_kernel(
    x: float, y: float, yaw: float, directions: Floats, origin: Floats, max_range: float, units_per_m: float,
    grid: Grid, floor_m: npt.NDArray[np.float32], bodies: Floats, depth: npt.NDArray[np.uint16],
) -> None:  # fmt: skip
    cell_m, gap, low_m, high_m, _ = grid
    c, s = math.cos(yaw), math.sin(yaw)
    px, py = x + c * origin[0] - s * origin[1], y + s * origin[0] + c * origin[1]
    first, members = bodies_by_bearing(px, py, bodies)
    for i in range(len(depth)):
        dx, dy = c * directions[i, 0] - s * directions[i, 1], s * directions[i, 0] + c * directions[i, 1]
        t, what, _ = trace(
            px, py, origin[2], dx, dy, directions[i, 2], max_range, cell_m, gap, low_m, high_m, bodies, first, members
        )
        if what == FLOOR and len(floor_m):
            t = descend(px, py, origin[2], dx, dy, directions[i, 2], t, max_range, cell_m, floor_m)
        units = t * units_per_m + 0.5
        seen = what != NOTHING and what != CEILING and units <= LARGEST_UNITS
        depth[i] = np.uint16(units) if seen else 0


@kernel
def _color_kernel(
    x: float, y: float, yaw: float, directions: Floats, origin: Floats, grid: Grid, bodies: Floats,
    colours: Floats, pattern: npt.NDArray[np.int64], size_m: Floats, light: Light, image: npt.NDArray[np.uint8],
) -> None:  # fmt: skip
    cell_m, gap, low_m, high_m, material = grid
    c, s = math.cos(yaw), math.sin(yaw)
    px, py, pz = x + c * origin[0] - s * origin[1], y + s * origin[0] + c * origin[1], origin[2]
    first, members = bodies_by_bearing(px, py, bodies)
    for i in range(len(image)):
        dx, dy = c * directions[i, 0] - s * directions[i, 1], s * directions[i, 0] + c * directions[i, 1]
        dz = directions[i, 2]
        t, what, which = trace(
            px, py, pz, dx, dy, dz, COLOR_RANGE_M, cell_m, gap, low_m, high_m, bodies, first, members
        )
        if what == NOTHING:
            image[i, 0] = image[i, 1] = image[i, 2] = 0
            continue
        place = (px + t * dx, py + t * dy)
        surface, u, v, facing = _surface(what, which, place, pz + t * dz, dx, dy, dz, material, bodies, light)
        paint(image, i, surface, u, v, place, facing, t, colours, pattern, size_m, light)


@kernel
def _surface(
    what: int, which: int, place: tuple[float, float], z: float, dx: float, dy: float, dz: float,
    material: npt.NDArray[np.uint8], bodies: Floats, light: Light,
) -> tuple[int, float, float, float]:  # fmt: skip
    """Return (surface, position u, v on it [m], cosine between its normal and the light) of a ray's hit."""
    x, y = place
    if what == FLOOR:
        return FLOOR_SURFACE, x, y, light.z
    if what == CEILING:
        return CEILING_SURFACE, x, y, -light.z
    upward = -light.z if dz > 0.0 else light.z
    if what in (BODY_SIDE, BODY_LEVEL):
        from_x, from_y, r, of = x - bodies[which, 0], y - bodies[which, 1], bodies[which, 2], int(bodies[which, 5])
        if what == BODY_LEVEL:
            return of, from_x, from_y, upward
        return of, math.atan2(from_y, from_x) * r, z, (from_x * light.x + from_y * light.y) / r
    columns = material.shape[1]
    of = np.int64(material[which // columns, which % columns])
    if what == SIDE_X:
        return of, y, z, -light.x if dx > 0.0 else light.x
    if what == SIDE_Y:
        return of, x, z, -light.y if dy > 0.0 else light.y
    return of, x, y, upward
