"""A fault: the injected error, the required reaction with its deadline, and the rule behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from hil.reliability.faults.expectations import Must
from hil.reliability.faults.inject.engine import Ahead
from hil.reliability.faults.inject.schedule import Injection, Planned, Scene
from onboard.values.clock import NS_PER_S

LASTS_S = 2.0


class Need(Enum):
    """Requirements of a fault that some runs lack; the value is the reason why a recording lacks it."""

    IMAGES = "its scan came ready-made: there are no images to spoil"
    ALL_IMAGES = "between decisions no image is in it, so whether one stays the same cannot be seen"
    SCANS = "its scan is made of images: no ready-made one comes in it"
    FIXES = "no localisation came in it"
    COLOR = "no colour image is in it"
    BASE = "what the base did is in the recording, and cannot be otherwise"
    CLOCK = "when its ticks were is in the recording, and cannot be otherwise"


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
    must: Must
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

    def planned(self, scene: Scene, onset_ns: int) -> list[Planned]:
        """Return the injections with their times. Raises ValueError if only a real process can have this fault."""
        if self.make is None:
            raise ValueError(f"{self.name}: only a real process can have it")
        end_ns = onset_ns + round(self.lasts_s * NS_PER_S)
        done = [self.make(scene), *([Ahead()] if self.must.ahead else [])]
        return [Planned(injection, onset_ns, end_ns) for injection in done]
