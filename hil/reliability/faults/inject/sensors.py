"""Faults of cameras and ready-made scans, injected into the messages to their drivers."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hil.reliability.faults.inject.schedule import COLOR, Injection
from onboard.assembly.robot import scan_topics
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.drivers.dds.ros_convert import FIRST_BIN_RAD, ros_image
from onboard.drivers.dds.ros_types import Image, LaserScan
from onboard.perception.collision import AHEAD_RAD
from onboard.perception.laser_scan import BIN_RAD
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BINS

# ---- Faults of any stamped message: image or scan

LATE_NS = NS_PER_S // 2

Sample = TypeVar("Sample", Image, LaserScan)


class OfSources(Injection):
    """A fault of some sources: cameras by name, scans by topic. Other sources work."""

    def __init__(self, sources: Collection[str]) -> None:
        self.sources = frozenset(sources)

    def image(self, camera: str, sample: Image, now_ns: int) -> Image | None:
        """Return the image, replaced if its camera is a source; None drops it."""
        return self.spoilt(camera, sample, now_ns) if camera in self.sources else sample

    def scan(self, topic: str, sample: LaserScan, now_ns: int) -> LaserScan | None:
        """Return the scan, replaced if its topic is a source; None drops it."""
        return self.spoilt(topic, sample, now_ns) if topic in self.sources else sample

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample | None:
        """Return the message that replaces a message of a source; None drops it."""
        raise NotImplementedError


class Gone(OfSources):
    """No message arrives."""

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> None:
        """Drop the message."""
        return


class Frozen(OfSources):
    """The source repeats its last message. stamped: the stamps increase, so that each repeat looks new."""

    def __init__(self, sources: Collection[str], *, stamped: bool = False) -> None:
        super().__init__(sources)
        self._stamped = stamped
        self._held: dict[str, Any] = {}

    def saw(self, source: str, sample: Image | LaserScan) -> None:
        """Keep the newest message."""
        self._held[source] = sample

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample:
        """Return the last message before the fault, or the first message of the fault if there was none."""
        held: Sample = self._held.setdefault(source, sample)
        return replace(held, header=sample.header) if self._stamped else held


class Late(OfSources):
    """Messages arrive `late_ns` late, unchanged. A message less than `period_ns` after the last message is dropped."""

    def __init__(self, sources: Collection[str], late_ns: int = LATE_NS, period_ns: int = 0) -> None:
        super().__init__(sources)
        self._late_ns, self._period_ns = late_ns, period_ns
        self._next_ns: dict[str, int] = {}
        self._under_way: dict[str, deque[tuple[int, Any]]] = {}

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample | None:
        """Return the newest delayed message that is due; None without one."""
        under_way = self._under_way.setdefault(source, deque())
        if now_ns >= self._next_ns.get(source, now_ns):
            under_way.append((now_ns + self._late_ns, sample))
            self._next_ns[source] = now_ns + self._period_ns
        arrived: Sample | None = None
        while under_way and under_way[0][0] <= now_ns:
            arrived = under_way.popleft()[1]
        return arrived


NEAR_M = 0.11
"""Distance of an obstacle so near that the robot must not approach it."""
WRONG_SIDE = 0.5
"""A camera with another resolution delivers this fraction of each side."""


def ahead(mounts: Mounts) -> frozenset[str]:
    """Return the depth cameras whose axis is within 30 deg of straight ahead.

    If there is no such camera, return the camera nearest to that direction.
    """
    off = {name: abs(float(np.arctan2(*mount.base_from_camera[1::-1, 2]))) for name, mount in mounts.depth.items()}
    found = frozenset(name for name, angle in off.items() if angle <= AHEAD_RAD)
    return found or frozenset(sorted(off, key=off.__getitem__)[:1])


class OfCameras(Injection):
    """A fault of some cameras, by name."""

    def __init__(self, cameras: Collection[str]) -> None:
        self.cameras = frozenset(cameras)

    def image(self, camera: str, sample: Image, now_ns: int) -> Image | None:
        """Return the image, replaced if it is from one of these cameras; None drops it."""
        return self.spoilt(camera, sample) if camera in self.cameras else sample

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return the message that replaces an image of one of these cameras; None drops it."""
        raise NotImplementedError


