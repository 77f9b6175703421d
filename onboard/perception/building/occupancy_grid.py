"""A map as a grid of occupancy: what `map_image.py` reads, on cells of at most 5 cm, and as text for a recording."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from onboard.perception.building.map_image import (
    FREE,
    MAX_CELLS,
    MAX_COORDINATE_M,
    MAX_RESOLUTION_M,
    MIN_RESOLUTION_M,
    OCCUPIED,
    UNKNOWN,
    Percents,
    RosMapTable,
    Used,
    check_size,
    read_map_image,
)
from onboard.perception.collision import Points
from onboard.perception.kernels import planar
from onboard.values.errors import InputError, naming
from onboard.values.geometry import apply, compose, inverse
from onboard.values.messages import Pose

Flags = npt.NDArray[np.bool_]

CELL_M = 0.05


@dataclass(frozen=True)
class OccupancyGrid:
    """percent: (rows, columns) int8, -1 to 100, row 0 at the lower edge; map_from_grid: pose of its corner."""

    cell_m: float
    map_from_grid: Pose
    percent: Percents

    @property
    def occupied(self) -> Flags:
        """Return (rows, columns) bool, where the map has an obstacle."""
        return np.asarray(self.percent == OCCUPIED)

    @functools.cached_property
    def digest(self) -> str:
        """Return a digest of the map's content; files of another name or format may have the same."""
        return hashlib.sha256(encode(self).encode()).hexdigest()

    def window(self, pose: Pose, reach_m: float) -> tuple[slice, slice]:
        """Return rows and columns that cover the reach around a pose in the map frame."""
        x_m, y_m = apply(inverse(self.map_from_grid), (pose.x_m, pose.y_m))
        return _span(y_m, reach_m, self.cell_m), _span(x_m, reach_m, self.cell_m)

    def centres_m(self, base: Pose, cells: npt.NDArray[np.intp], first: tuple[int, int]) -> Points:
        """Return (n, 2) centres in the base frame. cells: (n, 2) row and column, relative to `first`."""
        to = planar(compose(inverse(base), self.map_from_grid))
        centres: Points = ((cells + first)[:, ::-1] + 0.5) * self.cell_m @ to[:, :2].T + to[:, 2]
        return centres


def load_grid(path: Path, used: Used) -> OccupancyGrid:
    """Return the grid of a map_server yaml; the cells of a coarse map are divided. Raises InputError.

    used: what the caller takes from the occupancy, as of `read_map_image`
    """
    table, value = read_map_image(path, used)
    divide = max(1, math.ceil(table.resolution / CELL_M - 1e-9))
    check_size(path, value.shape[0] * divide, value.shape[1] * divide)
    fine = value[::-1].repeat(divide, axis=0).repeat(divide, axis=1)
    return OccupancyGrid(table.resolution / divide, Pose(*table.origin), np.ascontiguousarray(fine))


def load_building(path: Path) -> OccupancyGrid:
    """Return the map of a building: obstacles, unknown ground, and free ground. Raises InputError."""
    grid = load_grid(path, three_kinds)
    kinds = three_kinds(grid.percent, None)
    if not (kinds == 0).any():
        raise InputError(f"{path}: no cell is free: check negate, free_thresh and mode")
    return OccupancyGrid(grid.cell_m, grid.map_from_grid, kinds)


def three_kinds(value: Percents, _: RosMapTable | None) -> Percents:
    """Return 100 for an obstacle, 0 for free ground, -1 for unknown ground and for what is between."""
    return np.where((value == OCCUPIED) | (value == 0), value, np.int8(UNKNOWN))


def write_grid(grid: OccupancyGrid, file: Path, image: Path, note: str = "") -> None:
    """Write yaml and image as map_server reads them; the yaml last and at once, so a reader has a whole map.

    note: lines of comment for the top of the yaml
    Obstacles are black, unknown ground and what is between grey, free ground white. Raises InputError.
    """
    grey = np.select([grid.percent == OCCUPIED, grid.percent == FREE], [0, 254], 205).astype(np.uint8)[::-1]
    corner = ", ".join(str(round(one, 6)) for one in (grid.map_from_grid.x_m, grid.map_from_grid.y_m))
    text = (
        f"{note}image: {image.name}\nmode: trinary\nresolution: {round(grid.cell_m, 9)}\n"
        f"origin: [{corner}, {round(grid.map_from_grid.yaw_rad, 9)}]\nnegate: 0\n"
        f"occupied_thresh: 0.65\nfree_thresh: 0.196\n"
    )
    made = file.with_name(f".{file.name}.new")
    with naming(file, "written"):
        Image.fromarray(grey).save(image)
        made.write_text(text, encoding="utf-8")
        os.replace(made, file)


def encode(grid: OccupancyGrid) -> str:
    """Return the grid as text, so that a recording replays without its file."""
    return json.dumps(table_of(grid))


def decode(text: str) -> OccupancyGrid:
    """Return the grid from a text of `encode`. Raises InputError for any other text."""
    try:
        return grid_of(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, zlib.error) as error:
        raise InputError(f"not a map: {error}") from error


def table_of(grid: OccupancyGrid) -> dict[str, object]:
    """Return the grid as plain values."""
    pose = grid.map_from_grid
    data = base64.b64encode(zlib.compress(grid.percent.tobytes())).decode()
    corner = [pose.x_m, pose.y_m, pose.yaw_rad]
    return {"cell_m": grid.cell_m, "corner": corner, "shape": list(grid.percent.shape), "data": data}


def grid_of(table: Any) -> OccupancyGrid:
    """Return the grid of `table_of`. Raises ValueError, TypeError, KeyError, OverflowError or zlib.error."""
    x_m, y_m, yaw_rad = (float(one) for one in table["corner"])
    cell_m = float(table["cell_m"])
    near = all(abs(one) <= MAX_COORDINATE_M for one in (x_m, y_m, yaw_rad))
    if not near or not MIN_RESOLUTION_M <= cell_m <= MAX_RESOLUTION_M:
        raise ValueError(f"cells of {cell_m:g} m from ({x_m:g}, {y_m:g}, {yaw_rad:g}) on are none of a map")
    rows, columns = (int(one) for one in table["shape"])
    if rows < 0 or columns < 0 or rows * columns > MAX_CELLS:
        raise ValueError(f"{columns} x {rows} cells, the limit is {MAX_CELLS}")
    unpacked = zlib.decompressobj().decompress(base64.b64decode(str(table["data"]), validate=True), rows * columns + 1)
    percent = np.frombuffer(unpacked, np.int8).reshape(rows, columns)
    return OccupancyGrid(cell_m, Pose(x_m, y_m, yaw_rad), percent)


def _span(middle_m: float, reach_m: float, cell_m: float) -> slice:
    first, last = math.floor((middle_m - reach_m) / cell_m), math.floor((middle_m + reach_m) / cell_m) + 1
    return slice(max(first, 0), max(last, 0))
