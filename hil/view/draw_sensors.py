"""Sensor data of a robot: scans and camera images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import rerun as rr

from onboard.config.mounts import Mount, Mounts
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.camera_input import color_from_ros, depth_from_ros
from onboard.drivers.dds.ros_types import LaserScan

# ---- Points and lines of scans

BLIND_M = 0.6
"""Drawn radius of sectors without a camera."""
CIRCLE_CORNERS = 48

Points = npt.NDArray[np.float64]


def scan_points(scan: LaserScan, height_m: float) -> Points:
    """Return (n, 3) points of the finite ranges in the frame of the scan [m]."""
    ranges = np.asarray(scan.ranges, np.float64)
    azimuth = scan.angle_min + scan.angle_increment * np.arange(len(ranges))
    seen = np.isfinite(ranges)
    x, y = ranges[seen] * np.cos(azimuth[seen]), ranges[seen] * np.sin(azimuth[seen])
    return np.column_stack([x, y, np.full(len(x), height_m)])


def blind_sectors(scan: LaserScan, height_m: float, radius_m: float = BLIND_M) -> list[Points]:
    """Return closed outlines of the sectors without a camera (NaN).

    A sector across the scan's seam is returned as two.
    """
    blind = np.isnan(np.asarray(scan.ranges, np.float64))
    half = scan.angle_increment / 2.0
    sectors = []
    for first, last in _stretches(blind):
        azimuth = scan.angle_min + scan.angle_increment * np.arange(first, last + 1)
        edges = np.r_[azimuth[0] - half, azimuth, azimuth[-1] + half]
        arc = np.column_stack([radius_m * np.cos(edges), radius_m * np.sin(edges)])
        line = np.vstack([np.zeros((1, 2)), arc, np.zeros((1, 2))])
        sectors.append(np.column_stack([line, np.full(len(line), height_m)]))
    return sectors


def circle(radius_m: float, height_m: float) -> Points:
    """Return (n, 3) corners of a closed circle about the origin [m]."""
    angle = np.linspace(0.0, 2.0 * math.pi, CIRCLE_CORNERS + 1)
    return np.column_stack([radius_m * np.cos(angle), radius_m * np.sin(angle), np.full(len(angle), height_m)])


def ring(line_m: Points, height_m: float) -> Points:
    """Return (n, 3) a line (n, 2) at a height [m]."""
    return np.column_stack([line_m, np.full(len(line_m), height_m)])


def _stretches(flags: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield first and last index of every stretch of True."""
    change = np.flatnonzero(np.diff(np.r_[False, flags, False]))
    yield from zip(change[::2].tolist(), (change[1::2] - 1).tolist(), strict=True)


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
"""Size of the points of a depth image; 1 is a closed surface."""
FARTHEST_M = 6.0
"""Depth of the last colour."""


class SensesPainter:
    """Draws the sensor data of one robot below its entity."""

    def __init__(self, recording: rr.RecordingStream, base: str, mounts: Mounts) -> None:
        self._recording = recording
        self._base = base
        self._depth: Mapping[str, Mount] = mounts.depth
        self._color = next(iter(mounts.color), None)
        self._blind: dict[str, bytes] = {}

    def scan(self, sample: ros.LaserScan, name: str) -> None:
        """Draw a scan: ranges as points, sectors without a camera as outlines."""
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
        """Log a depth image, shown as points in 3-D. Raises InputError if it does not fit the mount."""
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
        """Log the colour image. Raises InputError for a bad image."""
        if self._color is not None:
            image = rr.Image(np.ascontiguousarray(color_from_ros(sample)))
            self._recording.log(f"{self._base}/{self._color}/image", image)
