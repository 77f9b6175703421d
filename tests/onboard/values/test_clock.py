"""Clocks, the grid of ticks and histograms."""

from __future__ import annotations

import asyncio
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.values.clock import Histogram, MonotonicClock, SimulatedClock, Slot, _expire, _timerfd_set, grid

PERIOD_NS = 100


def run_grid(work_ns: list[int]) -> list[Slot]:
    """Return the slots of a simulated run; tick i takes work_ns[i]."""

    async def drive() -> list[Slot]:
        clock = SimulatedClock(start_ns=1000)
        slots: list[Slot] = []
        async for slot in grid(clock, PERIOD_NS):
            slots.append(slot)
            if len(slots) > len(work_ns):
                return slots
            clock.advance(work_ns[len(slots) - 1])
        raise AssertionError("the grid never ends")

    return asyncio.run(drive())


#   what                          work of each tick    slot numbers   missed before each   lateness
GRIDS = [
    ("on time", [10, 10, 10], [0, 1, 2, 3], [0, 0, 0, 0], [0, 0, 0, 0]),
    ("one slot late, none skipped", [150, 10], [0, 1, 2], [0, 0, 0], [0, 50, 0]),
    ("exactly one period", [100, 100], [0, 1, 2], [0, 0, 0], [0, 0, 0]),
    ("two skipped, no burst", [350, 10, 10], [0, 3, 4, 5], [0, 2, 0, 0], [0, 50, 0, 0]),
    ("long block", [10_000, 10], [0, 100, 101], [0, 99, 0], [0, 0, 0]),
]


@pytest.mark.parametrize(("what", "work", "numbers", "missed", "lateness"), GRIDS, ids=[row[0] for row in GRIDS])
def test_grid_table(what: str, work: list[int], numbers: list[int], missed: list[int], lateness: list[int]) -> None:
    slots = run_grid(work)
    assert [slot.number for slot in slots] == numbers
    assert [slot.missed for slot in slots] == missed
    assert [slot.lateness_ns for slot in slots] == lateness


def test_a_slot_that_is_to_start_earlier_does_and_the_next_stays_on_the_grid() -> None:
    async def drive() -> list[Slot]:
        clock = SimulatedClock(start_ns=1000)
        slots = []
        async for slot in grid(clock, PERIOD_NS, lambda number: 30 * (number == 2)):
            slots.append(slot)
            clock.advance(75 if slot.number == 4 else 10)
            if slot.number == 5:
                return slots
        raise AssertionError("the grid never ends")

    slots = asyncio.run(drive())
    assert [slot.start_ns for slot in slots] == [1000, 1100, 1170, 1300, 1400, 1500]
    assert [(slot.missed, slot.lateness_ns) for slot in slots] == [(0, 0)] * 6


def test_a_clock_holds_a_thread_until_the_deadline_and_not_at_all_after_it() -> None:
    simulated, real = SimulatedClock(start_ns=1000), MonotonicClock()
    for deadline_ns, now_ns in ((1500, 1500), (1200, 1500)):
        simulated.hold_until(deadline_ns)
        assert simulated.now_ns() == now_ns
    deadline_ns = real.now_ns() + 2_000_000
    real.hold_until(deadline_ns)
    assert real.now_ns() >= deadline_ns
    real.hold_until(deadline_ns)
    real.close()


def test_monotonic_clock_never_wakes_early_and_does_not_drift() -> None:
    async def drive() -> list[Slot]:
        clock = MonotonicClock()
        slots = []
        async for slot in grid(clock, 2_000_000):
            slots.append(slot)
            if slot.number >= 20:
                break
        clock.close()
        clock.close()
        return slots

    slots = asyncio.run(drive())
    assert all(slot.lateness_ns >= 0 for slot in slots)
    assert {(slot.deadline_ns - slots[0].deadline_ns) - slot.number * 2_000_000 for slot in slots} == {0}


def test_closed_clock_refuses_to_sleep() -> None:
    clock = MonotonicClock()
    clock.close()
    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(clock.sleep_until(clock.now_ns() + 1))


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_histogram_quantiles_are_within_a_bucket(values: list[int], fraction: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(1, int(np.ceil(fraction * len(values)))) - 1]
    assert exact <= histogram.quantile_ns(fraction) <= exact * (1 + 1 / 32) + 1
    assert histogram.max_ns == max(values)


def test_a_grid_without_a_period_and_time_that_goes_backward_are_refused() -> None:
    with pytest.raises(ValueError, match="period_ns 0 must be positive"):
        asyncio.run(anext(grid(SimulatedClock(), 0)))
    with pytest.raises(ValueError, match="duration_ns -1 must not be negative"):
        SimulatedClock().advance(-1)


def test_a_timer_that_was_set_anew_wakes_nobody_and_one_that_expired_wakes_once() -> None:
    async def wake() -> None:
        readable, writable = os.pipe2(os.O_NONBLOCK)
        expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        _expire(readable, expired)
        assert not expired.done()
        for _ in range(2):
            os.write(writable, bytes(8))
            _expire(readable, expired)
            assert expired.done()
        os.close(readable)
        os.close(writable)

    asyncio.run(wake())


def test_what_the_system_refuses_of_a_timer_is_an_error_by_name() -> None:
    readable, writable = os.pipe()
    with pytest.raises(OSError, match=r"timerfd_settime failed|Invalid argument"):
        _timerfd_set(readable, 1)
    os.close(readable)
    os.close(writable)
