"""The cast scan of real cameras: each takes its images at its own times, they arrive late, the body tilts.

A camera's part of the scan is cast from where the robot was when the image was taken, and moved to now, as the runtime
moves images (`scan.move_images`). Under a tilt the floor itself reaches the lowest obstacle's height: a bin that looks
down sees it as an obstacle. Not modelled: what a camera sees above or below its view (`--rendered` shows it).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hil.physics.contact import Bodies
from hil.sensors.depth_noise import noisy_scan
from hil.sensors.direct_scan import DirectScan
from onboard.config.config import ScanSection
from onboard.config.mounts import Mounts
from onboard.perception.collision import UNIT
from onboard.perception.scan_fusion import looked_at, moved_ranges
from onboard.values.geometry import between
from onboard.values.messages import Pose

TICK_HZ = 30
FIRST_TICK = 1
"""No image is older than this tick."""
LONGEST_TICKS = 60
"""Ticks that a caller must remember: the slowest camera and the largest age together are shorter."""
TIMES, TILTS = 17, 19
"""Random streams beside a drive's seed."""
TILT_PERIODS_S = (3.1, 4.7)
"""Periods of pitch and roll: driving off, braking, an uneven floor."""
LIDAR = "lidar"

Ranges = npt.NDArray[np.float32]
Glancer = Callable[[int], tuple[Pose, Bodies]]
"""Pose in the map frame and moving bodies of a tick."""


@dataclass(frozen=True, slots=True)
class Flaws:
    """What real cameras do besides noise and holes. The defaults do nothing.

    camera_hz:    least and largest rate; each camera draws its own, and its own first tick. None: all at once
    camera_age_s: least and largest age of an image on arrival [s]
    nearer_per_m: how much too near a surface reads, in 1/range [1/m]: the minimum over noisy pixels
    tilt_deg:     largest pitch and roll of the body; each drive draws its own course of them
    """

    camera_hz: tuple[float, float] | None = None
    camera_age_s: tuple[float, float] = (0.0, 0.0)
    nearer_per_m: float = 0.0
    tilt_deg: float = 0.0

    @property
    def any(self) -> bool:
        """Whether a scan differs from the direct one."""
        return self != NONE


NONE = Flaws()
"""Cameras as they are without flaws."""


@dataclass(frozen=True, slots=True)
class CameraTimes:
    """When one camera takes its images: every `period` ticks from `first` on, each `age` ticks late."""

    period: int
    first: int
    age: int

    def newest(self, tick: int) -> int:
        """Return the tick of the newest image that has arrived in a tick."""
        return max(tick - self.age - (tick - self.age - self.first) % self.period, FIRST_TICK)

    def takes(self, tick: int) -> bool:
        """Return whether an image is taken in a tick; the first is taken in `FIRST_TICK`."""
        return tick == FIRST_TICK or (tick > FIRST_TICK and (tick - self.first) % self.period == 0)


def camera_times(flaws: Flaws, names: list[str], seed: int, every: int) -> dict[str, CameraTimes]:
    """Return the times of each camera, drawn by a seed. every: period [ticks] of cameras without a rate."""
    rng = np.random.default_rng((seed, TIMES))
    times = {}
    for name in names:
        if flaws.camera_hz is None:
            period, first = every, FIRST_TICK
        else:
            slow, fast = (TICK_HZ / hz for hz in flaws.camera_hz)
            period = max(round(math.exp(rng.uniform(math.log(fast), math.log(slow)))), 1)
            first = FIRST_TICK + int(rng.integers(period))
        times[name] = CameraTimes(period, first, round(rng.uniform(*flaws.camera_age_s) * TICK_HZ))
    return times


def tilt_rad(flaws: Flaws, seed: int, tick: int) -> tuple[float, float]:
    """Return (pitch, roll) of the body in a tick [rad]: the front goes down, the right side goes down."""
    rng = np.random.default_rng((seed, TILTS))
    phases, most = rng.uniform(0.0, 2.0 * math.pi, 2), math.radians(flaws.tilt_deg)
    pitch, roll = (
        most * math.sin(2.0 * math.pi * tick / (period_s * TICK_HZ) + phase)
        for period_s, phase in zip(TILT_PERIODS_S, phases, strict=True)
    )
    return pitch, roll


class FlawedScan:
    """The scan of one drive. Images are kept until their camera takes the next."""

    def __init__(
        self, scan: DirectScan, mounts: Mounts, section: ScanSection, flaws: Flaws, noise: bool, seed: int, every: int
    ) -> None:
        self.seen = scan.seen
        self._scan, self._flaws, self._noise, self._seed = scan, flaws, noise, seed
        names = list(section.cameras or mounts.depth) if scan.z_min_m < scan.z_max_m else []
        self._looks: dict[str, npt.NDArray[np.bool_]] = {name: looked_at(mounts.depth[name], section) for name in names}
        self._casts = dict.fromkeys(names, replace(scan, also=None))
        if scan.also is not None or not names:
            self._looks[LIDAR] = scan.seen
            self._casts[LIDAR] = scan.also or scan
        self._times = camera_times(flaws, list(self._looks), seed, every)
        self._images: dict[str, tuple[int, Ranges]] = {}

    def ranges(self, tick: int, glance: Glancer) -> Ranges:
        """Return (180,) the ranges of all newest images [m], as seen from the robot's place in a tick."""
        ranges_m = np.full(len(self._scan.seen), np.inf, np.float32)
        now = glance(tick)[0]
        for name, times in self._times.items():
            taken = times.newest(tick)
            kept = self._images.get(name)
            if kept is None or kept[0] != taken:
                self._images[name] = kept = taken, self._image(name, taken, glance)
            then = glance(taken)[0]
            image = kept[1] if then == now else moved_ranges(kept[1], between(now, then))
            np.minimum(ranges_m, image, out=ranges_m)
        np.copyto(ranges_m, np.inf, where=~self._scan.seen)
        return ranges_m

    def _image(self, name: str, tick: int, glance: Glancer) -> Ranges:
        pose, bodies = glance(tick)
        ranges_m = self._casts[name].ranges(pose, bodies)
        if self._flaws.tilt_deg > 0.0 and name != LIDAR:
            np.minimum(ranges_m, self._floor_m(tick), out=ranges_m)
        if self._noise or self._flaws.nearer_per_m > 0.0:
            ranges_m = noisy_scan(ranges_m, self._seed, tick, self._noise, self._flaws.nearer_per_m)
        np.copyto(ranges_m, np.inf, where=~self._looks[name])
        return ranges_m

    def _floor_m(self, tick: int) -> Ranges:
        """Return (180,) the range at which the tilted floor is as high as the lowest obstacle, inf beyond the scan."""
        pitch, roll = tilt_rad(self._flaws, self._seed, tick)
        rises = np.tan(pitch) * UNIT[:, 0] - np.tan(roll) * UNIT[:, 1]
        with np.errstate(divide="ignore"):
            floor_m = np.where(rises > 0.0, self._scan.z_min_m / rises, np.inf)
        floor_m[floor_m > self._scan.far_m] = np.inf
        return floor_m.astype(np.float32)
