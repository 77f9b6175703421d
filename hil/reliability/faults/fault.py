"""A fault: the injected error, the required reaction with its deadline, and the rule behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from hil.reliability.faults.expectations import Expectation
from hil.reliability.faults.inject.engine import FullSpeedAhead
from hil.reliability.faults.inject.schedule import Injection, PlannedInjection, Scene
from onboard.values.clock import NS_PER_S

LASTS_S = 2.0


class Need(Enum):
    """Requirements of a fault that some runs lack; the value is the reason why a recording lacks it."""

    IMAGES = "its scan was ready-made: there are no images to change"
    ALL_IMAGES = "it has no image between decisions, so a repeated image cannot be seen"
    SCANS = "its scan is fused from images: it has no ready-made scan"
    FIXES = "it has no localisation"
    COLOR = "it has no colour image"
    BASE = "the recording fixes what the base did"
    CLOCK = "the recording fixes the times of its ticks"


CLOSED = frozenset({Need.BASE, Need.CLOCK, Need.ALL_IMAGES})
"""Requirements that no recording fulfils."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the table.

    what:     the injected error
    must:     the required reaction
    why:      the rule behind the reaction, with its source file
    make:     makes the injection for a run; None if only a real process can have this fault
    needs:    requirements that a run must fulfil
    lasts_s:  duration from onset to end [s]
    sections: values of the configuration that this fault changes, by table
    process:  key of the injection in `MEDDLES` of `hil/reliability/faults/run/live.py`; "" if there is none
    """

    name: str
    what: str
    must: Expectation
    why: str
    make: Callable[[Scene], Injection] | None = None
    needs: tuple[Need, ...] = ()
    lasts_s: float = LASTS_S
    sections: Mapping[str, Any] = field(default_factory=dict)
    process: str = ""

    @property
    def in_recordings(self) -> bool:
        """Whether this fault can be injected into a recording."""
        return self.make is not None and CLOSED.isdisjoint(self.needs)

    def planned(self, scene: Scene, onset_ns: int) -> list[PlannedInjection]:
        """Return the injections with their times. Raises ValueError if only a real process can have this fault."""
        if self.make is None:
            raise ValueError(f"{self.name}: it can be injected only into a real process")
        end_ns = onset_ns + round(self.lasts_s * NS_PER_S)
        done = [self.make(scene), *([FullSpeedAhead()] if self.must.ahead else [])]
        return [PlannedInjection(injection, onset_ns, end_ns) for injection in done]
