"""How far the simulated base truly goes from the onset of a fault until it stands."""

from __future__ import annotations

from dataclasses import dataclass

from hil.faults.musts import Run
from onboard.scheduler import NS_PER_S

STANDS_M = 0.001
"""A base that goes no farther than this until the end of its fault stands."""
REST_S = 0.25
"""It must have stood for so long by then; else it was not come to rest, but slowly under way."""


@dataclass(frozen=True, slots=True)
class Rolled:
    """What the base did.

    from_mps: its true speed along x when the first tick of the fault took its inputs
    way_m:    the length of its true way from then on until it stood
    ticks:    so many ticks later it stood
    """

    from_mps: float
    way_m: float
    ticks: int


def rolled(run: Run) -> Rolled | None:
    """Return how far it rolled; None where it did not come to stand under the fault, or where that is not known.

    Of a run that ended, what the base did afterwards counts.
    """
    numbers = [number for number, truth in enumerate(run.truth) if truth.now_ns >= run.onset_ns]
    there = [run.truth[number] for number in numbers if run.ended or run.truth[number].now_ns < run.end_ns]
    if len(there) < 2:
        return None
    first, last = there[0], there[-1]
    ways = ((number, last.path_m - truth.path_m) for number, truth in enumerate(there))
    stood = next((number for number, left_m in ways if left_m <= STANDS_M), None)
    if stood is None or (last.now_ns - there[stood].now_ns) / NS_PER_S < REST_S:
        return None
    return Rolled(first.v_mps, there[stood].path_m - first.path_m, stood)
