"""What a process holds, now and then, and whether it grows.

The samples of the first third are warm-up: caches fill, allocators settle. The medians of the other two thirds are
compared, so that a moment in which something more is held counts for nothing.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

MIB = 1024 * 1024
FEWEST = 9
"""Three samples for each third at least: fewer say nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the process held at a time of the robot's [s].

    memory_mib: resident; objects: that the garbage collector knows, after a collection
    """

    robot_s: float
    memory_mib: float
    objects: int
    files: int
    threads: int
    tasks: int


class Timed(Protocol):
    """A sample of a time of the robot's [s]."""

    @property
    def robot_s(self) -> float:
        """When it was taken."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a number may grow by between the middles of the last two thirds: a floor, and so much an hour beside."""

    floor: float
    per_hour: float


BOUNDS: Mapping[str, Bound] = {
    "memory_mib": Bound(4.0, 1.0),
    "objects": Bound(500.0, 200.0),
    "files": Bound(0.0, 0.0),
    "threads": Bound(0.0, 0.0),
    "tasks": Bound(0.0, 0.0),
}
"""One number of 8 bytes kept in each tick would be 0.8 MiB an hour, one object of 100 bytes 10 MiB and 108,000 objects:
the bounds an hour are about what the first and a five-hundredth of the second would bring. The floors are what the same
place is measured by to vary: how full the allocator's arenas and the recorder's queue are at that moment."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How a number went: medians of the middle and of the last third, the difference, and what it may be at most."""

    what: str
    middle: float
    last: float
    grown: float
    per_hour: float
    allowed: float

    @property
    def held(self) -> bool:
        """Return whether it did not grow."""
        return self.grown <= self.allowed


def take_sample(robot_s: float) -> Sample:
    """Return what this process holds now. Called within its event loop."""
    gc.collect()
    return Sample(
        robot_s=robot_s,
        memory_mib=int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB,
        objects=len(gc.get_objects()),
        files=len(os.listdir("/proc/self/fd")),
        threads=len(os.listdir("/proc/self/task")),
        tasks=len(asyncio.all_tasks()),
    )


def growth(samples: Sequence[Timed], names: Sequence[str] = tuple(BOUNDS)) -> list[Growth]:
    """Return how each of these numbers went; nothing where there are too few samples."""
    if len(samples) < FEWEST:
        return []
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[-third:]
    hours = (median(one.robot_s for one in last) - median(one.robot_s for one in middle)) / 3600.0
    found = []
    for name in names:
        bound = BOUNDS[name]
        before, after = (float(median(getattr(one, name) for one in part)) for part in (middle, last))
        grown = after - before
        found.append(Growth(name, before, after, grown, grown / hours, bound.floor + bound.per_hour * hours))
    return found


def as_json(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return samples as plain values."""
    return [asdict(one) for one in samples]
