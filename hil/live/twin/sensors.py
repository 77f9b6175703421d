"""Simulated sensors of the twin: images, scan and lidar cloud of its place, with the people in it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hil.live.twin.scene import Life
from hil.live.twin.twin import Twin
from hil.maps.materials import PLAIN
from hil.physics.contact import NO_BODIES
from hil.scene.walkers import bodies_of
from hil.sensors.camera import MAX_RANGE_M, Rays, rays_of, render_color, render_depth
from hil.sensors.direct_scan import cast_scan
from hil.sensors.lidar import cloud_rays, lidar_cloud
from onboard.config.config import ScanSection
from onboard.config.mounts import Mounts
from onboard.values.messages import BINS, Scan

STRIPS = os.cpu_count() or 1
EVERYWHERE = np.ones(BINS, dtype=np.bool_)


class Views:
    """The sensors of a robot, from its mounts."""

    def __init__(self, mounts: Mounts, section: ScanSection) -> None:
        """Prepare the rays of the cameras. section: height band of the scan."""
        self._depth = {name: rays_of(mount) for name, mount in mounts.depth.items()}
        self._color = {name: strips(rays_of(mount)) for name, mount in mounts.color.items()}
        self._threads = ThreadPoolExecutor(STRIPS)
        self._lidar = cloud_rays()
        self._band = section.z_min_m, section.z_max_m

    def warm(self, life: Life, twin: Twin) -> None:
        """Use every sensor once, so that their kernels are compiled."""
        self.scan(life, twin)
        self.cloud(life, twin)
        for name in self._depth:
            self.depth(name, life, twin)
        for name in self._color:
            self.color(name, life, twin)

    def scan(self, life: Life, twin: Twin) -> Scan:
        """Return the scan from the centre of the base. All bins are seen; the scan has no blind sector."""
        ranges = cast_scan(life.world, twin.pose, MAX_RANGE_M, *self._band, bodies=_bodies(twin))
        return Scan(0, ranges, EVERYWHERE)

    def cloud(self, life: Life, twin: Twin) -> npt.NDArray[np.float32]:
        """Return (n, 3) the points of paper 4's lidar in the base frame [m]."""
        return lidar_cloud(life.world, self._lidar, twin.pose, _bodies(twin))

    def depth(self, name: str, life: Life, twin: Twin) -> npt.NDArray[np.uint16]:
        """Return the (height, width) depth image of camera `name`, in the units of its mount."""
        return render_depth(life.world, self._depth[name], twin.pose, bodies=_bodies(twin))

    def color(self, name: str, life: Life, twin: Twin) -> npt.NDArray[np.uint8]:
        """Return the (height, width, 3) RGB image of colour camera `name`, rendered on all cores."""
        bodies = _bodies(twin)
        return np.concatenate(list(self._threads.map(
            lambda rays: render_color(life.world, rays, twin.pose, PLAIN, bodies), self._color[name])
        ))  # fmt: skip


def strips(rays: Rays, most: int = STRIPS) -> list[Rays]:
    """Return the rays of a camera in strips of whole rows, by default one for each core."""
    rows = np.array_split(np.arange(rays.height), min(most, rays.height))
    by_row = rays.directions.reshape(rays.height, -1, 3)
    return [replace(rays, height=len(part), directions=by_row[part].reshape(-1, 3)) for part in rows]


def _bodies(twin: Twin) -> npt.NDArray[np.float64]:
    return NO_BODIES if twin.crowd is None else bodies_of(twin.crowd)
