"""Contacts of a drive with what is lower or higher than all that the robot's scan sees."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hil.drive.setting import Setting
from hil.physics.collision_world import blocked_cells
from hil.sensors.direct_scan import direct_scan

NEAR_M = 0.1
"""Two cells of a usual map: what is no farther from the footprint was touched."""


def unseen_contacts(setting: Setting, places_m: Sequence[tuple[float, float]]) -> int:
    """Return how many contacts were with cells that are solid for the body, and outside of the scan's heights.

    places_m: the base at each contact, in the map frame. A contact with something of both kinds near by is not counted
    """
    world, config = setting.world, setting.config
    scan = direct_scan(world, setting.mounts, config.own_scan or config.scan, setting.scan)
    seen = np.logical_or.reduce([world.overlapping(one.z_min_m, one.z_max_m) for one in (scan, scan.also or scan)])
    hidden = blocked_cells(world, setting.body) & ~seen
    reach = math.ceil((setting.body.radius_m + NEAR_M) / world.cell_m)
    away = np.hypot(*np.mgrid[-reach : reach + 1, -reach : reach + 1]) * world.cell_m <= setting.body.radius_m + NEAR_M
    count = 0
    for place_m in places_m:
        row, column = world.cell_of(place_m)
        near = [
            np.pad(cells, reach)[row : row + 2 * reach + 1, column : column + 2 * reach + 1] & away
            for cells in (seen, hidden)
        ]
        count += bool(near[1].any() and not near[0].any())
    return count
