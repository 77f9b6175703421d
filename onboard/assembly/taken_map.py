"""The building's map from `/map`, taken once at the start and kept as `map.file`, from where all else reads it."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import numpy as np
import structlog

from onboard.config.config import Config
from onboard.drivers.dds.domain import hold_domain
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import pose_from_ros
from onboard.drivers.dds.ros_types import OccupancyGrid as RosGrid
from onboard.drivers.dds.topics import domain_id, ros_topic
from onboard.perception.building.map_image import (
    FREE,
    MAX_RESOLUTION_M,
    MIN_RESOLUTION_M,
    OCCUPIED,
    UNKNOWN,
    check_size,
)
from onboard.perception.building.occupancy_grid import OccupancyGrid, write_grid
from onboard.values.errors import ConfigError, DriverError, InputError

log = structlog.get_logger("map")

WAIT_S = 6.0
"""Timeout for a map, which its publisher keeps for late readers."""
KEPT = "# taken from"
"""First words of a file that a run has kept. No other file is replaced."""
OCCUPIED_FROM, FREE_TO = 65, 19
"""Percentages as map_server divides them by default: 0.65 and 0.196."""


def take_map(config: Config, wait_s: float = WAIT_S) -> None:
    """Take the map of `/map` and keep it as `map.file`, if `map.topic` is on.

    Raises DriverError if nobody publishes one, InputError for a map that is none, ConfigError for a file of another.
    """
    file, name = config.map.file, ros_topic(config.dds, "map")
    if not config.map.topic or file is None:
        return
    if file.exists() and not file.read_text(encoding="utf-8", errors="replace").startswith(KEPT):
        raise ConfigError(
            f"map.file: {file} was not written by a run, and map.topic would replace it: name another file"
        )
    hold_domain(domain_id(config.dds), config.dds)
    with contextlib.closing(Wire(config.dds)) as wire:
        reader = wire.reader("map")
        messages = reader.take() if reader.wait(wait_s) else []
    if not messages:
        raise DriverError(f"map.topic: no map on {name} within {wait_s:g} s: is map_server running and active?")
    grid = grid_of_ros(messages[-1].sample, name, config.dds.map_frame)
    write_grid(grid, file, file.with_suffix(".pgm"), f"{KEPT} {name}\n")
    log.info("map_taken", topic=name, file=str(file), rows=grid.percent.shape[0], columns=grid.percent.shape[1])


def grid_of_ros(message: RosGrid, name: str, map_frame: str) -> OccupancyGrid:
    """Return a map as a grid: obstacles, free ground, unknown ground. Raises InputError with one line."""
    info, frame = message.info, message.header.frame_id.lstrip("/")
    if frame != map_frame:
        raise InputError(f"{name}: its frame is {frame!r}, expected {map_frame!r} (dds.map_frame)")
    corner, cells = pose_from_ros(info.origin), np.frombuffer(bytes(message.data), np.int8)
    if not MIN_RESOLUTION_M <= info.resolution <= MAX_RESOLUTION_M:
        raise InputError(
            f"{name}: resolution {info.resolution:g} m, expected {MIN_RESOLUTION_M:g} to {MAX_RESOLUTION_M:g} m"
        )
    if cells.size == 0 or cells.size != info.width * info.height:
        raise InputError(f"{name}: {cells.size} cells of {info.width} x {info.height}")
    if not all(math.isfinite(one) for one in (corner.x_m, corner.y_m, corner.yaw_rad)):
        raise InputError(f"{name}: its origin is not finite")
    check_size(Path(name), info.height, info.width)
    percent = np.select(
        [cells >= OCCUPIED_FROM, (cells >= 0) & (cells <= FREE_TO)],
        [np.int8(OCCUPIED), np.int8(FREE)],
        np.int8(UNKNOWN),
    )
    if not (percent == FREE).any():
        raise InputError(f"{name}: no cell is free")
    return OccupancyGrid(round(float(info.resolution), 6), corner, percent.reshape(info.height, info.width))
