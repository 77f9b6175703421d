"""Scans cast directly in the grid, without images: the fused scan of depth cameras, or a single-plane lidar."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hil.maps.world_grid import World
from hil.physics.contact import NO_BODIES, Bodies
from hil.sensors.direct_scan_kernels import Ranges, bits_of, cast_sectors, lower_to_bodies
from onboard.config.config import ScanSection
from onboard.config.mounts import Mounts
from onboard.perception import scan_fusion
from onboard.values.geometry import compose
from onboard.values.messages import BINS, Pose

# ---- The direct scan: the nearest solid point in each 2 deg sector about the base

SCAN_RADIUS_M = 10.0
SCAN_Z_MIN_M = 0.05
SCAN_Z_MAX_M = 1.2
MOST_CASTERS = 8
"""Upper limit of the casters that `caster_of` caches."""


class ScanCaster:
    """Scan caster for one world and one height band. Needs a quarter of a byte per cell beside the world's gap."""

    def __init__(self, world: World, z_min_m: float = SCAN_Z_MIN_M, z_max_m: float = SCAN_Z_MAX_M) -> None:
        self._cell_m = world.cell_m
        self._grid_from_map = world.grid_from_map
        self._band_m = (z_min_m, z_max_m)
        self._gap = world.gap
        self._by_column, self._by_row = bits_of(world.low_m, world.high_m, z_min_m, z_max_m)

    def cast(self, pose: Pose, radius_m: float = SCAN_RADIUS_M, bodies: Bodies = NO_BODIES) -> Ranges:
        """Return (180,) ranges [m] from the base at a pose in the map frame, inf beyond the radius.

        From outside the grid only bodies are visible.
        """
        placed = compose(self._grid_from_map, pose)
        cell, c, s = self._cell_m, math.cos(placed.yaw_rad), math.sin(placed.yaw_rad)
        ranges = np.empty(BINS, np.float32)
        cast_sectors(
            placed.x_m / cell, placed.y_m / cell, c, s, radius_m / cell, cell,
            self._gap, self._by_column, self._by_row, ranges,
        )  # fmt: skip
        if len(bodies):
            lower_to_bodies(pose.x_m, pose.y_m, pose.yaw_rad, radius_m, *self._band_m, np.array(bodies), ranges)
        return ranges

    @property
    def nbytes(self) -> int:
        """Memory use in addition to the world's arrays [bytes]."""
        return self._by_column.nbytes + self._by_row.nbytes


def cast_scan(
    world: World,
    pose: Pose,
    radius_m: float = SCAN_RADIUS_M,
    z_min_m: float = SCAN_Z_MIN_M,
    z_max_m: float = SCAN_Z_MAX_M,
    bodies: Bodies = NO_BODIES,
) -> Ranges:
    """Return (180,) ranges [m]: the nearest point of each 2 deg sector that is solid in the height band.

    inf beyond `radius_m`. It looks all around and from the base's centre: what only cameras elsewhere would see, or
    would miss behind something low, differs. Against the scan fused from the default robot's rendered cameras see
    tests/hil/physics/test_scans_agree.py.
    """
    return caster_of(world, z_min_m, z_max_m).cast(pose, radius_m, bodies)


_casters: dict[tuple[int, int, float, float], tuple[weakref.ref[Any], ScanCaster]] = {}
"""By the identity of a world's heights and gap, for as long as the heights live."""


def caster_of(world: World, z_min_m: float = SCAN_Z_MIN_M, z_max_m: float = SCAN_Z_MAX_M) -> ScanCaster:
    """Return the caster of a world and a height band, made at the first call; it does not keep the world alive."""
    key = (id(world.low_m), id(world.gap), z_min_m, z_max_m)
    known = _casters.get(key)
    if known is not None and known[0]() is world.low_m:
        return known[1]
    caster = ScanCaster(world, z_min_m, z_max_m)
    while len(_casters) >= MOST_CASTERS:
        _casters.pop(next(iter(_casters)), None)
    _casters[key] = (weakref.ref(world.low_m, lambda _: _casters.pop(key, None)), caster)
    return caster


ScanKind = Literal["fused", "lidar"]


LIDAR_HEIGHT_M = 0.2
"""Height of the lidar's plane, typical of a mobile base."""


@dataclass(frozen=True, slots=True)
class DirectScan:
    """A configured scan: ranges from the base's centre to solid points of a height band, in the bins of `seen`.

    also: the lidar's plane next to the cameras' band, fused into the same bins; None without one
    """

    z_min_m: float
    z_max_m: float
    far_m: float
    seen: npt.NDArray[np.bool_]
    blind: npt.NDArray[np.bool_]
    caster: ScanCaster
    also: DirectScan | None = None

    def ranges(self, pose: Pose, bodies: Bodies = NO_BODIES, within_m: float | None = None) -> npt.NDArray[np.float32]:
        """Return (180,) ranges from a pose in the map frame [m]; inf in bins that no camera sees.

        Ranges beyond `within_m` are inf; a smaller limit takes less time.
        """
        radius_m = self.far_m if within_m is None else min(within_m, self.far_m)
        ranges_m = self.caster.cast(pose, radius_m, bodies)
        np.copyto(ranges_m, np.inf, where=self.blind)
        if self.also is not None:
            np.minimum(ranges_m, self.also.ranges(pose, bodies, within_m), out=ranges_m)
        return ranges_m


def direct_scan(world: World, mounts: Mounts, section: ScanSection, kind: ScanKind) -> DirectScan:
    """Return the direct scan of a configuration: "fused" in the cameras' view, "lidar" in one plane.

    A table with a topic of ready-made scans is a lidar's; with cameras next to it, it has both.
    """
    lidar = None
    if kind == "lidar" or section.topic:
        everywhere, plane = np.ones(BINS, np.bool_), (LIDAR_HEIGHT_M, LIDAR_HEIGHT_M)
        lidar = DirectScan(*plane, section.far_m, everywhere, ~everywhere, caster_of(world, *plane))
        if not (section.topic and section.uses_cameras):
            return lidar
    band, seen = (section.z_min_m, section.z_max_m), looked_at(mounts, section)
    return DirectScan(
        *band, section.far_m, seen if lidar is None else lidar.seen, ~seen, caster_of(world, *band), lidar
    )


def looked_at(mounts: Mounts, section: ScanSection) -> npt.NDArray[np.bool_]:
    """Return (180,) bool: bins in the view of at least one camera, by the rule of `scan_fusion`."""
    names = section.cameras or list(mounts.depth)
    views = [scan_fusion.looked_at(mounts.depth[name], section) for name in names]
    return np.asarray(np.logical_or.reduce(views)) if views else np.zeros(BINS, np.bool_)
