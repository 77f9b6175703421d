"""Keep-out and speed zones of the map: nav2's filter masks, active while the robot is localised.

A mask is a map_server map (`map_image.py`) in the map frame, of any size and resolution. Cells outside the mask and
unknown cells are free. As in nav2:

    keep_out  occupied cells are forbidden. Cells between free and occupied (mode scale) are free: only nav2's planner
              weighs them
    speed     1 to 99 are percent of `limits.v_max_mps`, 0 and 100 no limit (nav2: type 1, base 0, multiplier 1; mode
              scale or raw). Of all zones under the footprint, the slowest limit holds

Only the edge of forbidden ground counts, as points at the centres of cells no wider than `CELL_M`. Their error of
3.5 cm is within the stop margin. The localisation error is not added: draw the masks wider by it.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from onboard.config.config import ZonesSection
from onboard.config.footprint import Footprint
from onboard.navigation.ekf import LocalizationState, localised, tracked
from onboard.perception import collision
from onboard.perception.collision import Points
from onboard.perception.kernels import bins_of, planar
from onboard.perception.obstacle_memory import NOWHERE, Surroundings
from onboard.safety.map_image import (
    MAX_CELLS,
    MAX_COORDINATE_M,
    MAX_RESOLUTION_M,
    MIN_RESOLUTION_M,
    OCCUPIED,
    Used,
    check_size,
    occupied_cells,
    read_map_image,
    speed_limits,
)
from onboard.values.errors import InputError
from onboard.values.geometry import apply, compose, inverse
from onboard.values.messages import Pose, Scan

CELL_M = 0.05
REACH_M = 3.0
"""Farther edges do not matter."""
NO_LIMIT = 100
NEIGHBOURS = [(row, column) for row in range(3) for column in range(3)]
LAYERS = "keep_out", "speed"

Percents = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Layer:
    """One mask. percent: (rows, columns) int8, -1 to 100, row 0 at the lower edge; map_from_grid: its corner's pose."""

    cell_m: float
    map_from_grid: Pose
    percent: Percents

    def window(self, pose: Pose, reach_m: float) -> tuple[slice, slice]:
        """Return rows and columns that cover the reach around a pose in the map frame."""
        x_m, y_m = apply(inverse(self.map_from_grid), (pose.x_m, pose.y_m))
        return _span(y_m, reach_m, self.cell_m), _span(x_m, reach_m, self.cell_m)

    def centres_m(self, base: Pose, cells: npt.NDArray[np.intp], first: tuple[int, int]) -> Points:
        """Return (n, 2) centres in the base frame. cells: (n, 2) row and column, relative to `first`."""
        to = planar(compose(inverse(base), self.map_from_grid))
        centres: Points = ((cells + first)[:, ::-1] + 0.5) * self.cell_m @ to[:, :2].T + to[:, 2]
        return centres


@dataclass(frozen=True, slots=True)
class MapZones:
    """The masks of one robot. edge: the forbidden cells of `keep_out` with a free neighbour."""

    keep_out: Layer | None
    speed: Layer | None
    edge: npt.NDArray[np.bool_]
    required: bool
    v_max_mps: float
    footprint: Footprint


@dataclass(frozen=True, slots=True)
class Zone:
    """The zones at the robot's place.

    in_force:  whether the robot's place is known
    edge_m:    (n, 2) in the base frame [m], edge of nearby forbidden ground
    held:      the robot stands in forbidden ground, or must not drive without localisation
    limit_mps: speed limit, inf for none
    """

    in_force: bool = False
    edge_m: Points = field(default_factory=lambda: NOWHERE)
    held: bool = False
    limit_mps: float = math.inf


ELSEWHERE = Zone()
"""A place without zones."""


def load_zones(section: ZonesSection, v_max_mps: float, footprint: Footprint) -> MapZones | None:
    """Return the configured masks, or None. Raises InputError with the file and the limit."""
    if section.keep_out is None and section.speed is None:
        return None
    keep_out = None if section.keep_out is None else _load(section.keep_out, occupied_cells)
    speed = None if section.speed is None else _load(section.speed, speed_limits)
    return _zones(keep_out, speed, section.required, v_max_mps, footprint)


def zone_of(masks: MapZones | None, localization: LocalizationState) -> Zone:
    """Return the zones at the filter's estimate of the robot's place.

    With `required`, the robot is held while it is not localised.
    """
    base = localization.map_from_base
    if masks is None:
        return ELSEWHERE
    if base is None or not tracked(localization):
        return Zone(held=masks.required)
    edge_m, held = NOWHERE, masks.required and not localised(localization)
    if masks.keep_out is not None:
        rows, columns = masks.keep_out.window(base, REACH_M)
        edge_m = masks.keep_out.centres_m(base, np.argwhere(masks.edge[rows, columns]), (rows.start, columns.start))
        held = held or bool((masks.keep_out.percent[masks.keep_out.window(base, 0.0)] == OCCUPIED).any())
    return Zone(True, edge_m, held, _limit_mps(masks, base))


