"""The free distance: how far a round footprint can move straight ahead without contact."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hil.maps.cell_kernels import circle_overlaps
from hil.maps.world_grid import World
from hil.physics.collision_world import GROUND_CLEARANCE_M, Body
from hil.physics.contact import Bodies
from onboard.values.geometry import compose
from onboard.values.kernel import kernel
from onboard.values.messages import Pose

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
