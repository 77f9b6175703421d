"""What goes wrong with cameras, as messages that their driver gets."""

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

# ---- What goes wrong with whatever comes as a stream of stamped messages: the images of a camera, a

LATE_NS = NS_PER_S // 2

Sample = TypeVar("Sample", Image, LaserScan)


class OfSources(Injection):
    """A fault of some sources: cameras by their names, scans by their topics. Others go on."""

    def __init__(self, sources: Collection[str]) -> None:
        self.sources = frozenset(sources)

    def image(self, camera: str, sample: Image, now_ns: int) -> Image | None:
        """Return what comes of an image."""
        return self.spoilt(camera, sample, now_ns) if camera in self.sources else sample

    def scan(self, topic: str, sample: LaserScan, now_ns: int) -> LaserScan | None:
        """Return what comes of a scan."""
        return self.spoilt(topic, sample, now_ns) if topic in self.sources else sample

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample | None:
        """Return the message in place of one of these sources'."""
        raise NotImplementedError


class Gone(OfSources):
    """Nothing comes any more."""

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> None:
        """Return nothing."""
        return


class Frozen(OfSources):
    """The last message comes again and again. stamped: with a stamp that goes on, so that it looks like a new one."""

    def __init__(self, sources: Collection[str], *, stamped: bool = False) -> None:
        super().__init__(sources)
        self._stamped = stamped
        self._held: dict[str, Any] = {}

    def saw(self, source: str, sample: Image | LaserScan) -> None:
        """Keep the newest message."""
        self._held[source] = sample

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample:
        """Return the last message from before; the first of this fault where none came."""
        held: Sample = self._held.setdefault(source, sample)
        return replace(held, header=sample.header) if self._stamped else held


class Late(OfSources):
    """What is sent arrives `late_ns` later, each message as it was sent; `period_ns` apart at the least, others not."""

    def __init__(self, sources: Collection[str], late_ns: int = LATE_NS, period_ns: int = 0) -> None:
        super().__init__(sources)
        self._late_ns, self._period_ns = late_ns, period_ns
        self._next_ns: dict[str, int] = {}
        self._under_way: dict[str, deque[tuple[int, Any]]] = {}

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample | None:
        """Return the newest message that has been under way for long enough."""
        under_way = self._under_way.setdefault(source, deque())
        if now_ns >= self._next_ns.get(source, now_ns):
            under_way.append((now_ns + self._late_ns, sample))
            self._next_ns[source] = now_ns + self._period_ns
        arrived: Sample | None = None
        while under_way and under_way[0][0] <= now_ns:
            arrived = under_way.popleft()[1]
        return arrived


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


class ImageNoise(OfCameras):
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


# ---- What goes wrong with a scan that comes ready-made, as messages that its driver gets

"""A thing so near that nothing may come nearer to it."""
WRONG_PART = 2
"""A message that was cut holds this part of its ranges, and still says where a whole one ends."""
AHEAD_BINS: npt.NDArray[np.bool_] = np.abs(FIRST_BIN_RAD + BIN_RAD * np.arange(BINS)) <= AHEAD_RAD


def topics(config: Config) -> frozenset[str]:
    """Return the topics of a robot's ready-made scans."""
    return frozenset(scan_topics(config).values())


class OfScans(Injection):
    """A fault of some scans, by topic."""

    def __init__(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)

    def scan(self, topic: str, sample: LaserScan, now_ns: int) -> LaserScan | None:
        """Return what comes of one of these; others go on."""
        return replace(sample, ranges=list(self.ranges_m(sample))) if topic in self.topics else sample

    def ranges_m(self, sample: LaserScan) -> Sequence[float]:
        """Return the ranges in place of those of one of these scans."""
        raise NotImplementedError


class Same(OfScans):
    """Every ray says the same; NaN is no ray."""

    def __init__(self, topics: Collection[str], range_m: float) -> None:
        super().__init__(topics)
        self._range_m = range_m

    def ranges_m(self, sample: LaserScan) -> Sequence[float]:
        """Return one number for all."""
        return [self._range_m] * len(sample.ranges)


class ScanNoise(OfScans):
    """Every ray is drawn from all that a ray can be."""

    def __init__(self, topics: Collection[str], seed: int) -> None:
        super().__init__(topics)
        self._rng = np.random.default_rng(seed)

    def ranges_m(self, sample: LaserScan) -> Sequence[float]:
        """Return noise."""
        drawn: list[float] = self._rng.uniform(0.0, sample.range_max, len(sample.ranges)).tolist()
        return drawn


class WrongLength(OfScans):
    """Half of the ranges."""

    def ranges_m(self, sample: LaserScan) -> Sequence[float]:
        """Return those of the first half turn."""
        return sample.ranges[: len(sample.ranges) // WRONG_PART]


class BlindAhead(OfScans):
    """The rays ahead are none."""

    def ranges_m(self, sample: LaserScan) -> Sequence[float]:
        """Return the others."""
        kept: list[float] = np.where(AHEAD_BINS, np.nan, sample.ranges).tolist()
        return kept
