"""What goes wrong with a scan that comes ready-made, as messages that its driver gets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hil.faults.schedule import Injection
from onboard.config import Config
from onboard.description import scan_topics
from onboard.drivers.ros_messages import FIRST_BIN_RAD
from onboard.drivers.ros_types import LaserScan
from onboard.laser import BIN_RAD
from onboard.messages import BINS
from onboard.zones import AHEAD_RAD

NEAR_M = 0.11
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


class Noise(OfScans):
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
