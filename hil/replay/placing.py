"""Which ticks of a recording can be played, and from which state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hil.recording import Recording
from hil.replay.ticks import RecordedTick, ticks_of
from onboard.keyframe import decode
from onboard.robot import RobotState
from onboard.scheduler import NS_PER_S


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of a recording is played [s since its first tick]: from the last whole state before `from_s`."""

    from_s: float = 0.0
    to_s: float = math.inf


WHOLE = Span()


@dataclass(slots=True)
class Missing:
    """What could not be played: ticks before the first whole state or after a gap until the next, and how many gaps."""

    skipped: int = 0
    gaps: int = 0


class Placed(NamedTuple):
    """A tick that can be played. state: to begin with, None where it is that after the tick before."""

    tick: RecordedTick
    t_s: float
    state: RobotState | None


def within(span: Span, ticks: Iterable[Placed]) -> Iterator[Placed]:
    """Yield the ticks of a span, and those before it from the last whole state on."""
    held: list[Placed] = []
    state: RobotState | None = None
    for placed in ticks:
        if placed.t_s > span.to_s:
            return
        held.append(placed if state is None else placed._replace(state=state))
        state = None
        if placed.t_s >= span.from_s:
            yield from held
            held.clear()
        elif placed.tick.keyframe:
            held.clear()
            state = decode(placed.tick.keyframe)


def placed(recording: Recording, missing: Missing) -> Iterator[Placed]:
    """Yield the ticks that can be played; count those that cannot."""
    expected: int | None = None
    began_ns = 0
    playing = recording.session.get("file_number") == "0"
    state: RobotState | None = RobotState()
    for tick in ticks_of(recording):
        first = tick.slot.number - tick.slot.missed
        if first != (expected or 0):
            missing.gaps += expected is not None
            playing = False
        expected = tick.slot.number + 1
        began_ns = began_ns or tick.slot.start_ns
        if playing:
            yield Placed(tick, (tick.slot.start_ns - began_ns) / NS_PER_S, state)
            state = None
            continue
        missing.skipped += 1
        if tick.keyframe:
            playing, state = True, decode(tick.keyframe)
