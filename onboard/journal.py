"""What one tick has to say of itself: what happened, what went wrong, and how long each stage took."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import structlog

from onboard.counters import Counters
from onboard.scheduler import Clock, Slot

log = structlog.get_logger()

LOG_EVERY = 30
"""A fault that comes again is logged every so many times; all are counted and recorded."""


class Journal:
    """Collects the events and stage times of the tick under way, logs them, and counts them for the run."""

    def __init__(self, clock: Clock, counters: Counters) -> None:
        self._clock = clock
        self._counters = counters
        self.events: list[str] = []
        self.stage_ns: dict[str, int] = {}

    def open(self, slot: Slot) -> None:
        """Begin a tick."""
        self.events, self.stage_ns = [], {}
        self._counters.count_slot(slot)

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Time a stage."""
        began_ns = self._clock.now_ns()
        yield
        self.stage_ns[stage] = self._clock.now_ns() - began_ns
        self._counters.stages[stage].add(self.stage_ns[stage])

    def note(self, event: str, **fields: object) -> None:
        """Keep and log what happened."""
        self.events.append(" ".join([event, *(f"{name}={value}" for name, value in fields.items())]))
        log.info(event, **fields)

    def fault(self, kind: str, detail: str) -> None:
        """Keep and count what went wrong; log it the first time, and then now and then."""
        self.events.append(f"{kind}: {detail}")
        self._counters.faults[kind] += 1
        count = self._counters.faults[kind]
        if count == 1 or count % LOG_EVERY == 0:
            log.warning(kind, detail=detail, count=count)
