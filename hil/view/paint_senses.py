"""What a robot sees, drawn where it stands: its scan, and the images of its cameras."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import rerun as rr

from hil.view.shapes import blind_sectors, scan_points
from onboard.drivers import ros_types as ros
from onboard.drivers.dds_camera import color_from_ros, depth_from_ros
from onboard.mounts import Mount, Mounts

Color = tuple[int, int, int]

#   scan          colour of its points, height at which they are drawn [m]
SCANS: dict[str, tuple[Color, float]] = {
    "scan": ((255, 70, 60), 0.30),
    "limits_scan": ((255, 190, 40), 0.33),
}
BLIND: Color = (150, 90, 160)
BLIND_Z_M = 0.02
POINT_M, LINE_M = 0.035, 0.012
FILL = 0.35
"""Size of a depth image's points in the world; 1 is a closed surface."""
FARTHEST_M = 6.0
"""Depth that the last colour stands for."""


class SensesPainter:
    """Draws under the entity of one body."""

    def __init__(self, recording: rr.RecordingStream, base: str, mounts: Mounts) -> None:
        self._recording = recording
        self._base = base
        self._depth: Mapping[str, Mount] = mounts.depth
        self._color = next(iter(mounts.color), None)
        self._blind: dict[str, bytes] = {}

    def scan(self, sample: ros.LaserScan, name: str) -> None:
        """Draw a scan: what was seen as points, where no camera looks as outlined sectors."""
        color, height_m = SCANS[name]
        entity = f"{self._base}/{name}"
        if name not in self._blind:
            points = rr.Points3D.from_fields(colors=[color], radii=[POINT_M])
            self._recording.log(f"{entity}/seen", points, static=True)
        self._recording.log(f"{entity}/seen", rr.Points3D.from_fields(positions=scan_points(sample, height_m)))
        blind = np.isnan(sample.ranges).tobytes()
        if blind != self._blind.get(name):
            self._blind[name] = blind
            sectors = rr.LineStrips3D(blind_sectors(sample, BLIND_Z_M), radii=LINE_M, colors=[BLIND])
            self._recording.log(f"{entity}/blind", sectors)

    def depth(self, sample: ros.Image, camera: str) -> None:
        """Hang up a depth image; in the world it is seen as points. Raises InputError when it is not the mount's."""
        mount = self._depth[camera]
        per_m = 1.0 / mount.depth_scale_m
        image = rr.DepthImage(
            depth_from_ros(sample, mount),
            meter=per_m,
            depth_range=(0.0, FARTHEST_M * per_m),
            colormap="turbo",
            point_fill_ratio=FILL,
        )
        self._recording.log(f"{self._base}/{camera}/depth", image)

    def color(self, sample: ros.Image) -> None:
        """Hang up the colour image. Raises InputError when it is none."""
        if self._color is not None:
            image = rr.Image(np.ascontiguousarray(color_from_ros(sample)))
            self._recording.log(f"{self._base}/{self._color}/image", image)
