"""What grows is found, and what does not is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.nightly.growth import BOUNDS, FEWEST, Growth, Sample, growth

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
