"""What grows is found, what does not is not; what a contact and a recovery are judged by."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hil.reliability.soak import drive
from hil.reliability.soak.cached_encoder import policy_without_color
from hil.reliability.soak.drive import Until
from hil.reliability.soak.judge import Bounded, Contact, seen_before
from hil.reliability.soak.resources import BOUNDS, FEWEST, MIB, Growth, Sample, growth, take_sample
from onboard.assembly.policies import policy_maker
from onboard.config.config import Config, PolicySection
from onboard.policy.inference import blank_observation
from onboard.values.messages import BINS, STOP, Scan, Twist
from tests.hil.reliability.faults.test_invariants import GOAL, tick
from tests.hil.reliability.soak.soak_rig import silent, soak
from tests.rigs.runtime_bench import PLANT

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
    monkeypatch.setattr(drive, "SAMPLE_S", 4.0)
    one, leak = soak(tmp_path / "soak"), Leak(what, tmp_path)
    one.run(Until(robot_s=90.0), silent, [leak])
    found = growth(one.samples)
    for file in leak.kept if what == "files" else ():
        file.close()
    assert what in grew(found)


def test_without_a_leak_files_threads_and_tasks_stay_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is not asked here: other tests of this process have left theirs to the collector."""
    monkeypatch.setattr(drive, "SAMPLE_S", 4.0)
    one = soak(tmp_path)
    one.run(Until(robot_s=60.0), silent)
    assert not {"files", "threads", "tasks"} & set(grew(growth(one.samples)))


def test_a_sample_is_of_this_process() -> None:
    async def two() -> tuple[Sample, Sample]:
        before = take_sample(0.0)
        with new_pages(64 * MIB):
            return before, take_sample(1.0)

    before, after = asyncio.run(two())
    assert 60.0 < after.memory_mib - before.memory_mib < 80.0
    assert before.tasks == after.tasks == 1


# ---- contacts


def scan_with(angle_deg: float, range_m: float) -> Scan:
    ranges_m = np.full(BINS, np.inf, np.float32)
    ranges_m[int((angle_deg + 180.0) // 2.0) % BINS] = range_m
    return Scan(1, ranges_m, np.ones(BINS, np.bool_))


#   where it is [deg], how far [m], speed, whether it was before the body
BEFORE = [
    (1.0, 0.30, 0.5, True),
    (1.0, 0.50, 0.5, False),
    (61.0, 0.30, 0.5, True),
    (91.0, 0.30, 0.5, False),
    (179.0, 0.30, 0.5, False),
    (179.0, 0.30, -0.2, True),
    (1.0, 0.30, -0.2, False),
    (1.0, math.inf, 0.5, False),
]


@pytest.mark.parametrize(("angle_deg", "range_m", "v_mps", "seen"), BEFORE)
def test_what_was_seen_before_the_body(angle_deg: float, range_m: float, v_mps: float, seen: bool) -> None:
    assert seen_before(scan_with(angle_deg, range_m), v_mps, 0.25) is seen


#   seen, mover     what
WHAT = [
    (True, False, "with something seen"),
    (False, False, "with something that the scan did not show"),
    (False, True, "with something that the scan did not show, beside somebody"),
]


@pytest.mark.parametrize(("seen", "mover", "what"), WHAT)
def test_a_contact_says_what_it_was_with(seen: bool, mover: bool, what: str) -> None:
    assert Contact(1.0, "room", 0.5, 0.0, seen, mover, "scan_noise").what == what


# ---- recoveries

BACK = Twist(-0.2, 0.0)


def backing(numbers: range, command: Twist = BACK) -> list[Any]:
    return [tick(number, command, recovery="backing", state="recovering", wanted=BACK) for number in numbers]


def broken(ticks: list[Any], m_per_tick: float = 0.0066) -> list[str]:
    watch = Bounded(Config())
    ways = [m_per_tick * number for number in range(len(ticks))]
    return [
        one.what for lived, way_m in zip(ticks, ways, strict=True) for one in watch.watch(lived, way_m, operator=False)
    ]


def tries(count: int, every: int = 200) -> list[Any]:
    """Return tries of two seconds, each followed by a tick without."""
    firsts = [every * number for number in range(count)]
    return [one for first in firsts for one in (*backing(range(first, first + 60)), tick(first + 60))]


def test_a_recovery_within_its_bounds_breaks_nothing() -> None:
    assert broken(backing(range(60))) == []
    assert broken(tries(3)) == []
    assert broken(tries(5, every=700)) == [], "they are too far apart for the window"


def test_a_recovery_beyond_its_bounds_is_found() -> None:
    assert broken(backing(range(66)))[0] == "it has backed off for 2.10 s"
    assert broken(backing(range(60)), m_per_tick=0.02)[0] == "it has backed off by 0.50 m"
    assert broken(backing(range(3), Twist(-0.25, 0.0)))[0] == "it backs off at 0.25 m/s"
    assert broken(tries(4)) == ["try 4 within 60 s"]
    requested = [replace(one, inputs=replace(one.inputs, goals=(GOAL,))) for one in tries(4)]
    assert broken(requested) == ["try 4 within 60 s"], "a new goal does not begin anew"


def test_a_drive_without_a_way_must_have_ended() -> None:
    stuck = [tick(number, STOP) for number in range(30 * 140)]
    assert broken(stuck, m_per_tick=0.0) == ["it drives, and has stood for 135 s"]
    assert broken(stuck, m_per_tick=0.001) == []
    assert broken([replace(one, state="stopped: blocked") for one in stuck], m_per_tick=0.0) == []


# ---- the network without its eye


def test_the_network_without_its_eye_decides_as_the_whole_one_without_an_image() -> None:
    given = Config(policy=PolicySection(model="onboard-v1"))
    short, whole = policy_without_color(given, PLANT), policy_maker(given, PLANT)()
    rng = np.random.default_rng(1)
    memories = [short.initial_memory(), whole.initial_memory()]
    for _ in range(5):
        scan = Scan(1, rng.uniform(0.3, 9.0, BINS).astype(np.float32), np.ones(BINS, np.bool_))
        seen = replace(blank_observation(), scan=scan, goal_xy_m=(4.0, 1.0))
        (first, memories[0]), (second, memories[1]) = (
            policy.decide(seen, memory) for policy, memory in zip((short, whole), memories, strict=True)
        )
        assert first.action == second.action
        assert np.allclose(first.logits, second.logits, atol=1e-4)
    assert short.memory_reset_s == whole.memory_reset_s
    for policy in (short, whole):
        policy.close()
