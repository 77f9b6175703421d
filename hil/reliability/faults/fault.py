"""A fault: what is done to the robot, what must come of it, within how long, and which rule says so."""

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
    """What a fault needs that not every run has, and why a recording has it not."""

    IMAGES = "its scan came ready-made: there are no images to spoil"
    ALL_IMAGES = "between decisions no image is in it, so whether one stays the same cannot be seen"
    SCANS = "its scan is made of images: no ready-made one comes in it"
    FIXES = "no localisation came in it"
    COLOR = "no colour image is in it"
    BASE = "what the base did is in the recording, and cannot be otherwise"
    CLOCK = "when its ticks were is in the recording, and cannot be otherwise"


CLOSED = frozenset({Need.BASE, Need.CLOCK, Need.ALL_IMAGES})
"""What no recording has."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the table.

    what:     is done to the robot
    must:     come of it
    why:      where the rule stands, in `onboard/` where nothing else is said
    make:     the injection for a run; None where only a real process can have this fault
    needs:    what a run must have for it
    lasts_s:  from onset to end
    sections: of the configuration that are changed for it
    process:  how the real process gets it (`hil/reliability/faults/run/live.py`), "" where it does not
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
        """Whether a recording can have it."""
        return self.make is not None and CLOSED.isdisjoint(self.needs)

    def planned(self, scene: Scene, onset_ns: int) -> list[Planned]:
        """Return what is done in a run, and when. Raises ValueError where only a real process can have this fault."""
        if self.make is None:
            raise ValueError(f"{self.name}: only a real process can have it")
        end_ns = onset_ns + round(self.lasts_s * NS_PER_S)
        done = [self.make(scene), *([Ahead()] if self.must.ahead else [])]
        return [Planned(injection, onset_ns, end_ns) for injection in done]
