"""Small worlds, drawn as text, and rows of bodies: '#' wall, '.' floor; the first line is the top (largest y)."""

from __future__ import annotations

import numpy as np

from hil.maps.world_grid import World, make_world, world_of_walls
from hil.physics.contact import Bodies
from onboard.values.messages import Pose


def room(width_m: float, height_m: float, cell_m: float = 0.05, map_from_grid: Pose | None = None) -> World:
    """Return an empty room; inside the border its floor spans [0, width] x [0, height] of the given frame."""
    wall = np.zeros((round(height_m / cell_m), round(width_m / cell_m)), np.bool_)
    return world_of_walls("room", cell_m, map_from_grid or Pose(0.0, 0.0, 0.0), wall)


def drawn(text: str, cell_m: float) -> World:
    """Return the world of a drawing; the lower left character's corner is the origin of the map."""
    lines = text.split()[::-1]
    wall = np.array([[character == "#" for character in line] for line in lines])
    return world_of_walls("drawn", cell_m, Pose(0.0, 0.0, 0.0), wall)


def with_box(world: World, x: tuple[float, float], y: tuple[float, float], z: tuple[float, float]) -> World:
    """Return the world with a box [m] in the first interval of its cells (a world whose grid frame is the map's)."""
    low, high = world.low_m.copy(), world.high_m.copy()
    (row, column), (row_end, column_end) = (world.cell_of((px + 1e-6, py + 1e-6)) for px, py in zip(x, y, strict=True))
    low[row:row_end, column:column_end, 0], high[row:row_end, column:column_end, 0] = z
    return make_world(world.name, world.cell_m, world.map_from_grid, low, high, world.yard)


def body_row(
    xy_map_m: tuple[float, float], radius_m: float, high_m: float, material: int, low_m: float = 0.0
) -> Bodies:
    """Return (6,) one row of `Bodies`."""
    return np.array([xy_map_m[0], xy_map_m[1], radius_m, low_m, high_m, float(material)])
