"""What a twin's sensors see of its place: depth, colour and scan, at a pose, with the people in it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hil.live.twin.scene import Life
from hil.live.twin.twin import Twin
from hil.maps.materials import PLAIN
from hil.physics.contact import NO_BODIES
from hil.scene.walkers import bodies_of
from hil.sensors.camera import MAX_RANGE_M, rays_of, render_color, render_depth
from hil.sensors.direct_scan import cast_scan
from onboard.config.config import ScanSection
from onboard.config.mounts import Mounts
from onboard.values.messages import BINS, Scan

EVERYWHERE = np.ones(BINS, dtype=np.bool_)


class Views:
    """The sensors of one robot, as its mounts have them."""

    def __init__(self, mounts: Mounts, section: ScanSection) -> None:
        """Prepare the rays; the scan sees the height band of the configuration's."""
        self._depth = {name: rays_of(mount) for name, mount in mounts.depth.items()}
        self._color = {name: rays_of(mount) for name, mount in mounts.color.items()}
        self._band = section.z_min_m, section.z_max_m

    def warm(self, life: Life, twin: Twin) -> None:
        """Look once, so that kernels are compiled."""
        self.scan(life, twin)
        for name in self._depth:
            self.depth(name, life, twin)
        for name in self._color:
            self.color(name, life, twin)

    def scan(self, life: Life, twin: Twin) -> Scan:
        """Return what is around, seen from the base's middle: nothing is blind."""
        ranges = cast_scan(life.world, twin.pose, MAX_RANGE_M, *self._band, bodies=_bodies(twin))
        return Scan(0, ranges, EVERYWHERE)

    def depth(self, name: str, life: Life, twin: Twin) -> npt.NDArray[np.uint16]:
        """Return (height, width) of one depth camera, in units of its mount."""
        return render_depth(life.world, self._depth[name], twin.pose, bodies=_bodies(twin))

    def color(self, name: str, life: Life, twin: Twin) -> npt.NDArray[np.uint8]:
        """Return (height, width, 3) RGB of one colour camera."""
        return render_color(life.world, self._color[name], twin.pose, PLAIN, _bodies(twin))


def _bodies(twin: Twin) -> npt.NDArray[np.float64]:
    return NO_BODIES if twin.crowd is None else bodies_of(twin.crowd)
