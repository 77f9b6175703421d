"""Selects the ticks of a session that can be played, and the state to start from."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
class MissingTicks:
    """Ticks of a span that could not be played (before the first keyframe or after a gap), and the gaps."""

    skipped: int = 0
    gaps: int = 0


class TickSelector:
    """Selects the playable ticks of one session over all its files.

    span: unplayable ticks in it count as missing; from_start: the first file is the session's first
    over: all of the span has been selected
    """

    def __init__(self, span: Span = WHOLE, *, from_start: bool) -> None:
        self._span = span
        self._expected: int | None = None
        self._began_ns: int | None = None
        self._playing = from_start
        self._state: RobotState | None = RobotState()
        self._held: list[TickRecord] = []
        self.over = False

    def select(self, tick: TickRecord, missing: MissingTicks) -> tuple[RobotState | None, list[TickRecord]]:
        """Return the ticks to play now, and the state before the first of them; None: continue from the tick before.

        Ticks before the span are held until it begins; of them only those after the last keyframe are played. A tick
        that cannot be played counts as missing. Raises InputError for a bad keyframe.
        """
        first, expected = tick.slot.number - tick.slot.missed, self._expected
        self._expected = tick.slot.number + 1
        if first != (expected or 0):
            missing.gaps += expected is not None and self.in_span(tick)
            self._playing = False
        if not self._playing:
            missing.skipped += self.in_span(tick)
            self._begin_after(tick)
            return None, []
        self.over = self.over or self.time_s(tick) > self._span.to_s
        if self.over:
            return None, []
        self._held.append(tick)
        if self.time_s(tick) < self._span.from_s:
            self._begin_after(tick)
            return None, []
        ticks, self._held = self._held, []
        state, self._state = self._state, None
        return state, ticks

    def time_s(self, tick: TickRecord) -> float:
        """Return the time of a tick since the first tick [s]."""
        if self._began_ns is None:
            self._began_ns = tick.slot.start_ns
        return (tick.slot.start_ns - self._began_ns) / NS_PER_S

    def in_span(self, tick: TickRecord) -> bool:
        """Return whether the span contains a tick."""
        return self._span.holds(self.time_s(tick))

    def lose(self) -> None:
        """Continue from the next keyframe: the last ticks are not reliable."""
        self._playing = False

    def _begin_after(self, tick: TickRecord) -> None:
        """Begin with the state after a tick that has a keyframe, without the ticks before."""
        if tick.keyframe:
            self._playing, self._state, self._held = True, decode(tick.keyframe), []
