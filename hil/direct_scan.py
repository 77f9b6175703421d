"""The scan of a robot without the detour through images: what its cameras would see, or a single-plane lidar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hil.bodies import NO_BODIES, Bodies
from hil.maps import World
from hil.sectors import ScanCaster, caster_of
from onboard import scan
from onboard.config import ScanSection
from onboard.messages import BINS, Pose
from onboard.mounts import Mounts

ScanKind = Literal["fused", "lidar"]


LIDAR_HEIGHT_M = 0.2
"""Height of the lidar's plane, about that of a mobile base's."""


@dataclass(frozen=True, slots=True)
class DirectScan:
    """What is cast: from the base's centre, all that is solid in a height band, up to a range, where `seen`."""

    z_min_m: float
    z_max_m: float
    far_m: float
    seen: npt.NDArray[np.bool_]
    blind: npt.NDArray[np.bool_]
    caster: ScanCaster

    def ranges(self, pose: Pose, bodies: Bodies = NO_BODIES, within_m: float | None = None) -> npt.NDArray[np.float32]:
        """Return (180,) ranges from a pose of the map frame [m]; inf where nobody looks.

        What is farther than `within_m` may be left out, which takes less time.
        """
        radius_m = self.far_m if within_m is None else min(within_m, self.far_m)
        ranges_m = self.caster.cast(pose, radius_m, bodies)
        np.copyto(ranges_m, np.inf, where=self.blind)
        return ranges_m


def direct_scan(world: World, mounts: Mounts, section: ScanSection, kind: ScanKind) -> DirectScan:
    """Return what a configured scan becomes when it is cast: "fused" as its cameras look, "lidar" in one plane."""
    if kind == "lidar":
        band, seen = (LIDAR_HEIGHT_M, LIDAR_HEIGHT_M), np.ones(BINS, np.bool_)
    else:
        band, seen = (section.z_min_m, section.z_max_m), looked_at(mounts, section)
    return DirectScan(*band, section.far_m, seen, ~seen, caster_of(world, *band))


def looked_at(mounts: Mounts, section: ScanSection) -> npt.NDArray[np.bool_]:
    """Return (180,) bool: bins in which some camera of a scan looks, as the fusion judges it."""
    names = section.cameras or list(mounts.depth)
    return np.asarray(np.logical_or.reduce([scan.looked_at(mounts.depth[name], section) for name in names]))
