"""What grows is found, and what does not is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.nightly import soak as soaking
from tests.nightly.growth import BOUNDS, FEWEST, MIB, Growth, Sample, growth, take_sample
from tests.nightly.test_soak import soak

pytestmark = pytest.mark.timeout(600)

FLAT = Sample(0.0, 500.0, 40, 5, objects=100_000, tasks=1)


def samples(change: Callable[[float, int], dict[str, Any]], hours: float = 6.0, count: int = 60) -> list[Sample]:
    """Return samples over hours; change: what one has otherwise, by its time [h] and number."""
    times = np.linspace(0.0, hours, count)
    return [replace(FLAT, robot_s=3600.0 * at, **change(float(at), number)) for number, at in enumerate(times)]


def grew(found: list[Growth]) -> list[str]:
    return [one.what for one in found if not one.held]


#   what                                    by time [h] and number                                     what grew
GROWTHS: list[tuple[str, Callable[[float, int], dict[str, Any]], list[str]]] = [
    ("nothing",                    lambda h, n: {},                                                     []),
    ("warm-up",                    lambda h, n: {"memory_mib": 500.0 + 100.0 * min(h, 1.9)},            []),
    ("now and then more",          lambda h, n: {"memory_mib": 500.0 + 90.0 * (n % 9 == 0)},            []),
    ("a file open now and then",   lambda h, n: {"files": 40 + (n % 7 == 0)},                           []),
    ("8 bytes a tick",             lambda h, n: {"memory_mib": 500.0 + 0.8 * h},                        []),
    ("100 bytes a tick",           lambda h, n: {"memory_mib": 500.0 + 10.3 * h},                       ["memory_mib"]),
    ("an object a second",         lambda h, n: {"objects": 100_000 + round(3600 * h)},                 ["objects"]),
    ("a file an hour",             lambda h, n: {"files": 40 + int(h)},                                 ["files"]),
    ("a thread in all",            lambda h, n: {"threads": 5 + (h > 3.5)},                             ["threads"]),
    ("a task an hour",             lambda h, n: {"tasks": 1 + int(h)},                                  ["tasks"]),
    ("less and less",              lambda h, n: {"memory_mib": 900.0 - 10.0 * h},                       []),
]  # fmt: skip


@pytest.mark.parametrize(("what", "change", "found"), GROWTHS, ids=[row[0] for row in GROWTHS])
def test_growth_is_told_from_warm_up_and_from_moments(
    what: str, change: Callable[[float, int], dict[str, Any]], found: list[str]
) -> None:
    assert grew(growth(samples(change))) == found


def test_too_few_samples_say_nothing() -> None:
    assert growth(samples(lambda h, n: {}, count=FEWEST - 1)) == []
    assert [one.what for one in growth(samples(lambda h, n: {}, count=FEWEST))] == list(BOUNDS)


LEAKED = 32 * 1024


def new_pages(size: int) -> mmap:
    """Return so many bytes in use, of the system's: an allocator has old ones left from other tests."""
    pages = mmap(-1, size)
    pages.write(bytes([1]) * size)
    return pages


class Leak:
    """A listener that keeps something of every tick. what: "objects", "memory", or "files"."""

    def __init__(self, what: str, folder: Path) -> None:
        self._what, self._folder = what, folder
        self.kept: list[Any] = []
        self._ticks = 0

    def tick(self, record: Any, counters: object) -> None:
        self._ticks += 1
        if self._what == "objects":
            self.kept += [[record.slot.number] for _ in range(4)]
        elif self._what == "memory_mib":
            self.kept.append(new_pages(LEAKED))
        elif self._ticks % 300 == 0:
            self.kept.append((self._folder / "leak").open("w"))


@pytest.mark.parametrize("what", ["objects", "memory_mib", "files"])
def test_a_leak_of_the_process_is_found(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soaking, "SAMPLE_S", 4.0)
    one, leak = soak(tmp_path / "soak"), Leak(what, tmp_path)
    one.run(robot_s=90.0, listeners=[leak])
    found = growth(one.samples)
    for file in leak.kept if what == "files" else ():
        file.close()
    assert what in grew(found)


def test_without_a_leak_files_threads_and_tasks_stay_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is not asked here: other tests of this process have left theirs to the collector."""
    monkeypatch.setattr(soaking, "SAMPLE_S", 4.0)
    one = soak(tmp_path)
    one.run(robot_s=60.0)
    assert not {"files", "threads", "tasks"} & set(grew(growth(one.samples)))


def test_a_sample_is_of_this_process() -> None:
    async def two() -> tuple[Sample, Sample]:
        before = take_sample(0.0)
        with new_pages(64 * MIB):
            return before, take_sample(1.0)

    before, after = asyncio.run(two())
    assert 60.0 < after.memory_mib - before.memory_mib < 80.0
    assert before.tasks == after.tasks == 1
