"""One measurement from waiting for the target to the base at rest: what is due when, without a clock or a wire."""

from __future__ import annotations

from enum import Enum

from hil.live.target.round_trips import Matcher
from onboard.values.clock import NS_PER_S

WARM_UP = 45
"""Commands that knew new images, before counting begins: 3 s."""
START_S = 900.0
"""Patience for the target. The first time on a machine, compiling its kernels takes minutes."""
SILENT_S = 10.0
"""A target that has not been heard for so long is not coming back."""
STARVED_S = 60.0
"""No command has known new images for so long: the network lets too little through."""
END_S = 8.0
"""Patience for the base to come to rest."""
REST_S = 1.0
"""So long it must stand before it counts as at rest: longer than a base's own time-out of commands."""

COMPLETE, INTERRUPTED = "complete", "interrupted"
SILENT = f"the target was silent for {SILENT_S:g} s"
STARVED = f"for {STARVED_S:g} s no command knew new images"
NEVER = f"the target was not heard within {START_S:g} s"


class Stage(str, Enum):
    """What is being done."""

    WAITING = "waiting for the target"
    WARMING = "warming up"
    MEASURING = "measuring"
    ENDING = "stopping the robot"
    OVER = "over"


class Session:
    """Says in which stage the measurement is, tick by tick. ended: why it ended, "" while it has not."""

    def __init__(self, count: int, now_ns: int) -> None:
        self._count = count
        self._since_ns = self._standing_ns = self._fed_ns = now_ns
        self._heard_ns: int | None = None
        self._trips = 0
        self._interrupted = False
        self.stage = Stage.WAITING
        self.ended = ""

    def interrupt(self) -> None:
        """End it at the next tick. Safe from a signal handler."""
        self._interrupted = True

    def heard(self, now_ns: int) -> None:
        """Note that the target has said something."""
        self._heard_ns = now_ns

    def advance(self, matcher: Matcher, resting: bool, now_ns: int) -> Stage:
        """Return the stage now. resting: the base stands, and nobody drives it."""
        self._standing_ns = self._standing_ns if resting else now_ns
        trips = len(matcher.trips.command)
        if trips != self._trips:
            self._trips, self._fed_ns = trips, now_ns
        if self.stage is Stage.ENDING:
            if now_ns - max(self._standing_ns, self._since_ns) > REST_S * NS_PER_S or self._lasted(now_ns) > END_S:
                self.stage = Stage.OVER
        elif self.stage is not Stage.OVER:
            self._go_on(matcher, now_ns)
        return self.stage

    def _go_on(self, matcher: Matcher, now_ns: int) -> None:
        why = self._why_to_end(now_ns)
        if why:
            self._enter(Stage.ENDING, now_ns)
            self.ended = why
        elif self.stage is Stage.WAITING and self._heard_ns is not None:
            self._enter(Stage.WARMING, now_ns)
        elif self.stage is Stage.WARMING and self._trips >= WARM_UP and matcher.trips.decision:
            matcher.begin()
            self._enter(Stage.MEASURING, now_ns)

    def _why_to_end(self, now_ns: int) -> str:
        """Return why to end now, or ""."""
        if self._interrupted:
            return INTERRUPTED
        if self._heard_ns is None:
            return NEVER if self._lasted(now_ns) > START_S else ""
        if now_ns - self._heard_ns > SILENT_S * NS_PER_S:
            return SILENT
        if now_ns - max(self._fed_ns, self._since_ns) > STARVED_S * NS_PER_S:
            return STARVED
        return COMPLETE if self.stage is Stage.MEASURING and self._trips >= self._count else ""

    def _enter(self, stage: Stage, now_ns: int) -> None:
        self.stage, self._since_ns = stage, now_ns

    def _lasted(self, now_ns: int) -> float:
        return (now_ns - self._since_ns) / NS_PER_S
