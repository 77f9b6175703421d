"""Static parts of the scene: the building as few boxes, the robot's body, its cameras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import rerun as rr

from hil.maps.materials import MATERIALS
from hil.maps.world_grid import World
from hil.view.draw_sensors import ring
from onboard.config.config import RobotSection
from onboard.config.footprint import Footprint
from onboard.config.mounts import Mount, Mounts
from onboard.values.messages import Pose

Heights = npt.NDArray[np.float32]

CUT_M = 1.2
"""Height up to which walls are shown, so that rooms stay visible from above."""
MOST_BLOCKS = 60_000
"""Largest number of boxes; above it, cells are made coarser."""
STEP_M = 0.01
"""Resolution of heights."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Boxes in the grid frame of a world.

    low_m, high_m: (n, 3) corners [m]
    material:      (n,) uint8, as in the world
    cell_m:        edge of the cells, a multiple of the world's cells
    """

    low_m: npt.NDArray[np.float64]
    high_m: npt.NDArray[np.float64]
    material: npt.NDArray[np.uint8]
    cell_m: float


def blocks_of(world: World, cut_m: float = CUT_M, most: int = MOST_BLOCKS) -> Blocks:
    """Return the obstacles below `cut_m` as at most `most` boxes; equal neighbouring cells form one box.

    With more boxes, cells are merged two by two. A merged cell spans the lowest low to the highest high of its cells.
    """
    halvings = 0
    while True:
        parts = [_rectangles(*_cells(world, k, cut_m, halvings)) for k in range(world.low_m.shape[2])]
        first, last, heights, material = (np.concatenate(column) for column in zip(*parts, strict=True))
        if len(material) <= most or 2**halvings >= max(world.gap.shape):
            break
        halvings += 1
    cell_m = world.cell_m * 2**halvings
    return Blocks(
        low_m=np.column_stack([first * cell_m, heights[:, 0]]),
        high_m=np.column_stack([last * cell_m, heights[:, 1]]),
        material=material,
        cell_m=cell_m,
    )


def _cells(world: World, interval: int, cut_m: float, halvings: int) -> tuple[Heights, Heights, npt.NDArray[np.uint8]]:
    """Return (rows, columns) low, high and material of one interval below the cut, in coarser cells.

    Heights are multiples of STEP_M; (inf, -inf) marks an empty cell.
    """
    low, high, material = world.low_m[..., interval], world.high_m[..., interval], world.material
    shown = (high >= low) & (low < cut_m)
    steps = np.float32(1.0 / STEP_M)
    low = np.where(shown, np.rint(low * steps) / steps, np.float32(np.inf))
    high = np.where(shown, np.rint(np.minimum(high, np.float32(cut_m)) * steps) / steps, np.float32(-np.inf))
    for _ in range(halvings):
        low, high, material = _pairs(low, np.minimum), _pairs(high, np.maximum), _pairs(material, np.maximum)
    return low, high, material


def _pairs(cells: npt.NDArray[Any], combine: np.ufunc) -> npt.NDArray[Any]:
    """Return the cells merged two by two; an odd last row or column stays single."""
    for axis in (0, 1):
        cells = combine.reduceat(cells, np.arange(0, cells.shape[axis], 2), axis=axis)
    return cells


def _rectangles(
    low: Heights, high: Heights, material: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.uint8]]:
    """Return (n, 2) first and (n, 2) last x, y [cells], (n, 2) low and high [m], (n,) material of one interval.

    Equal cells side by side in a row are joined first, then equal stretches of adjacent rows.
    """
    row, start, stop = _stretches(low, high, material)
    at = low[row, start], high[row, start], material[row, start]
    order = np.lexsort((row, *at, stop, start))
    row, start, stop = row[order], start[order], stop[order]
    at = at[0][order], at[1][order], at[2][order]
    same = np.ones(max(len(row) - 1, 0), np.bool_)
    for values in (start, stop, *at):
        same &= values[1:] == values[:-1]
    goes_on = same & (row[1:] == row[:-1] + 1)
    top = np.flatnonzero(np.r_[True, ~goes_on]) if len(row) else np.empty(0, np.intp)
    bottom = np.r_[top[1:], len(row)] - 1 if len(row) else top
    first = np.column_stack([start[top], row[top]]).astype(np.float64)
    last = np.column_stack([stop[top], row[bottom] + 1]).astype(np.float64)
    return first, last, np.column_stack([at[0][top], at[1][top]]).astype(np.float64), at[2][top]


def _stretches(
    low: Heights, high: Heights, material: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return row, first column and end column of every stretch of equal occupied cells."""
    solid = high >= low
    like_last = np.zeros(solid.shape, np.bool_)
    like_last[:, 1:] = solid[:, 1:] & solid[:, :-1]
    for values in (low, high, material):
        like_last[:, 1:] &= values[:, 1:] == values[:, :-1]
    ends = np.zeros(solid.shape, np.bool_)
    ends[:, :-1] = solid[:, :-1] & ~like_last[:, 1:]
    ends[:, -1] = solid[:, -1]
    row, start = np.nonzero(solid & ~like_last)
    return row, start, np.nonzero(ends)[1] + 1


