"""Which ticks of a session can be played, and from which state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from onboard.recording.state_snapshot import decode
from onboard.state import RobotState, TickRecord
from onboard.values.clock import NS_PER_S


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of a session is compared [s since its first tick]; it is played from the last whole state before."""

    from_s: float = 0.0
    to_s: float = math.inf

    def holds(self, t_s: float) -> bool:
        """Return whether a time lies in it."""
        return self.from_s <= t_s <= self.to_s


WHOLE = Span()


@dataclass(slots=True)
class Missing:
    """What of a span could not be played: ticks before the first whole state or after a gap, and the gaps."""

    skipped: int = 0
    gaps: int = 0


class Placed(NamedTuple):
    """A tick that can be played, and when. state: to begin with, None where it is that after the tick before."""

    tick: TickRecord
    t_s: float
    state: RobotState | None


class Placer:
    """Follows the ticks of one session, over all its files.

    span: what counts as missing if it cannot be played; from_start: the first file is the session's first
    """

    def __init__(self, span: Span = WHOLE, *, from_start: bool) -> None:
        self._span = span
        self._expected: int | None = None
        self._began_ns: int | None = None
        self._playing = from_start
        self._state: RobotState | None = RobotState()

    def place(self, tick: TickRecord, missing: Missing) -> Placed | None:
        """Return the tick if it can be played; count it where not. Raises InputError for a state that is none."""
        if self._began_ns is None:
            self._began_ns = tick.slot.start_ns
        t_s = (tick.slot.start_ns - self._began_ns) / NS_PER_S
        first = tick.slot.number - tick.slot.missed
        if first != (self._expected or 0):
            missing.gaps += self._expected is not None and self._span.holds(t_s)
            self._playing = False
        self._expected = tick.slot.number + 1
        if self._playing:
            state, self._state = self._state, None
            return Placed(tick, t_s, state)
        missing.skipped += self._span.holds(t_s)
        if tick.keyframe:
            self._playing, self._state = True, decode(tick.keyframe)
        return None

    def lose(self) -> None:
        """Go on from the next whole state: what came last cannot be trusted."""
        self._playing = False


class Window:
    """Lets the ticks of a span through, and those before it from the last whole state on."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._held: list[Placed] = []
        self._state: RobotState | None = None
        self.over = False

    def take(self, placed: Placed) -> list[Placed]:
        """Return what is to be played now. Raises InputError for a state that is none."""
        if self.over or placed.t_s > self._span.to_s:
            self.over = True
            return []
        self._held.append(placed if self._state is None else placed._replace(state=self._state))
        self._state = None
        if placed.t_s >= self._span.from_s:
            now, self._held = self._held, []
            return now
        if placed.tick.keyframe:
            self._held = []
            self._state = decode(placed.tick.keyframe)
        return []
