"""What does not move in the picture: the building, the body of the robot, its cameras."""

from __future__ import annotations

import numpy as np
import rerun as rr

from hil.maps import World
from hil.textures import MATERIALS
from hil.view.blocks import Blocks
from hil.view.shapes import circle
from onboard.messages import Pose
from onboard.mounts import Mount, Mounts

MAP, ODOM, BASE, TWIN = "map", "map/odom", "map/odom/base", "map/twin"
HERE = "map/here"
"""Goes with the robot without turning, for an eye that follows it."""
BUILDING = "map/building"
FRUSTUM_M = 0.12
"""How long a camera's pyramid is drawn."""
ARROW_M, ARROW_RADIUS_M, LINE_M = 0.45, 0.025, 0.015
BODY_SHOWN_M = 0.12
"""Height of the solid part of the drawn body: what is on it stays in view."""

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
"""Others look like a wall."""
ROBOT, TWIN_ROBOT, INK = (70, 150, 255), (255, 130, 70), (235, 235, 240)


def planar(parent_from_child: Pose) -> rr.Transform3D:
    """Return a planar pose as a transform."""
    turn = rr.RotationAxisAngle(axis=(0.0, 0.0, 1.0), radians=parent_from_child.yaw_rad)
    return rr.Transform3D(translation=(parent_from_child.x_m, parent_from_child.y_m, 0.0), rotation=turn)


def paint_building(recording: rr.RecordingStream, world: World, blocks: Blocks) -> None:
    """Put the building under the map frame."""
    recording.log(BUILDING, planar(world.map_from_grid), static=True)
    palette = np.array([MATERIAL_COLORS.get(name, WALL) for name in MATERIALS], np.uint8)
    colors = palette[np.minimum(blocks.material, len(MATERIALS) - 1)]
    boxes = rr.Boxes3D(mins=blocks.low_m, sizes=blocks.high_m - blocks.low_m, colors=colors, fill_mode="solid")
    recording.log(f"{BUILDING}/boxes", boxes, static=True)


def paint_body(recording: rr.RecordingStream, base: str, radius_m: float, height_m: float, color: Color) -> None:
    """Draw a robot at an entity: its footprint, its outline at full height, an arrow where it faces."""
    solid = rr.Cylinders3D(
        lengths=[BODY_SHOWN_M], radii=[radius_m], centers=[(0, 0, BODY_SHOWN_M / 2)], colors=[color], fill_mode="solid"
    )
    recording.log(f"{base}/body", solid, static=True)
    rings = [circle(radius_m, height) for height in (BODY_SHOWN_M, height_m)]
    recording.log(f"{base}/outline", rr.LineStrips3D(rings, radii=LINE_M, colors=[color]), static=True)
    arrow = rr.Arrows3D(origins=[(0, 0, BODY_SHOWN_M)], vectors=[(ARROW_M, 0, 0)], radii=[ARROW_RADIUS_M], colors=[INK])
    recording.log(f"{base}/heading", arrow, static=True)


def paint_cameras(recording: rr.RecordingStream, base: str, mounts: Mounts) -> None:
    """Put the cameras on a robot, where their images are hung up."""
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