class Painted(OfCameras):
    """Every pixel has the same depth; 0 means no return."""

    def __init__(self, cameras: Collection[str], mounts: Mounts, distance_m: float) -> None:
        super().__init__(cameras)
        self._units = {name: round(distance_m / mounts.depth[name].depth_scale_m) for name in self.cameras}

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return an image of constant depth."""
        return _with_pixels(sample, np.full((sample.height, sample.width), self._units[camera], np.uint16))


class ImageNoise(OfCameras):
    """Every pixel is uniform random over all values of a pixel."""

    def __init__(self, cameras: Collection[str], seed: int) -> None:
        super().__init__(cameras)
        self._rng = np.random.default_rng(seed)

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return an image of noise."""
        pixels = self._rng.integers(0, np.iinfo(np.uint16).max, (sample.height, sample.width), np.uint16, endpoint=True)
        return _with_pixels(sample, pixels)


class WrongSize(OfCameras):
    """Images with half the width and half the height."""

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return a smaller image without near obstacles."""
        shape = round(sample.height * WRONG_SIDE), round(sample.width * WRONG_SIDE)
        return _with_pixels(sample, np.full(shape, np.iinfo(np.uint16).max, np.uint16))


class Torn(OfCameras):
    """Images without the second half of their bytes."""

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return a message whose data end in the middle of the image."""
        torn = copy.copy(sample)
        torn.data = bytes(sample.data)[: len(sample.data) // 2]
        return torn


class NotNumbers(OfCameras):
    """Images in metres in which every pixel is NaN."""

    def spoilt(self, camera: str, sample: Image) -> Image | None:
        """Return an image of NaN."""
        stamped = ros_image(0, "", "32FC1", np.full((sample.height, sample.width), np.nan, np.float32))
        stamped.header = sample.header
        return stamped


def color_gone() -> Gone:
    """Return the loss of the colour camera."""
    return Gone({COLOR})


def _with_pixels(sample: Image, pixels: npt.NDArray[np.uint16]) -> Image:
    """Return the message with other pixels; the size may differ."""
    changed = ros_image(0, "", "16UC1", pixels)
    changed.header = sample.header
    return changed


# ---- Faults of ready-made scans

WRONG_PART = 2
"""A cut message holds its ranges divided by this number; its end angle is that of the complete scan."""
AHEAD_BINS: npt.NDArray[np.bool_] = np.abs(FIRST_BIN_RAD + BIN_RAD * np.arange(BINS)) <= AHEAD_RAD


def topics(config: Config) -> frozenset[str]:
    """Return the topics of a robot's ready-made scans."""
    return frozenset(scan_topics(config).values())


class OfScans(Injection):
    """A fault of some scans, by topic."""

    def __init__(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)

    def scan(self, topic: str, sample: LaserScan, now_ns: int) -> LaserScan | None:
        """Return the scan, with replaced ranges if it is from one of these topics."""
        return replace(sample, ranges=list(self.ranges_m(sample))) if topic in self.topics else sample

    def ranges_m(self, sample: LaserScan) -> Sequence[float]:
        """Return the ranges that replace the ranges of a scan [m]."""
        raise NotImplementedError


class Same(OfScans):
    """Every ray has the same range; NaN means an invalid ray."""

    def __init__(self, topics: Collection[str], range_m: float) -> None:
        super().__init__(topics)
        self._range_m = range_m

    def ranges_m(self, sample: LaserScan) -> Sequence[float]:
        """Return the same range for all rays."""
        return [self._range_m] * len(sample.ranges)


class ScanNoise(OfScans):
    """Every range is uniform random from 0 to the maximum range."""

    def __init__(self, topics: Collection[str], seed: int) -> None:
        super().__init__(topics)
        self._rng = np.random.default_rng(seed)

    def ranges_m(self, sample: LaserScan) -> Sequence[float]:
        """Return random ranges."""
        drawn: list[float] = self._rng.uniform(0.0, sample.range_max, len(sample.ranges)).tolist()
        return drawn


class WrongLength(OfScans):
    """Scans with half of their ranges."""

    def ranges_m(self, sample: LaserScan) -> Sequence[float]:
        """Return the ranges of the first half turn."""
        return sample.ranges[: len(sample.ranges) // WRONG_PART]


class BlindAhead(OfScans):
    """The rays ahead are NaN."""

    def ranges_m(self, sample: LaserScan) -> Sequence[float]:
        """Return the ranges with NaN ahead."""
        kept: list[float] = np.where(AHEAD_BINS, np.nan, sample.ranges).tolist()
        return kept
