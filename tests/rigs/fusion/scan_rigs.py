"""Small robots for the tests of the scan, and the frames that their cameras see."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from onboard.config.config import ScanSection
from onboard.config.mounts import Mount, Mounts
from onboard.perception.scan_fusion import Rig, build_rig
from onboard.values.messages import DepthFrame

LEVEL = np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])
"""Rotation of a level camera that looks ahead."""
MS = 1_000_000


def mount(name: str = "front", yaw_deg: float = 0.0, at=(0.0, 0.0, 0.3), size=(81, 61), f: float = 40.0) -> Mount:
    """Return a level camera with its optical axis at the middle pixel: by default 90 deg wide, 73.7 deg high."""
    c, s = math.cos(math.radians(yaw_deg)), math.sin(math.radians(yaw_deg))
    transform = np.eye(4)
    transform[:3, :3] = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ LEVEL
    transform[:3, 3] = at
    width, height = size
    lens = (width, height, f, f, (width - 1) / 2, (height - 1) / 2)
    return Mount(name, "", *lens, 0.001, transform, (0.0, 0.0, 0.0, 1.0))


def rig_of(*mounts: Mount, **section) -> Rig:
    """Return a rig whose scan is the paper's: the nearest pixel, no search for missing floor."""
    return build_rig(
        Mounts(Path("mounts.toml"), {m.name: m for m in mounts}, {}),
        ScanSection(**{"drop_m": 0.0, "noise_per_m": 0.0, **section}),
    )


def frame(name: str, depth: np.ndarray, number: int = 1, stamp_ns: int = 1) -> DepthFrame:
    return DepthFrame(name, number, stamp_ns, depth.astype(np.uint16))


def wall(m: Mount, depth: int) -> np.ndarray:
    """Return the image of a wall square to the camera, `depth` millimetres away."""
    return np.full((m.height, m.width), depth)


def bins_deg(looks: np.ndarray) -> list[int]:
    """Return the right edges of the bins that are set, in degrees."""
    return [int(i) * 2 - 180 for i in np.flatnonzero(looks)]
