"""Selects the ticks of a session that can be played, and the state to start from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from onboard.recording.state_snapshot import decode
from onboard.state import RobotState, TickRecord
from onboard.values.clock import NS_PER_S


@dataclass(frozen=True, slots=True)
class Span:
    """Compared part of a session [s since its first tick]; play starts at the last keyframe before it."""

    from_s: float = 0.0
    to_s: float = math.inf

    def holds(self, t_s: float) -> bool:
        """Return whether the span contains a time."""
        return self.from_s <= t_s <= self.to_s


WHOLE = Span()


@dataclass(slots=True)
class Missing:
    """Ticks of a span that could not be played (before the first keyframe or after a gap), and the gaps."""

    skipped: int = 0
    gaps: int = 0


class SelectedTick(NamedTuple):
    """A tick that can be played, and its time. state: start from it; None: continue from the tick before."""

    tick: TickRecord
    t_s: float
    state: RobotState | None


class TickSelector:
    """Selects the playable ticks of one session over all its files.

    span: unplayable ticks in it count as missing; from_start: the first file is the session's first
    """

    def __init__(self, span: Span = WHOLE, *, from_start: bool) -> None:
        self._span = span
        self._expected: int | None = None
        self._began_ns: int | None = None
        self._playing = from_start
        self._state: RobotState | None = RobotState()

    def select(self, tick: TickRecord, missing: Missing) -> SelectedTick | None:
        """Return the tick if it can be played, else count it. Raises InputError for a bad keyframe."""
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
            return SelectedTick(tick, t_s, state)
        missing.skipped += self._span.holds(t_s)
        if tick.keyframe:
            self._playing, self._state = True, decode(tick.keyframe)
        return None

    def lose(self) -> None:
        """Continue from the next keyframe: the last ticks are not reliable."""
        self._playing = False


class SpanFilter:
    """Passes the ticks of a span, and those before it from the last keyframe on."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._held: list[SelectedTick] = []
        self._state: RobotState | None = None
        self.over = False

    def take(self, selected: SelectedTick) -> list[SelectedTick]:
        """Return the ticks to play now. Raises InputError for a bad keyframe."""
        if self.over or selected.t_s > self._span.to_s:
            self.over = True
            return []
        self._held.append(selected if self._state is None else selected._replace(state=self._state))
        self._state = None
        if selected.t_s >= self._span.from_s:
            now, self._held = self._held, []
            return now
        if selected.tick.keyframe:
            self._held = []
            self._state = decode(selected.tick.keyframe)
        return []
