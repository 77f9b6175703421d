"""What cameras see of a world: depth, a plain colour image, and a scan without the detour through images.

One ray caster serves all. It walks the grid from cell to cell, over empty squares in one stride, and tests the height
of the ray against the intervals of every cell that is not empty. Floor is z = 0; there is no ceiling but its colour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from hil.bodies import NO_BODIES, Bodies
from hil.maps import WALL_HEIGHT_M, World
from hil.textures import PLAIN, Look
from onboard.geometry import compose
from onboard.messages import BINS, Pose
from onboard.mounts import Mount

MAX_RANGE_M = 10.0
"""Depth beyond this is no return (0), and scan ranges beyond it are inf."""
SCAN_Z_MIN_M = 0.05
SCAN_Z_MAX_M = 1.2
LARGEST_UNITS = 65535
RAYS_PER_BIN = 5
"""Of `cast_scan`: 0.4 deg apart, 5 cm at 7 m."""
COLOR_RANGE_M = 60.0
NOTHING, SIDE_X, SIDE_Y, LEVEL, FLOOR, CEILING = range(6)
"""What a ray met: nothing, a face across x or y, the top or bottom of something, the floor, the ceiling."""
SURFACE_RGB = np.array(
    [[0, 0, 0], [205, 200, 190], [170, 166, 158], [150, 110, 70], [112, 104, 96], [235, 235, 232]], np.float64
)
"""Colour of each of these."""
FADE_M = 12.0
"""Distance over which colours lose half of their brightness."""


@dataclass(frozen=True, slots=True)
class Rays:
    """The rays of one camera, computed once.

    directions: (height * width, 3) in the base frame, scaled so that their length along the optical axis is 1
    origin_m:   (3,) the camera in the base frame
    unit_m:     metres a unit of depth
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


def render_depth(
    world: World, rays: Rays, pose: Pose, max_range_m: float = MAX_RANGE_M, bodies: Bodies = NO_BODIES
) -> npt.NDArray[np.uint16]:
    """Return (height, width) uint16: depth along the optical axis in the mount's units, 0 beyond the range.

    What uint16 cannot hold in these units is no return either.

    pose: of the base in the map frame
    """
    x, y, yaw = _in_grid(world, pose)
    depth = np.empty(rays.height * rays.width, np.uint16)
    _depth_kernel(
        x, y, yaw, rays.directions, rays.origin_m, max_range_m, 1.0 / rays.unit_m,
        world.cell_m, world.gap, world.low_m, world.high_m, depth,
    )  # fmt: skip
    return depth.reshape(rays.height, rays.width)


def render_color(
    world: World, rays: Rays, pose: Pose, look: Look = PLAIN, bodies: Bodies = NO_BODIES
) -> npt.NDArray[np.uint8]:
    """Return (height, width, 3) uint8 RGB: plain faces, darker with distance."""
    x, y, yaw = _in_grid(world, pose)
    image = np.empty((rays.height * rays.width, 3), np.uint8)
    _color_kernel(x, y, yaw, rays.directions, rays.origin_m, world.cell_m, world.gap, world.low_m, world.high_m, image)
    return image.reshape(rays.height, rays.width, 3)


def cast_scan(
    world: World,
    pose: Pose,
    radius_m: float = MAX_RANGE_M,
    z_min_m: float = SCAN_Z_MIN_M,
    z_max_m: float = SCAN_Z_MAX_M,
    bodies: Bodies = NO_BODIES,
) -> npt.NDArray[np.float32]:
    """Return (180,) ranges [m] about the base: nearest cell in each 2 deg sector that is solid in the height band.

    inf beyond `radius_m`. It looks all around and from the base's centre: what only cameras elsewhere would see, or
    would miss behind something low, differs. Against the scan fused from the default robot's rendered cameras see
    tests/test_render.py.
    """
    x, y, yaw = _in_grid(world, pose)
    ranges = np.empty(BINS, np.float32)
    _scan_kernel(x, y, yaw, radius_m, z_min_m, z_max_m, world.cell_m, world.gap, world.low_m, world.high_m, ranges)
    return ranges


def _in_grid(world: World, pose: Pose) -> tuple[float, float, float]:
    placed = compose(world.grid_from_map, pose)
    return placed.x_m, placed.y_m, placed.yaw_rad


@njit(cache=True, nogil=True)
def _stride(
    x: float, y: float, dx: float, dy: float, column: int, row: int, reach: int, cell_m: float
) -> tuple[float, int, int, bool]:
    """Leave the square of `reach` cells around (row, column): (t at its edge, column, row behind it, across x).

    Rounding never moves a cell index against the ray, so a walk of strides ends.
    """
    far = 1e30
    edge_x = (column + reach if dx > 0.0 else column - reach + 1) * cell_m
    edge_y = (row + reach if dy > 0.0 else row - reach + 1) * cell_m
    t_x = (edge_x - x) / dx if dx != 0.0 else far
    t_y = (edge_y - y) / dy if dy != 0.0 else far
    if t_x <= t_y:
        beside = math.floor((y + dy * t_x) / cell_m)
        beside = min(max(beside, row), row + reach - 1) if dy > 0.0 else max(min(beside, row), row - reach + 1)
        return t_x, column + (reach if dx > 0.0 else -reach), beside, True
    beside = math.floor((x + dx * t_y) / cell_m)
    beside = min(max(beside, column), column + reach - 1) if dx > 0.0 else max(min(beside, column), column - reach + 1)
    return t_y, beside, row + (reach if dy > 0.0 else -reach), False


