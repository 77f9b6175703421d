"""Stages of a measurement, from the wait for the target until the base is at rest. Pure: no clock, no DDS."""

from __future__ import annotations

from enum import Enum

from hil.live.target.round_trips import Matcher
from onboard.values.clock import NS_PER_S

WARM_UP = 45
"""Number of commands based on new images before the measurement starts: 3 s."""
START_S = 900.0
"""Timeout for the first message of the target. The first start on a machine compiles kernels for minutes."""
SILENT_S = 10.0
"""Timeout for messages of the target. After it, the measurement ends."""
STARVED_S = 60.0
"""Timeout for a command based on new images. After it, the network is too slow for the images."""
END_S = 8.0
"""Timeout for the base to come to rest."""
REST_S = 1.0
"""Standing time after which the base is at rest. It is longer than the command timeout of a base."""

COMPLETE, INTERRUPTED = "complete", "interrupted"
SILENT = f"the target was silent for {SILENT_S:g} s"
STARVED = f"for {STARVED_S:g} s no command knew new images"
NEVER = f"no message from the target within {START_S:g} s"


class Stage(str, Enum):
    """Stage of the measurement."""

    WAITING = "waiting for the target"
    WARMING = "warming up"
    MEASURING = "measuring"
    ENDING = "stopping the robot"
    OVER = "over"


class Session:
    """Stage of the measurement, updated every tick. ended: reason why the measurement ended, "" while it runs."""

    def __init__(self, count: int, now_ns: int) -> None:
        self._count = count
        self._since_ns = self._standing_ns = self._fed_ns = now_ns
        self._received_ns: int | None = None
        self._trips = 0
        self._interrupted = False
        self.stage = Stage.WAITING
        self.ended = ""

    def interrupt(self) -> None:
        """End the measurement at the next tick. A signal handler may call this."""
        self._interrupted = True

    def received(self, now_ns: int) -> None:
        """Record the arrival time of a message of the target."""
        self._received_ns = now_ns

    def advance(self, matcher: Matcher, resting: bool, now_ns: int) -> Stage:
        """Update and return the stage. resting: the base stands, and the runtime does not drive it."""
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
        elif self.stage is Stage.WAITING and self._received_ns is not None:
            self._enter(Stage.WARMING, now_ns)
        elif self.stage is Stage.WARMING and self._trips >= WARM_UP and matcher.trips.decision:
            matcher.begin()
            self._enter(Stage.MEASURING, now_ns)

    def _why_to_end(self, now_ns: int) -> str:
        """Return the reason to end now, or "" to continue."""
        if self._interrupted:
            return INTERRUPTED
        if self._received_ns is None:
            return NEVER if self._lasted(now_ns) > START_S else ""
        if now_ns - self._received_ns > SILENT_S * NS_PER_S:
            return SILENT
        if now_ns - max(self._fed_ns, self._since_ns) > STARVED_S * NS_PER_S:
            return STARVED
        return COMPLETE if self.stage is Stage.MEASURING and self._trips >= self._count else ""

    def _enter(self, stage: Stage, now_ns: int) -> None:
        self.stage, self._since_ns = stage, now_ns

    def _lasted(self, now_ns: int) -> float:
        return (now_ns - self._since_ns) / NS_PER_S
