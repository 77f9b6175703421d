"""The building's map from `/map`, taken once at the start and kept as `map.file`, from where all else reads it."""

from __future__ import annotations

import contextlib
import math
import threading
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
from onboard.system.threads import RECORDER_BELOW, step_down
from onboard.values import reasons
from onboard.values.errors import ConfigError, DriverError, InputError
from onboard.values.geometry import between
from onboard.values.interfaces import InputFault

log = structlog.get_logger("map")

WAIT_S = 6.0
"""Timeout for a map, which its publisher keeps for late readers."""
KEPT = "# taken from"
"""First words of a file that a run has kept. No other file is replaced."""
OCCUPIED_FROM, FREE_TO = 65, 19
"""Percentages as map_server divides them by default: 0.65 and 0.196."""
PERIOD_S = 0.5
SAME_M, SAME_RAD = 1e-3, 1e-4
"""Corners of the same map are this near: a yaml file has rounded it."""


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


class NewerMap:
    """Notices a map on `/map` other than the one of this run, which goes on with its own. Its thread compares them."""

    def __init__(self, wire: Wire, building: OccupancyGrid) -> None:
        """Open the reader and start the thread. Raises ConfigError, DriverError."""
        self._reader, self._building = wire.reader("map"), building
        self._frame, self._name = wire.section.map_frame, ros_topic(wire.section, "map")
        self._differs = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="newer map", daemon=True)
        self._thread.start()

    def faults(self) -> list[InputFault]:
        """Return the fault of a run whose map is no longer the published one."""
        said = reasons.NEWER_MAP.say(topic=self._name)
        return [InputFault("map", said, standing=False, warning=True)] if self._differs else []

    def close(self) -> None:
        """End the thread. Safe to call twice."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        step_down(RECORDER_BELOW)
        try:
            while not self._ended.is_set():
                if self._reader.wait(PERIOD_S) and (messages := self._reader.take()):
                    self._compare(messages[-1].sample)
        except DriverError as error:
            log.warning("map_unwatched", error=str(error))

    def _compare(self, message: RosGrid) -> None:
        try:
            differs = not _same(grid_of_ros(message, self._name, self._frame), self._building)
        except InputError as error:
            log.warning("map_refused", error=str(error))
            return
        if differs and not self._differs:
            log.warning("newer_map", reason=reasons.NEWER_MAP.say(topic=self._name))
        self._differs = differs


def _same(one: OccupancyGrid, other: OccupancyGrid) -> bool:
    off = between(one.map_from_grid, other.map_from_grid)
    near = math.hypot(off.x_m, off.y_m) < SAME_M and abs(off.yaw_rad) < SAME_RAD
    return near and one.cell_m == other.cell_m and np.array_equal(one.percent, other.percent)
