"""Resources of a process: samples over time, and a check for growth.

The first third of the samples is warm-up: caches fill, allocators settle. The check compares the medians of the other
two thirds, so that a short peak does not count.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import psutil

MIB = 1024 * 1024
FEWEST = 9
"""Minimum number of samples: three in each third."""


@dataclass(frozen=True, slots=True)
class Held:
    """Resources of a process at a time since the start [s], measured from outside. memory_mib: resident memory"""

    robot_s: float
    memory_mib: float
    files: int
    threads: int


@dataclass(frozen=True, slots=True)
class Sample(Held):
    """Resources of this process. objects: objects of the garbage collector after a collection"""

    objects: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Bound:
    """Allowed growth between the medians of the last two thirds: a constant, plus a rate times the time [h]."""

    floor: float
    per_hour: float


BOUNDS: Mapping[str, Bound] = {
    "memory_mib": Bound(4.0, 1.0),
    "objects": Bound(500.0, 200.0),
    "files": Bound(0.0, 0.0),
    "threads": Bound(0.0, 0.0),
    "tasks": Bound(0.0, 0.0),
}
"""Rates: a leak of 8 bytes a tick is 0.8 MiB an hour, about the limit for memory. A leak of one object of 100 bytes a
tick is 10 MiB and 108,000 objects an hour. A five-hundredth of these objects is about the limit for objects.

Floors: the measured variation without a leak. It comes from the allocator's arenas and the recorder's queue."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Change of a resource: medians of the middle and the last third, difference, rate [1/h], allowed difference."""

    what: str
    middle: float
    last: float
    grown: float
    per_hour: float
    allowed: float

    @property
    def held(self) -> bool:
        """Return whether the growth is allowed."""
        return self.grown <= self.allowed


def held_by(pid: int, robot_s: float) -> Held:
    """Return the resources of a process now."""
    process = psutil.Process(pid)
    return Held(robot_s, process.memory_info().rss / MIB, process.num_fds(), process.num_threads())


def take_sample(robot_s: float) -> Sample:
    """Return the resources of this process now. Call it within the event loop."""
    gc.collect()
    held = asdict(held_by(os.getpid(), robot_s))
    return Sample(**held, objects=len(gc.get_objects()), tasks=len(asyncio.all_tasks()))


def growth(samples: Sequence[Held], names: Sequence[str] = tuple(BOUNDS)) -> list[Growth]:
    """Return the change of each named resource; empty for fewer than `FEWEST` samples."""
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
