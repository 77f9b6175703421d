"""What goes wrong with cameras, as messages that their driver gets."""

from __future__ import annotations

import copy
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from hil.faults.schedule import COLOR, Injection
from hil.faults.stream_faults import Gone
from onboard.drivers.ros_messages import ros_image
from onboard.drivers.ros_types import Image
from onboard.mounts import Mounts
from onboard.zones import AHEAD_RAD

NEAR_M = 0.11
"""A thing so near before each lens that nothing may come nearer to it."""
WRONG_SIDE = 0.5
"""A camera that was set up anew delivers this part of each side."""


def ahead(mounts: Mounts) -> frozenset[str]:
    """Return the depth cameras that look ahead: those whose axis is within 30 deg of straight ahead.

    Where none does, that one which is nearest to it.
    """
    off = {name: abs(float(np.arctan2(*mount.base_from_camera[1::-1, 2]))) for name, mount in mounts.depth.items()}
    found = frozenset(name for name, angle in off.items() if angle <= AHEAD_RAD)
    return found or frozenset(sorted(off, key=off.__getitem__)[:1])


class OfCameras(Injection):
    """A fault of some cameras."""

    def __init__(self, cameras: Collection[str]) -> None:
        self.cameras = frozenset(cameras)

    def image(self, camera: str, sample: Image, now_ns: int) -> Image | None:
        """Return what comes of one of these cameras; others go on."""
        return self.spoilt(camera, sample) if camera in self.cameras else sample

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return the message in place of one of these cameras' image."""
        raise NotImplementedError


class Painted(OfCameras):
    """Every pixel says the same distance; 0 is no return."""

    def __init__(self, cameras: Collection[str], mounts: Mounts, distance_m: float) -> None:
        super().__init__(cameras)
        self._units = {name: round(distance_m / mounts.depth[name].depth_scale_m) for name in self.cameras}

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return an image of one distance."""
        return _with_pixels(sample, np.full((sample.height, sample.width), self._units[camera], np.uint16))


class Noise(OfCameras):
    """Every pixel is drawn from all that a pixel can be."""

    def __init__(self, cameras: Collection[str], seed: int) -> None:
        super().__init__(cameras)
        self._rng = np.random.default_rng(seed)

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return an image of noise."""
        pixels = self._rng.integers(0, np.iinfo(np.uint16).max, (sample.height, sample.width), np.uint16, endpoint=True)
        return _with_pixels(sample, pixels)


class WrongSize(OfCameras):
    """Images of half the size."""

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return a smaller image of nothing near."""
        shape = round(sample.height * WRONG_SIDE), round(sample.width * WRONG_SIDE)
        return _with_pixels(sample, np.full(shape, np.iinfo(np.uint16).max, np.uint16))


class Torn(OfCameras):
    """Half of each image's bytes."""

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return a message whose rows end in the middle."""
        torn = copy.copy(sample)
        torn.data = bytes(sample.data)[: len(sample.data) // 2]
        return torn


class NotNumbers(OfCameras):
    """Images in metres in which every pixel is NaN."""

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return an image without a number."""
        stamped = ros_image(0, "", "32FC1", np.full((sample.height, sample.width), np.nan, np.float32))
        stamped.header = sample.header
        return stamped


def color_gone() -> Gone:
    """Return the loss of the colour camera."""
    return Gone({COLOR})


def _with_pixels(sample: Image, pixels: npt.NDArray[np.uint16]) -> Image:
    """Return the message with other pixels, which may have another size."""
    changed = ros_image(0, "", "16UC1", pixels)
    changed.header = sample.header
    return changed
