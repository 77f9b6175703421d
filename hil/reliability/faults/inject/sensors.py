"""Faults of cameras and ready-made scans, injected into the messages to their drivers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hil.reliability.faults.inject.schedule import Injection
from onboard.assembly.robot import scan_topics
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.drivers.dds.ros_convert import FIRST_BIN_RAD, ros_image
from onboard.drivers.dds.ros_types import Image, LaserScan
from onboard.perception.collision import AHEAD_RAD
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BIN_RAD, BINS

# ---- Faults of any stamped message: image or scan

LATE_NS = NS_PER_S // 2

Sample = TypeVar("Sample", Image, LaserScan)


class SourceFault(Injection):
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


class NoMessages(SourceFault):
    """No message arrives."""

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> None:
        """Drop the message."""
        return


class Frozen(SourceFault):
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


class DelayedMessages(SourceFault):
    """Messages arrive `late_ns` late, unchanged. A message less than `period_ns` after the last message is dropped."""

    def __init__(self, sources: Collection[str], late_ns: int = LATE_NS, period_ns: int = 0) -> None:
        super().__init__(sources)
        self._late_ns, self._period_ns = late_ns, period_ns
        self._next_ns: dict[str, int] = {}
        self._in_progress: dict[str, deque[tuple[int, Any]]] = {}

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample | None:
        """Return the newest delayed message that is due; None without one."""
        in_progress = self._in_progress.setdefault(source, deque())
        if now_ns >= self._next_ns.get(source, now_ns):
            in_progress.append((now_ns + self._late_ns, sample))
            self._next_ns[source] = now_ns + self._period_ns
        arrived: Sample | None = None
        while in_progress and in_progress[0][0] <= now_ns:
            arrived = in_progress.popleft()[1]
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


class Changed(SourceFault):
    """Each message of the sources is replaced. change: gets the source and its message, returns the new message."""

    def __init__(self, sources: Collection[str], change: Callable[[str, Any], Any]) -> None:
        super().__init__(sources)
        self._change = change

    def spoilt(self, source: str, sample: Sample, now_ns: int) -> Sample:
        """Return the changed message."""
        changed: Sample = self._change(source, sample)
        return changed


def painted(cameras: Collection[str], mounts: Mounts, distance_m: float) -> Injection:
    """Return cameras in whose images every pixel has the same depth; 0 means no return."""
    units = {name: round(distance_m / mounts.depth[name].depth_scale_m) for name in cameras}
    return Changed(
        cameras,
        lambda camera, image: _with_pixels(image, np.full((image.height, image.width), units[camera], np.uint16)),
    )


def image_noise(cameras: Collection[str], seed: int) -> Injection:
    """Return cameras in whose images every pixel is uniform random over all values of a pixel."""
    rng, most = np.random.default_rng(seed), np.iinfo(np.uint16).max
    return Changed(
        cameras,
        lambda camera, image: _with_pixels(
            image, rng.integers(0, most, (image.height, image.width), np.uint16, endpoint=True)
        ),
    )


def wrong_size(cameras: Collection[str]) -> Injection:
    """Return cameras whose images have half the width and half the height, and show no near obstacle."""

    def smaller(camera: str, image: Image) -> Image:
        shape = round(image.height * WRONG_SIDE), round(image.width * WRONG_SIDE)
        return _with_pixels(image, np.full(shape, np.iinfo(np.uint16).max, np.uint16))

    return Changed(cameras, smaller)


def torn(cameras: Collection[str]) -> Injection:
    """Return cameras whose images lack the second half of their bytes."""
    return Changed(cameras, lambda camera, image: replace(image, data=bytes(image.data)[: len(image.data) // 2]))


def not_numbers(cameras: Collection[str]) -> Injection:
    """Return cameras with images in metres in which every pixel is NaN."""

    def nothing(camera: str, image: Image) -> Image:
        pixels = np.full((image.height, image.width), np.nan, np.float32)
        return replace(ros_image(0, "", "32FC1", pixels), header=image.header)

    return Changed(cameras, nothing)


def _with_pixels(sample: Image, pixels: npt.NDArray[np.uint16]) -> Image:
    """Return the message with other pixels; the size may differ."""
    return replace(ros_image(0, "", "16UC1", pixels), header=sample.header)


# ---- Faults of ready-made scans

WRONG_PART = 2
"""A cut message holds its ranges divided by this number; its end angle is that of the complete scan."""
AHEAD_BINS: npt.NDArray[np.bool_] = np.abs(FIRST_BIN_RAD + BIN_RAD * np.arange(BINS)) <= AHEAD_RAD


def topics(config: Config) -> frozenset[str]:
    """Return the topics of a robot's ready-made scans."""
    return frozenset(scan_topics(config).values())


def with_ranges(topics: Collection[str], ranges_m: Callable[[LaserScan], Sequence[float]]) -> Injection:
    """Return scans with other ranges. ranges_m: returns the ranges that replace the ranges of a scan [m]."""
    return Changed(topics, lambda topic, scan: replace(scan, ranges=list(ranges_m(scan))))


def same(topics: Collection[str], range_m: float) -> Injection:
    """Return scans in which every ray has the same range; NaN means an invalid ray."""
    return with_ranges(topics, lambda scan: [range_m] * len(scan.ranges))


def scan_noise(topics: Collection[str], seed: int) -> Injection:
    """Return scans in which every range is uniform random from 0 to the maximum range."""
    rng = np.random.default_rng(seed)
    return with_ranges(topics, lambda scan: rng.uniform(0.0, scan.range_max, len(scan.ranges)).tolist())


def wrong_length(topics: Collection[str]) -> Injection:
    """Return scans with the ranges of their first half turn only."""
    return with_ranges(topics, lambda scan: scan.ranges[: len(scan.ranges) // WRONG_PART])


def blind_ahead(topics: Collection[str]) -> Injection:
    """Return scans in which the rays ahead are NaN."""
    return with_ranges(topics, lambda scan: np.where(AHEAD_BINS, np.nan, scan.ranges).tolist())
