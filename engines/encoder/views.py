"""Views for the colour encoder: an image from a pose in a furnished building, with distances ahead as labels.

View i is a function of (section, split, seed, i) alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from engines.encoder.augmentation import Frame, blurred
from engines.encoder.config import ViewsSection
from hil.maps.cell_kernels import circle_overlaps
from hil.maps.load import load_map
from hil.maps.materials import PLAIN, draw_appearance
from hil.maps.world_grid import World
from hil.physics.collision_world import GROUND_CLEARANCE_M, Body, blocked_cells
from hil.physics.contact import NO_BODIES, Bodies
from hil.physics.free_space import FreeSpace, free_space, indoor_cells
from hil.scene.furniture import furnish
from hil.scene.walkers import KINDS
from hil.sensors.camera import rays_of, render_color
from hil.sensors.direct_scan import SCAN_RADIUS_M, ScanCaster
from onboard.config.mounts import Mount, load_mounts
from onboard.policy.contract import RGB_HEIGHT, RGB_WIDTH
from onboard.values.errors import ConfigError, InputError
from onboard.values.geometry import compose
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_RAD, BINS, Pose

FORWARD_BINS = 44
"""Bins of the scan within the colour camera's 90 deg, symmetric about straight ahead."""
FORWARD = slice(BINS // 2 - FORWARD_BINS // 2, BINS // 2 + FORWARD_BINS // 2)
LABELS = FORWARD_BINS + 1
"""Labels of a view: the forward ranges from right to left, then the free distance."""
FARTHEST_M = SCAN_RADIUS_M
"""Larger ranges are clipped to this."""
LEAST_WAY_M = 0.05
"""Shorter free distances are clipped to this."""
PEOPLE = 3
PEOPLE_M = (0.7, 6.0)
"""Least and most distance of people from the robot."""
TRIES = 30
MOST_SEED = 2**31
BUILDING_STREAM, VIEW_STREAM = 1, 2

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
Labels = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class View:
    """image: (144, 256, 3) uint8 RGB; labels: (45,) float32 forward ranges and free distance [m], see `labels_of`."""

    image: Frame
    labels: Labels


@dataclass(frozen=True, slots=True)
class Viewpoints:
    """A furnished building for views.

    cells:   (n, 2) row, column indoors where the body can pass; blocked: (rows, columns) bool, obstacles for the body
    """

    space: FreeSpace
    body: Body
    blocked: npt.NDArray[np.bool_]
    cells: npt.NDArray[np.int64]
    caster: ScanCaster
    mount: Mount

    @property
    def world(self) -> World:
        """The building."""
        return self.space.world


def building_count(section: ViewsSection) -> int:
    """Return the number of furnished buildings of the views."""
    return math.ceil(section.count / section.per_building)


def color_mount(section: ViewsSection) -> Mount:
    """Return the mount of the robot's colour camera. Raises ConfigError if it is missing or of another size."""
    mounts = load_mounts(section.mounts)
    if not mounts.color:
        raise ConfigError(f"{section.mounts}: color_cameras: expected one, found none")
    mount = next(iter(mounts.color.values()))
    if (mount.height, mount.width) != (RGB_HEIGHT, RGB_WIDTH):
        raise ConfigError(
            f"{section.mounts}: color_cameras.{mount.name}: {mount.width}x{mount.height} px, "
            f"the policy needs {RGB_WIDTH}x{RGB_HEIGHT}"
        )
    return mount


def make_viewpoints(section: ViewsSection, split: Split, seed: int, building: int) -> Viewpoints:
    """Return furnished building number `building`. Raises InputError for a map without free space."""
    place = section.maps[building % len(section.maps)]
    rng = np.random.default_rng([seed, SPLITS.index(split), BUILDING_STREAM, building])
    bare = _bare(place)
    world = furnish(bare, int(rng.integers(MOST_SEED)), section.furniture)
    body = Body(section.footprint_m, section.body_m)
    space = free_space(world, body)
    cells = _cells(section, place, space, bare)
    return Viewpoints(space, body, blocked_cells(world, body), cells, ScanCaster(world), color_mount(section))


def check_place(section: ViewsSection, place: str) -> None:
    """Raise InputError for a map that cannot be read, or has no free space for the body even without furniture."""
    bare = _bare(place)
    _cells(section, place, free_space(bare, Body(section.footprint_m, section.body_m)), bare)


def _bare(place: str) -> World:
    return load_map(Path(place) if Path(place).suffix else place)


def _cells(section: ViewsSection, place: str, space: FreeSpace, bare: World) -> npt.NDArray[np.int64]:
    """Return (n, 2) row, column indoors where the body can pass. Raises InputError if there are none."""
    cells = np.argwhere(space.passable & indoor_cells(bare))
    if not len(cells):
        raise InputError(f"map {place}: no free space for a body of radius {section.footprint_m} m")
    return cells


def draw_view(section: ViewsSection, split: Split, seed: int, index: int, viewpoints: Viewpoints) -> View:
    """Return view `index` of building `index // per_building`."""
    rng = np.random.default_rng([seed, SPLITS.index(split), VIEW_STREAM, index])
    for _ in range(TRIES):
        pose = _draw_pose(viewpoints, rng)
        bodies = _draw_people(viewpoints.space, pose, rng) if rng.random() < section.people else NO_BODIES
        labels = labels_of(viewpoints, pose, bodies)
        if labels[-1] >= section.facing_m or rng.random() < section.facing:
            break
    look = PLAIN if rng.random() < section.plain else draw_appearance(int(rng.integers(MOST_SEED)))
    rays = rays_of(jittered(viewpoints.mount, section, rng))
    image = render_color(viewpoints.world, rays, pose, look, bodies)
    return View(image if section.blur is None else blurred(image, section.blur, rng), labels)


def labels_of(viewpoints: Viewpoints, pose: Pose, bodies: Bodies = NO_BODIES) -> Labels:
    """Return (45,) relative to the base: forward ranges up to 10 m, and the free distance, 0.05 to 10 m."""
    ranges_m = viewpoints.caster.cast(pose, FARTHEST_M, bodies)[FORWARD]
    way_m = free_way_m(viewpoints.world, viewpoints.blocked, viewpoints.body, pose, bodies, FARTHEST_M)
    return np.append(np.minimum(ranges_m, FARTHEST_M), max(way_m, LEAST_WAY_M)).astype(np.float32)


def jittered(mount: Mount, section: ViewsSection, rng: np.random.Generator) -> Mount:
    """Return the mount with random errors of rotation, height and focal length."""
    tilt, turn = math.radians(section.tilt_deg), math.radians(section.turn_deg)
    roll, pitch, yaw = (float(rng.uniform(-most, most)) for most in (tilt, tilt, turn))
    zoom = float(rng.uniform(1.0 - section.zoom, 1.0 + section.zoom))
    base_from_camera = mount.base_from_camera.copy()
    base_from_camera[:3, :3] = _rotation(roll, pitch, yaw) @ base_from_camera[:3, :3]
    base_from_camera[2, 3] += rng.uniform(-section.height_m, section.height_m)
    return replace(mount, fx=zoom * mount.fx, fy=zoom * mount.fy, base_from_camera=base_from_camera)


def _rotation(roll: float, pitch: float, yaw: float) -> npt.NDArray[np.float64]:
    """Return the rotation about the base's x, then y, then z."""
    about_x = np.array([[1, 0, 0], [0, math.cos(roll), -math.sin(roll)], [0, math.sin(roll), math.cos(roll)]])
    about_y = np.array([[math.cos(pitch), 0, math.sin(pitch)], [0, 1, 0], [-math.sin(pitch), 0, math.cos(pitch)]])
    about_z = np.array([[math.cos(yaw), -math.sin(yaw), 0], [math.sin(yaw), math.cos(yaw), 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x)


def _draw_pose(viewpoints: Viewpoints, rng: np.random.Generator) -> Pose:
    row, column = (int(part) for part in viewpoints.cells[rng.integers(len(viewpoints.cells))])
    x_m, y_m = viewpoints.world.centre_of((row, column))
    return Pose(x_m, y_m, float(rng.uniform(-math.pi, math.pi)))


def _draw_people(space: FreeSpace, pose: Pose, rng: np.random.Generator) -> Bodies:
    """Return (n, 6) one to three people or robots on free floor in the camera's view, fewer without room."""
    kinds, rows = list(KINDS.values()), list[tuple[float, ...]]()
    wanted, half = int(rng.integers(1, PEOPLE + 1)), BIN_RAD * FORWARD_BINS / 2
    for _ in range(TRIES):
        if len(rows) == wanted:
            break
        kind = kinds[int(rng.integers(len(kinds)))]
        away_m, bearing = float(rng.uniform(*PEOPLE_M)), pose.yaw_rad + float(rng.uniform(-half, half))
        x_m, y_m = pose.x_m + away_m * math.cos(bearing), pose.y_m + away_m * math.sin(bearing)
        row, column = space.world.cell_of((x_m, y_m))
        inside = 0 <= row < space.passable.shape[0] and 0 <= column < space.passable.shape[1]
        if inside and space.passable[row, column]:
            rows.append((x_m, y_m, kind.radius_m, 0.0, kind.height_m, float(kind.material)))
    return np.array(rows, np.float64).reshape(-1, 6)


# ---- The free distance: how far a round footprint can move straight ahead without contact

STEP_M = 0.02


def free_way_m(
    world: World, blocked: npt.NDArray[np.bool_], body: Body, pose: Pose, bodies: Bodies, most_m: float
) -> float:
    """Return the free distance of a body at a pose of the map frame [m], in steps of `STEP_M`, at most `most_m`.

    blocked: `hil.physics.collision_world.blocked_cells` of the world for the body
    bodies:  moving bodies at their present places, in the map frame
    """
    placed, cell_m = compose(world.grid_from_map, pose), world.cell_m
    way_m = cell_m * _way_in_cells(
        placed.x_m / cell_m, placed.y_m / cell_m, math.cos(placed.yaw_rad), math.sin(placed.yaw_rad),
        body.radius_m / cell_m, STEP_M / cell_m, most_m / cell_m, blocked, world.gap,
    )  # fmt: skip
    return min(way_m, _way_to_bodies(body, pose, bodies))


def _way_to_bodies(body: Body, pose: Pose, bodies: Bodies) -> float:
    """Return the distance to the first cylinder ahead [m], inf without any."""
    c, s = math.cos(pose.yaw_rad), math.sin(pose.yaw_rad)
    x, y = bodies[:, 0] - pose.x_m, bodies[:, 1] - pose.y_m
    ahead, aside, reach = c * x + s * y, -s * x + c * y, bodies[:, 2] + body.radius_m
    tall = (bodies[:, 3] <= body.height_m) & (bodies[:, 4] >= GROUND_CLEARANCE_M)
    met = tall & (np.abs(aside) < reach) & (ahead > 0.0)
    way = ahead - np.sqrt(np.maximum(reach**2 - aside**2, 0.0))
    return max(float(way[met].min(initial=math.inf)), 0.0)


@kernel
def _way_in_cells(
    x: float, y: float, c: float, s: float, radius: float, step: float, most: float,
    blocked: npt.NDArray[np.bool_], gap: npt.NDArray[np.uint8],
) -> float:  # fmt: skip
    """Return the last of the steps at which a circle still overlaps no blocked cell, all in cells."""
    way = 0.0
    while way < most:
        ahead = min(way + step, most)
        if circle_overlaps(x + c * ahead, y + s * ahead, radius, blocked, gap):
            return way
        way = ahead
    return most
