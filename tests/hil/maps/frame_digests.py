"""Digests of rendered frames of one (map, seed). As a program it prints each digest on a line."""

from __future__ import annotations

import hashlib
import sys

import numpy as np

from hil.maps.load import load_map
from hil.maps.materials import draw_appearance
from hil.maps.world_grid import World
from hil.physics.contact import NO_BODIES, Bodies
from hil.scene.furniture import furnish
from hil.sensors.camera import cast_scan, rays_of, render_color, render_depth
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import load_mounts
from onboard.values.messages import Pose
from tests.rigs.rooms import body_row

SEED = 3
MAP = "ghc7"
ROOM_CELLS = 12
PLACE = 4321
"""Index of a place with `ROOM_CELLS` of free space around it."""


def digests() -> list[str]:
    """Return the digests of the frames without bodies and with two bodies."""
    world = furnish(load_map(MAP), SEED)
    row, column = np.argwhere(world.gap > ROOM_CELLS)[PLACE]
    x, y = world.centre_of((int(row), int(column)))
    people = np.array([body_row((x + 1.5, y + 0.5), 0.3, 1.7, 10), body_row((x - 1.0, y), 0.3, 0.5, 11)])
    return [_digest(world, (x, y), bodies) for bodies in (NO_BODIES, people)]


def _digest(world: World, xy: tuple[float, float], bodies: Bodies) -> str:
    mounts, look = load_mounts(DEFAULT_ROBOT / "mounts.toml"), draw_appearance(SEED)
    digest = hashlib.sha256()
    for yaw in (0.0, 1.0, 2.5):
        pose = Pose(*xy, yaw)
        for mount in mounts.depth.values():
            digest.update(render_depth(world, rays_of(mount), pose, bodies=bodies).tobytes())
        digest.update(render_color(world, rays_of(mounts.color["color"]), pose, look, bodies).tobytes())
        digest.update(cast_scan(world, pose, bodies=bodies).tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.stdout.write("\n".join(digests()))