# ---- Building, robot body, cameras

MAP, ODOM, BASE, TWIN = "map", "map/odom", "map/odom/base", "map/twin"
HERE = "map/here"
"""Moves with the robot without turning, for a camera that follows it."""
BUILDING = "map/building"
FRUSTUM_M = 0.12
"""Drawn length of a camera's pyramid."""
ARROW_M, ARROW_RADIUS_M, LINE_M = 0.45, 0.025, 0.015
BODY_SHOWN_M = 0.12
"""Height of the solid part of the drawn body, low enough to show the cameras."""

Color = tuple[int, int, int]
WALL: Color = (150, 156, 168)
MATERIAL_COLORS: dict[str, Color] = {
    "wood": (176, 137, 92),
    "metal": (120, 130, 145),
    "fabric": (110, 130, 190),
    "plastic": (205, 200, 190),
    "plant": (96, 150, 92),
    "cardboard": (200, 160, 110),
    "glass": (150, 190, 205),
    "ceramic": (225, 225, 225),
    "leather": (130, 95, 75),
}
"""Other materials have the colour of walls."""
ROBOT, TWIN_ROBOT, INK = (70, 150, 255), (255, 130, 70), (235, 235, 240)


def planar(parent_from_child: Pose) -> rr.Transform3D:
    """Return a planar pose as a transform."""
    turn = rr.RotationAxisAngle(axis=(0.0, 0.0, 1.0), radians=parent_from_child.yaw_rad)
    return rr.Transform3D(translation=(parent_from_child.x_m, parent_from_child.y_m, 0.0), rotation=turn)


def paint_building(recording: rr.RecordingStream, world: World, blocks: Blocks) -> None:
    """Draw the building in the map frame."""
    recording.log(BUILDING, planar(world.map_from_grid), static=True)
    palette = np.array([MATERIAL_COLORS.get(name, WALL) for name in MATERIALS], np.uint8)
    colors = palette[np.minimum(blocks.material, len(MATERIALS) - 1)]
    boxes = rr.Boxes3D(mins=blocks.low_m, sizes=blocks.high_m - blocks.low_m, colors=colors, fill_mode="solid")
    recording.log(f"{BUILDING}/boxes", boxes, static=True)


def paint_body(recording: rr.RecordingStream, base: str, robot: RobotSection, color: Color) -> None:
    """Draw a robot at an entity: footprint, outline at full height, heading arrow."""
    footprint, height_m = robot.footprint, robot.height_m
    recording.log(f"{base}/body", _solid(footprint, color), static=True)
    rings = [ring(footprint.outline_m(), height) for height in (BODY_SHOWN_M, height_m)]
    recording.log(f"{base}/outline", rr.LineStrips3D(rings, radii=LINE_M, colors=[color]), static=True)
    arrow = rr.Arrows3D(origins=[(0, 0, BODY_SHOWN_M)], vectors=[(ARROW_M, 0, 0)], radii=[ARROW_RADIUS_M], colors=[INK])
    recording.log(f"{base}/heading", arrow, static=True)


def _solid(footprint: Footprint, color: Color) -> rr.Cylinders3D | rr.LineStrips3D:
    """Return the lower part of the body: a cylinder, or the walls of a polygon."""
    if footprint.is_round:
        return rr.Cylinders3D(
            lengths=[BODY_SHOWN_M],
            radii=[footprint.radius_m],
            centers=[(0, 0, BODY_SHOWN_M / 2)],
            colors=[color],
            fill_mode="solid",
        )
    posts = [[(x, y, 0.0), (x, y, BODY_SHOWN_M)] for x, y in footprint.corners_m]
    return rr.LineStrips3D([ring(footprint.outline_m(), 0.0), *posts], radii=LINE_M, colors=[color])


def paint_cameras(recording: rr.RecordingStream, base: str, mounts: Mounts) -> None:
    """Draw the cameras of a robot; their images are logged below them."""
    for mount in [*mounts.depth.values(), *mounts.color.values()]:
        where = mount.base_from_camera
        at = rr.Transform3D(translation=where[:3, 3], mat3x3=where[:3, :3])
        recording.log(f"{base}/{mount.name}", at, _pinhole(mount), static=True)


def _pinhole(mount: Mount) -> rr.Pinhole:
    return rr.Pinhole(
        focal_length=(mount.fx, mount.fy),
        principal_point=(mount.cx + 0.5, mount.cy + 0.5),  # there, pixel centres are at halves
        width=mount.width,
        height=mount.height,
        image_plane_distance=FRUSTUM_M,
    )
