"""Keep-out and speed zones of the map: nav2's filter masks, active while the robot is localised.

A mask is a map_server map (`map_image.py`) in the map frame, of any size and resolution. Cells outside the mask and
unknown cells are free. As in nav2:

    keep_out  occupied cells are forbidden. Cells between free and occupied (mode scale) are free: only nav2's planner
              weighs them
    speed     1 to 99 are percent of `limits.v_max_mps`, 0 and 100 no limit (nav2: type 1, base 0, multiplier 1; mode
              scale or raw). Of all zones under the footprint, the slowest limit holds

Only the edge of forbidden ground counts, as points at the centres of cells of at most 5 cm. Their error of 3.5 cm is
within the stop margin. The localisation error is not added: draw the masks wider by it.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard.config.config import ZonesSection
from onboard.config.footprint import Footprint
from onboard.navigation.ekf import LocalizationState, localised, tracked
from onboard.perception import collision
from onboard.perception.building.map_image import OCCUPIED, occupied_cells, speed_limits
from onboard.perception.building.occupancy_grid import OccupancyGrid, grid_of, load_grid, table_of
from onboard.perception.collision import Points
from onboard.perception.kernels import bins_of
from onboard.perception.obstacle_memory import NOWHERE, Surroundings
from onboard.values.errors import InputError
from onboard.values.interfaces import Diagnostic
from onboard.values.messages import Pose, Scan

REACH_M = 3.0
"""Farther edges do not matter."""
NO_LIMIT = 100
NEIGHBOURS = [(row, column) for row in range(3) for column in range(3)]
LAYERS = KEEP_OUT, _ = "keep_out", "speed"
DIGITS = 12
"""Of the digest that `/diagnostics` states."""


@dataclass(frozen=True, slots=True)
class MapZones:
    """The masks of one robot. edge: the forbidden cells of `keep_out` with a free neighbour."""

    keep_out: OccupancyGrid | None
    speed: OccupancyGrid | None
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
    keep_out = None if section.keep_out is None else load_grid(section.keep_out, occupied_cells)
    speed = None if section.speed is None else load_grid(section.speed, speed_limits)
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


def diagnostic(masks: MapZones) -> Diagnostic:
    """Return the row of `/diagnostics`: which mask is in force since the start, by its digest."""
    digest = "" if masks.keep_out is None else masks.keep_out.digest[:DIGITS]
    return ("zones", 0, "read at the start", {KEEP_OUT: digest})


def encode(masks: MapZones) -> str:
    """Return the masks as text, so that a recording replays without their files."""
    return json.dumps({name: table_of(layer) for name in LAYERS if (layer := getattr(masks, name)) is not None})


def decode(text: str, section: ZonesSection, v_max_mps: float, footprint: Footprint) -> MapZones:
    """Return the masks from a text of `encode`. Raises InputError for any other text."""
    try:
        layers = {name: grid_of(table) for name, table in json.loads(text).items()}
        keep_out, speed = (layers.pop(name, None) for name in LAYERS)
        if layers:
            raise ValueError(f"unknown layer {next(iter(layers))}")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, zlib.error) as error:
        raise InputError(f"not the zones of a map: {error}") from error
    return _zones(keep_out, speed, section.required, v_max_mps, footprint)


def _zones(
    keep_out: OccupancyGrid | None, speed: OccupancyGrid | None, required: bool, v_max_mps: float, footprint: Footprint
) -> MapZones:
    forbidden = np.zeros((0, 0), np.bool_) if keep_out is None else keep_out.percent == OCCUPIED
    rows, columns = forbidden.shape
    around = np.pad(forbidden, 1)
    inner = np.logical_and.reduce([around[row : row + rows, column : column + columns] for row, column in NEIGHBOURS])
    return MapZones(keep_out, speed, forbidden & ~inner, required, v_max_mps, footprint)


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
