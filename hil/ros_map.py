"""The world of an occupancy map as ROS map_server and nav2 read it (`onboard/map_image.py`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from hil.maps import CELL_M, World, world_of_walls
from onboard.errors import InputError
from onboard.map_image import FREE, OCCUPIED, UNKNOWN, RosMapTable, check_size, occupancy, read_map_image
from onboard.messages import Pose

__all__ = ["UNKNOWN", "RosMapTable", "free_cells", "load_ros_map", "occupancy"]


def load_ros_map(path: Path) -> World:
    """Return the world of a map_server yaml; only cells that it calls free are free. Raises InputError.

    Cells keep the map's resolution, divided by a whole number where it is coarser than `CELL_M`.
    """
    table, value = read_map_image(path)
    free = free_cells(value, table)
    if not free.any():
        raise InputError(
            f"{path}: {table.image}: no cell is free in mode {table.mode}, free_thresh {table.free_thresh}"
        )
    divide = max(1, round(table.resolution / CELL_M))
    check_size(path.parent / table.image.expanduser(), free.shape[0] * divide, free.shape[1] * divide)
    wall = ~free[::-1].repeat(divide, axis=0).repeat(divide, axis=1)
    return world_of_walls(path.stem, table.resolution / divide, Pose(*table.origin), wall)


def free_cells(value: npt.NDArray[np.int8], table: RosMapTable) -> npt.NDArray[np.bool_]:
    """Return where occupancy is 0, in mode raw at most `free_thresh`, which ROS leaves to the reader there."""
    return np.asarray((value >= FREE) & (value <= (OCCUPIED * table.free_thresh if table.mode == "raw" else FREE)))