def fenced(scan: Scan, zone: Zone) -> Scan:
    """Return the policy's scan with forbidden ground as obstacles, in bins that a camera sees or saw a moment ago."""
    if len(zone.edge_m) == 0:
        return scan
    bins = bins_of(zone.edge_m[:, 0], zone.edge_m[:, 1])
    looked = (collision.looked(scan) | np.isfinite(scan.ranges_m))[bins]
    ranges_m = scan.ranges_m.copy()
    np.minimum.at(ranges_m, bins[looked], np.hypot(*zone.edge_m[looked].T).astype(np.float32))
    return replace(scan, ranges_m=ranges_m)


def free_behind_m(surroundings: Surroundings, zone: Zone, footprint: Footprint) -> float:
    """Return `collision.free_behind_m` with forbidden ground as obstacles, for recovery [m]."""
    if zone.held:
        return 0.0
    return collision.free_behind_m(
        surroundings.scan, np.concatenate([surroundings.out_of_view, zone.edge_m]), footprint
    )


def encode(masks: MapZones) -> str:
    """Return the masks as text, so that a recording replays without their files."""
    return json.dumps({name: _table(layer) for name in LAYERS if (layer := getattr(masks, name)) is not None})


def decode(text: str, section: ZonesSection, v_max_mps: float, footprint: Footprint) -> MapZones:
    """Return the masks from a text of `encode`. Raises InputError for any other text."""
    try:
        layers = {name: _layer(table) for name, table in json.loads(text).items()}
        keep_out, speed = (layers.pop(name, None) for name in LAYERS)
        if layers:
            raise ValueError(f"unknown layer {next(iter(layers))}")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, zlib.error) as error:
        raise InputError(f"not the zones of a map: {error}") from error
    return _zones(keep_out, speed, section.required, v_max_mps, footprint)


def _zones(
    keep_out: Layer | None, speed: Layer | None, required: bool, v_max_mps: float, footprint: Footprint
) -> MapZones:
    forbidden = np.zeros((0, 0), np.bool_) if keep_out is None else keep_out.percent == OCCUPIED
    rows, columns = forbidden.shape
    around = np.pad(forbidden, 1)
    inner = np.logical_and.reduce([around[row : row + rows, column : column + columns] for row, column in NEIGHBOURS])
    return MapZones(keep_out, speed, forbidden & ~inner, required, v_max_mps, footprint)


def _load(path: Path, used: Used) -> Layer:
    table, value = read_map_image(path, used)
    divide = max(1, math.ceil(table.resolution / CELL_M - 1e-9))
    check_size(path, value.shape[0] * divide, value.shape[1] * divide)
    fine = value[::-1].repeat(divide, axis=0).repeat(divide, axis=1)
    return Layer(table.resolution / divide, Pose(*table.origin), np.ascontiguousarray(fine))


def _limit_mps(masks: MapZones, base: Pose) -> float:
    """Return the slowest limit of the speed zones under the footprint [m/s]."""
    if masks.speed is None:
        return math.inf
    layer = masks.speed
    rows, columns = layer.window(base, masks.footprint.reach_m + layer.cell_m)
    percent = layer.percent[rows, columns]
    cells = np.argwhere((percent > 0) & (percent < NO_LIMIT))
    near = masks.footprint.covers(layer.centres_m(base, cells, (rows.start, columns.start)), layer.cell_m)
    slowest = percent[tuple(cells[near].T)].min(initial=NO_LIMIT)
    return math.inf if slowest == NO_LIMIT else masks.v_max_mps * float(slowest) / NO_LIMIT


def _span(middle_m: float, reach_m: float, cell_m: float) -> slice:
    first, last = math.floor((middle_m - reach_m) / cell_m), math.floor((middle_m + reach_m) / cell_m) + 1
    return slice(max(first, 0), max(last, 0))


def _table(layer: Layer) -> dict[str, object]:
    pose = layer.map_from_grid
    data = base64.b64encode(zlib.compress(layer.percent.tobytes())).decode()
    corner = [pose.x_m, pose.y_m, pose.yaw_rad]
    return {"cell_m": layer.cell_m, "corner": corner, "shape": list(layer.percent.shape), "data": data}


def _layer(table: dict[str, object]) -> Layer:
    x_m, y_m, yaw_rad = (float(one) for one in table["corner"])  # type: ignore[attr-defined]
    cell_m = float(table["cell_m"])  # type: ignore[arg-type]
    near = all(abs(one) <= MAX_COORDINATE_M for one in (x_m, y_m, yaw_rad))
    if not near or not MIN_RESOLUTION_M <= cell_m <= MAX_RESOLUTION_M:
        raise ValueError(f"cells of {cell_m:g} m from ({x_m:g}, {y_m:g}, {yaw_rad:g}) on are none of a map")
    rows, columns = (int(one) for one in table["shape"])  # type: ignore[attr-defined]
    if rows < 0 or columns < 0 or rows * columns > MAX_CELLS:
        raise ValueError(f"{columns} x {rows} cells, the limit is {MAX_CELLS}")
    unpacked = zlib.decompressobj().decompress(base64.b64decode(str(table["data"]), validate=True), rows * columns + 1)
    percent = np.frombuffer(unpacked, np.int8).reshape(rows, columns)
    return Layer(cell_m, Pose(x_m, y_m, yaw_rad), percent)
