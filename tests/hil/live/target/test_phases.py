"""The stages of a measurement, and how it ends: each way once, and never without the base at rest or its time over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hil.live.target.phases import (
    COMPLETE,
    END_S,
    INTERRUPTED,
    NEVER,
    REST_S,
    SILENT,
    SILENT_S,
    START_S,
    STARVED,
    STARVED_S,
    WARM_UP,
    Session,
    Stage,
)
from hil.live.target.round_trips import Matcher, Trip

NS = 1_000_000_000
TICK_NS = NS // 30
COUNT = 100


class Rehearsal:
    """A session with its clock; `tick` lives some ticks in which round trips are made, or not."""

    def __init__(self) -> None:
        self.now_ns = 5 * NS
        self.matcher = Matcher(["front"])
        self.session = Session(COUNT, self.now_ns)

    def tick(self, seconds: float, received: bool = True, trips: bool = True, resting: bool = False) -> Stage:
        for _ in range(round(seconds * 30)):
            self.now_ns += TICK_NS
            if received:
                self.session.received(self.now_ns)
            if trips:
                self.matcher.trips.command.append(Trip(1.0, 0.5))
                self.matcher.trips.decision.append(Trip(1.0, 0.5))
            self.session.advance(self.matcher, resting, self.now_ns)
        return self.session.stage


def test_from_waiting_to_the_base_at_rest() -> None:
    rehearsal = Rehearsal()
    assert rehearsal.tick(1.0, received=False, trips=False) is Stage.WAITING
    assert rehearsal.tick(0.1) is Stage.WARMING
    assert rehearsal.tick(WARM_UP / 30) is Stage.MEASURING
    assert len(rehearsal.matcher.trips.command) < 10  # what came while warming up is not counted
    assert rehearsal.tick(COUNT / 30 + 0.1) is Stage.ENDING
    assert rehearsal.session.ended == COMPLETE
    assert rehearsal.tick(REST_S - 0.1, resting=True) is Stage.ENDING
    assert rehearsal.tick(0.2, resting=True) is Stage.OVER
    assert rehearsal.tick(1.0) is Stage.OVER


def test_it_waits_for_a_base_that_moves_but_not_for_ever() -> None:
    rehearsal = Rehearsal()
    rehearsal.session.interrupt()
    assert rehearsal.tick(0.1) is Stage.ENDING
    assert rehearsal.tick(END_S - 0.2) is Stage.ENDING
    assert rehearsal.tick(0.3) is Stage.OVER


def test_a_base_that_moves_on_again_was_not_at_rest() -> None:
    rehearsal = Rehearsal()
    rehearsal.session.interrupt()
    rehearsal.tick(REST_S - 0.1, resting=True)
    rehearsal.tick(0.1, resting=False)
    assert rehearsal.tick(REST_S - 0.1, resting=True) is Stage.ENDING
    assert rehearsal.tick(0.2, resting=True) is Stage.OVER


def begun(stage: Stage) -> Rehearsal:
    rehearsal = Rehearsal()
    if stage is not Stage.WAITING:
        rehearsal.tick(0.1)
    if stage is Stage.MEASURING:
        rehearsal.tick(WARM_UP / 30)
    assert rehearsal.session.stage is stage
    return rehearsal


#   begun in          what happens                                                          why it ends
ENDS: list[tuple[Stage, Callable[[Rehearsal], object], str]] = [
    (Stage.WAITING, lambda it: it.tick(START_S + 0.1, received=False, trips=False), NEVER),
    (Stage.WARMING, lambda it: it.tick(SILENT_S + 0.1, received=False, trips=False), SILENT),
    (Stage.MEASURING, lambda it: it.tick(SILENT_S + 0.1, received=False, trips=False), SILENT),
    (Stage.WARMING, lambda it: it.tick(STARVED_S + 0.1, trips=False), STARVED),
    (Stage.MEASURING, lambda it: it.tick(STARVED_S + 0.1, trips=False), STARVED),
    (Stage.WAITING, lambda it: (it.session.interrupt(), it.tick(0.1, received=False, trips=False)), INTERRUPTED),
    (Stage.MEASURING, lambda it: (it.session.interrupt(), it.tick(0.1)), INTERRUPTED),
]


@pytest.mark.parametrize(("stage", "happens", "why"), ENDS)
def test_why_it_ends(stage: Stage, happens: Callable[[Rehearsal], object], why: str) -> None:
    rehearsal = begun(stage)
    happens(rehearsal)
    assert (rehearsal.session.stage, rehearsal.session.ended) == (Stage.ENDING, why)