@njit(cache=True, nogil=True)
def _hit_in_cell(
    z_in: float, dz: float, t_in: float, t_out: float, low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32]
) -> tuple[float, bool]:
    """Return (t, from the side) of the first interval that a ray meets within a cell; t is inf where it passes."""
    best, side = math.inf, False
    z_out = z_in + dz * (t_out - t_in)
    for k in range(len(low_m)):
        low, high = low_m[k], high_m[k]
        if low <= z_in <= high:
            return t_in, True
        if z_in < low <= z_out:
            best = min(best, t_in + (low - z_in) / dz)
        elif z_in > high >= z_out:
            best = min(best, t_in + (high - z_in) / dz)
    return best, side


@njit(cache=True, nogil=True)
def _trace(
    x: float, y: float, z: float, dx: float, dy: float, dz: float, t_max: float, cell_m: float,
    gap: npt.NDArray[np.uint8], low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32],
) -> tuple[float, int]:  # fmt: skip
    """Return (t, what) of the first thing along (x, y, z) + t (dx, dy, dz), t up to `t_max`; (inf, NOTHING) beyond."""
    end, at_end = t_max, NOTHING
    if dz < 0.0 and -z / dz <= end:
        end, at_end = -z / dz, FLOOR
    elif dz > 0.0 and (WALL_HEIGHT_M - z) / dz <= end:
        end, at_end = (WALL_HEIGHT_M - z) / dz, CEILING
    rows, columns = gap.shape
    column, row = math.floor(x / cell_m), math.floor(y / cell_m)
    t, across_x = 0.0, True
    while t < end and 0 <= column < columns and 0 <= row < rows:
        reach = np.int64(gap[row, column])
        if reach == 0:
            t_out, next_column, next_row, next_across = _stride(x, y, dx, dy, column, row, 1, cell_m)
            hit, side = _hit_in_cell(z + dz * t, dz, t, min(t_out, end), low_m[row, column], high_m[row, column])
            if hit <= end:
                return hit, (SIDE_X if across_x else SIDE_Y) if side else LEVEL
        else:
            t_out, next_column, next_row, next_across = _stride(x, y, dx, dy, column, row, reach, cell_m)
        t, column, row, across_x = t_out, next_column, next_row, next_across
    if at_end == NOTHING or t < end:
        return math.inf, NOTHING
    return end, at_end


@njit(cache=True, nogil=True)
def _depth_kernel(
    x: float, y: float, yaw: float, directions: npt.NDArray[np.float64], origin: npt.NDArray[np.float64],
    max_range: float, units_per_m: float, cell_m: float,
    gap: npt.NDArray[np.uint8], low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32],
    depth: npt.NDArray[np.uint16],
) -> None:  # fmt: skip
    c, s = math.cos(yaw), math.sin(yaw)
    px, py = x + c * origin[0] - s * origin[1], y + s * origin[0] + c * origin[1]
    for i in range(len(depth)):
        dx, dy = c * directions[i, 0] - s * directions[i, 1], s * directions[i, 0] + c * directions[i, 1]
        t, what = _trace(px, py, origin[2], dx, dy, directions[i, 2], max_range, cell_m, gap, low_m, high_m)
        units = t * units_per_m + 0.5
        seen = what != NOTHING and what != CEILING and units <= LARGEST_UNITS
        depth[i] = np.uint16(units) if seen else 0


@njit(cache=True, nogil=True)
def _color_kernel(
    x: float, y: float, yaw: float, directions: npt.NDArray[np.float64], origin: npt.NDArray[np.float64],
    cell_m: float, gap: npt.NDArray[np.uint8], low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32],
    image: npt.NDArray[np.uint8],
) -> None:  # fmt: skip
    c, s = math.cos(yaw), math.sin(yaw)
    px, py = x + c * origin[0] - s * origin[1], y + s * origin[0] + c * origin[1]
    for i in range(len(image)):
        dx, dy = c * directions[i, 0] - s * directions[i, 1], s * directions[i, 0] + c * directions[i, 1]
        t, what = _trace(px, py, origin[2], dx, dy, directions[i, 2], COLOR_RANGE_M, cell_m, gap, low_m, high_m)
        light = FADE_M / (FADE_M + t) if what != NOTHING else 0.0
        for channel in range(3):
            image[i, channel] = np.uint8(SURFACE_RGB[what, channel] * light)


@njit(cache=True, nogil=True)
def _scan_kernel(
    x: float, y: float, yaw: float, radius: float, z_min: float, z_max: float, cell_m: float,
    gap: npt.NDArray[np.uint8], low_m: npt.NDArray[np.float32], high_m: npt.NDArray[np.float32],
    ranges: npt.NDArray[np.float32],
) -> None:  # fmt: skip
    bins = len(ranges)
    rows, columns = gap.shape
    for i in range(bins):
        nearest = math.inf
        for k in range(RAYS_PER_BIN):
            azimuth = yaw - math.pi + (i + (k + 0.5) / RAYS_PER_BIN) * 2.0 * math.pi / bins
            dx, dy = math.cos(azimuth), math.sin(azimuth)
            column, row, t = math.floor(x / cell_m), math.floor(y / cell_m), 0.0
            while t < min(radius, nearest) and 0 <= column < columns and 0 <= row < rows:
                reach = np.int64(gap[row, column])
                if reach == 0:
                    solid = False
                    for j in range(low_m.shape[2]):
                        solid |= low_m[row, column, j] <= z_max and high_m[row, column, j] >= z_min
                    if solid:
                        nearest = t
                        break
                    reach = 1
                t, column, row, _ = _stride(x, y, dx, dy, column, row, reach, cell_m)
        ranges[i] = nearest
